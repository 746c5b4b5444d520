"""The log of a run: text or JSON, from a level on, with a budget a kind and a peer, and without secrets."""

from __future__ import annotations

import argparse
import io
import json
from typing import Any

import pytest

from edgesocket.cli.log import (
    LEFT_OUT,
    LINES_A_PEER,
    LINES_A_WINDOW,
    MOST_WINDOWS,
    WINDOW_S,
    LogLines,
    add_log_arguments,
    log_options,
)
from edgesocket.net.events import AuthenticationFailed, CollectorConnected
from edgesocket.telemetry.event import Level
from edgesocket.telemetry.events import CheckpointCompleted, JobFailed, SinkFailed, WatermarkHeld
from edgesocket.telemetry.masking import Mask


class Kit:
    """A log, what it wrote, and its clock."""

    def __init__(self, **options: Any) -> None:
        self.now = 0.0
        self.stream = io.StringIO()
        self.log = LogLines(self.stream, lambda: self.now, lambda: "NOW", **options)

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]


def test_a_line_has_time_prefix_level_and_text() -> None:
    kit = Kit(prefix="[a] ")
    kit.log("hello")
    kit.log(CollectorConnected("1.2.3.4:5"))
    kit.log(SinkFailed("s", "gone"))
    kit.log(JobFailed("gone"))
    assert kit.lines() == [
        "NOW [a] hello",
        "NOW [a] collector connected: peer=1.2.3.4:5",
        "NOW WARNING [a] sink s does not take rows: gone; they wait in the queue, and no ACK until it does",
        "NOW ERROR [a] the job has ended: gone",
    ]


def test_a_json_line_has_the_event_its_fields_and_what_to_do() -> None:
    kit = Kit(form="json", job="j")
    kit.log(WatermarkHeld(4, "held", 30.5))
    kit.log("hello")
    assert kit.json() == [
        {
            "time": "NOW",
            "level": "warning",
            "job": "j",
            "event": "watermark_held",
            "text": "batch 4 (held) has held the watermark for 30 s",
            "what_to_do": "if the collector will not send it (again), run: edgesocket settle JOB 4 --reason TEXT",
            "fields": {"batch_id": 4, "state": "held", "held_for_s": 30.5, "job": "JOB"},
        },
        {"time": "NOW", "level": "info", "job": "j", "event": "note", "text": "hello"},
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_break_in_a_cause_does_not_make_two_json_lines(form: str) -> None:
    kit = Kit(form=form)
    kit.log(SinkFailed("s", "one\ntwo"))
    assert len(kit.lines()) == (1 if form == "json" else 2)


@pytest.mark.parametrize(("level", "shown"), [(Level.DEBUG, 4), (Level.INFO, 3), (Level.WARNING, 2), (Level.ERROR, 1)])
def test_less_than_the_level_is_left_out(level: Level, shown: int) -> None:
    kit = Kit(level=level)
    for event in (CheckpointCompleted(1, 1, 1), "note", SinkFailed("s", "x"), JobFailed("x")):
        kit.log(event)
    assert len(kit.lines()) == shown


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_masked(form: str) -> None:
    kit = Kit(form=form, mask=Mask(["my-edge-token"]))
    kit.log(SinkFailed("s", "my-edge-token"))
    kit.log("my-edge-token")
    assert "my-edge-token" not in kit.stream.getvalue()
    assert len(kit.lines()) == 2


def test_a_kind_has_a_budget_and_what_is_left_out_is_said() -> None:
    kit = Kit()
    for _ in range(LINES_A_WINDOW + 7):
        kit.log(SinkFailed("s", "x"))
    kit.log("another kind")
    assert len(kit.lines()) == LINES_A_WINDOW + 1
    kit.now += WINDOW_S
    kit.log(SinkFailed("s", "x"))
    assert kit.lines()[-2] == "NOW (7 more like the next line were left out)"


def test_what_is_left_out_is_a_json_line_too() -> None:
    kit = Kit(form="json")
    for _ in range(LINES_A_WINDOW + 2):
        kit.log("x")
    kit.now += WINDOW_S
    kit.log("x")
    assert kit.json()[-2]["event"] == LEFT_OUT
    assert kit.json()[-2]["fields"] == {"lines": 2}


def test_one_peer_that_floods_leaves_room_for_the_others() -> None:
    kit = Kit()
    for port in range(100):
        kit.log(AuthenticationFailed(f"6.6.6.6:{port}"))
    kit.log(AuthenticationFailed("[2001:db8::1]:7"))
    assert sum("6.6.6.6" in line for line in kit.lines()) == LINES_A_PEER
    assert "2001:db8::1" in kit.lines()[-1]
    kit.now += WINDOW_S
    kit.log(AuthenticationFailed("6.6.6.6:1"))
    assert kit.lines()[-2] == "NOW (90 more like the next line were left out)"


def test_peers_that_are_counted_are_bounded() -> None:
    kit = Kit()
    for n in range(MOST_WINDOWS * 2):
        kit.log(AuthenticationFailed(f"10.0.{n // 256}.{n % 256}:1"))
    assert len(kit.log._of_peers) <= MOST_WINDOWS
    assert len(kit.lines()) == LINES_A_WINDOW


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    kit = Kit()
    kit.stream.close()
    kit.log("hello")


@pytest.mark.parametrize(
    ("arguments", "form", "level"),
    [
        ([], "text", Level.INFO),
        (["--log-format", "json", "--log-level", "error"], "json", Level.ERROR),
        (["--log-level", "debug"], "text", Level.DEBUG),
    ],
)
def test_flags_say_how_to_log(arguments: list[str], form: str, level: Level) -> None:
    parser = argparse.ArgumentParser()
    add_log_arguments(parser)
    assert log_options(parser.parse_args(arguments)) == {"form": form, "level": level}


def test_a_verb_without_the_flags_logs_as_usual() -> None:
    assert log_options(argparse.Namespace()) == {"form": "text", "level": Level.INFO}
