"""Reading a column of times at once says what reading each one says, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.schema import time_columns, values
from edgesocket.schema.values import Unfit

READERS = [
    (time_columns.days, values.day),
    (time_columns.wall_times, values.wall_time),
    (time_columns.moments, values.moment),
]

dates = st.tuples(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32)).map(
    lambda part: f"{part[0]:04}-{part[1]:02}-{part[2]:02}"
)
near_dates = st.one_of(
    st.dates().map(str),
    st.dates().map(lambda day: str(day).replace("-", "/")),
    dates,
    st.sampled_from(["1900-02-29", "2000-02-29", "2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "0000-12-31"]),
)
times = st.tuples(st.integers(0, 24), st.integers(0, 60), st.integers(0, 60)).map(
    lambda part: f"{part[0]:02}:{part[1]:02}:{part[2]:02}"
)
fractions = st.just("") | st.integers(1, 10).flatmap(
    lambda count: st.integers(0, 10**count - 1).map(lambda number: f".{number:0{count}}")
)
zones = st.one_of(
    st.sampled_from(
        ["", "Z", "+08:00", "-00:30", "+18:00", "+18:01", "-19:00", "+05:60", "+0800", "+08", "z", "*08:00"]
    ),
    st.tuples(st.sampled_from("+-"), st.integers(0, 18), st.integers(0, 59)).map(
        lambda part: f"{part[0]}{part[1]:02}:{part[2]:02}"
    ),
)


@st.composite
def near_timestamps(draw: st.DrawFn) -> str:
    text = draw(near_dates) + draw(st.sampled_from("TTTT t")) + draw(times) + draw(fractions) + draw(zones)
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.sampled_from(":-+.Z0９ \n")) + text[at + 1 :]
    return text


def _alone(convert: Callable[[str], Any], text: str) -> Any:
    try:
        return convert(text)
    except Unfit:
        return None


@settings(max_examples=150, deadline=None)
@given(st.lists(near_timestamps() | near_dates, max_size=12), st.integers(1, 24))
def test_a_column_reads_as_its_texts_do(some: list[str], times_over: int) -> None:
    # Texts come in runs of one length, as in life: many of them are read together.
    texts = [text for text in some for _ in range(times_over)]

    for read, convert in READERS:
        for text, value in zip(texts, read(texts), strict=True):
            assert value is None or value == _alone(convert, text), text


@settings(max_examples=150, deadline=None)
@given(st.lists(st.datetimes(), min_size=20, max_size=40), st.integers(0, 9), st.sampled_from(["", "Z", "-03:30"]))
def test_right_times_of_one_spelling_are_read_together(moments: list[Any], digits: int, zone: str) -> None:
    fraction = "." + "123456789"[:digits] if digits else ""
    texts = [f"{moment.replace(microsecond=0).isoformat()}{fraction}{zone}" for moment in moments]

    assert time_columns.wall_times(texts) == [_alone(values.wall_time, text) for text in texts]
    assert time_columns.moments(texts) == [_alone(values.moment, text) for text in texts]
    assert time_columns.days([text[:10] for text in texts]) == [values.day(text[:10]) for text in texts]


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59.999999-00:01"])
def test_a_moment_outside_of_the_years_is_left_alone(text: str) -> None:
    assert time_columns.wall_times([text] * 20) == [None] * 20
    assert time_columns.moments([text.replace(":01", ":00")] * 20) != [None] * 20


@pytest.mark.parametrize("read", [time_columns.days, time_columns.wall_times, time_columns.moments])
def test_few_texts_and_no_texts_are_left_alone(read: Callable[[list[str]], list[Any]]) -> None:
    assert read([]) == []
    assert read(["", "x", "2022-09-24"]) == [None, None, None]
