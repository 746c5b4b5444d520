"""Dates, times and zones: every value on its own, the same anywhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from datetime import time as time_of_day

import pytest
from schema_helpers import decoded, refusal, schema_of, value

WALL = datetime(2022, 9, 24, 22, 45)


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"], autouse=True)
def process_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


ACCEPTED = [
    ("2022-09-24T22:45:00", WALL),
    ("2022-09-24T22:45:00.123", WALL.replace(microsecond=123000)),
    ("2022-09-24 22:45:00", WALL),
    ("2022-09-24T22:45:00.123456789", WALL.replace(microsecond=123456)),
    ("2022-09-24T22:45:00Z", WALL),
    ("2022-09-24T22:45:00+08:00", WALL.replace(hour=14)),
    ("2022-09-24T22:45:00+08", WALL.replace(hour=14)),
    ("2020-03-26T11:03:29.986905-0700", datetime(2020, 3, 26, 18, 3, 29, 986905)),
    ("2020-03-26T11:03:29.986905-07:00", datetime(2020, 3, 26, 18, 3, 29, 986905)),
    ("2022-09-24T22:45", WALL),
    ("2022-09-24T22:45+08:00", WALL.replace(hour=14)),
    ("2022/09/24 22:45:00", WALL),
    ("2022.09.24T22:45:00.5", WALL.replace(microsecond=500000)),
    ("20220924224500", WALL),
    ("2024-03-10T02:30:00", datetime(2024, 3, 10, 2, 30)),
    ("2024-11-03T01:30:00-05:00", datetime(2024, 11, 3, 6, 30)),
    ("0001-01-01T00:00:00", datetime.min),
    ("9999-12-31T23:59:59.999999999", datetime.max),
    ("2024-02-29T00:00:00", datetime(2024, 2, 29)),
]
REFUSED = [
    ('"2022-09-24"', ""),
    ('"2016-12-31T23:59:60Z"', "a leap second"),
    ('"2022-02-30T00:00:00"', "there is no such day"),
    ('"2022-13-01T00:00:00"', "there is no such day"),
    ('"0000-01-01T00:00:00"', "there is no such day"),
    ('"2022-09-24T24:00:00"', "there is no such time"),
    ('"2022-09-24T22:60:00"', "there is no such time"),
    ("1664059500000", ""),
    ('"1664059500000"', ""),
    ("20220924224500", ""),
    ('""', ""),
    ('"2022-09-24T22:45:00.1234567890"', ""),
    ('"2022-09-24T22:45:00."', ""),
    ('"2022-9-24T22:45:00"', ""),
    ('"2022-09/24T22:45:00"', ""),
    ('"2022-09-24t22:45:00"', ""),
    ('" 2022-09-24T22:45:00"', ""),
    ('"2022-09-24T22:45:00\\n"', ""),
    ('"２022-09-24T22:45:00"', ""),
    ('"2022-09-24T22:45:00+19:00"', "there is no such zone"),
    ('"2022-09-24T22:45:00+08:60"', "there is no such zone"),
    ('"2022-09-24T22:45:00 +08:00"', ""),
    ('"2022-09-24T22:45:00[Asia/Tokyo]"', ""),
    ('"0001-01-01T00:00:00+01:00"', "outside of the years 1 to 9999 in UTC"),
    ('"9999-12-31T23:59:59-01:00"', "outside of the years 1 to 9999 in UTC"),
    ("true", ""),
    ("{}", ""),
]


@pytest.mark.parametrize(("text", "expected"), ACCEPTED)
def test_a_timestamp_is_wall_time_or_converted_to_utc(text: str, expected: datetime) -> None:
    assert value("timestamp", f'"{text}"') == expected


@pytest.mark.parametrize(("json", "why"), REFUSED)
def test_what_is_no_timestamp_is_a_mismatch(json: str, why: str) -> None:
    tail = f" ({why})" if why else ""
    shown = json
    assert refusal("timestamp", json) == f"field x: expected timestamp, got {shown}{tail}"


def test_a_value_does_not_depend_on_the_values_before_it() -> None:
    schema = schema_of(x="timestamp")
    texts = [text for text, _ in ACCEPTED]
    in_turn = [f'{{"x":"{text}"}}' for text in texts]
    refused = [f'{{"x":{json}}}' for json, _ in REFUSED]
    mixed = [payload for pair in zip(in_turn, refused, strict=False) for payload in pair]

    result = decoded(schema, *(payload.encode() for payload in mixed))

    assert result.rows is not None
    assert result.rows.batch.column(0).to_pylist() == [expected for _, expected in ACCEPTED]
    assert [bad.index for bad in result.bad] == list(range(1, len(mixed), 2))


@pytest.mark.parametrize(
    ("text", "utc", "offset"),
    [
        ("2022-09-24T22:45:00Z", WALL, 0),
        ("2022-09-24T22:45:00+08:00", WALL.replace(hour=14), 480),
        ("2022-09-24T22:45+0530", datetime(2022, 9, 24, 17, 15), 330),
        ("2020-03-26T11:03:29.986905-0700", datetime(2020, 3, 26, 18, 3, 29, 986905), -420),
        ("2022-09-24T22:45:00-00:30", datetime(2022, 9, 24, 23, 15), -30),
        ("2022-09-24T22:45:00+18:00", WALL.replace(hour=4), 1080),
    ],
)
def test_a_timestamp_with_zone_keeps_its_offset(text: str, utc: datetime, offset: int) -> None:
    assert value("timestamp_tz", f'"{text}"') == {"utc": utc.replace(tzinfo=UTC), "offset_minutes": offset}


def test_a_zone_is_never_guessed() -> None:
    assert refusal("timestamp_tz", '"2022-09-24T22:45:00"') == (
        'field x: expected timestamp_tz, got "2022-09-24T22:45:00" (no zone is given)'
    )


@pytest.mark.parametrize(
    "json",
    ['"2022-09-24"', '"2022/09/24"', '"2022.09.24"', '"20220924"', "20220924", '"2022年09月24日"'],
)
def test_a_date_in_any_of_its_spellings(json: str) -> None:
    assert value("date", json) == date(2022, 9, 24)


@pytest.mark.parametrize(
    "json",
    [
        '"2022-02-30"',
        '"2022-09-24T22:45:00"',
        '""',
        "19259",
        "1664059500000",
        "2022.092",
        "-2209240",
        "true",
        '"24.09.2022"',
    ],
)
def test_what_is_no_date_is_a_mismatch(json: str) -> None:
    assert refusal("date", json).startswith(f"field x: expected date, got {json}")


@pytest.mark.parametrize(
    ("json", "expected"),
    [
        ('"22:45:00"', time_of_day(22, 45)),
        ('"22:45"', time_of_day(22, 45)),
        ('"00:00:00.1"', time_of_day(0, 0, 0, 100000)),
        ('"23:59:59.999999999"', time_of_day(23, 59, 59, 999999)),
    ],
)
def test_a_time_of_day(json: str, expected: time_of_day) -> None:
    assert value("time", json) == expected


@pytest.mark.parametrize(
    "json", ['"24:00:00"', '"23:59:60"', '"22:45:00Z"', '"22:45:00+08:00"', '"9:45:00"', '""', "224500", '"22:45:00."']
)
def test_what_is_no_time_is_a_mismatch(json: str) -> None:
    assert refusal("time", json).startswith(f"field x: expected time, got {json}")
