"""The response table of the reference: every row is shown on every level, and a player does notice what is wrong."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conformance_client import ClientPlayer
from conformance_core import CorePlayer
from conformance_listener import ListenerPlayer, ListeningRig
from conformance_transcript import LEVELS, Expect, Send, Transcript, load

from edgesocket.protocol.replies import ReplyKind

ROWS = {
    "ACK <- __AUTH__": "AUTH_OK",
    "AUTH_FAILED <- __AUTH__": "AUTH_FAILED",
    "Connection refused <- Connection": "",
    "REJECTED <- Connection": "REJECTED",
    "RECEIVED <- __BATCH__": "RECEIVED",
    "QUEUE_FULL <- __BATCH__": "QUEUE_FULL",
    "BAD_REQUEST <- __BATCH__": "BAD_REQUEST",
    "BAD_REQUEST <- __COMMIT__": "BAD_REQUEST",
    "INVALID_PARAM <- __BATCH__": "INVALID_PARAM",
    "INVALID_PARAM <- __COMMIT__": "INVALID_PARAM",
    "RETRY <- __BATCH__": "RETRY",
    "RETRY <- __COMMIT__": "RETRY",
    "DECODE_FAILED <- __BATCH__": "DECODE_FAILED",
    "DECRYPT_FAILED <- __BATCH__": "DECRYPT_FAILED",
    "PENDING <- __COMMIT__": "PENDING",
    "RESEND <- __COMMIT__": "RESEND",
    "ACK:watermark <- __COMMIT__": "ACK",
}
"""Each row of the table, by reply and what triggers it, with our name of the reply."""

NOT_ON = {("Connection refused <- Connection", "core"), ("REJECTED <- Connection", "core")}
"""A conversation that has begun knows nothing of connecting: these two belong to the listener."""

TRANSCRIPTS = load()


def test_the_rows_are_all_replies_there_are() -> None:
    assert {name for name in ROWS.values() if name} == {kind.name for kind in ReplyKind}


def test_no_transcript_names_a_row_that_is_not_there() -> None:
    assert {row for transcript in TRANSCRIPTS for row in transcript.rows} <= set(ROWS)


def test_titles_are_unique() -> None:
    assert len({str(transcript) for transcript in TRANSCRIPTS}) == len(TRANSCRIPTS)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_shown_on_every_level(row: str, level: str) -> None:
    showing = [transcript for transcript in TRANSCRIPTS if row in transcript.rows]
    played = [transcript for transcript in showing if level not in transcript.not_on]
    assert bool(played) is ((row, level) not in NOT_ON)
    word = ROWS[row].replace("AUTH_OK", "ACK")
    for transcript in showing:
        replies = [reply for event in transcript.events if isinstance(event, Expect) for reply in event.replies]
        assert not word or any(re.fullmatch(rf"{word}(:\d+)?", reply) for reply in replies)


STORY = next(t for t in TRANSCRIPTS if t.title.startswith("at the high-water mark QUEUE_FULL names"))


def _with(change: Callable[[object], object]) -> Transcript:
    return dataclasses.replace(STORY, events=[change(event) for event in STORY.events])


def _another_reply(event: object) -> object:
    if isinstance(event, Expect) and "QUEUE_FULL:60" in event.replies:
        return Expect(event.who, tuple(reply.replace("QUEUE_FULL:60", "RETRY") for reply in event.replies))
    return event


def _a_reply_fewer(event: object) -> object:
    return Expect(event.who, event.replies[:-1]) if isinstance(event, Expect) and len(event.replies) > 1 else event


def _another_request(event: object) -> object:
    if isinstance(event, Send) and event.data == b"__BATCH__:3:c\n":
        return Send(event.who, b"__BATCH__:4:c\n")
    return event


@pytest.mark.parametrize("change", [_another_reply, _a_reply_fewer])
def test_another_reply_fails_a_transcript(tmp_path: Path, change: Callable[[object], object]) -> None:
    wrong = _with(change)
    with pytest.raises(AssertionError):
        CorePlayer(wrong).play(wrong.events)
    with ListeningRig(tmp_path / "job-1", **wrong.options) as rig, pytest.raises(AssertionError):
        ListenerPlayer(rig).play(wrong.events)


def test_a_client_that_does_something_else_fails_a_transcript() -> None:
    """The script waits for batch 4 where the client has to send batch 3 again."""
    with pytest.raises(AssertionError, match=r"expected b'__BATCH__:4:c', got b'__BATCH__:3:c'"):
        ClientPlayer(_with(_another_request), patience_s=1.0).play()
