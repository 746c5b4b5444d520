"""One spec an option: parsing, checking, hints and the reference pages are all made from it.

An `OptionTable` describes one block of a job file. `parse_options` reads a block against it, reports every problem it
finds, and never stops at the first. It never puts the value of a secret into a message, nor the value of an option it
does not know.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from edgesocket.config import convert
from edgesocket.config.nodes import (
    BrokenNode,
    Field,
    ListNode,
    Location,
    Node,
    ObjectNode,
    Report,
    Scalar,
    describe,
    merge,
)

INT_MAX = 2**31 - 1
"""The largest value of an option that the reference calls Integer."""
LONG_MAX = 2**63 - 1


class Kind(enum.Enum):
    """What an option's value is. The member's value is the word the documentation uses."""

    TEXT = "text"
    INTEGER = "integer"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    CHOICE = "one of"
    DURATION = "duration"
    SIZE = "size"
    TEXT_LIST = "list of text"
    TEXTS = "text, or list of texts"
    """Always a tuple. Unlike in a TEXT_LIST, one text is one text, whatever commas are in it."""
    TEXT_MAP = "map of text to text"
    BLOCK = "block"
    BLOCKS = "list of blocks"
    STRUCTURE = "structure"
    LATER = "not supported yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The spec of one option.

    Attributes:
        name: as the job file spells it.
        kind: what its value is.
        description: one sentence for the reference.
        default: the value when it is absent; already converted.
        default_text: how the reference shows the default where the value itself does not say it.
        required: a job without it is refused.
        required_unless: name of another option that does instead of a required one.
        minimum, maximum: inclusive limits of a number, duration or size.
        above: exclusive lower limit.
        choices: the words a CHOICE may be, in their canonical spelling. Any letter case is accepted.
        refused: choices SeaTunnel has and we do not (yet), with the reason.
        unit: "ms", "s" or "bytes".
        noun: what the value is, for messages: "a TCP port".
        example: a value for messages and the reference.
        attribute: name in the options dataclass, where it differs from `name`.
        check: turns the converted value into the final one, or raises convert.Refused.
        aliases: older spellings that are still read, with a note.
        former: spellings that are refused with a hint at this option.
        harmless: values (lower case) under which a LATER option may be present.
        secret: the value never enters a message, a log or a repr.
        table: the options inside a BLOCK, or inside each of BLOCKS. The value is what `build` makes of them.
        build: makes the value of a block of its checked options, given as keywords (a frozen dataclass, say); a dict by
            default. BLOCKS become a tuple of such values. Raises convert.Refused.
        read: reads a STRUCTURE, which has a grammar of its own: (node, path, report) -> value. It reports every problem
            itself; what it returns after reporting one is never used.
    """

    name: str
    kind: Kind
    description: str
    default: Any = None
    default_text: str = ""
    required: bool = False
    required_unless: str = ""
    minimum: int | Decimal | None = None
    maximum: int | Decimal | None = None
    above: int | Decimal | None = None
    choices: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    unit: str = ""
    noun: str = ""
    example: str = ""
    attribute: str = ""
    check: Callable[[Any], Any] | None = None
    aliases: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    secret: bool = False
    table: OptionTable | None = None
    build: Callable[..., Any] = dict
    read: Callable[[Node, str, Report], Any] | None = None

    @property
    def key(self) -> str:
        """Name of the attribute that holds the value."""
        return self.attribute or self.name.replace(".", "_").replace("-", "_")

    @property
    def suggestion(self) -> str:
        """A line that would be right."""
        return f"{self.name} = {self.example}" if self.example else ""


def whole_number(
    name: str,
    default: int,
    description: str,
    *,
    minimum: int = 1,
    maximum: int = INT_MAX,
    check: Callable[[int], int] | None = None,
    attribute: str = "",
) -> Option:
    """An optional INTEGER. Its default is its example."""
    return Option(
        name=name,
        kind=Kind.INTEGER,
        description=description,
        default=default,
        minimum=minimum,
        maximum=maximum,
        example=str(default),
        attribute=attribute,
        check=check,
    )


def duration(
    name: str,
    default: int,
    description: str,
    *,
    unit: str = "ms",
    minimum: int = 1,
    maximum: int = INT_MAX,
    attribute: str = "",
) -> Option:
    """An optional DURATION. `default`, `minimum` and `maximum` are in `unit`."""
    return Option(
        name=name,
        kind=Kind.DURATION,
        description=description,
        default=default,
        minimum=minimum,
        maximum=maximum,
        unit=unit,
        example=str(default),
        attribute=attribute,
    )


class OptionTable:
    """The options of one block.

    Args:
        options: the specs, in the order of the reference.
        ignored: names, or beginnings of names ending with a dot, that are accepted without effect, with the reason.
    """

    def __init__(self, *options: Option, ignored: Mapping[str, str] | None = None) -> None:
        self.options = options
        self.ignored = dict(ignored or {})
        self._by_name = {name: option for option in options for name in (option.name, *option.aliases)}
        self._former = {name: option for option in options for name in option.former}

    @property
    def names(self) -> list[str]:
        """Names of the options that can be set."""
        return [option.name for option in self.options if option.kind is not Kind.LATER]

    def defaults(self) -> dict[str, Any]:
        """The value of every option that has been left out, by attribute."""
        return {option.key: option.default for option in self.options if option.kind is not Kind.LATER}

    def named(self, name: str) -> Option | None:
        """The option a name or alias stands for."""
        return self._by_name.get(name)

    def above(self, name: str) -> Option | None:
        """The option whose block a dotted name reaches into: `tag_filter` for `tag_filter.zone`."""
        for option_name, option in self._by_name.items():
            if option.kind in _REACHED_INTO and name.startswith(option_name + "."):
                return option
        return None

    def leads_on(self, name: str) -> bool:
        """Whether some option's name goes on below this one, as `job.mode` does below `job`."""
        return any(known.startswith(name + ".") for known in (*self._by_name, *self.ignored))

    def why_ignored(self, name: str) -> str:
        """The reason a name is accepted without effect, or an empty string."""
        for known, reason in self.ignored.items():
            if name == known or (known.endswith(".") and f"{name}.".startswith(known)):
                return reason
        return ""

    def nearest(self, name: str) -> str:
        """The option somebody probably meant, or an empty string."""
        if name in self._former:
            return self._former[name].name
        plain = {option_name.lower(): option_name for option_name in self.names}
        near = difflib.get_close_matches(name.lower().replace("-", "_"), plain, n=1, cutoff=0.7)
        return plain[near[0]] if near else ""


@dataclass(frozen=True, slots=True)
class ParsedOptions:
    """What a block says.

    Attributes:
        values: by attribute name, the given value or the default. An option with a reported problem is not in it.
        places: where the options that were given stand, by attribute name.
        location: where the block begins.
    """

    values: dict[str, Any]
    places: dict[str, Location]
    location: Location

    def place(self, key: str) -> Location:
        """Where an option stands; the block, if it was not given."""
        return self.places.get(key, self.location)

    def complete(self, table: OptionTable) -> bool:
        """Whether no option of the block has a problem."""
        return self.has(*table.defaults())

    def has(self, *keys: str) -> bool:
        """Whether none of these options has a problem, so that checks across them make sense."""
        return all(key in self.values for key in keys)


@dataclass(frozen=True, slots=True)
class _Given:
    """One spelling under which an option was set. `rest`: the key inside a map, for `tag_filter.zone = a`."""

    name: str
    rest: str
    entry: Field


def parse_options(
    table: OptionTable,
    block: ObjectNode,
    path: str,
    report: Report,
    *,
    elsewhere: Mapping[str, str] | None = None,
) -> ParsedOptions:
    """Read one block.

    Args:
        table: the specs.
        block: what the job file says.
        path: path of the block for messages (`source.EdgeSocket`).
        report: takes every problem and note.
        elsewhere: names that belong to another block, with that block, for hints.
    """
    return _BlockReader(table, path, report, elsewhere or {}).read(block)


class _BlockReader:
    def __init__(self, table: OptionTable, path: str, report: Report, elsewhere: Mapping[str, str]) -> None:
        self._table = table
        self._path = path
        self._report = report
        self._elsewhere = elsewhere
        self._given: dict[str, list[_Given]] = {}
        self._hinted: set[str] = set()

    def read(self, block: ObjectNode) -> ParsedOptions:
        self._gather(block, "")
        parsed = ParsedOptions(self._table.defaults(), {}, block.location)
        for option in self._table.options:
            given = sorted(self._given.get(option.name, ()), key=lambda one: one.entry.order)
            if given and not given[-1].rest and _is_null(given[-1].entry.node):
                given = []  # the newest assignment takes every older one away
            if option.kind is Kind.LATER:
                self._refuse_later(option, given)
            elif given:
                self._take(option, given, parsed)
            elif option.required and option.required_unless not in self._given:
                del parsed.values[option.key]
                if option.name not in self._hinted:
                    message = "is required, and missing"
                    self._report.problem(block.location, f"{self._path}.{option.name}", message, option.suggestion)
        return parsed

    def _gather(self, block: ObjectNode, prefix: str) -> None:
        """Sort the entries of a block by the option they set, under either spelling of a dotted name."""
        for key, entry in block.fields.items():
            name = prefix + key
            option = self._table.named(name)
            above = None if option else self._table.above(name)
            if option is not None:
                self._given.setdefault(option.name, []).append(_Given(name, "", entry))
            elif above is not None:
                rest = name[len(above.name) + 1 :]
                self._given.setdefault(above.name, []).append(_Given(name, rest, entry))
            elif self._table.leads_on(name) and isinstance(entry.node, ObjectNode):
                self._gather(entry.node, name + ".")
            else:
                self._unknown(name, entry)

    def _unknown(self, name: str, entry: Field) -> None:
        reason = self._table.why_ignored(name)
        if reason:
            self._report.note(f"{entry.location}: {self._path}.{name} is ignored: {reason}")
            return
        path = f"{self._path}.{convert.shorten(name)}"
        if name in self._elsewhere:
            self._report.problem(entry.location, path, "is in the wrong place", f"move it to {self._elsewhere[name]}")
            return
        near = self._table.nearest(name)
        if self._report.lenient:
            hint = f"; did you mean {near}?" if near else ""
            self._report.note(f"{entry.location}: {path} is ignored: there is no such option{hint}")
            return
        self._hinted.add(near)
        fix = f"did you mean {near}?" if near else "delete it"
        self._report.problem(entry.location, path, "there is no such option", fix)

    def _refuse_later(self, option: Option, given: list[_Given]) -> None:
        for one in given:
            node = one.entry.node
            harmless = isinstance(node, Scalar) and node.text.lower() in option.harmless
            empty = isinstance(node, ObjectNode) and not node.fields
            if harmless or empty or isinstance(node, BrokenNode):
                continue
            path = f"{self._path}.{option.name}"
            fix = f"leave {option.name} out"
            self._report.problem(one.entry.location, path, f"is not supported yet: {option.description}", fix)
            return

    def _take(self, option: Option, given: list[_Given], parsed: ParsedOptions) -> None:
        """Convert the newest value of an option."""
        last = given[-1]
        path = f"{self._path}.{last.name}"
        for one in given:
            if one.name in option.aliases:
                self._report.note(f"{one.entry.location}: {self._path}.{one.name} is an old name, write {option.name}")
        node = last.entry.node
        location = node.location
        parsed.places[option.key] = location
        del parsed.values[option.key]
        try:
            value: Any
            if option.kind is Kind.TEXT_MAP:
                value = self._text_map(given)
            elif option.kind in (Kind.BLOCK, Kind.STRUCTURE):
                self._take_structure(option, given, path, parsed)
                return
            elif isinstance(node, BrokenNode):
                return
            elif option.kind is Kind.TEXT_LIST:
                value = self._text_list(node, path)
            elif option.kind is Kind.TEXTS:
                value = _texts(option, node)
            elif option.kind is Kind.BLOCKS:
                self._take_blocks(option, node, path, parsed)
                return
            elif isinstance(node, Scalar):
                value = convert_scalar(option, node)
            else:
                raise convert.Refused(f"needs a single value, not {describe(node)}")
            if option.secret:
                self._report.secrets.update(_texts_in(value))
            parsed.values[option.key] = option.check(value) if option.check else value
        except convert.Refused as refused:
            fix = refused.fix or option.suggestion
            self._report.problem(refused.location or location, path, refused.message, fix)

    def _take_structure(self, option: Option, given: list[_Given], path: str, parsed: ParsedOptions) -> None:
        """A BLOCK or a STRUCTURE, all the ways of writing it put together."""
        node = _joined(given)
        known = len(self._report.problems)
        if option.read is not None:
            value = option.read(node, path, self._report)
        elif isinstance(node, ObjectNode):
            assert option.table is not None
            inner = parse_options(option.table, node, path, self._report)
            value = None if len(self._report.problems) > known else option.build(**inner.values)
        elif isinstance(node, BrokenNode):
            return
        else:
            raise convert.Refused(f"needs a block, not {describe(node)}")
        if len(self._report.problems) == known:
            parsed.values[option.key] = option.check(value) if option.check else value

    def _take_blocks(self, option: Option, node: Node, path: str, parsed: ParsedOptions) -> None:
        """BLOCKS: a list of blocks, or one block alone."""
        assert option.table is not None
        items = node.items if isinstance(node, ListNode) else (node,)
        known = len(self._report.problems)
        values = []
        for number, item in enumerate(items, 1):
            if isinstance(item, BrokenNode):
                return
            if not isinstance(item, ObjectNode):
                raise convert.Refused(f"needs a list of blocks, and {describe(item)} is in it", location=item.location)
            inner = parse_options(option.table, item, f"{path}[{number}]", self._report)
            if len(self._report.problems) == known:
                values.append(option.build(**inner.values))
        if len(self._report.problems) == known:
            parsed.values[option.key] = option.check(tuple(values)) if option.check else tuple(values)

    def _text_list(self, node: Node, path: str) -> tuple[str, ...]:
        """A list, or one text; commas in that text separate elements, as in SeaTunnel."""
        if isinstance(node, Scalar):
            parts = tuple(part.strip() for part in node.text.split(","))
            if len(parts) > 1:
                self._report.note(f"{node.location}: {path} is one text with commas, read as a list of {len(parts)}")
            return parts
        if not isinstance(node, ListNode):
            raise convert.Refused(f"needs a list of texts, not {describe(node)}")
        for item in node.items:
            if not isinstance(item, Scalar | BrokenNode) or _is_null(item):
                raise convert.Refused(f"needs a list of texts, and {describe(item)} is in it", location=item.location)
        return tuple(item.text for item in node.items if isinstance(item, Scalar))

    def _text_map(self, given: list[_Given]) -> dict[str, str]:
        """All the entries of a map, in whatever way they were set. Numbers and booleans become their text."""
        result: dict[str, str] = {}
        for one in given:
            node = one.entry.node
            if one.rest:
                entries = {one.rest: node}
            elif isinstance(node, ObjectNode):
                entries = {key: entry.node for key, entry in node.fields.items()}
            elif isinstance(node, BrokenNode):
                continue
            elif _is_null(node):
                result.clear()
                continue
            else:
                raise convert.Refused(f"needs a block of names and texts, not {describe(node)}", location=node.location)
            for key, value in entries.items():
                if _is_null(value):
                    result.pop(key, None)
                elif isinstance(value, Scalar):
                    result[key] = value.text
                elif isinstance(value, ObjectNode | ListNode):
                    raise convert.Refused(
                        f"the value of {convert.shorten(key)} is {describe(value)}, not text",
                        f'a name with dots is written {convert.shorten(key)}.more = "text"',
                        location=value.location,
                    )
        return result


_REACHED_INTO = (Kind.TEXT_MAP, Kind.BLOCK, Kind.STRUCTURE, Kind.LATER)
"""Kinds of options that a dotted name may reach into."""


def _joined(given: list[_Given]) -> Node:
    """One block of all that set it: `schema.fields.id = int` and `schema { table = t }` are one schema.

    Names with dots that reach into it become blocks inside blocks, cut at every dot.
    """
    joined: Node | None = None
    for one in given:
        node = one.entry.node
        for name in reversed(one.rest.split(".") if one.rest else []):
            node = ObjectNode({name: Field(node, one.entry.order, one.entry.location)}, one.entry.location)
        joined = node if joined is None else merge(joined, node) or node
    assert joined is not None
    return joined


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_null


def _texts(option: Option, node: Node) -> tuple[str, ...]:
    """TEXTS: one text or a list of them, each as it stands."""
    texts: list[str] = []
    for item in node.items if isinstance(node, ListNode) else (node,):
        if isinstance(item, BrokenNode):
            continue  # reported already
        if not isinstance(item, Scalar) or _is_null(item):
            raise convert.Refused(f"needs a text or a list of texts, not {describe(item)}", location=item.location)
        texts.append(convert_scalar(option, item))
    return tuple(texts)


def convert_scalar(option: Option, scalar: Scalar) -> Any:
    """Turn one written value into the option's type and check its limits.

    Raises:
        convert.Refused: it cannot be. The text names the value unless it is a secret.
    """
    text = scalar.text
    shown = "the value" if option.secret else convert.shorten(text, quote=True)
    if option.kind in (Kind.TEXT, Kind.TEXTS):
        if scalar.cut:
            raise convert.Refused(
                "the text ends where a comment begins",
                "put the text in double quotes, or a blank before the comment",
            )
        return text
    if option.kind is Kind.BOOLEAN:
        return convert.to_boolean(text, shown)
    if option.kind is Kind.CHOICE:
        return convert.to_choice(text, shown, option.choices, option.refused)
    limits = convert.Limits(option.minimum, option.maximum, option.above, option.noun)
    if option.kind is Kind.INTEGER:
        return limits.check(convert.to_integer(text, shown, limits), shown)
    if option.kind is Kind.DECIMAL:
        return limits.check(convert.to_decimal(text, shown), shown)
    return limits.check(convert.to_quantity(text, shown, option.unit), shown)


_KEY_BEHIND_ITS_ID = re.compile(r"[\w.-]+:([A-Za-z0-9+/]{40,}=*)")
"""`2026-11:<base64>`: the key may turn up without its id."""

_NAMES_A_SECRET = re.compile(r"(?i)password|secret|token|key|auth|jaas")


def _texts_in(value: Any) -> list[str]:
    """The texts that a secret value holds; of a map, those under a name that says so (others are plain settings)."""
    if isinstance(value, Mapping):
        return [str(inner) for name, inner in value.items() if _NAMES_A_SECRET.search(str(name))]
    texts = [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, str)]
    return texts + [found[1] for text in texts if (found := _KEY_BEHIND_ITS_ID.fullmatch(text))]
