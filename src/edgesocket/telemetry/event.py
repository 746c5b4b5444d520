"""What an event is: a frozen dataclass in the past tense, with a level, a sentence, and what to do about it.

Components hand events to a `report` callable. Log lines, the journal of a job and some metrics are made from them, and
the page of all events in the docs. `report` takes plain sentences too: they are of level INFO and counted as `note`.

The level says what an operator has to do, not how bad something sounds.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

_T = TypeVar("_T")

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Level(enum.IntEnum):
    """What an operator has to do. The numbers are those of Python's logging."""

    DEBUG = 10
    """Nothing, ever; it is what usually happens."""
    INFO = 20
    """Nothing; it is worth knowing."""
    WARNING = 30
    """Look at it soon: it may heal by itself, or something was lost or changed that nobody else tells of."""
    ERROR = 40
    """Act now: it does not heal by itself."""

    def __str__(self) -> str:
        """As it is written in logs: `warning`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class EventKind:
    """One kind of event, as logs, metrics and docs name it.

    Attributes:
        name: `watermark_held`; unique.
        level: see Level.
        template: the sentence, with the event's fields in braces.
        what_to_do: what an operator does about it, fields in braces too; empty where there is nothing to do.
        meaning: the first line of the class's text.
    """

    name: str
    level: Level
    template: str
    what_to_do: str
    meaning: str


KINDS: dict[type, EventKind] = {}
"""Every kind that has been defined, by its class. A kind is there once its module is imported."""

NOTE = EventKind("note", Level.INFO, "{text}", "", "Anything else that is worth knowing, as a sentence.")
"""The kind of a plain sentence."""


def event(level: Level, template: str = "", what_to_do: str = "") -> Callable[[type[_T]], type[_T]]:
    """Make a dataclass an event.

    Args:
        level: what an operator has to do.
        template: the sentence, with fields in braces; empty: made of the name and the fields. It becomes `str(event)`
            too.
        what_to_do: said behind the sentence.
    """

    def define(cls: type[_T]) -> type[_T]:
        meaning = (cls.__doc__ or "").strip().partition("\n")[0]
        name = _WORDS.sub("_", cls.__name__).lower()
        KINDS[cls] = EventKind(name, level, template, what_to_do, meaning)
        if template:
            cls.__str__ = sentence  # type: ignore[method-assign]
        return cls

    return define


def kind_of(happened: object) -> EventKind:
    """The kind of an event. What was never defined as one counts as a note."""
    return KINDS.get(type(happened), NOTE)


def sentence(happened: object) -> str:
    """What happened, without what to do: `batch 4 (held) has held the watermark for 30 s`."""
    kind = kind_of(happened)
    if kind is not NOTE and kind.template:
        return kind.template.format_map(fields_of(happened))
    if not dataclasses.is_dataclass(happened):
        return str(happened)
    name = _WORDS.sub(" ", type(happened).__name__).lower()
    shown = " ".join(f"{key}={value}" for key, value in fields_of(happened).items() if value not in ("", None))
    return f"{name}: {shown}" if shown else name


def advice(happened: object) -> str:
    """What to do about it; empty where there is nothing to do."""
    text = kind_of(happened).what_to_do
    return text.format_map(fields_of(happened)) if text else ""


def describe(happened: object) -> str:
    """What happened and what to do, as one line of a log has it."""
    text = advice(happened)
    return f"{sentence(happened)}; {text}" if text else sentence(happened)


def fields_of(happened: object) -> dict[str, Any]:
    """The fields of an event by name; none for a plain sentence."""
    if not dataclasses.is_dataclass(happened):
        return {}
    return {field.name: getattr(happened, field.name) for field in dataclasses.fields(happened)}


def kinds() -> Iterator[EventKind]:
    """Every kind that is defined so far, by name."""
    yield from sorted(KINDS.values(), key=lambda kind: kind.name)
