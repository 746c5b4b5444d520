"""The collector's end of a conversation."""

from __future__ import annotations

import itertools
import random

import pytest

from edgesocket.errors import LocalProtocolError, RemoteProtocolError
from edgesocket.protocol.collector_session import (
    POSSIBLE_REPLIES,
    Answer,
    Asked,
    CollectorSession,
    Request,
    encode_batches,
)
from edgesocket.protocol.commands import encode_batch
from edgesocket.protocol.replies import AUTH_FAILED, AUTH_OK, RECEIVED, REJECTED, Reply, ReplyKind, ack, queue_full
from edgesocket.protocol.states import COLLECTOR_TRANSITIONS, CollectorAction, CollectorInput, CollectorState

ADMISSION = Request(Asked.ADMISSION, 0, 1)


def batch(first_id: int, lines: int = 1) -> Request:
    return Request(Asked.RECEIPT, first_id, lines)


def commit(batch_id: int) -> Request:
    return Request(Asked.CONFIRMATION, batch_id, 1)


def streaming() -> CollectorSession:
    session = CollectorSession()
    session.authenticate(b"secret")
    assert session.receive_data(b"ACK\n") == [Answer(ADMISSION, AUTH_OK)]
    return session


def test_requests_as_they_go_on_the_wire() -> None:
    session = CollectorSession()

    assert session.authenticate(b"secret") == b"__AUTH__:secret\n"
    assert session.send_batches(1, [b"a"]) == b"__BATCH__:1:a\n"
    assert session.send_commit(1) == b"__COMMIT__:1\n"
    assert session.in_flight == 3


def test_replies_answer_requests_in_order_however_they_are_cut() -> None:
    session = CollectorSession()
    session.authenticate(b"secret")
    session.send_batches(1, [b"a"])
    session.send_batches(2, [b"b"])
    session.send_commit(2)
    data = b"ACK\nRECEIVED\r\nQUEUE_FULL:500\nACK:1\n"

    answers = [answer for n in range(len(data)) for answer in session.receive_data(data[n : n + 1])]

    assert answers == [
        Answer(ADMISSION, AUTH_OK),
        Answer(batch(1), RECEIVED),
        Answer(batch(2), queue_full(500)),
        Answer(commit(2), ack(1)),
    ]
    assert session.in_flight == 0


@pytest.mark.parametrize("line", [b"", b"ACK", b"RECEIVEDX", b"ACK:5", b"PENDING", b"REJECTED", b"x" * 10_000])
def test_what_cannot_answer_a_batch_counts_as_not_received(line: bytes) -> None:
    session = streaming()
    session.send_batches(7, [b"x"])
    session.send_commit(7)

    assert session.receive_data(line + b"\nPENDING\n") == [
        Answer(batch(7), None),
        Answer(commit(7), Reply(ReplyKind.PENDING)),
    ]


@pytest.mark.parametrize("reply", [AUTH_FAILED, REJECTED])
def test_turned_away(reply: Reply) -> None:
    session = CollectorSession()
    session.authenticate(b"secret")
    session.send_batches(1, [b"a"])

    assert session.receive_data(reply.encode() + b"RECEIVED\n") == [Answer(ADMISSION, reply)]
    assert session.state is CollectorState.CLOSED
    assert session.receive_data(b"RECEIVED\n") == []
    assert session.receive_eof() == [batch(1)]
    with pytest.raises(LocalProtocolError):
        session.send_batches(2, [b"b"])


def test_rejected_before_anything_was_sent() -> None:
    session = CollectorSession()

    assert session.receive_data(b"REJECTED\n") == [Answer(ADMISSION, REJECTED)]
    assert session.state is CollectorState.CLOSED


@pytest.mark.parametrize("line", [b"RECEIVED", b"SSH-2.0-OpenSSH_9.2", b"ACK:1"])
def test_an_answer_to_the_first_line_that_is_none_closes(line: bytes) -> None:
    session = CollectorSession()
    session.authenticate(b"secret")

    assert session.receive_data(line + b"\n") == [Answer(ADMISSION, None)]
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
    session.send_batches(1, [b"a"])
    session.send_batches(2, [b"b"])
    session.send_commit(1)

    assert session.receive_data(b"RECEIVED\nRECEI") == [Answer(batch(1), RECEIVED)]
    assert session.receive_eof() == [batch(2), commit(1)]
    assert session.receive_eof() == []


def test_a_request_that_cannot_be_written_is_not_in_flight() -> None:
    session = streaming()

    with pytest.raises(LocalProtocolError):
        session.send_batches(0, [b"a"])
    with pytest.raises(LocalProtocolError):
        session.send_commit(2**63)
    assert session.in_flight == 0


def test_a_run_with_an_id_beyond_the_largest_is_not_in_flight() -> None:
    session = streaming()

    with pytest.raises(LocalProtocolError):
        session.send_batches(2**63 - 1, [b"a", b"b"])
    with pytest.raises(LocalProtocolError):
        session.send_batches(5, [])
    with pytest.raises(LocalProtocolError):
        session.send_batches(5000, [b"a", b"b\nb"])
    assert session.in_flight == 0
    assert session.send_batches(2**63 - 2, [b"a", b"b"]).endswith(b"\n__BATCH__:9223372036854775807:b\n")


def test_equal_replies_to_consecutive_batches_are_one_answer() -> None:
    session = streaming()
    session.send_batches(1, [b"x"] * 3)
    session.send_batches(4, [b"x"] * 2)
    session.send_commit(5)
    session.send_batches(6, [b"x"] * 2)
    session.send_batches(20, [b"x"])

    assert session.in_flight == 9
    assert session.receive_data(b"RECEIVED\n" * 4) == [Answer(batch(1, 4), RECEIVED)]
    assert session.receive_data(b"RECEIVED\nPENDING\n" + b"RECEIVED\n" * 2 + b"QUEUE_FULL:5\n") == [
        Answer(batch(5), RECEIVED),
        Answer(commit(5), Reply(ReplyKind.PENDING)),
        Answer(batch(6, 2), RECEIVED),
        Answer(batch(20), queue_full(5)),
    ]


def test_received_does_not_answer_a_poll_however_many_come() -> None:
    session = streaming()
    session.send_batches(1, [b"x"])
    session.send_commit(1)

    assert session.receive_data(b"RECEIVED\n" * 2) == [Answer(batch(1), RECEIVED), Answer(commit(1), None)]


def test_any_cut_of_the_replies_gives_the_same_answers() -> None:
    words = [b"RECEIVED\n"] * 5 + [b"QUEUE_FULL:7\r\n"] * 2 + [b"RECEIVED\n", b"RECEIVEDX\n", b"\n", b"y" * 600 + b"\n"]
    data = b"".join(words + [b"RECEIVED\n"] * 3)
    dice = random.Random(3)
    seen = []
    for _ in range(300):
        session = streaming()
        session.send_batches(1, [b"x"] * 14)
        flat: list[tuple[int, Reply | None]] = []
        at = 0
        while at < len(data):
            size = dice.choice([1, 3, 8, 9, 10, 18, 27, 100, 700])
            for request, reply in session.receive_data(data[at : at + size]):
                flat += [(request.first_id + n, reply) for n in range(request.lines)]
            at += size
        seen.append(flat)
    assert [id_ for id_, _ in seen[0]] == list(range(1, 15))
    assert [reply for _, reply in seen[0]] == [RECEIVED] * 5 + [queue_full(7)] * 2 + [RECEIVED] + [None] * 3 + [
        RECEIVED
    ] * 3
    assert all(flat == seen[0] for flat in seen)


@pytest.mark.parametrize("first_id", [1, 990, 999, 1000, 1001, 123_456_789, 1_700_000_000_000_998, 2**63 - 2500])
@pytest.mark.parametrize("payloads", [[b"a"], [b"", b"b:c", b"\xff"] * 800, [b"a\r", b"b\rc", b"\r"], [b""]])
def test_a_run_is_written_as_its_batches_would_be_one_by_one(first_id: int, payloads: list[bytes]) -> None:
    assert encode_batches(first_id, payloads) == b"".join(
        encode_batch(first_id + n, payload) for n, payload in enumerate(payloads)
    )


def test_every_reply_has_a_request() -> None:
    assert frozenset().union(*POSSIBLE_REPLIES.values()) == frozenset(ReplyKind)
    assert set(POSSIBLE_REPLIES) == set(Asked)


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
        CollectorInput.SEND_REQUEST: lambda: session.send_batches(1, [b"a"]),
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
