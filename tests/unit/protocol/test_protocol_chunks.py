"""Receive buffers: when they are used again, and what long lines hold."""

from __future__ import annotations

import pytest

from edgesocket.errors import LocalProtocolError
from edgesocket.protocol.chunks import Buffer, BufferPool, Chunk, LineReceiver
from edgesocket.protocol.headers import HEADROOM, SLACK
from edgesocket.protocol.lines import OVERLONG, Overlong

MIB = 1024 * 1024


def receive(receiver: LineReceiver, data: bytes) -> list[Chunk | Overlong]:
    """As a socket would: never more than there is room for."""
    done: list[Chunk | Overlong] = []
    while data:
        room = receiver.writable()
        piece, data = data[: len(room)], data[len(room) :]
        room[: len(piece)] = piece
        done += receiver.received(len(piece))
    assert all(part is OVERLONG or part.start < part.end for part in done), "no chunk is empty"
    return done


def text_of(chunk: Chunk | Overlong) -> bytes:
    assert isinstance(chunk, Chunk)
    return chunk.data[chunk.start : chunk.end].tobytes()


def same_memory(one: Chunk | Overlong, other: Chunk | Overlong) -> bool:
    assert isinstance(one, Chunk) and isinstance(other, Chunk)
    return one.data is other.data


def test_only_whole_lines_are_handed_on() -> None:
    receiver = LineReceiver(BufferPool(100), 50)

    assert receive(receiver, b"ab") == []
    assert [text_of(chunk) for chunk in receive(receiver, b"c\r\nde\nf")] == [b"abc\r\nde\n"]
    assert [text_of(chunk) for chunk in receive(receiver, b"\n")] == [b"f\n"]


def test_a_chunk_has_readable_bytes_on_both_sides() -> None:
    receiver = LineReceiver(BufferPool(10), 50)

    for chunk in [*receive(receiver, b"123456789\n" * 3), Chunk.of(b"x\n")]:
        assert isinstance(chunk, Chunk)
        assert chunk.start >= HEADROOM
        assert chunk.end + SLACK <= len(chunk.data)


def test_bytes_in_use_are_never_overwritten() -> None:
    receiver = LineReceiver(BufferPool(64), 50)

    chunks = receive(receiver, b"".join(b"line %d\n" % number for number in range(500)))

    assert b"".join(map(text_of, chunks)) == b"".join(b"line %d\n" % number for number in range(500))


def test_a_buffer_that_nothing_refers_to_is_used_again_from_its_front() -> None:
    receiver = LineReceiver(BufferPool(1000), 50)
    positions = set()
    for _ in range(10):
        (chunk,) = receive(receiver, b"one line\n")
        assert isinstance(chunk, Chunk)
        positions.add((id(chunk.data), chunk.start))
        del chunk

    assert len(positions) == 1


@pytest.mark.parametrize("lazy", [False, True])
def test_searching_a_buffer(lazy: bool) -> None:
    buffer = Buffer(100, lazy=lazy)
    buffer.view[:] = bytes(len(buffer.view))
    buffer.view[20:30] = b"ab\ncd\nef\ng"

    assert [buffer.find_lf(20, 30), buffer.find_lf(23, 30), buffer.find_lf(23, 25)] == [22, 25, -1]
    assert [buffer.rfind_lf(20, 30), buffer.rfind_lf(20, 28), buffer.rfind_lf(23, 25)] == [28, 25, -1]


@pytest.mark.parametrize("keep", ["chunk", "slice", "memoryview", "slice of a slice"])
def test_any_reference_to_the_memory_keeps_it(keep: str) -> None:
    buffer = Buffer(100)
    assert buffer.idle
    held: object = {
        "chunk": lambda: Chunk(buffer.data, 8, 9),
        "slice": lambda: buffer.data[5:9],
        "memoryview": lambda: memoryview(buffer.data)[5:9],
        "slice of a slice": lambda: buffer.data[5:50][3:4],
    }[keep]()

    assert not buffer.idle
    del held
    assert buffer.idle


def test_small_chunks_in_use_share_a_buffer() -> None:
    """Else each small chunk in the queue would pin a whole buffer."""
    receiver = LineReceiver(BufferPool(1000), 50)

    chunks = [receive(receiver, b"a small chunk\n")[0] for _ in range(20)]

    assert all(same_memory(chunks[0], chunk) for chunk in chunks)


def test_in_a_used_buffer_half_of_it_is_received_at_least() -> None:
    receiver = LineReceiver(BufferPool(1000), 50)

    chunks = receive(receiver, b"x" * 600 + b"\n")
    assert len(receiver.writable()) == 1000
    chunks += receive(receiver, b"y" * 400 + b"\n")
    assert len(receiver.writable()) == 599
    del chunks


def test_the_carried_over_line_moves_to_the_front_of_its_own_buffer_when_that_is_idle() -> None:
    receiver = LineReceiver(BufferPool(1000), 50)
    first = id(receive(receiver, b"x" * 600 + b"\n" + b"tail")[0].data)  # type: ignore[union-attr]

    (chunk,) = receive(receiver, b" end\n")

    assert isinstance(chunk, Chunk)
    assert (id(chunk.data), chunk.start, text_of(chunk)) == (first, HEADROOM, b"tail end\n")


def test_a_line_longer_than_the_buffer() -> None:
    receiver = LineReceiver(BufferPool(100), 5000)
    line = bytes(range(32, 127)) * 50

    chunks = receive(receiver, b"short\n" + line + b"\nafter\n" + line + b"\r\nlast\n")

    assert b"".join(map(text_of, chunks)) == b"short\n" + line + b"\nafter\n" + line + b"\r\nlast\n"


def test_long_lines_one_after_another_while_all_are_in_use() -> None:
    lines = [b"%03d" % number + b"z" * size + b"\n" for number, size in enumerate([150, 900, 120, 40, 990, 990, 101])]
    receiver = LineReceiver(BufferPool(100), 1000)

    chunks = receive(receiver, b"".join(lines))

    assert b"".join(map(text_of, chunks)) == b"".join(lines)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_exactly_the_limit_and_one_more(end: bytes, piece: int) -> None:
    """The next line has no stray byte in front."""
    stream = b"a" * 200 + end + b"b" * 201 + end + b"ok\n" + b"c" * 800 + end + b"ok2\n"
    receiver = LineReceiver(BufferPool(100), 200)

    done = [part for at in range(0, len(stream), piece) for part in receive(receiver, stream[at : at + piece])]

    texts = b"".join(b"<OVERLONG>\n" if part is OVERLONG else text_of(part) for part in done)
    assert texts.replace(b"b" * 201 + end, b"<OVERLONG>\n") == b"a" * 200 + end + b"<OVERLONG>\nok\n<OVERLONG>\nok2\n"


def test_endless_bytes_without_a_line_feed_hold_nothing() -> None:
    """100 MiB: never more room than a buffer or the longest line, and one OVERLONG in the end."""
    receiver = LineReceiver(BufferPool(MIB), 4 * MIB)
    received = 0
    sizes = set()
    zeros = bytes(4 * MIB)
    while received < 100 * MIB:
        room = receiver.writable()
        sizes.add(len(room))
        room[:] = zeros[: len(room)]
        assert receiver.received(len(room)) == []
        received += len(room)
    assert max(sizes) <= 4 * MIB
    assert len(receiver.writable()) == MIB, "after the skipping began the long line's memory is gone"

    assert [part if part is OVERLONG else text_of(part) for part in receive(receiver, b"\nok\n")] == [OVERLONG, b"ok\n"]


def test_an_overlong_line_does_not_overwrite_what_came_before() -> None:
    receiver = LineReceiver(BufferPool(100), 20)

    (kept,) = receive(receiver, b"keep me\n")
    done = receive(receiver, b"x" * 500 + b"\nthen\n")

    assert text_of(kept) == b"keep me\n"
    assert [part if part is OVERLONG else text_of(part) for part in done] == [OVERLONG, b"then\n"]


def test_the_pool_prefers_the_buffer_used_last() -> None:
    pool = BufferPool(100)
    one, two = pool.take(), pool.take()
    pool.give_back(one)
    pool.give_back(two)

    assert pool.take() is two
    assert pool.take() is one


def test_the_pool_leaves_busy_buffers_alone() -> None:
    pool = BufferPool(100)
    buffer = pool.take()
    data = buffer.data[3:5]
    pool.give_back(buffer)

    assert pool.take() is not buffer
    del data
    assert pool.take() is buffer


def test_the_pool_remembers_a_limited_number() -> None:
    pool = BufferPool(100, kept_buffers=2)
    buffers = [pool.take() for _ in range(3)]
    for buffer in buffers:
        pool.give_back(buffer)

    assert pool.take() is buffers[2]
    assert pool.take() is buffers[1]
    assert pool.take() is not buffers[0]


def test_a_closed_receiver_gives_its_buffer_back() -> None:
    pool = BufferPool(100)
    receiver = LineReceiver(pool, 50)
    receive(receiver, b"partial")
    receiver.close()

    assert text_of(receive(LineReceiver(pool, 50), b"whole\n")[0]) == b"whole\n"


def test_more_than_there_was_room_for_is_a_bug_of_ours() -> None:
    receiver = LineReceiver(BufferPool(100), 50)

    with pytest.raises(LocalProtocolError):
        receiver.received(101)
