"""The collector's end of a conversation."""

from __future__ import annotations

import itertools

import pytest

from edgesocket.errors import LocalProtocolError, RemoteProtocolError
from edgesocket.protocol.collector_session import POSSIBLE_REPLIES, Answer, Authenticate, CollectorSession
from edgesocket.protocol.commands import Batch, Commit
from edgesocket.protocol.replies import AUTH_FAILED, AUTH_OK, RECEIVED, REJECTED, Reply, ReplyKind, ack, queue_full
from edgesocket.protocol.states import COLLECTOR_TRANSITIONS, CollectorAction, CollectorInput, CollectorState


def streaming() -> CollectorSession:
    session = CollectorSession()
    session.authenticate(b"secret")
    assert session.receive_data(b"ACK\n") == [Answer(Authenticate(), AUTH_OK)]
    return session


def test_requests_as_they_go_on_the_wire() -> None:
    session = CollectorSession()

    assert session.authenticate(b"secret") == b"__AUTH__:secret\n"
    assert session.send_batch(1, b"a") == b"__BATCH__:1:a\n"
    assert session.send_commit(1) == b"__COMMIT__:1\n"
    assert session.in_flight == 3


def test_replies_answer_requests_in_order_however_they_are_cut() -> None:
    session = CollectorSession()
    session.authenticate(b"secret")
    session.send_batch(1, b"a")
    session.send_batch(2, b"b")
    session.send_commit(2)
    data = b"ACK\nRECEIVED\r\nQUEUE_FULL:500\nACK:1\n"

    answers = [answer for n in range(len(data)) for answer in session.receive_data(data[n : n + 1])]

    assert answers == [
        Answer(Authenticate(), AUTH_OK),
        Answer(Batch(1, b"a"), RECEIVED),
        Answer(Batch(2, b"b"), queue_full(500)),
        Answer(Commit(2), ack(1)),
    ]
    assert session.in_flight == 0


@pytest.mark.parametrize("line", [b"", b"ACK", b"RECEIVEDX", b"ACK:5", b"PENDING", b"REJECTED", b"x" * 10_000])
def test_what_cannot_answer_a_batch_counts_as_not_received(line: bytes) -> None:
    session = streaming()
    session.send_batch(7, b"x")
    session.send_commit(7)

    assert session.receive_data(line + b"\nPENDING\n") == [
        Answer(Batch(7, b"x"), None),
        Answer(Commit(7), Reply(ReplyKind.PENDING)),
    ]


@pytest.mark.parametrize("reply", [AUTH_FAILED, REJECTED])
def test_turned_away(reply: Reply) -> None:
    session = CollectorSession()
    session.authenticate(b"secret")
    session.send_batch(1, b"a")

    assert session.receive_data(reply.encode() + b"RECEIVED\n") == [Answer(Authenticate(), reply)]
    assert session.state is CollectorState.CLOSED
    assert session.receive_data(b"RECEIVED\n") == []
    assert session.receive_eof() == [Batch(1, b"a")]
    with pytest.raises(LocalProtocolError):
        session.send_batch(2, b"b")


def test_rejected_before_anything_was_sent() -> None:
    session = CollectorSession()

    assert session.receive_data(b"REJECTED\n") == [Answer(Authenticate(), REJECTED)]
    assert session.state is CollectorState.CLOSED


@pytest.mark.parametrize("line", [b"RECEIVED", b"SSH-2.0-OpenSSH_9.2", b"ACK:1"])
def test_an_answer_to_the_first_line_that_is_none_closes(line: bytes) -> None:
    session = CollectorSession()
    session.authenticate(b"secret")

    assert session.receive_data(line + b"\n") == [Answer(Authenticate(), None)]
    assert session.state is CollectorState.CLOSED


@pytest.mark.parametrize("line", [b"RECEIVED", b"", b"ACK:1", b"noise"])
def test_a_reply_without_a_request(line: bytes) -> None:
    session = streaming()

    with pytest.raises(RemoteProtocolError):
        session.receive_data(line + b"\n")
    assert session.state is CollectorState.CLOSED


def test_a_greeting_nobody_asked_for() -> None:
    with pytest.raises(RemoteProtocolError):
        CollectorSession().receive_data(b"220 mail.example.org ESMTP\n")


def test_at_the_end_the_unanswered_requests_come_back() -> None:
    session = streaming()
    session.send_batch(1, b"a")
    session.send_batch(2, b"b")
    session.send_commit(1)

    assert session.receive_data(b"RECEIVED\nRECEI") == [Answer(Batch(1, b"a"), RECEIVED)]
    assert session.receive_eof() == [Batch(2, b"b"), Commit(1)]
    assert session.receive_eof() == []


def test_a_request_that_cannot_be_written_is_not_in_flight() -> None:
    session = streaming()

    with pytest.raises(LocalProtocolError):
        session.send_batch(0, b"a")
    with pytest.raises(LocalProtocolError):
        session.send_commit(2**63)
    assert session.in_flight == 0


def test_every_reply_has_a_request() -> None:
    assert frozenset().union(*POSSIBLE_REPLIES.values()) == frozenset(ReplyKind)


def in_state(state: CollectorState) -> CollectorSession:
    session = CollectorSession()
    if state is not CollectorState.CONNECTED:
        session.authenticate(b"secret")
    if state in (CollectorState.STREAMING, CollectorState.CLOSED):
        session.receive_data(b"ACK\n" if state is CollectorState.STREAMING else b"AUTH_FAILED\n")
    assert session.state is state
    return session


def apply(session: CollectorSession, event: CollectorInput) -> None:
    actions = {
        CollectorInput.SEND_AUTH: lambda: session.authenticate(b"secret"),
        CollectorInput.SEND_REQUEST: lambda: session.send_batch(1, b"a"),
        CollectorInput.BYTES: lambda: session.receive_data(b"A"),
        CollectorInput.AUTH_OK: lambda: session.receive_data(b"ACK\n"),
        CollectorInput.TURNED_AWAY: lambda: session.receive_data(b"REJECTED\n"),
        CollectorInput.ENDED: session.receive_eof,
    }
    actions[event]()


@pytest.mark.parametrize(("state", "event"), list(itertools.product(CollectorState, CollectorInput)))
def test_every_state_and_input(state: CollectorState, event: CollectorInput) -> None:
    session = in_state(state)
    entry = COLLECTOR_TRANSITIONS.get((state, event))
    from_the_peer = event in (CollectorInput.AUTH_OK, CollectorInput.TURNED_AWAY)
    if entry is None and from_the_peer and state is CollectorState.CLOSED:
        entry = COLLECTOR_TRANSITIONS[state, CollectorInput.BYTES]  # ignored, like all bytes
    if entry is None:
        with pytest.raises(RemoteProtocolError if from_the_peer else LocalProtocolError):
            apply(session, event)
        assert session.state is (CollectorState.CLOSED if from_the_peer else state)
    else:
        apply(session, event)
        assert session.state is entry[0]


def test_the_table_itself() -> None:
    assert {state for state, _ in COLLECTOR_TRANSITIONS} == set(CollectorState)
    assert {event for _, event in COLLECTOR_TRANSITIONS} == set(CollectorInput)
    assert {action for _, action in COLLECTOR_TRANSITIONS.values()} == set(CollectorAction)
