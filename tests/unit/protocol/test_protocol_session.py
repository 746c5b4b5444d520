"""The ingress end of a conversation."""

from __future__ import annotations

import itertools

import pytest

from edgesocket.errors import LocalProtocolError
from edgesocket.protocol.chunks import Buffer, BufferPool
from edgesocket.protocol.commands import Commit, Invalid
from edgesocket.protocol.grammar import MAX_AUTH_LINE_BYTES
from edgesocket.protocol.replies import BAD_REQUEST
from edgesocket.protocol.session import Authenticated, AuthRefused, ServerEvent, ServerSession
from edgesocket.protocol.states import TRANSITIONS, SessionAction, SessionInput, SessionState, transition
from edgesocket.records import RecordBlock


def new_session(token: bytes = b"secret", max_line_bytes: int = 1000) -> ServerSession:
    return ServerSession(lambda given: given == token, BufferPool(4096), max_line_bytes)


def feed(session: ServerSession, data: bytes) -> list[ServerEvent]:
    events: list[ServerEvent] = []
    while data:
        room = session.writable()
        piece, data = data[: len(room)], data[len(room) :]
        room[: len(piece)] = piece
        events += session.received(len(piece))
    return events


def streaming(max_line_bytes: int = 1000) -> ServerSession:
    session = new_session(max_line_bytes=max_line_bytes)
    assert feed(session, b"__AUTH__:secret\n") == [Authenticated()]
    assert session.resume() == []
    return session


@pytest.mark.parametrize(
    ("line", "token"),
    [
        (b"__AUTH__:secret", b"secret"),
        (b"__AUTH__:secret\r", b"secret"),
        (b"__AUTH__:secret\r\r", b"secret\r"),
        (b"__AUTH__: a:b ", b" a:b "),
        ("__AUTH__:schlüssel".encode(), "schlüssel".encode()),
        (b"__AUTH__:", b""),
        (b"__AUTH__:" + b"t" * (MAX_AUTH_LINE_BYTES - 9), b"t" * (MAX_AUTH_LINE_BYTES - 9)),
        (b"__AUTH__:" + b"t" * (MAX_AUTH_LINE_BYTES - 9) + b"\r", b"t" * (MAX_AUTH_LINE_BYTES - 9)),
    ],
)
def test_the_token_is_every_byte_after_the_prefix(line: bytes, token: bytes) -> None:
    session = new_session(token)

    assert feed(session, line + b"\n") == [Authenticated()]
    assert session.state is SessionState.AUTHENTICATED


@pytest.mark.parametrize(
    "line",
    [
        b"__AUTH__:Secret",
        b"__AUTH__:secret ",
        b"__AUTH__",
        b"__auth__:secret",
        b" __AUTH__:secret",
        b"secret",
        b"",
        b"\r",
        b"__BATCH__:1:x",
        b"__AUTH__:\xff",
        b"__AUTH__:" + b"t" * (MAX_AUTH_LINE_BYTES - 8),
    ],
)
def test_a_wrong_first_line_is_refused_once_and_nothing_else_is_read(line: bytes) -> None:
    session = new_session()

    assert feed(session, line + b"\n__AUTH__:secret\n__BATCH__:1:x\n") == [AuthRefused()]
    assert session.state is SessionState.CLOSED
    assert feed(session, b"__AUTH__:secret\n" * 1000) == []


def test_what_is_not_utf8_never_reaches_the_comparison() -> None:
    asked: list[bytes] = []

    def accepts(token: bytes) -> bool:
        asked.append(token)
        return True

    session = ServerSession(accepts, BufferPool(100))

    assert feed(session, b"__AUTH__:\xc3\n") == [AuthRefused()]
    assert asked == []


def test_a_first_line_without_end_is_refused_as_soon_as_it_is_too_long() -> None:
    session = new_session()

    assert feed(session, b"__AUTH__:" + b"t" * (MAX_AUTH_LINE_BYTES - 9)) == []
    assert feed(session, b"\r") == []
    assert feed(session, b"\r") == [AuthRefused()]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_no_token_is_longer_than_the_limit(end: bytes) -> None:
    """Not even one that would be accepted; the answer does not wait for the end of the line."""
    session = ServerSession(lambda token: True, BufferPool(100))

    assert feed(session, b"__AUTH__:" + b"t" * (MAX_AUTH_LINE_BYTES - 8) + end) == [AuthRefused()]


def test_an_incomplete_first_line_is_no_answer() -> None:
    session = new_session()

    assert feed(session, b"__AUTH__:secret") == []
    session.received_eof()
    assert session.state is SessionState.CLOSED


def test_before_authentication_no_receive_buffer_is_taken() -> None:
    class NoPool(BufferPool):
        def take(self) -> None:  # type: ignore[override]
            raise AssertionError

    session = ServerSession(lambda token: True, NoPool())
    feed(session, b"__AUTH__:x\n")


def test_requests_behind_the_first_line_wait_for_resume() -> None:
    session = new_session()

    assert feed(session, b"__AUTH__:secret\n__COMMIT__:1\n__COM") == [Authenticated()]
    assert feed(session, b"MIT__:2\n__C") == []
    assert session.resume() == [Commit(1), Commit(2)]
    assert session.state is SessionState.STREAMING
    assert feed(session, b"OMMIT__:3\n") == [Commit(3)]


def test_events_come_in_line_order() -> None:
    events = feed(streaming(), b"__BATCH__:1:a\n__BATCH__:2:b\n__COMMIT__:2\n\n__BATCH__:4:d\n")

    block, commit, invalid, last = events
    assert isinstance(block, RecordBlock) and block.payloads() == [b"a", b"b"]
    assert (commit, invalid) == (Commit(2), Invalid(BAD_REQUEST))
    assert isinstance(last, RecordBlock) and (last.first_id, last.payloads()) == (4, [b"d"])


def test_a_second_auth_line_is_a_bad_request_and_the_conversation_goes_on() -> None:
    session = streaming()

    assert feed(session, b"__AUTH__:secret\n__COMMIT__:1\n") == [Invalid(BAD_REQUEST), Commit(1)]
    assert session.state is SessionState.STREAMING


@pytest.mark.parametrize("pause_at", range(20))
def test_a_pause_inside_a_line_changes_nothing(pause_at: int) -> None:
    line = b"__COMMIT__:12345678\n"
    session = streaming()

    before = feed(session, line[:pause_at])
    for _ in range(5):
        session.writable()  # the shell woke up, nothing was there
    assert before + feed(session, line[pause_at:]) == [Commit(12345678)]


@pytest.mark.parametrize("limit", [100, 5000, 9000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_lines_at_the_limit(limit: int, end: bytes) -> None:
    """Shorter and longer than a receive buffer; also sent in 1,000-byte writes."""
    head = b"__BATCH__:1:"
    fits = head + b"A" * (limit - len(head)) + end
    stream = fits + b"B" + fits + b"B" * (4 * limit) + end + b"__BATCH__:2:ok\n"

    for step in (len(stream), 1000):
        session = streaming(max_line_bytes=limit)
        events = [e for at in range(0, len(stream), step) for e in feed(session, stream[at : at + step])]
        first, one, two, last = events
        assert isinstance(first, RecordBlock) and first.payload(0) == b"A" * (limit - len(head))
        assert (one, two) == (Invalid(BAD_REQUEST), Invalid(BAD_REQUEST))
        assert isinstance(last, RecordBlock) and (last.first_id, last.payload(0)) == (2, b"ok")


def test_an_overlong_line_of_four_lines_length_is_answered_once() -> None:
    session = streaming(max_line_bytes=50)

    events = [e for _ in range(40) for e in feed(session, b"x" * 1000)] + feed(session, b"\n__COMMIT__:9\n")

    assert events == [Invalid(BAD_REQUEST), Commit(9)]


def test_a_last_line_without_lf_is_dropped() -> None:
    session = streaming()

    assert feed(session, b"__COMMIT__:1\n__COMMIT__:2") == [Commit(1)]
    session.received_eof()
    assert feed(session, b"\n") == []


@pytest.mark.parametrize(("kept", "taken"), [(False, 1), (True, 10)])
def test_receive_buffers_are_used_again_once_their_events_are_gone(kept: bool, taken: int) -> None:
    """And never before: what stays in use costs a buffer each."""

    class CountingPool(BufferPool):
        takes = 0

        def take(self) -> Buffer:
            CountingPool.takes += 1
            return super().take()

    session = ServerSession(lambda token: True, CountingPool(200_000))
    feed(session, b"__AUTH__:x\n")
    session.resume()
    lines = b"".join(b"__BATCH__:%d:%b\n" % (batch_id, b"x" * 80) for batch_id in range(1000, 2000))
    alive = []
    for _ in range(19):
        (block,) = feed(session, lines)
        if kept:
            alive.append(block)
        del block

    assert CountingPool.takes == taken


def test_nothing_received_is_nothing() -> None:
    assert new_session().received(0) == []


def in_state(state: SessionState) -> ServerSession:
    session = new_session()
    if state is not SessionState.AWAITING_AUTH:
        feed(session, b"__AUTH__:secret\n" if state is not SessionState.CLOSED else b"__AUTH__:wrong\n")
    if state is SessionState.STREAMING:
        session.resume()
    assert session.state is state
    return session


def apply(session: ServerSession, event: SessionInput) -> list[ServerEvent]:
    """Let `event` happen to a session, from outside."""
    if event is SessionInput.BYTES:
        return feed(session, b"__")
    if event is SessionInput.TOKEN_ACCEPTED:
        return feed(session, b"__AUTH__:secret\n")
    if event is SessionInput.TOKEN_REFUSED:
        return feed(session, b"__AUTH__:wrong\n")
    if event is SessionInput.RESUMED:
        return session.resume()
    session.received_eof()
    return []


@pytest.mark.parametrize(("state", "event"), list(itertools.product(SessionState, SessionInput)))
def test_every_state_and_input(state: SessionState, event: SessionInput) -> None:
    """Token inputs come from bytes; where no first line is awaited the same bytes are a BYTES input."""
    session = in_state(state)
    if event in (SessionInput.TOKEN_ACCEPTED, SessionInput.TOKEN_REFUSED) and state is not SessionState.AWAITING_AUTH:
        assert (state, event) not in TRANSITIONS
        entry = TRANSITIONS[state, SessionInput.BYTES]
    elif (state, event) in TRANSITIONS:
        entry = TRANSITIONS[state, event]
    else:
        with pytest.raises(LocalProtocolError):
            apply(session, event)
        assert session.state is state
        return

    apply(session, event)

    assert session.state is entry[0]


def test_the_table_itself() -> None:
    assert {state for state, _ in TRANSITIONS} == set(SessionState)
    assert {event for _, event in TRANSITIONS} == set(SessionInput)
    assert {action for _, action in TRANSITIONS.values()} == set(SessionAction)
    after_closed = {state for (before, _), (state, _) in TRANSITIONS.items() if before is SessionState.CLOSED}
    assert after_closed == {SessionState.CLOSED}
    with pytest.raises(LocalProtocolError, match=r"RESUMED .* AWAITING_AUTH"):
        transition(TRANSITIONS, SessionState.AWAITING_AUTH, SessionInput.RESUMED)
