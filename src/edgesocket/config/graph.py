"""Which rows go where: `plugin_output` and `plugin_input` of a job file become inputs of transforms and sinks.

A small job (at most one transform and one sink) is a chain whatever its names say, as in SeaTunnel. So is a job without
any name: the transforms one behind the other, and every sink at the end. In any other job every name must be there,
unique, and used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgesocket.config.convert import shorten
from edgesocket.config.nodes import Location, Report


@dataclass(frozen=True, slots=True)
class Node:
    """A plugin, as far as wiring goes.

    Attributes:
        id: its name inside the job.
        path: for messages.
        inputs: what its `plugin_input` names.
        output: its `plugin_output`, or None.
        place: where its `plugin_input`, or the block, stands.
    """

    id: str
    path: str
    inputs: tuple[str, ...]
    output: str | None
    place: Location


@dataclass(frozen=True, slots=True)
class Wiring:
    """Inputs by plugin id, as ids of plugins; `order`: the transforms, each behind what it needs."""

    inputs: Mapping[str, tuple[str, ...]]
    order: tuple[str, ...]


def wire(source: Node, transforms: Sequence[Node], sinks: Sequence[Node], report: Report) -> Wiring:
    """Find out who takes rows from whom. With a problem reported, what is returned is never used."""
    takers = [*transforms, *sinks]
    if len(transforms) <= 1 and len(sinks) <= 1:
        known = {node.output for node in (source, *transforms) if node.output}
        for node in takers:
            for name in node.inputs:
                if name not in known:
                    shown = shorten(name, quote=True)
                    report.note(f"{node.place}: {node.path}.plugin_input names {shown}, which is no output; ignored")
        return _chain(source, transforms, sinks)
    if not any(node.inputs for node in takers):
        return _chain(source, transforms, sinks)
    return _named(source, transforms, sinks, report)


def _chain(source: Node, transforms: Sequence[Node], sinks: Sequence[Node]) -> Wiring:
    inputs = {}
    last = source.id
    for node in transforms:
        inputs[node.id] = (last,)
        last = node.id
    inputs.update({node.id: (last,) for node in sinks})
    return Wiring(inputs, tuple(node.id for node in transforms))


def _named(source: Node, transforms: Sequence[Node], sinks: Sequence[Node], report: Report) -> Wiring:
    outputs: dict[str, str] = {}
    for node in (source, *transforms):
        if node.output is None:
            if node is not source:
                report.problem(node.place, f"{node.path}.plugin_output", "is missing, so nobody can name these rows")
        elif node.output in outputs:
            message = f"{shorten(node.output, quote=True)} is the output of {outputs[node.output]} already"
            report.problem(node.place, f"{node.path}.plugin_output", message, "give each its own name")
        else:
            outputs[node.output] = node.id
    inputs: dict[str, tuple[str, ...]] = {}
    used: set[str] = set()
    for node in (*transforms, *sinks):
        found = []
        for name in node.inputs:
            if name in outputs:
                found.append(outputs[name])
            else:
                fix = f"one of {', '.join(outputs)}" if outputs else f'plugin_output = "{shorten(name)}" in the source'
                message = f"{shorten(name, quote=True)} is the output of no source and no transform"
                report.problem(node.place, f"{node.path}.plugin_input", message, fix)
        if not node.inputs:
            if transforms:
                message = "is missing, and the job has several ways rows could go"
                fix = f"one of {', '.join(outputs)}" if outputs else "name the outputs with plugin_output"
                report.problem(node.place, f"{node.path}.plugin_input", message, fix)
            found.append(source.id)
        inputs[node.id] = tuple(dict.fromkeys(found))
        used.update(found)
    for node in transforms:
        if node.id not in used and node.output is not None and outputs.get(node.output) == node.id:
            message = f"nobody takes {shorten(node.output, quote=True)}"
            report.problem(node.place, f"{node.path}.plugin_output", message, "name it in a plugin_input, or delete it")
    return Wiring(inputs, _ordered(transforms, inputs, report))


def _ordered(transforms: Sequence[Node], inputs: Mapping[str, tuple[str, ...]], report: Report) -> tuple[str, ...]:
    """The transforms, each behind those it takes rows from."""
    waiting = {node.id: node for node in transforms}
    order: list[str] = []
    while waiting:
        ready = [id_ for id_ in waiting if not any(name in waiting for name in inputs[id_])]
        if not ready:
            node = next(iter(waiting.values()))
            report.problem(node.place, f"{node.path}.plugin_input", "these transforms take rows from one another")
            break
        order += ready
        for id_ in ready:
            del waiting[id_]
    return tuple(order)
