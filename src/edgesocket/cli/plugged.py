"""Sinks and transforms that installed packages offer, for the reader of job files. Only asked for unknown names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edgesocket.components.registry import Registry
from edgesocket.components.registry import sinks as sink_registry
from edgesocket.components.registry import transforms as transform_registry
from edgesocket.components.sink import CommitRole
from edgesocket.config.convert import Refused
from edgesocket.config.plugged import PluggedSink, PluggedTransform, sink_plugin, transform_plugin
from edgesocket.errors import ConfigError


class InstalledPlugins:
    """What entry points offer; see `config.plugged` for how their options are read.

    Whether a sink decides checkpoints, or is meant to show every row once, is read from its class attribute
    `commit_role`: DECIDING is both, RE-COMMITTABLE the second, NONE neither.
    """

    def __init__(self, sinks: Registry[Any] = sink_registry, transforms: Registry[Any] = transform_registry) -> None:
        self._registries = {"sink": sinks, "transform": transforms}

    def sink(self, name: str) -> PluggedSink | None:
        """See Plugged."""
        found = self._found("sink", name)
        if found is None:
            return None
        role = getattr(found[1], "commit_role", CommitRole.NONE)
        plugin = sink_plugin(found[1], decides=role is CommitRole.DECIDING, exactly_once=role is not CommitRole.NONE)
        return PluggedSink(found[0], plugin)

    def transform(self, name: str) -> PluggedTransform | None:
        """See Plugged."""
        found = self._found("transform", name)
        return None if found is None else PluggedTransform(found[0], transform_plugin(found[1]))

    def names(self, kind: str) -> Sequence[str]:
        """See Plugged."""
        return self._registries[kind].plugin_names()

    def _found(self, kind: str, name: str) -> tuple[str, Callable[..., Any]] | None:
        registry = self._registries[kind]
        spelled = registry.offered(name)
        if spelled is None:
            return None
        try:
            return spelled, registry.factory(name)
        except ConfigError as error:
            problem = error.problems[0]
            raise Refused(problem.message, problem.fix) from error
