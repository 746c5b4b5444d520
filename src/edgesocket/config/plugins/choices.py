"""Checks that several transforms make across their options."""

from __future__ import annotations

from edgesocket.config.convert import Refused
from edgesocket.config.nodes import Report
from edgesocket.config.options import ParsedOptions


def check_one_of(parsed: ParsedOptions, path: str, report: Report, one: str, other: str) -> None:
    """Report when both of two options are given, or none."""
    if not parsed.has(one, other):
        return
    if parsed.values[one] and parsed.values[other]:
        message = f"is given, and so is {one}: it is one or the other"
        report.problem(parsed.place(other), f"{path}.{other}", message, f"delete one of {one} and {other}")
    elif not parsed.values[one] and not parsed.values[other]:
        message = f"is required, or {other}: one of them"
        report.problem(parsed.location, f"{path}.{one}", message)


def not_empty(text: str) -> str:
    """The text, unless it is empty.

    Raises:
        Refused: it is.
    """
    if not text:
        raise Refused("an empty text is not allowed here")
    return text


def some_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The list, unless it is empty or has an empty name in it.

    Raises:
        Refused: it is, or has.
    """
    if not names:
        raise Refused("the list is empty")
    if "" in names:
        raise Refused("there is an empty name in the list")
    return names
