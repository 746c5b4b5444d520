"""The Http sink under any run of answers: each row is accepted or rejected, in order, and nothing else happens."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.components.sink import RejectedRow, SinkContext
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.sinks.http import HttpSink
from edgesocket.sinks.http_post import Answer, NoAnswerError

SCHEMA = pa.schema([pa.field("n", pa.int64())])
LOST_BEFORE, LOST_AFTER = "lost before", "lost after"
OUTCOMES = st.sampled_from([200, 200, 200, 204, 408, 429, 500, 503, LOST_BEFORE, LOST_AFTER])


@dataclass
class FakeServer:
    """Takes the outcomes in order and accepts everything afterwards; refuses bad rows with 400 when it would accept."""

    outcomes: list[object]
    bad: set[int]
    shown_url: str = "http://server/"
    accepted: list[int] = field(default_factory=list)

    def post(self, body: bytes) -> Answer:
        outcome = self.outcomes.pop(0) if self.outcomes else 200
        if outcome == LOST_BEFORE:
            raise NoAnswerError("reset")
        parsed = json.loads(body)
        rows = [row["n"] for row in (parsed if isinstance(parsed, list) else [parsed])]
        accepts = outcome in (200, 204, LOST_AFTER)
        if accepts and self.bad.intersection(rows):
            return Answer(400, "bad row")
        if accepts:
            self.accepted += rows
        if outcome == LOST_AFTER:
            raise NoAnswerError("reset")
        assert isinstance(outcome, int)
        return Answer(outcome)

    def close(self) -> None:
        """Nothing is open."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@settings(max_examples=300, deadline=None)
@given(
    blocks=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    outcomes=st.lists(OUTCOMES, max_size=30),
    bad=st.sets(st.integers(0, 35), max_size=4),
    batch_size=st.integers(0, 5),
    retry=st.integers(0, 2),
    prepares=st.sets(st.integers(0, 5)),
)
def test_every_row_is_accepted_or_rejected(
    blocks: list[int], outcomes: list[object], bad: set[int], batch_size: int, retry: int, prepares: set[int]
) -> None:
    clock, server, rejected = Clock(), FakeServer(list(outcomes), bad), []

    def reject(row: RejectedRow) -> None:
        rejected.append(json.loads(row.row)["n"])
        assert row.batch_id == rejected[-1] + 1

    sink = HttpSink(
        url="http://server/",
        retry=retry,
        array_mode=batch_size > 0,
        batch_size=max(1, batch_size),
        clock=clock,
        sleep=clock.sleep,
        draw=lambda: 0.5,
    )
    sink._poster = server  # type: ignore[assignment]
    sink.open(SinkContext(job="job", epoch=1, sink_id="Http", schema=SCHEMA, reject=reject))
    first = 0
    for number, count in enumerate(blocks):
        numbers = range(first, first + count)
        rows = Rows.of_batch(pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA), first + 1)
        until_it_works(clock, lambda rows=rows: sink.write(rows))
        first += count
        if number in prepares or number == len(blocks) - 1:
            until_it_works(clock, lambda: sink.prepare(1))
            assert sorted({*server.accepted, *rejected}) == list(range(first)), "covered by the checkpoint"
    assert rejected == [n for n in range(first) if n in bad], "exactly the guilty rows, once, in order"
    assert list(dict.fromkeys(server.accepted)) == [n for n in range(first) if n not in bad], "in order"
    if LOST_AFTER not in outcomes:
        assert len(server.accepted) == len(set(server.accepted)), "no row twice unless an answer was lost"


def until_it_works(clock: Clock, call) -> None:
    """What the engine does: the same call again, a second later."""
    for _ in range(10_000):
        try:
            call()
            return
        except ComponentError as error:
            assert error.retryable
            clock.now += 1
    raise AssertionError("it never worked")
