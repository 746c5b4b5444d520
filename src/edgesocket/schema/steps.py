"""From what msgspec leaves in rows to values: dates and bytes come as text, decimals as raw JSON, defaults as null.

A step does one column of many rows in place. A row in which it cannot be done becomes None, and the exact decoder has a
look at its payload: so a step never has to say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from edgesocket.schema.exact import Converter, converter, from_text
from edgesocket.schema.lenient import Coercions
from edgesocket.schema.time_columns import MIN_TEXTS, column_reader
from edgesocket.schema.types import RowSchema
from edgesocket.schema.values import Unfit
from edgesocket.schema.wire import RAW, RowClasses, is_number

MaybeRow = msgspec.Struct | None
"""A row, or None where the exact decoder has to look at the payload."""
Step = Callable[[list[MaybeRow], str], None]
"""Does one column (by attribute) of many rows."""
ColumnReader = Callable[[Sequence[str]], list[Any]]


def column_steps(schema: RowSchema, classes: RowClasses, lenient: bool) -> list[tuple[str, Step]]:
    """What is to be done to rows after msgspec, column by column: from text or raw JSON to the value; the default."""
    steps: list[tuple[str, Step]] = []
    coercions = Coercions(schema, classes)
    for index, column in enumerate(schema.fields):
        how = classes.comes_as(column.kind)
        if how is str:
            step = _text_step(from_text(column.kind), column_reader(column.kind), column.default)
        elif how is RAW:
            convert = coercions.raw(column.kind) if lenient else converter(column.kind, classes)
            step = _raw_step(convert, column.default)
        elif column.default is not None:
            step = _default_step(column.default)
        else:
            continue
        steps.append((f"f{index}", step))
    return steps


def quoted_steps(schema: RowSchema, classes: RowClasses, lenient: bool) -> list[tuple[str, Step]]:
    """What makes numbers of texts, column by column, for senders that quote everything."""
    coercions = Coercions(schema, classes)
    return [
        (f"f{index}", _quoted_step(coercions.of(column.kind) if lenient else from_text(column.kind)))
        for index, column in enumerate(schema.fields)
        if is_number(column.kind)
    ]


def _quoted_step(convert: Callable[[str], Any]) -> Step:
    def step(rows: list[MaybeRow], attribute: str) -> None:
        for index, row in enumerate(rows):
            value = None if row is None else getattr(row, attribute)
            if isinstance(value, str):
                try:
                    setattr(row, attribute, convert(value))
                except Unfit:
                    rows[index] = None

    return step


def _default_step(default: Any) -> Step:
    """Null becomes the default."""

    def step(rows: list[MaybeRow], attribute: str) -> None:
        for row in rows:
            if row is not None and getattr(row, attribute) is None:
                setattr(row, attribute, default)

    return step


def _raw_step(convert: Converter, default: Any) -> Step:
    """Raw JSON becomes the value; a row in which it cannot is left to the exact decoder."""

    def step(rows: list[MaybeRow], attribute: str) -> None:
        for index, row in enumerate(rows):
            if row is None:
                continue
            value = getattr(row, attribute)
            if value is not None:
                try:
                    value = convert(bytes(value))
                except Unfit:
                    rows[index] = None
                    continue
            setattr(row, attribute, default if value is None else value)

    return step


def _text_step(convert: Callable[[str], Any], read: ColumnReader | None, default: Any) -> Step:
    """The same for texts, which are read together first if the type has a reader of columns."""

    def step(rows: list[MaybeRow], attribute: str) -> None:
        texts: list[Any] = [None if row is None else getattr(row, attribute) for row in rows]
        given = [index for index, text in enumerate(texts) if text is not None]
        known: Sequence[Any] = (None,) * len(given)
        if read is not None and len(given) >= MIN_TEXTS:
            known = read([texts[index] for index in given])
        for index, value in zip(given, known, strict=True):
            row = rows[index]
            try:
                setattr(row, attribute, convert(texts[index]) if value is None else value)
            except Unfit:
                rows[index] = None
        if default is not None:
            fill(rows, attribute)

    fill = _default_step(default)
    return step
