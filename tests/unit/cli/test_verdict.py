"""What is said to be wrong with a job, and what to do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from edgesocket.cli.status_text import report_lines, report_troubles
from edgesocket.cli.verdict import size, span, troubles

LIVE: dict[str, Any] = {
    "state": "running",
    "rows_written": 12,
    "restarts": 0,
    "last_error": "",
    "http": "http://127.0.0.1:8080",
    "sinks": {"failing_for_s": None, "last_failure": "", "dead_letters": 0, "each": {"Kafka": {"rows": 12}}},
    "checkpoints": {
        "completed": 3,
        "failed": 0,
        "last_number": 3,
        "last_completed_ago_s": 2.0,
        "last_duration_s": 0.01,
        "last_state_bytes": 1200,
        "large_state": "",
        "failing_for_s": None,
        "last_failure": "",
        "interval_s": 10.0,
    },
    "source": {
        "port": 9999,
        "collector": "10.0.0.7:5000",
        "collector_for_s": 7300.0,
        "watermark": 10,
        "highest_offered": 12,
        "oldest_unconfirmed": {"id": 11, "age_s": 1.5},
        "queue": {"records": 2, "bytes": 20, "capacity": 10, "high_water_mark": 9, "most_records": 5},
        "replies": {"RECEIVED": 12},
        "arrival_log": {"failing_for_s": None, "last_failure": ""},
        "holder": None,
        "listener": {"port": 9999, "auth_failed": 0, "sessions": 1, "bind_problem": ""},
    },
}


def changed(**paths: Any) -> dict[str, Any]:
    """LIVE with some fields changed: `source__queue__records=9`."""
    live = copy.deepcopy(LIVE)
    for path, value in paths.items():
        place = live
        *above, last = path.split("__")
        for name in above:
            place = place[name]
        place[last] = value
    return live


def test_nothing_is_said_of_a_job_that_is_well() -> None:
    assert troubles("clicks", LIVE) == []


@pytest.mark.parametrize(
    ("live", "what", "to_do", "grave"),
    [
        (
            changed(sinks__failing_for_s=300.0, sinks__last_failure="Kafka: refused"),
            "A SINK FAILS since 5 min: Kafka: refused",
            "mend",
            True,
        ),
        (
            changed(source__arrival_log={"failing_for_s": 3.0, "last_failure": "full"}),
            "ARRIVAL LOG FAILS since 3 s: full",
            "disk",
            True,
        ),
        (
            changed(checkpoints__failing_for_s=3.0, checkpoints__last_failure="full"),
            "CHECKPOINTS FAIL since 3 s: full",
            "confirmed",
            True,
        ),
        (changed(checkpoints__last_completed_ago_s=200.0), "NO CHECKPOINT for 3 min", "log", True),
        (
            changed(source__holder={"id": 4, "state": "held", "since_s": 40.0}),
            "batch 4 (held) holds the watermark since 40 s",
            "edgesocket settle clicks 4",
            True,
        ),
        (changed(source__holder={"id": 4, "state": "captured", "since_s": 90.0}), "waits for a checkpoint", "", False),
        (changed(source__queue__records=9), "QUEUE FULL: 9 records", "edgesocket size", True),
        (
            changed(source__listener={"port": 9, "bind_problem": "in use"}),
            "PORT 9 CANNOT BE BOUND: in use",
            "free the port",
            True,
        ),
        (
            changed(source__listener={"auth_failed": 1, "sessions": 0}),
            "1 peer came with a wrong token",
            "compare",
            True,
        ),
        (changed(state="restarting", last_error="it broke"), "RESTARTING after: it broke", "checkpoint", True),
        (changed(restarts=2, last_error="it broke"), "started again 2 times, after: it broke", "", False),
        (changed(sinks__dead_letters=1), "1 record was refused", "edgesocket dead-letters list job.conf", False),
        (changed(source__replies={"DECODE_FAILED": 2}), "2 batches were answered DECODE_FAILED", "schema", False),
        (changed(checkpoints__large_state="the state has 12 MB"), "LARGE CHECKPOINTS: the state has 12 MB", "", False),
        (changed(state="fenced"), "ANOTHER PROCESS", "look there", True),
    ],
)
def test_each_trouble_is_named_with_what_to_do(live: dict[str, Any], what: str, to_do: str, grave: bool) -> None:
    (found,) = troubles("clicks", live, "job.conf")
    assert what in found.what
    assert to_do in found.to_do
    assert found.grave == grave


def test_a_checkpoint_every_hour_is_not_missed_after_minutes() -> None:
    assert troubles("clicks", changed(checkpoints__last_completed_ago_s=900.0, checkpoints__interval_s=3600.0)) == []


def test_what_holds_records_up_comes_first() -> None:
    found = troubles("clicks", changed(sinks__dead_letters=1, source__queue__records=9))
    assert [one.grave for one in found] == [True, False]


def test_a_process_of_another_version_that_says_less_is_no_trouble() -> None:
    assert troubles("clicks", {}) == []
    assert troubles("clicks", {"state": "running", "source": {}, "sinks": {}}) == []


def test_commands_work_from_anywhere() -> None:
    (found,) = troubles("a b", changed(source__holder={"id": 4, "state": "gap", "since_s": 40.0}), state="/srv/a b")
    assert "edgesocket settle 'a b' 4 --state-dir '/srv/a b' --reason TEXT" in found.to_do


REPORT: dict[str, Any] = {
    "job": "clicks",
    "state_dir": "/srv/clicks",
    "running": False,
    "epoch": 3,
    "claimed_by": {"host": "h", "pid": 7, "since": "2026-01-31T09:30:00+00:00"},
    "live": None,
}


def test_the_report_says_what_is_wrong_first() -> None:
    lines = report_lines({**REPORT, "running": True, "live": changed(source__queue__records=9)})
    assert lines[0] == "job clicks: running"
    assert lines[1].startswith("  ! QUEUE FULL")
    text = "\n".join(lines)
    for part in (
        "port 9999, collector 10.0.0.7:5000 for 2 h",
        "page, API and metrics at http://127.0.0.1:8080",
        "the oldest that is not confirmed waits 2 s",
        "12 rows written (Kafka 12)",
        "3 checkpoints, 0 failed, the last took 0.01 s for 1.2 kB",
        "replies RECEIVED 12",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({}, "its process ended without a word"),
        ({"ended": {"time": "t", "reason": "it broke", "batch_id": 4}}, "it failed: it broke (batch 4)"),
        (
            {"damaged": [{"file": "log/4.json", "reason": "cut"}], "ended": {"time": "t", "reason": "", "batch_id": 0}},
            "DAMAGED log/4.json: cut",
        ),
    ],
)
def test_a_job_that_does_not_run_says_why_and_how_it_goes_on(more: dict[str, Any], what: str) -> None:
    (found,) = report_troubles({**REPORT, **more}, "job.conf")
    assert found.what == what
    assert found.to_do.startswith("edgesocket ")


def test_a_job_that_was_stopped_cleanly_is_no_trouble() -> None:
    report = {**REPORT, "ended": {"time": "t", "reason": "", "batch_id": 0}}
    assert report_troubles(report) == []
    assert "  ended at t, cleanly" in report_lines(report)


def test_figures_are_short() -> None:
    assert [span(s) for s in (0.4, 119, 120, 7300, 200_000)] == ["0 s", "119 s", "2 min", "2 h", "2 d"]
    assert [size(n) for n in (0, 999, 1000, 12_345, 123_456, 10**9)] == [
        "0 B",
        "999 B",
        "1 kB",
        "12.3 kB",
        "123 kB",
        "1 GB",
    ]
