"""Which worker may run which job: `tag_filter` against the labels of Ray's nodes. Pure.

Ray places by the same rule (every entry must be there with the same text), but says nothing when no node fits, and
takes some values as operators. So entries are checked, and waiting is explained, here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgesocket.config.convert import shorten
from edgesocket.errors import ConfigError, ConfigProblem

_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_RESERVED = "ray.io/"
NODE_ID_LABEL = "ray.io/node-id"
"""Ray labels each node with its own id."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a Ray cluster.

    Attributes:
        node_id: Ray's id.
        address: its IP address.
        labels: those it was started with.
        alive: whether Ray believes that it lives.
        takes_jobs: whether it offers any CPU; the head of a cluster usually does not.
    """

    node_id: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    alive: bool = True
    takes_jobs: bool = True


def check_tag_filter(tag_filter: Mapping[str, str], location: str = "") -> None:
    """See that Ray can place by this filter.

    Raises:
        ConfigError: an entry cannot be a label of Ray; every one that cannot.
    """
    problems = []
    for name, value in tag_filter.items():
        path = f"env.tag_filter.{shorten(name)}"
        if name.startswith(_RESERVED):
            message = "is one of Ray's own labels, which a job cannot ask for"
            problems.append(ConfigProblem(path, message, "give the workers a label of your own", location))
        elif not _is_label(name):
            message = f"{shorten(name, quote=True)} cannot be the name of a label in Ray"
            problems.append(ConfigProblem(path, message, _RULE, location))
        if value and not _LABEL.fullmatch(value):
            message = f"{shorten(value, quote=True)} cannot be the value of a label in Ray"
            problems.append(ConfigProblem(path, message, _RULE, location))
    if problems:
        raise ConfigError(problems)


_RULE = "use 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends; label the workers so too"


def _is_label(name: str) -> bool:
    prefix, slash, rest = name.rpartition("/")
    if slash and not all(_LABEL.fullmatch(part) for part in prefix.split(".")):
        return False
    return _LABEL.fullmatch(rest) is not None


def selector(tag_filter: Mapping[str, str], avoid: Sequence[str] = ()) -> dict[str, str]:
    """The filter as Ray's `label_selector`."""
    wanted = dict(tag_filter)
    if avoid:
        wanted[NODE_ID_LABEL] = f"!{avoid[0]}" if len(avoid) == 1 else f"!in({','.join(avoid)})"
    return wanted


def matches(tag_filter: Mapping[str, str], node: Node, avoid: Sequence[str] = ()) -> bool:
    """Whether the node may run the job."""
    fits = all(node.labels.get(name) == value for name, value in tag_filter.items())
    return node.alive and node.takes_jobs and fits and node.node_id not in avoid


def contradict(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether no node could ever fit both filters: they ask for different values of one label."""
    return any(other.get(name, value) != value for name, value in one.items())


def overlap(one: Mapping[str, str], other: Mapping[str, str], nodes: Sequence[Node] | None) -> bool:
    """Whether both jobs could be given to one worker.

    Args:
        one, other: their filters.
        nodes: those of the cluster; None: not known, then any two that do not contradict each other overlap.
    """
    if contradict(one, other):
        return False
    return nodes is None or any(matches(one, node) and matches(other, node) for node in nodes)


def explain(tag_filter: Mapping[str, str], nodes: Sequence[Node], avoid: Sequence[str] = ()) -> str:
    """How many live workers fit, and if none does, what the nearest one lacks: a clause for people.

    Example: `0 of 3 live workers match zone=z2; nearest: 10.0.0.2 has zone=z1`.
    """
    live = [node for node in nodes if node.alive and node.takes_jobs]
    fitting = sum(matches(tag_filter, node, avoid) for node in live)
    asked = ", ".join(f"{name}={value}" for name, value in tag_filter.items())
    told = f"{fitting} of {len(live)} live workers match {asked}" if asked else f"{len(live)} live workers"
    if fitting or not live:
        return told
    if not asked or any(matches(tag_filter, node) for node in live):
        return f"{told}, and those that do are to be avoided"
    nearest = min(live, key=lambda node: len(_missing(tag_filter, node)))
    return f"{told}; nearest: {nearest.address} {' and '.join(_missing(tag_filter, nearest))}"


def _missing(tag_filter: Mapping[str, str], node: Node) -> list[str]:
    return [
        f"has {name}={node.labels[name]}" if name in node.labels else f"has no label {name}"
        for name, value in tag_filter.items()
        if node.labels.get(name) != value
    ]
