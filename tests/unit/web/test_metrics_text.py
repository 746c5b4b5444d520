"""What `/metrics` answers: the text is what the library would write, escaped right, and quick for a hundred jobs."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from edgesocket.protocol.replies import ReplyKind
from edgesocket.telemetry import events
from edgesocket.telemetry.histogram import Histogram
from edgesocket.telemetry.journal import Journal
from edgesocket.telemetry.metrics import METRICS, PAYLOAD_REPLIES, REPLIES, MetricKind, Reading
from edgesocket.web import metrics_text
from edgesocket.web.metrics import MEDIA_TYPE, registry_of, render

HUNDRED_WITHIN_S = 0.05


def histogram(*values: float) -> dict[str, Any]:
    made = Histogram()
    for value in values:
        made.observe(value)
    return made.as_json()


def reading(job: str = "orders", source: str = "EdgeSocket", sink: str = "Kafka") -> Reading:
    journal = Journal(threading.Lock(), lambda: 0)
    journal(events.CheckpointCompleted(1, 0.2, 100))
    journal(events.SinkFailed(sink, "gone"))
    part = {"rows": 7, "failures": 1, "write_seconds": histogram(0.01, 2), "prepare_seconds": histogram(0.2)}
    status = {
        "job": job,
        "state": "running",
        "source_id": source,
        "epoch": 3,
        "running_for_s": 60.5,
        "restarts": 1,
        "rows_written": 7,
        "checkpoints": {"last_completed_ago_s": 1.5, "interval_s": 10.0, "last_number": 4, "last_state_bytes": 99},
        "sinks": {"failing_for_s": None, "dead_letters": 2, "each": {sink: part}},
        "source": {
            "collector": "10.0.0.1:5",
            "collector_for_s": 12.0,
            "watermark": 2**60,
            "highest_offered": 2**60 + 5,
            "overloaded": False,
            "batches": {"received": 1, "captured": 2, "held": 0, "lost": 0, "settled": 0},
            "oldest_unconfirmed": {"id": 3, "age_s": 4.5},
            "holder": {"id": 3, "state": "held", "since_s": 31.0},
            "queue": dict.fromkeys(("records", "bytes", "capacity", "high_water_mark", "max_bytes", "most_records"), 5),
            "replies": {"RECEIVED": 5},
            "payload_bytes": {"RECEIVED": 500},
            "resends": 0,
            "repeated_ids": 0,
            "reused_ivs": 0,
            "replaced_utf8": 0,
            "records_to_sinks": 5,
            "bad_records": 0,
            "dropped_payloads": 0,
            "arrival_log": {"failing_for_s": None},
            "listener": {"state": "connected", "connections": 1, "sessions": 1, "auth_failed": 0}
            | {"received_bytes": 600, "sent_bytes": 50},
        },
    }
    return Reading(job, status, journal)


class Board:
    """Knows readings."""

    def __init__(self, *readings: Reading) -> None:
        self._readings = readings

    def readings(self) -> tuple[Reading, ...]:
        return self._readings


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("edgesocket_")
    }


@pytest.mark.parametrize(
    "readings",
    [
        (reading(),),
        (reading(), reading("bills"), reading("carts", sink="a sink")),
        (reading('a"b\\c\nd', source="ü {x}", sink='"'),),
        (Reading("new", {"job": "new", "state": "starting"}, Journal(threading.Lock(), lambda: 0)),),
        (),
    ],
    ids=["one", "several", "odd names", "not started", "none"],
)
def test_it_is_what_the_library_writes(readings: tuple[Reading, ...]) -> None:
    board = Board(*readings)
    for _ in range(2):  # the second time from what was kept
        text, media = render(board)
        assert media == MEDIA_TYPE
        assert samples(text.decode()) == samples(generate_latest(registry_of(board)).decode())


def test_heads_are_those_of_the_library_too() -> None:
    board = Board(reading())
    ours = [line for line in render(board)[0].decode().splitlines() if line.startswith("# ")]
    assert sorted(ours) == sorted(
        line for line in generate_latest(registry_of(board)).decode().splitlines() if line.startswith("# ")
    )


def test_a_job_that_is_gone_is_gone_from_the_text() -> None:
    board = Board(reading("a"), reading("b"))
    assert b'job_name="b"' in render(board)[0]
    board._readings = board._readings[:1]
    assert b'job_name="b"' not in render(board)[0]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_text, "MOST_PREFIXES", 200)
    page = metrics_text.TextPage(METRICS)
    for n in range(20):
        page.write([reading(f"job-{n}")])
    assert len(page._prefixes) < 400


def test_a_hundred_jobs_are_scraped_in_time() -> None:
    board = Board(*(reading(f"job-{n}") for n in range(100)))
    times = []
    for _ in range(10):
        began = time.thread_time()  # the machine may be busy with other things
        text, _ = render(board)
        times.append(time.thread_time() - began)
    assert text.count(b"\n") > 10_000
    assert min(times) < HUNDRED_WITHIN_S


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions_of_prometheus(metric: Any) -> None:
    assert metric.name.startswith("edgesocket_")
    assert metric.name == metric.name.lower()
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert not metric.name.endswith(("_ms", "_count", "_sum", "_bucket", "_seconds_total"))
    assert metric.help.endswith(".")
    assert metric.labels[0] == "job_name"
    assert "job" not in metric.labels


def test_every_reply_to_a_request_has_a_label() -> None:
    before_a_session = {ReplyKind.AUTH_OK, ReplyKind.AUTH_FAILED, ReplyKind.REJECTED}
    assert set(REPLIES) == {kind.name for kind in ReplyKind} - {kind.name for kind in before_a_session}
    assert set(PAYLOAD_REPLIES) <= set(REPLIES)


@pytest.mark.parametrize(("state", "held"), [("held", 31.0), ("lost", 31.0), ("gap", 31.0), ("received", 0.0)])
def test_only_what_needs_somebody_counts_as_held(state: str, held: float) -> None:
    one = reading()
    one.status["source"]["holder"]["state"] = state
    found = samples(render(Board(one))[0].decode())
    key = ("edgesocket_watermark_held_seconds", (("job_name", "orders"), ("source", "EdgeSocket")))
    assert found[key] == held


def test_without_a_checkpoint_its_age_is_that_of_the_run() -> None:
    one = reading()
    one.status["checkpoints"]["last_completed_ago_s"] = None
    assert (
        samples(render(Board(one))[0].decode())["edgesocket_checkpoint_age_seconds", (("job_name", "orders"),)] == 60.5
    )
