"""The text of SQL statements: names in quotes, `?` as the driver wants it, generated inserts. Text in, text out."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(
    r"""
      (?P<skipped>
          '(?:[^'\\]|''|\\.)*'                            # text; a backslash is looked at below
        | "(?:[^"]|"")*"                                  # a name
        | `(?:[^`]|``)*`                                  # a name of MySQL
        | --[^\n]*                                        # a comment
        | /\*.*?\*/
        | \$(?P<tag>(?:[A-Za-z_][A-Za-z0-9_]*)?)\$.*?\$(?P=tag)\$   # text of PostgreSQL
        | \?\?                                            # an operator that is written ?
      )
    | (?P<mark>\?)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_TEXT = re.compile(r"'(?:[^']|'')*'", re.DOTALL)


def with_driver_marks(query: str, mark: str, *, backslash_escapes: bool) -> tuple[str, int]:
    """A statement with `?` for each value, as the driver wants it.

    `?` inside quotes and comments is left alone, and `??` stands for the operator `?`.

    Args:
        query: as the job file has it.
        mark: `%s` or `?`. With `%s` every other percent sign is doubled, for the driver undoes that.
        backslash_escapes: whether a backslash in quoted text hides the quote after it, as in MySQL.

    Returns:
        The statement, and how many values it takes.
    """
    parts: list[str] = []
    count = position = 0

    def keep(text: str) -> None:
        parts.append(text.replace("%", "%%") if mark == "%s" else text)

    while (match := _TOKEN.search(query, position)) is not None:
        end = match.end()
        if match["skipped"] and query[match.start()] == "'" and not backslash_escapes:
            before = query[max(match.start() - 2, 0) : match.start()]
            escapes = re.search(r"(?:^|[^A-Za-z0-9_])[eE]\Z", before) is not None  # E'..' of PostgreSQL
            plain = None if escapes else _PLAIN_TEXT.match(query, match.start())
            end = plain.end() if plain else end
        keep(query[position : match.start()])
        if match["mark"]:
            parts.append(mark)
            count += 1
        else:
            found = query[match.start() : end]
            keep("?" if found == "??" else found)
        position = end
    keep(query[position:])
    return "".join(parts), count


def quoted(name: str, quote: str) -> str:
    """One name in quotes; a quote inside is doubled."""
    return quote + name.replace(quote, quote * 2) + quote


def quoted_path(parts: Sequence[str], quote: str) -> str:
    """`schema.table` in quotes."""
    return ".".join(quoted(part, quote) for part in parts)


def insert_text(table: str, columns: Sequence[str], mark: str) -> str:
    """`insert into <table> (<columns>) values (<marks>)`. Names are in quotes already; a percent sign in them is
    doubled for drivers that take `%s`."""
    names = ", ".join(columns)
    head = f"INSERT INTO {table} ({names}) VALUES "  # noqa: S608  names are in quotes
    if mark == "%s":
        head = head.replace("%", "%%")
    return f"{head}({', '.join([mark] * len(columns))})"


_TARGET = re.compile(
    r"\s*(?:INSERT|REPLACE)\s+(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE|OR\s+\w+)\s+)*(?:INTO\s+)?"
    r"((?:[`\"][^`\"]+[`\"]|[\w$]+)(?:\s*\.\s*(?:[`\"][^`\"]+[`\"]|[\w$]+))*)",
    re.IGNORECASE,
)


def target_of(query: str) -> tuple[str, ...]:
    """The table that an insert statement names, as parts without quotes; empty where it is none."""
    match = _TARGET.match(query)
    return tuple(part.strip().strip('`"') for part in match[1].split(".")) if match else ()
