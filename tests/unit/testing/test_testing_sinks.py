"""The in-memory sinks: what tests rely on beyond the sink contract."""

from __future__ import annotations

import threading

import pytest

from edgesocket.components.sink import CommitRole, SinkContext
from edgesocket.errors import ComponentError
from edgesocket.testing.sink_story import listed_rows
from edgesocket.testing.sinks import DecidingListSink, GateSink, ListSink, ListStorage


def context(epoch: int = 1, job: str = "job") -> SinkContext:
    return SinkContext(job=job, epoch=epoch, sink_id="sink")


@pytest.mark.parametrize("kind", [ListSink, DecidingListSink])
def test_with_ids_rows_are_pairs(kind) -> None:
    sink = kind(with_ids=True)
    sink.open(context())
    sink.write(listed_rows([b"a", b"b"], first_id=41))
    sink.commit(1, sink.prepare(1))
    assert sink.rows == [(41, b"a"), (42, b"b")]
    assert kind(sink.storage).rows == [b"a", b"b"]


def test_prepared_rows_that_vanished_are_an_error() -> None:
    sink = ListSink()
    sink.open(context())
    sink.write(listed_rows([b"a"]))
    manifest = sink.prepare(1)
    sink.storage.staged.clear()
    with pytest.raises(ComponentError, match="neither staged nor published"):
        sink.commit(1, manifest)


def test_open_drops_what_no_prepared_manifest_names() -> None:
    sink = ListSink()
    sink.open(context())
    sink.write(listed_rows([b"a"]))
    manifest = sink.prepare(1)
    again = ListSink(sink.storage)
    again.open(SinkContext(job="job", epoch=2, sink_id="sink", prepared={1: manifest}))
    assert list(sink.storage.staged) == manifest["staged"]
    ListSink(sink.storage).open(context(epoch=3))
    assert sink.storage.staged == {}


def test_a_lost_reply_leaves_the_commit_done() -> None:
    storage = ListStorage(lost_replies=1)
    sink = DecidingListSink(storage)
    sink.open(context())
    sink.write(listed_rows([b"a"]))
    manifest = sink.prepare(1)
    with pytest.raises(ComponentError, match="reply"):
        sink.commit(1, manifest)
    assert sink.landed() == 1
    sink.commit(1, manifest)
    assert sink.rows == [b"a"]


def test_jobs_on_one_storage_are_fenced_apart() -> None:
    storage = ListStorage()
    one, other = DecidingListSink(storage), DecidingListSink(storage)
    one.open(context(epoch=1, job="one"))
    other.open(context(epoch=9, job="other"))
    other.fence(9)
    one.write(listed_rows([b"a"]))
    one.commit(1, one.prepare(1))
    assert (one.landed(), other.landed()) == (1, 0)


def test_a_held_gate_blocks_until_it_is_released() -> None:
    gate = GateSink(with_ids=True)
    gate.open(context())
    gate.hold()
    thread = threading.Thread(target=lambda: gate.write(listed_rows([b"a"], first_id=7)))
    thread.start()
    assert gate.wait_until_blocked()
    assert gate.inner._taken == []
    gate.release()
    thread.join(10)
    assert not thread.is_alive()
    gate.commit(1, gate.prepare(1))
    assert gate.rows == [(7, b"a")]


def test_a_waiting_call_fails_when_the_gate_turns_to_failing() -> None:
    gate = GateSink()
    gate.open(context())
    gate.hold()
    errors: list[Exception] = []

    def write() -> None:
        try:
            gate.write(listed_rows([b"a"]))
        except ComponentError as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    assert gate.wait_until_blocked()
    gate.hold(fail=True)
    thread.join(10)
    assert len(errors) == 1


def test_only_the_named_calls_are_held() -> None:
    gate = GateSink()
    gate.open(context())
    gate.hold(fail=True, calls=["commit"])
    gate.write(listed_rows([b"a"]))
    manifest = gate.prepare(1)
    with pytest.raises(ComponentError, match="the gate is shut for commit"):
        gate.commit(1, manifest)
    gate.release()
    gate.commit(1, manifest)
    assert gate.rows == [b"a"]


def test_a_call_does_not_wait_for_ever() -> None:
    gate = GateSink(patience_s=0.01)
    gate.open(context())
    gate.hold()
    with pytest.raises(ComponentError, match="the gate is shut"):
        gate.prepare(1)
    assert not gate.wait_until_blocked(0.01)


def test_a_gate_has_the_role_of_the_sink_behind_it() -> None:
    assert GateSink(DecidingListSink()).commit_role is CommitRole.DECIDING
