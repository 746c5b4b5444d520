"""Reads the agent's file: YAML where PyYAML is installed, JSON always."""

from __future__ import annotations

import json
from typing import Any

from edgesocket.config.agent import AgentConfigError, AgentSpec, read_agent
from edgesocket.config.nodes import BrokenNode, Field, ListNode, Location, Node, ObjectNode, Report, Scalar
from edgesocket.errors import ComponentError, ConfigError

MAX_VALUES = 10_000
"""Values of one file. Aliases of aliases can make any number of them out of a few lines."""

MAX_NESTING = 32

_NULLS = ("", "~", "null", "Null", "NULL")


def load_agent(source: str, name: str) -> tuple[AgentSpec, tuple[str, ...]]:
    """Read and check an agent's file.

    Args:
        source: its text.
        name: its name for messages; `.json` says that it is JSON.

    Returns:
        What the agent shall do, and notes for the log.

    Raises:
        AgentConfigError: every problem of the file.
        ComponentError: it is YAML, and PyYAML is not installed.
    """
    report = Report()
    root = _read_json(source, name, report) if _is_json(source, name) else _read_yaml(source, name, report)
    if not isinstance(root, ObjectNode):
        report.problem(Location(name, 1), "agent", "the file is not a block of options", "to: edge.example.com:9999")
        raise AgentConfigError(report.sorted_problems(name))
    return read_agent(root, name, report), tuple(report.notes)


def _is_json(source: str, name: str) -> bool:
    """By its name; or by its first character and that all of it is JSON, so that JSON is read without PyYAML."""
    if name.lower().endswith(".json"):
        return True
    if not source.lstrip("\ufeff \t\r\n").startswith("{"):
        return False
    try:
        json.loads(source)
    except ValueError:
        return False
    return True


def _read_json(source: str, name: str, report: Report) -> Node:
    from edgesocket.config.document import Surroundings, read_document

    try:
        json.loads(source.removeprefix("\ufeff"))
        return read_document(source, name, Surroundings(), report).root
    except json.JSONDecodeError as error:
        report.problem(Location(name, error.lineno, error.colno), "JSON", error.msg, exact=True)
    except RecursionError:
        report.problem(Location(name, 1), "JSON", f"blocks and lists nest deeper than {MAX_NESTING}")
    except ConfigError as error:
        raise AgentConfigError(error.problems) from None
    raise AgentConfigError(report.sorted_problems(name))


def _read_yaml(source: str, name: str, report: Report) -> Node | None:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ComponentError(
            f"{name} is YAML, which needs PyYAML: pip install 'edgesocket[yaml]'; "
            "without it write the same as JSON, or use the flags of edgesocket collect",
            retryable=False,
        ) from None
    try:
        root: Any = yaml.compose(source, Loader=yaml.SafeLoader)
        return None if root is None else _Yaml(name, report).node(root, 0)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Location(name, mark.line + 1, mark.column + 1) if mark else Location(name, 1)
        report.problem(place, "YAML", error.problem or "cannot be read", exact=True)
    except yaml.YAMLError as error:
        report.problem(Location(name, 1), "YAML", str(error).partition("\n")[0])
    except (_TooMuch, RecursionError):
        message = f"holds more than {MAX_VALUES} values, or nests deeper than {MAX_NESTING}"
        report.problem(Location(name, 1), "YAML", message)
    raise AgentConfigError(report.sorted_problems(name))


class _TooMuch(Exception):  # noqa: N818
    """More values than a configuration has."""


class _Yaml:
    """Makes our nodes of PyYAML's, which know where they stand. Keys keep their order."""

    def __init__(self, name: str, report: Report) -> None:
        self._name = name
        self._report = report
        self._values = 0

    def node(self, node: Any, depth: int) -> Node:
        self._values += 1
        if self._values > MAX_VALUES or depth > MAX_NESTING:
            raise _TooMuch
        here = Location(self._name, node.start_mark.line + 1, node.start_mark.column + 1)
        if node.id == "scalar":
            quoted = node.style is not None
            text = "null" if not quoted and node.value in _NULLS else node.value
            return Scalar(text, here, quoted=quoted)
        if node.id == "sequence":
            return ListNode(tuple(self.node(item, depth + 1) for item in node.value), here)
        return self._block(node, here, depth)

    def _block(self, node: Any, here: Location, depth: int) -> Node:
        fields: dict[str, Field] = {}
        for key, value in node.value:
            place = Location(self._name, key.start_mark.line + 1, key.start_mark.column + 1)
            if key.id != "scalar":
                self._report.problem(place, "YAML", "the name of an option is not a word")
                return BrokenNode(here)
            if key.value in fields:
                self._report.problem(place, key.value[:40], "stands twice in this block", "delete one of them")
            fields[key.value] = Field(self.node(value, depth + 1), self._values, place)
        return ObjectNode(fields, here)
