"""Sinks and transforms of third parties, as far as a job file goes: their options, and how they are read.

A class that an entry point names says what its options are in one of two ways.

- It has a class attribute `OPTIONS`, an `OptionTable` of its own options. They are checked like those of any built-in,
  and reach the class as keywords by their `key`.
- Else the keyword parameters of its `__init__` are its options, under the same names. One without a default is
  required. A parameter annotated `int`, `float`, `bool` or `str` (also `| None`) gets such a value, or the job file has
  a problem; any other gets what stands in the file: text, number, boolean, None, a list or a dict of these.

Either way the options of every sink or transform (`plugin_input` and so on) are added, and not passed on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgesocket.config.convert import Refused
from edgesocket.config.nodes import BrokenNode, Node, Report, to_python
from edgesocket.config.options import LONG_MAX, Kind, Option, OptionTable
from edgesocket.config.plugins.common import COMMON, COMMON_TRANSFORM
from edgesocket.config.sinks import SinkPlugin
from edgesocket.config.transforms import TransformPlugin

_KINDS = {"int": Kind.INTEGER, "float": Kind.DECIMAL, "bool": Kind.BOOLEAN, "str": Kind.TEXT}


@dataclass(frozen=True, slots=True)
class PluggedSink:
    """A sink that is not built in: its name as its package spells it, and how it is read."""

    name: str
    plugin: SinkPlugin


@dataclass(frozen=True, slots=True)
class PluggedTransform:
    """A transform that is not built in: its name as its package spells it, and how it is read."""

    name: str
    plugin: TransformPlugin


class Plugged(Protocol):
    """Where the job reader asks for what it does not know itself."""

    def sink(self, name: str) -> PluggedSink | None:
        """The sink of that name, in any letter case. Raises convert.Refused where it is there and cannot be used."""

    def transform(self, name: str) -> PluggedTransform | None:
        """The same of a transform."""

    def names(self, kind: str) -> Sequence[str]:
        """The names there are: of kind `sink` or `transform`."""


class NothingPlugged:
    """There are built-in plugins only."""

    def sink(self, name: str) -> PluggedSink | None:  # noqa: ARG002
        """There is none."""
        return None

    def transform(self, name: str) -> PluggedTransform | None:  # noqa: ARG002
        """There is none."""
        return None

    def names(self, kind: str) -> Sequence[str]:  # noqa: ARG002
        """There are none."""
        return ()


def sink_plugin(factory: Callable[..., Any], *, decides: bool, exactly_once: bool) -> SinkPlugin:
    """How the block of a third party's sink is read.

    Args:
        factory: its class.
        decides: whether it decides checkpoints in its own transaction.
        exactly_once: whether it is meant to show every row once.

    Raises:
        convert.Refused: it does not say what its options are in one of the two ways.
    """
    return SinkPlugin(
        _table(factory, COMMON),
        dict,
        claims_exactly_once=lambda _: exactly_once,
        deciding=lambda _: decides,
    )


def transform_plugin(factory: Callable[..., Any]) -> TransformPlugin:
    """How the block of a third party's transform is read. Raises as `sink_plugin`."""
    return TransformPlugin(_table(factory, COMMON_TRANSFORM), dict)


def _table(factory: Callable[..., Any], common: Sequence[Option]) -> OptionTable:
    given = getattr(factory, "OPTIONS", None)
    if given is not None:
        if not isinstance(given, OptionTable):
            raise Refused("its OPTIONS are no edgesocket.config.options.OptionTable", "ask its author")
        own, ignored = given.options, given.ignored
    else:
        own, ignored = tuple(_options_of(factory)), {}
    taken = {option.name for option in common}
    twice = sorted(option.name for option in own if option.name in taken)
    if twice:
        raise Refused(f"its options {', '.join(twice)} belong to the job", "ask its author")
    return OptionTable(*own, *common, ignored=ignored)


def _options_of(factory: Callable[..., Any]) -> Sequence[Option]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        raise Refused("its parameters cannot be found out", "ask its author for OPTIONS") from None
    return [_option(one) for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]


def _option(parameter: inspect.Parameter) -> Option:
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    kind = _KINDS.get(text.replace(" ", "").removesuffix("|None"))
    required = parameter.default is parameter.empty
    default = None if required else parameter.default
    if kind is None:
        return Option(
            name=parameter.name,
            kind=Kind.STRUCTURE,
            required=required,
            default=default,
            read=_as_it_stands,
            description="",
        )
    return Option(
        name=parameter.name,
        kind=kind,
        required=required,
        default=default,
        minimum=-LONG_MAX - 1 if kind is Kind.INTEGER else None,
        maximum=LONG_MAX if kind is Kind.INTEGER else None,
        check=float if kind is Kind.DECIMAL else None,
        description="",
    )


def _as_it_stands(node: Node, path: str, report: Report) -> Any:  # noqa: ARG001
    return None if isinstance(node, BrokenNode) else to_python(node)
