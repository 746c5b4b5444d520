"""Every table of options there is, by kind and name, and how one option is shown to people."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from edgesocket.config.agent import tables as agent_tables
from edgesocket.config.edge_socket import EDGE_SOCKET
from edgesocket.config.env import ENV
from edgesocket.config.options import INT_MAX, LONG_MAX, Kind, Option, OptionTable
from edgesocket.config.plugins.common import COMMON, COMMON_TRANSFORM
from edgesocket.config.sinks import SINKS
from edgesocket.config.transforms import TRANSFORMS

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNITS = {"ms": "duration in ms", "s": "duration in s", "bytes": "size in bytes"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One table.

    Attributes:
        kind: `env`, `source`, `sink`, `transform` of a job file; `agent`, `input` of the edge agent's file.
        plugin: its name, empty for env and agent.
        table: the options.
    """

    kind: str
    plugin: str
    table: OptionTable

    @property
    def title(self) -> str:
        """Kind and name, as the markers in the documentation have them: `sink Kafka`."""
        return f"{self.kind} {self.plugin}".strip()

    @property
    def path(self) -> str:
        """Where the options stand in a job file: `sink.Kafka`."""
        return f"{self.kind}.{self.plugin}".strip(".")

    @property
    def page(self) -> str:
        """Its page below `docs`: `sinks/local_file.md`."""
        return f"{self.kind}s/{_WORDS.sub('_', self.plugin).lower()}.md"

    @property
    def common(self) -> frozenset[str]:
        """Names of the options that every table of this kind has."""
        options = {"sink": COMMON, "transform": COMMON_TRANSFORM}.get(self.kind, ())
        return frozenset(option.name for option in options if self.plugin)


ENTRIES = (
    Entry("env", "", ENV),
    Entry("source", "EdgeSocket", EDGE_SOCKET),
    *(Entry("sink", name, plugin.table) for name, plugin in SINKS.items()),
    *(Entry("transform", name, plugin.table) for name, plugin in TRANSFORMS.items()),
    *(Entry(kind, name, table) for kind, name, table in agent_tables()),
)
"""Every table of a job file, and of the edge agent's file."""


def find_entries(name: str, entries: Sequence[Entry] = ENTRIES) -> list[Entry]:
    """The tables called so, in any letter case: `Kafka`, `sink Kafka`, `env`, `sink`."""
    wanted = name.replace(".", " ").lower()
    return [one for one in entries if wanted in (one.title.lower(), one.plugin.lower(), one.kind)]


def find_options(name: str, entries: Sequence[Entry] = ENTRIES) -> list[tuple[Entry, str, Option]]:
    """Every option called so, under its name or an older one, with the table it stands in and its path there."""
    found: list[tuple[Entry, str, Option]] = []
    for entry in entries:
        for path, option in walk(entry.table):
            names = (option.name, *option.aliases, *option.former, path)
            if name.lower() in (f"{entry.path}.{path}".lower(), *(one.lower() for one in names)):
                found.append((entry, path, option))
    return found


def nearest(name: str, entries: Sequence[Entry] = ENTRIES) -> str:
    """The table or option somebody probably meant, or an empty string."""
    known = {one.plugin.lower(): one.plugin for one in entries if one.plugin}
    known |= {option.name.lower(): option.name for entry in entries for _, option in walk(entry.table)}
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return known[near[0]] if near else ""


def walk(table: OptionTable, above: str = "", depth: int = 0) -> Iterator[tuple[str, Option]]:
    """Every option of a table and of the blocks in it, with its path."""
    for option in table.options:
        yield above + option.name, option
        if option.table is not None and depth < _MAX_NESTING:
            yield from walk(option.table, f"{above}{option.name}.", depth + 1)


def show_value(option: Option) -> str:
    """What an option's value is, and its limits: `integer, 1 to 65535`."""
    if option.kind is Kind.CHOICE:
        return " or ".join(f"`{choice}`" for choice in option.choices)
    text: str = _UNITS.get(option.unit, option.kind.value)
    least, most = option.minimum, option.maximum
    if most is not None and most in (INT_MAX, LONG_MAX):
        most = None
    if option.above is not None:
        text += f", above {option.above}"
    if least is not None and most is not None:
        return f"{text}, {least} to {most}"
    if least is not None and least != 0:
        text += f", at least {least}"
    if most is not None:
        text += f", at most {most}"
    return text


def show_default(option: Option) -> str:
    """The default of an option, or `required`."""
    if option.required:
        return "required"
    if option.default_text:
        return option.default_text
    value: Any = option.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if option.unit == "bytes" and value and value % (1 << 20) == 0:
        return f"`{value >> 20} MiB`"
    if isinstance(value, int | Decimal):
        return f"`{value}`"
    if isinstance(value, str) and value:
        return f"`{value}`" if value.isprintable() else f"`{value.encode('unicode_escape').decode()}`"
    if value is None or (isinstance(value, str | tuple | list | Mapping) and not value):
        return "none"
    if isinstance(value, tuple) and all(isinstance(item, str | int) for item in value):
        return ", ".join(f"`{item}`" for item in value)
    raise TypeError(f"{option.name}: give a default_text that shows {value!r}")


def show_meaning(option: Option) -> str:
    """The description, and what else is worth knowing."""
    meaning = option.description
    if option.secret:
        meaning += " Never shown in a message or log."
    if option.aliases:
        meaning += f" Older name: {', '.join(f'`{alias}`' for alias in option.aliases)}."
    for choice, reason in option.refused.items():
        meaning += f" `{choice}` {reason}."
    return meaning


_MAX_NESTING = 4
