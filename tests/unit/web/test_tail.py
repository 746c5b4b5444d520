"""Filters of rows in flight, and how a row is sent."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("starlette")

from starlette.requests import ClientDisconnect

from edgesocket.engine.tap import Tap
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.web import tail
from edgesocket.web.streams import EventStream
from edgesocket.web.tail import filter_of, sample_events
from tests.support.letter_kit import typed

ROW = {"id": 7, "name": "Zoë", "ok": True, "gone": None, "user": {"id": 8}, "a.b": "x"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("id=7", True),
        ("id=8", False),
        ("name=Zoë", True),
        ("name~o", True),
        ("name~x", False),
        ("ok=true", True),
        ("gone=null", True),
        ("user.id=8", True),
        ("user.id~=8", False),
        ("a.b=x", True),
        ("batch_id=12", True),
        ("nothing=7", False),
        ("name=", False),
    ],
)
def test_a_filter_compares_the_text_of_a_value(text: str, matches: bool) -> None:
    assert filter_of(text)(ROW, 12) == matches


@pytest.mark.parametrize("text", ["", "id", "=7", "~"])
def test_what_is_no_filter_says_how_one_looks(text: str) -> None:
    with pytest.raises(ValueError, match="FIELD=VALUE"):
        filter_of(text)


def test_rows_are_sent_with_their_batch() -> None:
    rows = typed([5, 9], id=[1, 2], name=["a", None])
    assert [json.loads(data) for data in sample_events(rows, None)] == [
        {"batch_id": 5, "row": {"id": 1, "name": "a"}},
        {"batch_id": 9, "row": {"id": 2, "name": None}},
    ]
    assert len(list(sample_events(rows, filter_of("id=2")))) == 1


def test_a_long_row_is_sent_as_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MAX_ROW_BYTES", 20)
    monkeypatch.setattr(tail, "SHOWN_CHARACTERS", 12)
    (data,) = sample_events(Rows.of_records(RecordBlock.of_run(3, [b"x" * 30])), None)
    assert json.loads(data) == {"batch_id": 3, "row": None, "bytes": 43, "text": '{"value": "x'}


class PlayedCall:
    """No more of a call than a stream looks at."""

    class shared:
        streams = 0


def test_a_stream_that_ends_before_its_first_event_ends_listening() -> None:
    """The peer is gone before its answer begins, so the events are never asked for."""
    tap = Tap()
    call: Any = PlayedCall()
    listener = tap.listen()
    stream = EventStream(call, tail._events(call.shared, listener, None, 1), listener.close)

    async def send(_: object) -> None:
        raise OSError("gone")

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def answer() -> None:
        await stream({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)

    # On a thread of its own: tests with a browser leave a loop on the first one.
    with ThreadPoolExecutor(1) as thread, pytest.raises((OSError, ClientDisconnect)):
        thread.submit(asyncio.run, answer()).result()
    assert not tap.listening
    assert call.shared.streams == 0
