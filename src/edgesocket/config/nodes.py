"""The values of a job file, each with the place it was written at.

Two facts of SeaTunnel's dialect shape this module. A dotted key is ONE key (`job.mode = X` is the key `job.mode`), and
an option is found under either spelling (`job.mode = X` equals `job { mode = X }`). So keys are kept as written, a
field remembers when it was assigned (`order`), and where both spellings occur the later one wins.

Numbers and booleans stay text until an option says what it wants: `token = 0123` keeps its zero, and a ratio keeps
its exact decimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edgesocket.errors import ConfigProblem

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")


class Location(NamedTuple):
    """A place in a file. Line and column count from 1. Its text is `file:line`."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def exact(self) -> str:
        """`file:line:column`."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text, number, boolean or null, as written.

    Attributes:
        text: the characters, escapes and variables resolved.
        location: where the value stands (a substitution: where it is used).
        quoted: some of it stood in quotes, so it is text whatever it looks like.
        cut: a comment follows without a blank, so the writer may have meant it as part of the text.
    """

    text: str
    location: Location
    quoted: bool = False
    cut: bool = False

    @property
    def is_null(self) -> bool:
        return self.text == "null" and not self.quoted


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list. `append`: it came from `+=` (or is a block of plugins) and adds to a list written before it."""

    items: tuple[Node, ...]
    location: Location
    append: bool = False


class Field(NamedTuple):
    """One entry of an object. A higher `order` was assigned later."""

    node: Node
    order: int
    location: Location


@dataclass(frozen=True, slots=True)
class ObjectNode:
    """An object. Keys keep the order in which they were first written."""

    fields: Mapping[str, Field]
    location: Location


@dataclass(frozen=True, slots=True)
class PluginNode:
    """One child of a top-level `source`, `transform` or `sink` block: its key and what stands under it."""

    name: str
    body: Node
    location: Location


@dataclass(frozen=True, slots=True)
class BrokenNode:
    """A value whose fault has been reported. Whoever meets it says nothing more about it."""

    location: Location


Node = Scalar | ListNode | ObjectNode | PluginNode | BrokenNode


def describe(node: Node) -> str:
    """What kind of value this is, for a message. Never any of its content."""
    if isinstance(node, ListNode):
        return "a list"
    if isinstance(node, ObjectNode | PluginNode):
        return "a block"
    if isinstance(node, Scalar):
        return "null" if node.is_null else "a single value"
    return "a broken value"


def to_python(node: Node) -> Any:
    """The plain value, as JSON would have it: dict, list, str, int, float, bool or None. For tools and tests."""
    if isinstance(node, ObjectNode):
        return {key: to_python(entry.node) for key, entry in node.fields.items()}
    if isinstance(node, ListNode):
        return [to_python(item) for item in node.items]
    if isinstance(node, PluginNode):
        return {node.name: to_python(node.body)}
    if isinstance(node, BrokenNode):
        return None
    if not node.quoted:
        if node.text in _WORDS:
            return _WORDS[node.text]
        # A longer run of digits is text: int() of an endless one takes endless time.
        if len(node.text) <= 400 and _NUMBER.match(node.text):
            return int(node.text) if _INTEGER.match(node.text) else float(node.text)
    return node.text


_WORDS = {"null": None, "true": True, "false": False}


def splits(name: str) -> Iterator[tuple[str, str]]:
    """Every way to cut a dotted name into a key and the rest below it, the whole name first.

    >>> list(splits("a.b.c"))
    [('a.b.c', ''), ('a.b', 'c'), ('a', 'b.c')]
    """
    yield name, ""
    end = name.rfind(".")
    while end > 0:
        yield name[:end], name[end + 1 :]
        end = name.rfind(".", 0, end)


def merge(old: Node, new: Node) -> Node | None:
    """What an assignment makes of the value before it. None: `+=` met something that is no list.

    Objects merge key by key, `+=` adds to a list, everything else replaces.
    """
    if isinstance(old, ObjectNode) and isinstance(new, ObjectNode):
        fields = dict(old.fields)
        for key, entry in new.fields.items():
            before = fields.get(key)
            if before is None:
                fields[key] = entry
                continue
            merged = merge(before.node, entry.node)
            if merged is None:
                return None
            fields[key] = Field(merged, entry.order, entry.location)
        return ObjectNode(fields, new.location)
    if isinstance(new, ListNode) and new.append:
        if isinstance(old, ListNode):
            return ListNode(old.items + new.items, old.location, old.append)
        return new if isinstance(old, Scalar) and old.is_null else None
    return new


@dataclass(slots=True)
class Report:
    """Collects everything there is to say about a job file: what stops it, and what was filled in or ignored.

    `lenient`: an option that nobody knows is worth a note, not a problem.
    """

    lenient: bool = False
    problems: dict[tuple[Location, ConfigProblem], None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set, repr=False)
    """Values of secret options, as they were written: what no log line may hold."""

    def problem(self, location: Location, path: str, message: str, fix: str = "", *, exact: bool = False) -> None:
        """Add a problem; the same one twice counts once. `exact`: name the column too."""
        where = location.exact if exact else str(location)
        self.problems[location, ConfigProblem(path=path, message=message, fix=fix, location=where)] = None

    def note(self, text: str) -> None:
        """Add a note for the log: one line."""
        self.notes.append(text)

    def sorted_problems(self, first_file: str) -> list[ConfigProblem]:
        """All problems in the order of the lines they are about, the job file itself before its includes."""
        ordered = sorted(self.problems, key=lambda entry: (entry[0].file != first_file, *entry[0]))
        return [problem for _, problem in ordered]
