"""Variables: `-i name=value` on the command line, and `${name}` or `${name:default}` inside quoted text.

Values given with `-i` come first, then the environment. A value is put in unchanged: nothing inside it is looked at
again, whatever it holds. An empty value counts as absent inside quoted text, and `${name}` without a value or default
stays as written (sinks use such names themselves).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from edgesocket.errors import UsageError

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.-]*)(?::([^{}]*))?\}")
_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
_NEXT_ASSIGNMENT = re.compile(rf",(?=\s*{_NAME}=)")
_ASSIGNMENT = re.compile(rf"\s*({_NAME})=", re.DOTALL)

RESERVED_NAMES = frozenset(
    {
        "database_name",
        "schema_name",
        "table_name",
        "schema_full_name",
        "table_full_name",
        "primary_key",
        "unique_key",
        "field_names",
        "partition_keys",
    }
)
"""Placeholders that sinks fill in. They may not be given a value."""


def substitute(text: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Put variables into quoted text. See the module's text for the rules."""
    if "${" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = variables.get(name) or environ.get(name)
        if found:
            return found
        return match.group() if default is None else default

    return _PLACEHOLDER.sub(value, text)


def parse_variables(arguments: Iterable[str]) -> dict[str, str]:
    """Read the arguments of `-i`.

    One argument may hold several assignments. A comma separates two of them only where a name and `=` follow it and it
    stands outside quotes and brackets, so commas inside a value need no escaping. The first `=` ends the name; the
    value is kept as it is, quotes included. A name given twice takes the last value.

    Raises:
        UsageError: an argument is no assignment, or sets a reserved name. The text names no value.
    """
    variables: dict[str, str] = {}
    for number, argument in enumerate(arguments, 1):
        for assignment in _split(argument):
            match = _ASSIGNMENT.match(assignment)
            if match is None:
                raise UsageError(f"-i number {number} is not of the form name=value")
            name = match.group(1)
            if name in RESERVED_NAMES:
                raise UsageError(f"-i {name}=...: sinks fill in this name themselves, choose another one")
            variables[name] = assignment[match.end() :]
    return variables


def _split(argument: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for match in _NEXT_ASSIGNMENT.finditer(argument):
        piece = argument[start : match.start()]
        if piece.count('"') % 2 == 0 and piece.count("[") <= piece.count("]"):
            parts.append(piece)
            start = match.end()
    parts.append(argument[start:])
    return parts
