"""The option tables in the documentation, made from the specs that also parse and check the options.

A table stands between two markers: `<!-- options: sink Kafka -->` and `<!-- /options -->`, or in `docs/reference.md`
`<!-- options of env -->` and `<!-- end -->`. After a change of an option write them all anew with
`python -m edgesocket.config.reference`; with `--check` nothing is written, and stale pages make it exit with 1.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from edgesocket.config.catalog import ENTRIES, Entry, show_default, show_meaning, show_value
from edgesocket.config.edge_socket import EDGE_SOCKET
from edgesocket.config.env import ENV
from edgesocket.config.options import Kind, Option, OptionTable
from edgesocket.config.plugins.common import COMMON, COMMON_TRANSFORM

TABLES: Mapping[str, OptionTable] = {
    "env": ENV,
    "EdgeSocket": EDGE_SOCKET,
    "every sink": OptionTable(*COMMON),
    "every transform": OptionTable(*COMMON_TRANSFORM),
}
"""The tables of `docs/reference.md`, by the name in their marker."""

_DOCS = Path("docs")
_PAGES = ("reference.md", "collect.md", "sources/*.md", "sinks/*.md", "transforms/*.md", "inputs/*.md")
_BLOCK = re.compile(r"(<!-- options of ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_LIST_BLOCK = re.compile(r"(<!-- plugins -->\n).*?(<!-- /plugins -->)", re.DOTALL)
_PLUGIN_BLOCK = re.compile(r"(<!-- options: (\w+(?: \w+)?) -->\n).*?(<!-- /options -->)", re.DOTALL)


def render_options(table: OptionTable, *, without: frozenset[str] = frozenset()) -> str:
    """Markdown: a table of the options that can be set, one for each block in it, and a line of those to come.

    Args:
        table: the specs.
        without: names to leave out.
    """
    options = [option for option in table.options if option.name not in without]
    lines = _table(options)
    for option in options:
        lines += _blocks(option, option.name)
    later = ", ".join(f"`{option.name}`" for option in options if option.kind is Kind.LATER)
    if later:
        lines += ["", f"Known from SeaTunnel and refused here, with the reason: {later}."]
    if table.ignored:
        names = ", ".join(f"`{name}*`" if name.endswith(".") else f"`{name}`" for name in sorted(table.ignored))
        lines += ["", f"Accepted without effect, with a note in the log: {names}."]
    return "\n".join(lines) + "\n"


def fill_page(page: str) -> str:
    """The page with every option table in it made anew. Raises KeyError for a marker that names no table."""
    entries = {entry.title: entry for entry in ENTRIES}

    def fill(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        return f"{begin}\n{render_options(TABLES[name])}\n{end}"

    def fill_plugin(found: re.Match[str]) -> str:
        begin, name, end = found.groups()
        return f"{begin}\n{_plugin_options(entries[name])}\n{end}"

    page = _PLUGIN_BLOCK.sub(fill_plugin, _BLOCK.sub(fill, page))
    return _LIST_BLOCK.sub(lambda found: f"{found[1]}\n{_plugin_list()}\n{found[2]}", page)


def pages(docs: Path) -> list[Path]:
    """Every page that may hold option tables."""
    return [path for pattern in _PAGES for path in sorted(docs.glob(pattern))]


def _plugin_list() -> str:
    """Links to the page of every plugin, one line a kind."""
    kinds: dict[str, list[str]] = {entry.kind: [] for entry in ENTRIES if entry.plugin}
    for entry in ENTRIES:
        if entry.plugin:
            kinds[entry.kind].append(f"[{entry.plugin}]({entry.page})")
    return "\n".join(f"- {kind}s: {', '.join(links)}" for kind, links in kinds.items()) + "\n"


def _plugin_options(entry: Entry) -> str:
    text = ""
    if any(option.name not in entry.common for option in entry.table.options) or entry.table.ignored:
        text = render_options(entry.table, without=entry.common)
    else:
        text = "None of its own.\n"
    if entry.common:
        text += f"\nBesides there are [the options of every {entry.kind}](../reference.md#every-{entry.kind}).\n"
    return text


def _table(options: Sequence[Option]) -> list[str]:
    lines = ["| option | value | default | meaning |", "|---|---|---|---|"]
    return lines + [_row(option) for option in options if option.kind is not Kind.LATER]


def _blocks(option: Option, path: str) -> Iterator[str]:
    """The tables of the options inside a block."""
    if option.table is None or path.count(".") > _MAX_NESTING:
        return
    inner = "Each block of" if option.kind is Kind.BLOCKS else "In"
    yield from ("", f"{inner} `{path}`:", "", *_table(option.table.options))
    for below in option.table.options:
        yield from _blocks(below, f"{path}.{below.name}")


def _row(option: Option) -> str:
    cells = (show_value(option), show_default(option), show_meaning(option))
    return f"| `{option.name}` | {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: Sequence[str]) -> int:
    """Write the tables anew, or with `--check` name the pages that are stale. Returns the exit code."""
    check = "--check" in arguments
    given = [Path(argument) for argument in arguments if argument != "--check"]
    stale: list[Path] = []
    for path in given or pages(_DOCS):
        page = path.read_text(encoding="utf-8")
        filled = fill_page(page)
        if filled == page:
            continue
        stale.append(path)
        if not check:
            path.write_text(filled, encoding="utf-8")
    for path in stale:
        sys.stderr.write(f"{path}: {'stale; python -m edgesocket.config.reference' if check else 'written anew'}\n")
    return 1 if check and stale else 0


_MAX_NESTING = 3

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
