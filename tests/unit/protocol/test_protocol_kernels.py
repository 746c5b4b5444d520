"""The compiled loops, against what they stand for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesocket.protocol import kernels as module
from edgesocket.protocol.blocks import BlockParser
from edgesocket.protocol.chunks import Chunk
from edgesocket.protocol.exact import LineRules
from edgesocket.protocol.headers import consecutive_count, layout_of
from edgesocket.protocol.kernels import Kernels, load
from edgesocket.records import RecordBlock

LOADED = load()
pytestmark = pytest.mark.skipif(LOADED is None, reason="there was no C compiler when the package was built")


@pytest.fixture
def kernels() -> Kernels:
    assert LOADED is not None
    return LOADED


@given(st.lists(st.sampled_from([b"\n", b"\r", b"x", b"\x7f", b"\x80", b"\xff", b"x" * 40]), max_size=200))
def test_line_feeds_and_what_is_said_of_the_lines(pieces: list[bytes]) -> None:
    assert LOADED is not None
    lines = b"".join(pieces) + b"\n"
    chunk = Chunk.of(lines)

    feeds, ascii_only, ends_with_cr = LOADED.line_feeds(chunk.data, chunk.start, chunk.end)

    assert (feeds - chunk.start).tolist() == [at for at, byte in enumerate(lines) if byte == 10]
    assert ascii_only == lines.isascii()
    assert ends_with_cr == (b"\r\n" in lines)


@pytest.mark.parametrize("place", [0, 1, 7, 8, 16_383, 16_384, 16_385, 40_000])
@pytest.mark.parametrize("byte", [0x80, 0xFF, 0x0A])
def test_one_byte_is_seen_wherever_it_is(kernels: Kernels, place: int, byte: int) -> None:
    lines = bytearray(b"x" * 40_001 + b"\n")
    lines[place] = byte
    chunk = Chunk.of(bytes(lines))

    feeds, ascii_only, _ = kernels.line_feeds(chunk.data, chunk.start, chunk.end)

    assert ascii_only == (byte < 0x80)
    assert (feeds - chunk.start).tolist() == ([place] if byte == 10 else []) + [40_001]


def test_bytes_around_the_chunk_are_not_looked_at(kernels: Kernels) -> None:
    chunk = Chunk.of(b"\r\n\xff\n" + b"x\n" + b"\xff\r\n")

    feeds, ascii_only, ends_with_cr = kernels.line_feeds(chunk.data, chunk.start + 4, chunk.start + 6)

    assert (feeds.tolist(), ascii_only, ends_with_cr) == ([chunk.start + 5], True, False)


def test_many_more_lines_than_there_is_room_for_at_first(kernels: Kernels) -> None:
    chunk = Chunk.of(b"\n" * 300_000)

    feeds, _, _ = kernels.line_feeds(chunk.data, chunk.start, chunk.end)

    assert len(feeds) == 300_000


def test_what_was_found_is_not_overwritten_by_the_next_call(kernels: Kernels) -> None:
    first, second = Chunk.of(b"a\nb\n"), Chunk.of(b"\n" * 10)

    feeds, _, _ = kernels.line_feeds(first.data, first.start, first.end)
    before = feeds.tolist()
    kernels.line_feeds(second.data, second.start, second.end)

    assert feeds.tolist() == before


@given(
    st.integers(1, 19).flatmap(lambda digits: st.tuples(st.just(digits), st.integers(1, 10**digits - 1))),
    st.integers(1, 30),
    st.one_of(st.none(), st.tuples(st.integers(0, 29), st.integers(0, 29), st.integers(0, 255))),
)
def test_consecutive_headers_are_counted_as_numpy_does(
    first: tuple[int, int], count: int, damage: tuple[int, int, int] | None
) -> None:
    assert LOADED is not None
    digits, first_id = first
    layout = layout_of(digits)
    count = max(0, min(count, layout.highest_id - first_id + 1))
    if not count:
        return
    lines = [bytearray(layout.header_of(first_id + n) + b"payload\n") for n in range(count)]
    if damage is not None and damage[0] < count and damage[1] < layout.size:
        lines[damage[0]][damage[1]] = damage[2]
    chunk = Chunk.of(b"".join(lines))
    starts = np.arange(count, dtype=np.int64) * (layout.size + 8) + chunk.start

    counted = LOADED.consecutive(chunk.data, starts, layout.header_of(first_id), 10)

    assert counted == consecutive_count(chunk.data, starts, layout, first_id)


def test_starts_need_not_lie_side_by_side(kernels: Kernels) -> None:
    layout = layout_of(3)
    chunk = Chunk.of(b"".join(layout.header_of(100 + n) + b"\n" for n in range(10)))
    starts = np.full((10, 2), 0, dtype=np.int64)
    starts[:, 0] = np.arange(10) * (layout.size + 1) + chunk.start

    assert kernels.consecutive(chunk.data, starts[:, 0], layout.header_of(100), 10) == 10


@pytest.mark.parametrize("content", [None, b"", b"not a library"])
def test_without_a_library_that_can_be_loaded_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    monkeypatch.setattr(module, "__file__", str(tmp_path / "kernels.py"))
    if content is not None:
        (tmp_path / module.LIBRARY).write_bytes(content)

    assert load() is None


def test_a_library_of_another_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "other.c"
    source.write_text("int something_else(void) { return 0; }\n")
    built = subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / module.LIBRARY, source], capture_output=True)
    if built.returncode:
        pytest.skip("there is no C compiler")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "kernels.py"))

    assert load() is None


def test_parsers_of_two_threads_do_not_disturb_each_other() -> None:
    """Several jobs in one process have a receiver thread each."""
    rules = LineRules(1_000_000, check_utf8=True)
    chunks = [Chunk.of(b"".join(b"__BATCH__:%d:p\n" % (10**7 + n) for n in range(count))) for count in (500, 900)]
    wrong: list[int] = []

    def parse(chunk: Chunk, count: int) -> None:
        parser = BlockParser(rules)
        for _ in range(300):
            (block,) = parser.parse(chunk)
            if not isinstance(block, RecordBlock) or block.count != count:
                wrong.append(count)

    threads = [Thread(target=parse, args=pair) for pair in zip(chunks, (500, 900), strict=True)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert wrong == []
    assert BlockParser(rules)._kernels is not BlockParser(rules)._kernels
