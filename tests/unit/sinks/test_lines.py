"""Lines of a block: the fast path is taken where it should be, keeps no buffer alive, and gives way where it must."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from edgesocket.records import RecordBlock
from edgesocket.sinks import lines
from edgesocket.sinks.lines import text_lines
from edgesocket.testing.sink_story import listed_block, received_block


def test_a_received_block_is_written_without_separate_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    block = received_block([b"row %d" % n for n in range(1000)])

    def never(self: RecordBlock) -> list[bytes]:
        raise AssertionError("a Python object a record")

    monkeypatch.setattr(RecordBlock, "payloads", never)
    assert bytes(text_lines(block)).splitlines()[999] == b"row 999"
    assert lines.json_lines(block).splitlines()[999] == b'{"value": "row 999"}'


def test_the_lines_do_not_hold_the_receive_buffer() -> None:
    class Buffer(np.ndarray):
        pass

    block = received_block([b"row"] * 1000)
    data, starts, ends = block.columns()
    watched = data.view(Buffer)
    gone = weakref.ref(watched)
    block = RecordBlock.of_columns(watched, starts, ends, 1)
    made = text_lines(block)
    del block, watched
    gc.collect()
    assert gone() is None
    assert bytes(made) == b"row\n" * 1000


def test_a_part_of_a_block_gives_its_own_lines() -> None:
    block = received_block([b"%d" % n for n in range(500)])
    assert bytes(text_lines(block.part(100, 400))) == b"".join(b"%d\n" % n for n in range(100, 400))


@pytest.mark.parametrize(
    ("starts", "ends"),
    [
        pytest.param(np.arange(0, 400, 4), np.arange(2, 402, 4), id="no line end behind a payload"),
        pytest.param(np.zeros(100, dtype=np.int64), np.full(100, 3), id="one payload many times"),
        pytest.param(np.arange(0, 400, 4), np.append(np.arange(3, 399, 4), 400), id="payload at the buffer's end"),
    ],
)
def test_other_columns_take_the_exact_path(starts: np.ndarray, ends: np.ndarray) -> None:
    data = np.frombuffer(b"".join(b"%03d\n" % n for n in range(100)), dtype=np.uint8)
    block = RecordBlock.of_columns(data, starts, ends, 1)
    expected = b"".join(bytes(data[s:e]) + b"\n" for s, e in zip(starts, ends, strict=True))
    assert bytes(text_lines(block)) == expected


def test_separate_payloads_are_not_joined_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of a list-shaped block would keep a second copy of its payloads."""
    block = listed_block([b"row"] * 1000)
    monkeypatch.setattr(RecordBlock, "columns", None)
    assert bytes(text_lines(block)) == b"row\n" * 1000
