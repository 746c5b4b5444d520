"""Events: each has a sentence, a level and a name of its own, and none breaks a log line."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

import edgesocket.net.events
from edgesocket.telemetry import events
from edgesocket.telemetry.event import KINDS, NOTE, Level, advice, describe, event, kind_of, kinds, sentence

ALL = sorted(KINDS, key=lambda cls: cls.__name__)


def example(cls: type) -> Any:
    """One event of that class, each field with a value of its type."""
    values = {"int": 7, "float": 1.5, "str": "something"}
    return cls(*(values.get(str(field.type), ValueError("no")) for field in dataclasses.fields(cls)))


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_kind_makes_a_line_that_holds_what_its_fields_say(cls: type) -> None:
    happened = example(cls)
    text = describe(happened)
    assert text
    assert "{" not in text
    for field in dataclasses.fields(cls):
        shown = {"int": "7", "str": "something"}.get(str(field.type))
        assert shown is None or shown in text, field.name


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_every_kind_says_what_it_means_and_is_frozen(cls: type) -> None:
    kind = KINDS[cls]
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", kind.name)
    assert len(kind.meaning.split()) >= 3
    assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_names_are_unique() -> None:
    names = [kind.name for kind in kinds()]
    assert len(set(names)) == len(names)
    assert NOTE.name not in names


def test_every_event_of_the_port_is_a_kind() -> None:
    for cls in edgesocket.net.events.NetEvent.__args__:
        assert cls in KINDS, cls


def test_what_to_do_stands_behind_the_sentence_and_is_not_part_of_it() -> None:
    held = events.WatermarkHeld(4, "held", 30.4)
    assert str(held) == sentence(held) == "batch 4 (held) has held the watermark for 30 s"
    assert advice(held).endswith("run: edgesocket settle JOB 4 --reason TEXT")
    assert describe(held) == f"{held}; {advice(held)}"


def test_braces_in_a_cause_are_left_alone() -> None:
    assert str(events.SinkFailed("a", "{not a field} {}")).startswith("sink a does not take rows: {not a field} {};")


def test_a_plain_sentence_is_a_note() -> None:
    assert kind_of("hello {x}") is NOTE
    assert describe("hello {x}") == "hello {x}"
    assert advice("hello") == ""


def test_one_without_a_template_is_told_by_its_name_and_fields() -> None:
    opened = edgesocket.net.events.ListenerOpened(80, 1)
    assert describe(opened) == "listener opened: port=80 tries=1"


def test_a_dataclass_that_nobody_defined_is_a_note_with_its_fields() -> None:
    @dataclasses.dataclass(frozen=True)
    class SomethingHappened:
        what: str
        nothing: str = ""

    assert kind_of(SomethingHappened("x")) is NOTE
    assert describe(SomethingHappened("x")) == "something happened: what=x"


def test_defining_a_kind_registers_it() -> None:
    @event(Level.ERROR, "it is {what}", "do {what}")
    @dataclasses.dataclass(frozen=True, slots=True)
    class ForATestDefined:
        """A kind of a test."""

        what: str

    try:
        assert KINDS[ForATestDefined].name == "for_atest_defined"
        assert describe(ForATestDefined("so")) == "it is so; do so"
        assert kind_of(ForATestDefined("so")).level is Level.ERROR
    finally:
        del KINDS[ForATestDefined]


@pytest.mark.parametrize(
    ("begins", "ends"),
    [
        (events.CheckpointsFailed, events.CheckpointsRecovered),
        (events.SinkFailed, events.SinkRecovered),
        (events.ArrivalLogFailed, events.ArrivalLogRecovered),
        (events.ArrivalLogSyncFailed, events.ArrivalLogSynced),
        (events.LedgerFilled, events.LedgerEmptied),
        (events.StateGrewLarge, events.StateShrank),
    ],
)
def test_what_begins_is_louder_than_its_end(begins: type, ends: type) -> None:
    assert KINDS[begins].level >= Level.WARNING
    assert KINDS[ends].level is Level.INFO
