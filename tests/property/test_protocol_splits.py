"""However the stream is cut into pieces, a session tells the same events, and none of their bytes is overwritten."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from protocol_model import AUTH_LINE, cut, feed, flatten, meaning_of
from protocol_strategies import streams

from edgesocket.protocol.chunks import BufferPool, LineReceiver
from edgesocket.protocol.lines import LineSplitter, Overlong
from edgesocket.protocol.session import Authenticated, AuthRefused, ServerEvent, ServerSession

LIMIT = 200

TRANSCRIPTS = [
    b"__BATCH__:1:a\n__BATCH__:2:\xc3\xa4\n__COMMIT__:2\n",
    b"__BATCH__:7:x\r\n__BATCH__:007:\r\r\n\r\n__BATCH__:8:\n",
    b"__BATCH__:9:" + b"n" * (LIMIT - 12) + b"\r\n__BATCH__:10:" + b"n" * (LIMIT - 12) + b"\n__BATCH__:11:ok\n",
    b"__BATCH__:1:\xff\n__PING__\n__BATCH__:2:\xe2\x80\xa8\n__AUTH__:secret\n__BATCH__:3:cut",
]


def converse(pieces: list[bytes], buffer_bytes: int) -> list[ServerEvent]:
    """Authenticate, then feed the pieces; events are looked at only when everything has been received."""
    session = ServerSession(lambda token: token == b"secret", BufferPool(buffer_bytes), LIMIT)
    assert feed(session, AUTH_LINE) == [Authenticated()]
    events = session.resume()
    for piece in pieces:
        events += feed(session, piece)
    session.received_eof()
    return events


@settings(max_examples=250, deadline=None)
@example(b"__BATCH__:9999:\n\n\n", [], 1)
@example(b"__BATCH__:9998:\n__BATCH__:9999:\n\n__BATCH__:5:\n", [], 4096)
@given(streams(), st.lists(st.integers(0, 10**6), max_size=12), st.sampled_from([1, 7, 64, 201, 202, 203, 1000, 2**20]))
def test_any_cut_tells_the_same_events(stream: bytes, places: list[int], buffer_bytes: int) -> None:
    events = converse(cut(stream, places), buffer_bytes)

    assert flatten(events) == meaning_of(stream, LIMIT)


@pytest.mark.parametrize("stream", TRANSCRIPTS)
@pytest.mark.parametrize("buffer_bytes", [16, LIMIT, LIMIT + 1, LIMIT + 2, 2**20])
def test_every_byte_boundary(stream: bytes, buffer_bytes: int) -> None:
    expected = meaning_of(stream, LIMIT)

    for place in range(len(stream) + 1):
        assert flatten(converse([stream[:place], stream[place:]], buffer_bytes)) == expected
    assert flatten(converse([stream[n : n + 1] for n in range(len(stream))], buffer_bytes)) == expected


@pytest.mark.parametrize("first_line", [AUTH_LINE, b"__AUTH__:secret\r\n"])
def test_requests_behind_the_first_line_wait_for_resume(first_line: bytes) -> None:
    """Wherever the cut is, Authenticated comes alone, and what follows it comes after `resume`."""
    requests = TRANSCRIPTS[0]
    stream = first_line + requests
    for place in range(len(stream) + 1):
        session = ServerSession(lambda token: token == b"secret", BufferPool(16), LIMIT)
        before = feed(session, stream[:place])
        if place < len(first_line):
            assert before == []
            before = feed(session, stream[place:])
            place = len(stream)
        assert before == [Authenticated()]
        after = session.resume() + feed(session, stream[place:])
        assert flatten(after) == meaning_of(requests, LIMIT)


@pytest.mark.parametrize(
    "stream", [b"__AUTH__:wrong\n__BATCH__:1:a\n", b"\n\n", b"__BATCH__:1:a\n", b"__AUTH__:" + b"s" * 5000 + b"\nxx\n"]
)
def test_refused_once_wherever_the_cut_is(stream: bytes) -> None:
    for place in range(len(stream) + 1):
        session = ServerSession(lambda token: token == b"secret", BufferPool(16), LIMIT)
        events = feed(session, stream[:place]) + feed(session, stream[place:]) + feed(session, AUTH_LINE)
        assert events == [AuthRefused()]


raw_streams = st.lists(
    st.one_of(
        st.sampled_from([b"\n", b"\r", b"\r\n", b"\r\r\n"]),
        st.integers(0, 30).map(lambda n: b"z" * n),
        st.binary(max_size=9),
    ),
    max_size=40,
).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(raw_streams, st.lists(st.integers(0, 10**6), max_size=10), st.integers(1, 20))
def test_the_splitter_splits_like_one_split(stream: bytes, places: list[int], limit: int) -> None:
    splitter = LineSplitter(limit)
    lines: list[bytes | Overlong] = []
    for piece in cut(stream, places):
        lines += splitter.feed(piece)
        assert splitter.held_bytes <= limit + 1

    assert lines == expected_lines(stream, limit)


@settings(max_examples=300, deadline=None)
@given(raw_streams, st.lists(st.integers(0, 10**6), max_size=10), st.integers(1, 20), st.integers(1, 40), st.booleans())
def test_the_receiver_splits_like_one_split(
    stream: bytes, places: list[int], limit: int, buffer_bytes: int, keep_all: bool
) -> None:
    """Also when every chunk stays in use until the end (`keep_all`), and when none does."""
    receiver = LineReceiver(BufferPool(buffer_bytes), limit)
    done: list[object] = []
    for piece in cut(stream, places):
        while piece:
            room = receiver.writable()
            count = min(len(room), len(piece))
            room[:count] = piece[:count]
            piece = piece[count:]
            for part in receiver.received(count):
                if isinstance(part, Overlong) or keep_all:
                    done.append(part)
                else:
                    done.append(part.data[part.start : part.end].tobytes())
            part = None
    lines: list[bytes | Overlong] = []
    for part in done:
        if isinstance(part, Overlong):
            lines.append(part)
        else:
            raw = part if isinstance(part, bytes) else part.data[part.start : part.end].tobytes()  # type: ignore[attr-defined]
            lines += expected_lines(raw, limit)

    assert lines == expected_lines(stream, limit)


def expected_lines(stream: bytes, limit: int) -> list[bytes | Overlong]:
    lines = [line.removesuffix(b"\r") for line in stream.split(b"\n")[:-1]]
    return [line if len(line) <= limit else Overlong.OVERLONG for line in lines]
