"""Which SELECT statements the Sql transform takes: one table, no more than a choice of rows and columns.

Works on DuckDB's own parse tree, so there is no guessing from the text of a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Node = Mapping[str, Any]

_MODIFIERS = {
    "ORDER_MODIFIER": "ORDER BY",
    "LIMIT_MODIFIER": "LIMIT",
    "LIMIT_PERCENT_MODIFIER": "LIMIT",
    "DISTINCT_MODIFIER": "DISTINCT",
}
_TABLES = {
    "JOIN": "a join, or a second table",
    "SUBQUERY": "a subquery",
    "TABLE_FUNCTION": "a table function",
    "EXPRESSION_LIST": "VALUES",
    "PIVOT": "PIVOT",
}
_NO_COUNTERPART = (("char", "write CHR(..) for CHAR(..)"), ("array", "arrays are not made in a query"))
_ONE_ROW = "a row is seen alone, and makes one row or none"


class QueryRefused(Exception):  # noqa: N818 - never leaves the package; it becomes a ConfigProblem
    """A query that the transform does not take. `fix`: what to do instead."""

    def __init__(self, message: str, fix: str = "") -> None:
        self.message = message
        self.fix = fix
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Select:
    """What there is to a SELECT of one table.

    Attributes:
        items: parse trees of the columns.
        where: parse tree of the condition, or None.
        tables: names the table goes by, in lower case.
    """

    items: tuple[Node, ...]
    where: Node | None
    tables: tuple[str, ...]


def select_of(tree: Node, query: str) -> Select:
    """The one SELECT of a parsed query.

    Args:
        tree: what `Duck.parsed` made of it.
        query: its text, for hints.

    Raises:
        QueryRefused: it is not one, or asks for more than one table and one row at a time can give.
    """
    if tree["error"]:
        raise _unreadable(tree, query)
    statements = tree["statements"]
    if len(statements) != 1:
        raise QueryRefused(f"there are {len(statements)} statements, and there can be one SELECT only")
    node = statements[0]["node"]
    if node["type"] == "SET_OPERATION_NODE":
        raise QueryRefused(f"{node.get('setop_type', 'a set operation')} is not supported", "use two transforms")
    if node["type"] != "SELECT_NODE":
        raise QueryRefused("it is not a plain SELECT")
    _refuse_clauses(node)
    return Select(tuple(node["select_list"]), node["where_clause"], _table_names(node["from_table"]))


def _unreadable(tree: Node, query: str) -> QueryRefused:
    message = str(tree.get("error_message", "")).splitlines()[0]
    if "Only SELECT" in message:
        return QueryRefused("only SELECT is supported")
    squeezed = "".join(query.lower().split())
    hints = [hint for name, hint in _NO_COUNTERPART if f"{name}(" in squeezed]
    if "lateralview" in squeezed:
        return QueryRefused("LATERAL VIEW is not supported", _ONE_ROW)
    return QueryRefused(f"it cannot be read: {message}", "; ".join(hints))


def _refuse_clauses(node: Node) -> None:
    for modifier in node["modifiers"]:
        name = _MODIFIERS.get(modifier["type"], "what follows the condition")
        raise QueryRefused(f"{name} is not supported", _ONE_ROW)
    if node["cte_map"]["map"]:
        raise QueryRefused("WITH is not supported", "write the expression where it is used")
    if node["group_expressions"] or node["group_sets"] or node["aggregate_handling"] != "STANDARD_HANDLING":
        raise QueryRefused("GROUP BY is not supported", _ONE_ROW)
    for clause in ("having", "qualify", "sample"):
        if node.get(clause):
            raise QueryRefused(f"{clause.upper()} is not supported", _ONE_ROW)


def _table_names(table: Node) -> tuple[str, ...]:
    kind = table["type"]
    if kind == "EMPTY":
        raise QueryRefused("there is no FROM", "select .. from dual")
    if kind != "BASE_TABLE":
        raise QueryRefused(f"{_TABLES.get(kind, kind.lower())} is not supported", "select .. from one table")
    if table.get("sample"):
        raise QueryRefused("SAMPLE is not supported", _ONE_ROW)
    if table.get("at_clause") or table.get("column_name_alias"):
        raise QueryRefused("only a name can stand behind FROM")
    return tuple(name.casefold() for name in (table["table_name"], table.get("alias")) if name)
