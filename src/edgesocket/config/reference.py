"""The option tables of the reference page, made from the specs that also parse and check the options.

`docs/reference.md` holds them between markers; a test compares. After a change of an option, write them anew with
`python -m edgesocket.config.reference docs/reference.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from edgesocket.config.edge_socket import EDGE_SOCKET
from edgesocket.config.env import ENV
from edgesocket.config.options import INT_MAX, Kind, Option, OptionTable
from edgesocket.config.sinks import COMMON, CONSOLE, LOCAL_FILE

TABLES: Mapping[str, OptionTable] = {
    "env": ENV,
    "EdgeSocket": EDGE_SOCKET,
    "Console": CONSOLE,
    "LocalFile": LOCAL_FILE,
    "every sink": OptionTable(*COMMON),
}
"""The tables the page can hold, by the name in its marker."""

_BLOCK = re.compile(r"(<!-- options of ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_UNITS = {"ms": "duration in ms", "s": "duration in s", "bytes": "size in bytes"}


def render_options(table: OptionTable, *, without: frozenset[str] = frozenset()) -> str:
    """A Markdown table of the options that can be set, and a line that names those that are to come.

    Args:
        table: the specs.
        without: names to leave out.
    """
    options = [option for option in table.options if option.name not in without]
    lines = ["| option | value | default | meaning |", "|---|---|---|---|"]
    lines += [_row(option) for option in options if option.kind is not Kind.LATER]
    later = ", ".join(f"`{option.name}`" for option in options if option.kind is Kind.LATER)
    if later:
        lines += ["", f"Known from SeaTunnel and refused here, with the reason: {later}."]
    return "\n".join(lines) + "\n"


def fill_page(page: str) -> str:
    """The page with every option table in it made anew. Raises KeyError for a marker that names no table."""
    common = frozenset(option.name for option in COMMON)

    def fill(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        without = common if name in ("Console", "LocalFile") else frozenset[str]()
        return f"{begin}\n{render_options(TABLES[name], without=without)}\n{end}"

    return _BLOCK.sub(fill, page)


def _row(option: Option) -> str:
    meaning = option.description
    if option.secret:
        meaning += " Never shown in a message or log."
    if option.aliases:
        meaning += f" Older name: {', '.join(f'`{alias}`' for alias in option.aliases)}."
    return f"| `{option.name}` | {_value(option)} | {_default(option)} | {_escaped(meaning)} |"


def _value(option: Option) -> str:
    if option.kind is Kind.CHOICE:
        return " or ".join(f"`{choice}`" for choice in option.choices)
    text: str = _UNITS.get(option.unit, option.kind.value)
    least, most = option.minimum, option.maximum
    if most is not None and most >= INT_MAX:
        most = None
    if option.above is not None:
        text += f", above {option.above}"
    if least is not None and most is not None:
        return f"{text}, {least} to {most}"
    if least is not None and (least > 0 or least < 0):
        text += f", at least {least}"
    if most is not None:
        text += f", at most {most}"
    return text


def _default(option: Option) -> str:
    if option.required:
        return "required"
    if option.default_text:
        return _escaped(option.default_text)
    return _shown(option, option.default)


def _shown(option: Option, value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if option.unit == "bytes" and value % (1 << 20) == 0:
        return f"`{value >> 20} MiB`"
    if isinstance(value, int | Decimal | str):
        return f"`{value}`"
    raise TypeError(f"{option.name}: give a default_text that shows {value!r}")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(fill_page(path.read_text(encoding="utf-8")), encoding="utf-8")
