"""Names of components, and how to get what makes them.

A job file names a component (`LocalFile`); the registry knows where its class is and imports it when it is asked
for, so that a component's own libraries are loaded by the jobs that use it. Names are case-blind.

Third parties add components with an entry point, the name being what the job file says::

    [project.entry-points."edgesocket.sinks"]
    MyStore = "my_package.sink:MyStoreSink"

A built-in name cannot be taken over by a plug-in.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from edgesocket.components.sink import Sink
from edgesocket.components.transform import Transform
from edgesocket.errors import ConfigError, ConfigProblem

Component = TypeVar("Component")


class Registry(Generic[Component]):
    """Components of one kind by name.

    Looking a built-in up reads no file; looking anything else up reads the metadata of the installed packages.
    """

    def __init__(
        self,
        kind: str,
        built_in: Mapping[str, str],
        installed: Callable[..., Iterable[EntryPoint]] = entry_points,
    ) -> None:
        """Name the built-in components.

        Args:
            kind: `sink`: names the block of the job file in errors and, with an s, the entry point group.
            built_in: name -> `module:attribute`.
            installed: finds the installed entry points of a `group`.
        """
        self._kind = kind
        self._group = f"edgesocket.{kind}s"
        self._built_in = [EntryPoint(name, target, self._group) for name, target in built_in.items()]
        self._installed = installed

    def names(self) -> list[str]:
        """Every name, as its owner spells it, built-in ones first."""
        plugins = sorted({point.name for point in self._installed(group=self._group)}, key=str.casefold)
        taken = {point.name.casefold() for point in self._built_in}
        return [point.name for point in self._built_in] + [name for name in plugins if name.casefold() not in taken]

    def __contains__(self, name: str) -> bool:
        return bool(self._find(name))

    def offered(self, name: str) -> str | None:
        """A plug-in's name as its package spells it; None for a built-in one, and where there is none."""
        if any(point.name.casefold() == name.casefold() for point in self._built_in):
            return None
        return next((point.name for point in self._find(name)), None)

    def plugin_names(self) -> list[str]:
        """The names of plug-ins."""
        return self.names()[len(self._built_in) :]

    def factory(self, name: str) -> Callable[..., Component]:
        """What makes the component, imported now. It takes the options as keywords.

        Args:
            name: in any letter case.

        Raises:
            ConfigError: there is no such component, two packages offer it, or it cannot be imported. The problem's
                path is `<kind>.<name>`.
        """
        found = self._find(name)
        if not found:
            close = difflib.get_close_matches(name.casefold(), [n.casefold() for n in self.names()], 1)
            guess = [n for n in self.names() if n.casefold() in close]
            hint = f"did you mean {guess[0]}?" if guess else ""
            raise self._problem(name, f"there is no such {self._kind}; known are {', '.join(self.names())}", hint)
        if len(found) > 1:
            targets = " and ".join(sorted(point.value for point in found))
            raise self._problem(name, f"two installed packages offer it: {targets}", "uninstall one of them")
        try:
            factory: Callable[..., Component] = found[0].load()
        except (ImportError, AttributeError) as error:
            message = f"{found[0].value} cannot be loaded: {error}"
            raise self._problem(name, message, "install what it needs") from error
        return factory

    def _find(self, name: str) -> list[EntryPoint]:
        wanted = name.casefold()
        for point in self._built_in:
            if point.name.casefold() == wanted:
                return [point]
        plugins = {p.value: p for p in self._installed(group=self._group) if p.name.casefold() == wanted}
        return list(plugins.values())

    def _problem(self, name: str, message: str, fix: str) -> ConfigError:
        return ConfigError([ConfigProblem(f"{self._kind}.{name}", message, fix)])


sinks: Registry[Sink] = Registry[Any](
    "sink",
    {
        "Assert": "edgesocket.sinks.assert_:AssertSink",
        "Console": "edgesocket.sinks.console:ConsoleSink",
        "DeadLetter": "edgesocket.sinks.dead_letter:DeadLetterSink",
        "Http": "edgesocket.sinks.http:HttpSink",
        "Jdbc": "edgesocket.sinks.jdbc:JdbcSink",
        "Kafka": "edgesocket.sinks.kafka:KafkaSink",
        "LocalFile": "edgesocket.sinks.local_file:LocalFileSink",
        "Null": "edgesocket.sinks.null:NullSink",
        "S3File": "edgesocket.sinks.s3_file:S3FileSink",
    },
)
"""The sinks that a job file may name."""

transforms: Registry[Transform] = Registry[Any](
    "transform",
    {
        "Copy": "edgesocket.transforms.copy:CopyTransform",
        "FieldMapper": "edgesocket.transforms.field_mapper:FieldMapperTransform",
        "FieldRename": "edgesocket.transforms.field_rename:FieldRenameTransform",
        "Filter": "edgesocket.transforms.filter:FilterTransform",
        "FilterRowKind": "edgesocket.transforms.filter_row_kind:FilterRowKindTransform",
        "JsonPath": "edgesocket.transforms.json_path:JsonPathTransform",
        "Replace": "edgesocket.transforms.replace:ReplaceTransform",
        "Split": "edgesocket.transforms.split:SplitTransform",
        "Sql": "edgesocket.transforms.sql:SqlTransform",
    },
)
"""The transforms that a job file may name."""
