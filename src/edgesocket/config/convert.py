"""From the text of a value to its type, with messages that say what would be right."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from edgesocket.config.nodes import Location
from edgesocket.config.units import parse_duration, parse_size

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}\Z")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?\Z")
_PLAIN = re.compile(r"[\w.+/-]+\Z")

_Number = TypeVar("_Number", int, Decimal)


class Refused(Exception):  # noqa: N818 - never leaves the package; it becomes a ConfigProblem
    """A value that an option does not take.

    Attributes:
        message: what is wrong, starting after the option's path.
        fix: what would be right, or an empty string for the option's own example.
        location: where, if it is not where the option's value begins.
    """

    def __init__(self, message: str, fix: str = "", *, location: Location | None = None) -> None:
        self.message = message
        self.fix = fix
        self.location = location
        super().__init__(message)


def shorten(text: str, *, quote: bool = False) -> str:
    """A piece of a job file for a message: at most 40 characters, one line. `quote`: in quotes unless plain."""
    short = text if len(text) <= 40 else text[:40] + "..."
    if quote and text and _PLAIN.match(text):
        return short
    escaped = json.dumps(short, ensure_ascii=False)
    return escaped if quote else escaped[1:-1]


@dataclass(frozen=True, slots=True)
class Limits:
    """The range of a number, and what the number is (`noun`)."""

    minimum: int | Decimal | None = None
    maximum: int | Decimal | None = None
    above: int | Decimal | None = None
    noun: str = ""

    def check(self, value: _Number, shown: str) -> _Number:
        """The value itself, if it lies in the range.

        Raises:
            Refused: it does not.
        """
        if self.minimum is not None and value < self.minimum:
            wrong = f"too small: at least {self.minimum}"
        elif self.above is not None and value <= self.above:
            wrong = f"too small: more than {self.above}"
        elif self.maximum is not None and value > self.maximum:
            wrong = f"too large: at most {self.maximum}"
        else:
            return value
        raise Refused(self._not_a_noun(shown) if self.noun else f"{shown} is {wrong}")

    def wrong_type(self, shown: str, wanted: str) -> str:
        """The message for a value that is not even a number."""
        return self._not_a_noun(shown) if self.noun else f"{shown} is not {wanted}"

    def _not_a_noun(self, shown: str) -> str:
        return f"{shown} is not {self.noun} ({self.minimum}..{self.maximum})"


def to_integer(text: str, shown: str, limits: Limits) -> int:
    """A whole number in decimal digits; "9999" in quotes is one too."""
    if not _INTEGER.match(text):
        raise Refused(limits.wrong_type(shown, "a whole number"))
    return int(text)


def to_decimal(text: str, shown: str) -> Decimal:
    """A number with exactly the digits that were written: 0.07 stays 0.07."""
    if not _DECIMAL.match(text):
        raise Refused(f"{shown} is not a number")
    return Decimal(text)


def to_boolean(text: str, shown: str) -> bool:
    """true or false in any letter case."""
    lower = text.lower()
    if lower not in ("true", "false"):
        raise Refused(f"{shown} is neither true nor false")
    return lower == "true"


def to_choice(text: str, shown: str, choices: tuple[str, ...], refused: Mapping[str, str]) -> str:
    """One of the choices in any letter case, in its canonical spelling."""
    for choice in choices:
        if text.lower() == choice.lower():
            return choice
    for choice, reason in refused.items():
        if text.lower() == choice.lower():
            raise Refused(f"{choice} {reason}")
    if len(choices) == 1:
        raise Refused(f"{shown} is not supported, only {choices[0]}")
    raise Refused(f"{shown} is none of {', '.join(choices)}")


def to_quantity(text: str, shown: str, unit: str) -> int:
    """A duration (unit "ms" or "s") or a size (unit "bytes")."""
    try:
        return parse_size(text) if unit == "bytes" else parse_duration(text, unit)
    except ValueError as error:
        raise Refused(f"{shown} {error}") from None
