"""What the tests of the job file share: reading a text, and the problems it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgesocket.config.document import SourceFile, Surroundings, read_document
from edgesocket.config.job import load_job
from edgesocket.config.nodes import Report, to_python
from edgesocket.config.specs import JobSpec
from edgesocket.errors import ConfigError

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
SOURCE = 'source { EdgeSocket { port = 9999, token = "my-edge-token" } }\n'


class Files:
    """Included files by name. Remembers who asked for what."""

    def __init__(self, files: Mapping[str, str | Exception]) -> None:
        self.files = files
        self.asked: list[tuple[str, str]] = []

    def __call__(self, name: str, including: str, /) -> SourceFile | None:
        self.asked.append((name, including))
        content = self.files.get(name)
        if isinstance(content, Exception):
            raise content
        return None if content is None else SourceFile(name, content)


def values(text: str, name: str = "job.conf", files: Mapping[str, str | Exception] | None = None, **around: Any) -> Any:
    """The plain values of a text that has no problem."""
    report = Report()
    document = read_document(text, name, Surroundings(Files(files or {}), **around), report)

    assert [str(problem) for problem in report.sorted_problems(name)] == []

    return to_python(document.root)


def syntax_problems(text: str, name: str = "job.conf", files: Mapping[str, str | Exception] | None = None) -> list[str]:
    """The problems of reading a text, as printed, without their fix lines."""
    report = Report()
    try:
        read_document(text, name, Surroundings(Files(files or {})), report)
    except ConfigError as error:
        return [str(problem).partition("\n")[0] for problem in error.problems]
    return [str(problem).partition("\n")[0] for problem in report.sorted_problems(name)]


def job(text: str, name: str = "job.conf", **more: Any) -> JobSpec:
    """The job of a text that has no problem."""
    return load_job(text, name, **more)


def problems(text: str, name: str = "job.conf", **more: Any) -> list[str]:
    """The problems of a job, as printed, without their fix lines; [] if it has none."""
    try:
        load_job(text, name, **more)
    except ConfigError as error:
        return [str(problem).partition("\n")[0] for problem in error.problems]
    return []


def fixes(text: str, name: str = "job.conf", **more: Any) -> list[str]:
    """The fix lines of a job's problems."""
    try:
        load_job(text, name, **more)
    except ConfigError as error:
        return [problem.fix for problem in error.problems]
    return []


def edge_socket(lines: str) -> str:
    """A job file with these lines in its source, from line 3 on."""
    return f"source {{\n  EdgeSocket {{\n{lines}\n  }}\n}}\n"
