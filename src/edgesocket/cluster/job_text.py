"""A job file with everything it is made of, so that another machine reads exactly the same job.

Included files, variables of `-i` and SeaTunnel's engine file travel with it. Environment variables do not: `${NAME}` is
looked up where the job runs, so secrets need not lie in the store (`submit --env NAME` makes it a variable instead).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from edgesocket.config.document import ReadFile, SourceFile
from edgesocket.config.job import load_job
from edgesocket.config.plugged import Plugged
from edgesocket.config.specs import JobSpec
from edgesocket.config.yaml_files import read_seatunnel_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Included:
    """An included file: as it was asked for, and what was found."""

    name: str
    including: str
    found: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobText:
    """A job file and what it draws on.

    Attributes:
        file: its name, for messages and for its kind.
        text: its content.
        name: of the job, where it is not the file that says it.
        variables: of `-i`.
        included: files that it includes.
        engine_file, engine_text: SeaTunnel's engine file, where there was one.
        strict, lenient, on_bad_record: as the command line said.
    """

    file: str
    text: str = field(repr=False)
    name: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    included: tuple[Included, ...] = ()
    engine_file: str = ""
    engine_text: str = field(default="", repr=False)
    strict: bool = False
    lenient: bool = False
    on_bad_record: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"variables": dict(self.variables)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> JobText:
        """The reverse of `as_json`. Raises TypeError and KeyError for what is none."""
        return cls(**{**content, "included": tuple(Included(**one) for one in content["included"])})

    def load(self, environ: Mapping[str, str], plugged: Plugged) -> JobSpec:
        """Read the job. Raises ConfigError as `config.job.load_job`."""
        return self._load(self._read_included, environ, plugged)

    def with_included(
        self, read_file: ReadFile, environ: Mapping[str, str], plugged: Plugged
    ) -> tuple[JobText, JobSpec]:
        """Read the job for the first time, and keep every file that it includes. Raises as `load`."""
        found: list[Included] = []
        spec = self._load(_recorded(read_file, found.append), environ, plugged)
        return replace(self, included=tuple(found)), spec

    def _load(self, read_file: ReadFile, environ: Mapping[str, str], plugged: Plugged) -> JobSpec:
        engine = read_seatunnel_yaml(self.engine_text, self.engine_file) if self.engine_file else None
        spec = load_job(
            self.text,
            self.file,
            read_file=read_file,
            environ=environ,
            variables=self.variables,
            strict=self.strict,
            lenient=self.lenient,
            env_defaults=engine.env_defaults if engine else None,
            on_bad_record=self.on_bad_record,
            plugged=plugged,
        )
        return spec if self.name is None else replace(spec, name=self.name)

    def _read_included(self, name: str, including: str, /) -> SourceFile | None:
        for one in self.included:
            if (one.name, one.including) == (name, including):
                return SourceFile(one.found, one.text)
        return None


def _recorded(read_file: ReadFile, keep: Callable[[Included], None]) -> ReadFile:
    def read(name: str, including: str, /) -> SourceFile | None:
        found = read_file(name, including)
        if found is not None:
            keep(Included(name=name, including=including, found=found.name, text=found.text))
        return found

    return read
