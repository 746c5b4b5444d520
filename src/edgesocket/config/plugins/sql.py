"""The options of the Sql transform."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.common import COMMON_TRANSFORM

MAX_QUERY_CHARACTERS = 100_000
"""A longer query is refused before anybody parses it."""

_FROM = re.compile(r"\bfrom\s+([`\"]?)([\w.$-]+)\1", re.IGNORECASE)


def _check_query(query: str) -> str:
    if not query.strip():
        raise Refused("the query is blank")
    if len(query) > MAX_QUERY_CHARACTERS:
        raise Refused(f"the query has more than {MAX_QUERY_CHARACTERS} characters")
    return query


SQL = OptionTable(
    Option(
        name="query",
        kind=Kind.TEXT,
        required=True,
        check=_check_query,
        example='"select id, upper(name) as name from edge where id > 10"',
        description="One SELECT from one table, which is the transform's input (or dual).",
    ),
    Option(
        name="engine",
        kind=Kind.CHOICE,
        default="ZETA",
        choices=("ZETA",),
        example="ZETA",
        description="The dialect of the query.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlOptions:
    """What the Sql transform is made with, checked as far as it can be without parsing the query."""

    query: str
    engine: str


def check_sql(parsed: ParsedOptions, path: str, report: Report) -> None:
    """Say when the query names another table than the input. It makes no difference: there is one table."""
    inputs = parsed.values.get("plugin_input")
    found = _FROM.search(parsed.values.get("query") or "")
    if not inputs or not found:
        return
    table = found[2]
    if table.casefold() not in {"dual", *(name.casefold() for name in inputs)}:
        named = " and ".join(inputs)
        place = parsed.place("query")
        report.note(f"{place}: {path}.query names the table {shorten(table)}; it gets the rows of {named} all the same")
