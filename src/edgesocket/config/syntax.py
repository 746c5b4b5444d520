"""The job file as it was written: assignments and expressions, before anything is looked up.

The parser makes these, the resolver turns them into `nodes`. Nothing is merged here: every assignment is kept, with
its number in reading order, because a substitution may need the value a key had before (`p = ${p} [2]`) or will have
at the end of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from edgesocket.config.nodes import Location


@dataclass(frozen=True, slots=True)
class Text:
    """Text in or out of quotes. `blank`: only the room between two pieces. `cut`: see `nodes.Scalar`."""

    text: str
    location: Location
    quoted: bool = False
    blank: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`${name}` or `${?name}`.

    Attributes:
        prefix: path of the object whose `include` brought it here, "" at the root.
        where: path of the setting it stands in, for messages.
    """

    name: str
    optional: bool
    prefix: str
    location: Location
    where: str


@dataclass(frozen=True, slots=True)
class Join:
    """Pieces that stand next to each other: joined text, lists, or objects."""

    pieces: tuple[Expression, ...]
    location: Location
    where: str


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Expression, ...]
    location: Location


@dataclass(frozen=True, slots=True)
class Broken:
    """A value with a fault that has been reported."""

    location: Location


@dataclass(slots=True)
class Object:
    """A block. `plugins`: the body of a top-level `source`, `transform` or `sink`, where repeated keys stay apart."""

    location: Location
    plugins: bool = False
    statements: list[Statement] = field(default_factory=list)
    by_key: dict[str, list[Statement]] = field(default_factory=dict)
    dotted_keys: list[str] = field(default_factory=list)

    def add(self, statement: Statement) -> None:
        """Add an assignment behind all others."""
        self.statements.append(statement)
        same_key = self.by_key.setdefault(statement.key, [])
        if not same_key and "." in statement.key:
            self.dotted_keys.append(statement.key)
        same_key.append(statement)


Expression = Text | Substitution | Join | Array | Object | Broken


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One assignment. `order`: its number in reading order over all files. `append`: it is a `+=`."""

    key: str
    value: Expression
    order: int
    location: Location
    append: bool = False
