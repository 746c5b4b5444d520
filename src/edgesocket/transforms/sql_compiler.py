"""From the parse tree of a query to SQL that DuckDB runs over a batch.

The compiler writes the SQL anew, from those parts of the tree that it knows; whatever it does not know is refused. So a
query can reach the rows and the functions of the table in `sql_functions`, and nothing else. Columns get names of the
compiler's own (`c0`, `c1`), so odd names and letter case cannot clash.

A column that is selected as it is never goes through DuckDB: it is taken from the batch, and keeps its exact type.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from edgesocket.transforms.sql_functions import FUNCTIONS, WITHOUT_BRACKETS, SqlFunction, filled
from edgesocket.transforms.sql_special import WRITERS, Call, is_text_type
from edgesocket.transforms.sql_tree import Node, QueryRefused, Select

MAX_DEPTH = 200
"""How deep expressions may be nested."""
MAX_WRITTEN_CHARACTERS = 50_000
"""How long the SQL of one expression may get: some functions name an argument several times."""

_BY_CHANCE = {"random()": "RAND", "uuid()": "UUID"}

_COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_OPERATORS = {"+": "+", "-": "-", "*": "*", "||": "||", "~~": "LIKE", "!~~": "NOT LIKE"}
_REFUSED_CLASSES = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "LAMBDA": "a lambda function",
    "PARAMETER": "a parameter",
    "STAR": "a star inside an expression",
    "COLLATE": "COLLATE",
    "POSITIONAL_REFERENCE": "a column by number",
    "DEFAULT": "DEFAULT",
}
_CASTS = {
    "VARCHAR": "VARCHAR",
    "STRING": "VARCHAR",
    "TINYINT": "TINYINT",
    "BYTE": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "INTEGER": "INTEGER",
    "LONG": "BIGINT",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "TIMESTAMP": "TIMESTAMP",
    "DATE": "DATE",
    "TIME": "TIME",
    "BYTES": "BLOB",
    "BLOB": "BLOB",
    "BOOLEAN": "BOOLEAN",
}


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result.

    Attributes:
        name: what it is called.
        column: number of the input column that it is, unchanged; None if it is computed.
        sql: what computes it.
    """

    name: str
    column: int | None
    sql: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query, ready to run.

    Attributes:
        outputs: the columns of the result.
        where: the condition, or an empty string.
        used: numbers of the input columns that expressions read.
    """

    outputs: tuple[Output, ...]
    where: str
    used: tuple[int, ...]


def column_name(number: int) -> str:
    """What DuckDB calls an input column."""
    return f"c{number}"


class Compiler:
    """Writes one query. `type_of` asks DuckDB for the type of an expression over the input."""

    def __init__(self, schema: pa.Schema, tables: tuple[str, ...], type_of: Callable[[str], str], query: str) -> None:
        self._schema = schema
        self._tables = tables
        self._type_of = type_of
        self._query = query.encode()
        self._used: set[int] = set()
        self._depth = 0

    def compiled(self, select: Select) -> Compiled:
        """The whole query.

        Raises:
            QueryRefused: something in it is not supported, or names no field.
        """
        outputs: list[Output] = []
        for item in select.items:
            outputs += self._star(item) if item["class"] == "STAR" else [self._output(item)]
        names = [output.name for output in outputs]
        for name in names:
            if names.count(name) > 1:
                raise QueryRefused(f'two columns are called "{name}"', "give one of them a name with AS")
        where = self.expression(select.where) if select.where else ""
        return Compiled(tuple(outputs), where, tuple(sorted(self._used)))

    def _star(self, item: Node) -> list[Output]:
        extras = ("exclude_list", "replace_list", "rename_list", "qualified_exclude_list", "columns", "expr")
        if any(item.get(extra) for extra in extras):
            raise QueryRefused("only a plain * is supported", "name the columns")
        if item.get("relation_name") and item["relation_name"].casefold() not in self._tables:
            raise QueryRefused(f'there is no table "{item["relation_name"]}" in this query')
        return [Output(name, number, "") for number, name in enumerate(self._schema.names)]

    def _output(self, item: Node) -> Output:
        if item["class"] == "COLUMN_REF":
            found = self._found(item["column_names"])
            name = item["alias"] or item["column_names"][-1]
            if found is None or found[1]:
                return Output(name, None, self.expression(item))
            return Output(item["alias"] or self._schema.names[found[0]], found[0], "")
        return Output(item["alias"] or self._text_of(item), None, self.expression(item))

    def _text_of(self, item: Node) -> str:
        """How a call of a function stands in the query: that is its name, where it was given none."""
        start, length = item["query_location"], item.get("query_location_length", 0)
        named = item["class"] == "FUNCTION" and not item.get("is_operator")
        text = self._query[start : start + length].decode(errors="replace") if named else ""
        if not text:
            raise QueryRefused("a computed column has no name", "give it one with AS")
        return text.replace("`", "").strip()

    def expression(self, node: Node) -> str:
        """SQL of an expression, safe to put anywhere."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise QueryRefused(f"an expression is nested more than {MAX_DEPTH} deep")
        writer = getattr(self, f"_write_{node['class'].lower()}", None)
        if writer is None:
            what = _REFUSED_CLASSES.get(node["class"], node["class"].lower())
            raise QueryRefused(f"{what} is not supported")
        written: str = writer(node)
        self._depth -= 1
        if len(written) > MAX_WRITTEN_CHARACTERS:
            raise QueryRefused("an expression is too long, with functions inside functions", "use two Sql transforms")
        return written

    def _write_constant(self, node: Node) -> str:
        kind, text = node["literal"]["kind"], node["literal"]["text"]
        if kind == "STRING":
            return quoted(text)
        if kind == "NULL_LITERAL":
            return "NULL"
        if kind in ("INTEGER", "NUMERIC"):
            return f"({text})" if text.startswith("-") else str(text)
        if kind == "BOOLEAN":
            return str(text)
        raise QueryRefused(f"a literal of the kind {kind.lower()} is not supported")

    def _write_column_ref(self, node: Node) -> str:
        names = node["column_names"]
        found = self._found(names)
        if found is None and len(names) == 1 and names[0].upper() in WITHOUT_BRACKETS:
            return f"({FUNCTIONS[names[0].upper()].forms[0]})"
        if found is None:
            raise self._unknown(names)
        number, inside = found
        self._used.add(number)
        return self._reached(column_name(number), self._schema.field(number), inside)

    def _found(self, names: list[str]) -> tuple[int, list[str]] | None:
        """The column that a dotted name begins with, and the rest of the name."""
        known = self._schema.names
        whole = ".".join(names)
        if whole in known:
            return known.index(whole), []
        number = matching(names[0], known)
        if number is not None:
            return number, names[1:]
        if len(names) > 1 and names[0].casefold() in self._tables:
            return self._found(names[1:])
        return None

    def _unknown(self, names: list[str]) -> QueryRefused:
        name = ".".join(names)
        known = self._schema.names
        close = difflib.get_close_matches(name.casefold(), [one.casefold() for one in known], 1)
        guess = [one for one in known if one.casefold() in close]
        hint = f"did you mean {guess[0]}?" if guess else ""
        return QueryRefused(f'there is no field "{name}"; the fields are {", ".join(known)}', hint)

    def _reached(self, sql: str, field: pa.Field, inside: list[str]) -> str:
        """What lies inside a row or a map, by name."""
        kind = field.type
        if (field.metadata or {}).get(b"edgesocket.type"):
            raise QueryRefused(
                f"{field.name} is a timestamp_tz, which can be selected as it is, but not be computed with"
            )
        if not inside:
            return sql
        name, rest = inside[0], inside[1:]
        if pa.types.is_struct(kind):
            names = [kind.field(number).name for number in range(kind.num_fields)]
            number = matching(name, names)
            if number is None:
                close = difflib.get_close_matches(name, names, 1)
                hint = f"did you mean {close[0]}?" if close else ""
                raise QueryRefused(f'{field.name} has no field "{name}"; it has {", ".join(names)}', hint)
            return self._reached(f"struct_extract({sql}, {quoted(names[number])})", kind.field(number), rest)
        if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            return self._reached(f"{sql}[{quoted(name)}]", pa.field(name, kind.item_type), rest)
        raise QueryRefused(f'{field.name} is {kind}, so there is no "{name}" in it')

    def _write_function(self, node: Node) -> str:
        arguments = [argument["expression"] for argument in node["arguments"]]
        if node.get("distinct") or node.get("filter") or any(one.get("name") for one in node["arguments"]):
            raise QueryRefused(f"{node['function_name']} with extra words inside its brackets is not supported")
        name = node["function_name"]
        if node.get("is_operator") or name == "like_escape":
            return self._operator(name, arguments)
        if node.get("schema") or node.get("catalog"):
            raise QueryRefused(f"there is no function {node.get('schema')}.{name}")
        if name == "count_star":
            name = "count"
        upper = {"DATE_PART": "EXTRACT"}.get(name.upper(), name.upper())
        function = FUNCTIONS.get(upper)
        if function is None:
            raise _unknown_function(name)
        if function.refused:
            raise QueryRefused(f"{function.name} is not supported: {function.refused}")
        inside = [self.expression(argument) for argument in arguments]
        written = self._call(function, upper, inside, [_literal(argument) for argument in arguments])
        _refuse_second_draw(function.name, written, inside)
        return f"({written})"

    def _call(self, function: SqlFunction, name: str, arguments: list[str], literals: list[Any]) -> str:
        count = len(arguments)
        wrong = QueryRefused(f"{name} takes {function.counts()} arguments, not {count}")
        if function.forms:
            form = function.form(count)
            if form is None:
                raise wrong
            return filled(form, arguments)
        if not function.least <= count <= function.most or function.special == "syntax":
            raise wrong
        if function.many:
            return f"{function.many}({', '.join(arguments)})"
        return WRITERS[function.special](Call(name, arguments, literals, self._type_of))

    def _operator(self, name: str, arguments: list[Node]) -> str:
        written = [self.expression(argument) for argument in arguments]
        if name in ("+", "-") and len(written) == 1:
            return f"({name}{written[0]})"
        if name == "like_escape":
            return f"({written[0]} LIKE {written[1]} ESCAPE {written[2]})"
        if name == "not_like_escape":
            return f"({written[0]} NOT LIKE {written[1]} ESCAPE {written[2]})"
        if name in ("/", "%", "+", "-", "*"):
            call = Call(name, written, [_literal(argument) for argument in arguments], self._type_of)
            done = f"({WRITERS[name](call)})"
            _refuse_second_draw(name, done, written)
            return done
        if name not in _OPERATORS:
            raise QueryRefused(f"the operator {name.replace('~~*', 'ILIKE')} is not supported")
        return f"({written[0]} {_OPERATORS[name]} {written[1]})"

    def _write_operator(self, node: Node) -> str:
        kind = node["type"]
        written = [self.expression(child) for child in node["children"]]
        if kind == "OPERATOR_NOT":
            return f"(NOT {written[0]})"
        if kind in ("COMPARE_IN", "COMPARE_NOT_IN"):
            word = "IN" if kind == "COMPARE_IN" else "NOT IN"
            return f"({written[0]} {word} ({', '.join(written[1:])}))"
        if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            return f"({written[0]} IS {'NOT ' if 'NOT' in kind else ''}NULL)"
        if kind == "OPERATOR_COALESCE":
            return f"coalesce({', '.join(written)})"
        if kind == "ARRAY_EXTRACT":
            return f"{written[0]}[{written[1]}]"
        if kind == "OPERATOR_TRY":
            raise QueryRefused("TRY is not supported", "use TRY_CAST")
        raise QueryRefused(f"{kind.lower().replace('_', ' ')} is not supported")

    def _write_case(self, node: Node) -> str:
        whens = [
            f"WHEN {self.expression(check['when_expr'])} THEN {self.expression(check['then_expr'])}"
            for check in node["case_checks"]
        ]
        return f"(CASE {' '.join(whens)} ELSE {self.expression(node['else_expr'])} END)"

    def _write_cast(self, node: Node) -> str:
        kind = node["type_expr"]
        target = _cast_type(kind)
        call = Call(
            "TRY_CAST" if node["try_cast"] else "CAST",
            [self.expression(node["child"]), target],
            [None, None],
            self._type_of,
        )
        written = f"({WRITERS['cast'](call)})"
        _refuse_second_draw(call.name, written, call.arguments)
        return written

    def _write_comparison(self, node: Node) -> str:
        word = _COMPARISONS.get(node["type"])
        if word is None:
            raise QueryRefused(f"{node['type'].lower()} is not supported")
        return f"({self.expression(node['left'])} {word} {self.expression(node['right'])})"

    def _write_conjunction(self, node: Node) -> str:
        word = " AND " if node["type"] == "CONJUNCTION_AND" else " OR "
        return f"({word.join(self.expression(child) for child in node['children'])})"

    def _write_between(self, node: Node) -> str:
        parts = [self.expression(node[part]) for part in ("input", "lower", "upper")]
        return f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})"


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def matching(name: str, known: list[str]) -> int | None:
    """The place of a name: as it is written, or else in any letter case, if that leaves no doubt."""
    if name in known:
        return known.index(name)
    alike = [number for number, one in enumerate(known) if one.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _literal(node: Node) -> Any:
    """The text or whole number that an argument is, or None. NULL is None too."""
    if node["class"] != "CONSTANT":
        return None
    kind, text = node["literal"]["kind"], node["literal"]["text"]
    if kind == "STRING":
        return str(text)
    return int(text) if kind == "INTEGER" else None


def _cast_type(kind: Node) -> str:
    name = str(kind.get("type_name", "")).upper()
    if name in ("DECIMAL", "NUMERIC"):
        sizes = [child["literal"]["text"] for child in kind["children"] if child["class"] == "CONSTANT"]
        if len(sizes) != 2 or not all(size.isdigit() for size in sizes):
            raise QueryRefused("DECIMAL needs its two sizes", "write DECIMAL(10, 2)")
        if not 1 <= int(sizes[0]) <= 38 or int(sizes[1]) > int(sizes[0]):
            raise QueryRefused(f"there is no DECIMAL({sizes[0]}, {sizes[1]})", "at most 38 digits")
        return f"DECIMAL({sizes[0]}, {sizes[1]})"
    if name not in _CASTS:
        known = "STRING, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), DATE, TIME, TIMESTAMP, BYTES"
        raise QueryRefused(f"CAST to {name} is not supported", f"one of {known}, BOOLEAN")
    return _CASTS[name]


def _refuse_second_draw(name: str, written: str, arguments: list[str]) -> None:
    """Refuse what would draw twice where the query draws once: a function that names an argument several times."""
    for chance, drawing in _BY_CHANCE.items():
        drawn = sum(argument.count(chance) for argument in arguments) + (name == drawing)
        if written.count(chance) > drawn:
            fix = "compute it in a Sql transform before this one"
            raise QueryRefused(f"{drawing} inside {name} is not supported", fix)


def _unknown_function(name: str) -> QueryRefused:
    if name.upper() in _AGGREGATES:
        return QueryRefused(f"{name} is not supported: a row is seen alone, so there is nothing to aggregate")
    close = difflib.get_close_matches(name.upper(), FUNCTIONS, 1)
    return QueryRefused(f"there is no function {name}", f"did you mean {close[0]}?" if close else "")


_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST", "STRING_AGG", "GROUP_CONCAT", "STDDEV", "MEDIAN")

_MADE_FIT = {"HUGEINT": "DECIMAL(38, 0)", "UBIGINT": "DECIMAL(20, 0)", "UHUGEINT": "DECIMAL(38, 0)"}
_MADE_FIT |= {"UTINYINT": "SMALLINT", "USMALLINT": "INTEGER", "UINTEGER": "BIGINT", "UUID": "VARCHAR"}
_MADE_FIT |= {"TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP"}
_MADE_FIT |= {'"NULL"': "VARCHAR", "NULL": "VARCHAR", "JSON": "VARCHAR"}
_OURS = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP", "BLOB")


def fitted(sql: str, name: str, type_of: Callable[[str], str]) -> str:
    """An expression whose type rows can have.

    Raises:
        QueryRefused: its type has no counterpart.
    """
    kind = type_of(sql)
    if kind in _MADE_FIT:
        return f"CAST({sql} AS {_MADE_FIT[kind]})"
    if kind in _OURS or is_text_type(kind) or kind.startswith(("DECIMAL(", "STRUCT(", "MAP(")) or kind.endswith("[]"):
        return sql
    raise QueryRefused(f'"{name}" would be a {kind}, which rows cannot have', "CAST it to another type")
