"""What chunks of many lines become: few blocks, cut only where they must be.

That the blocks are right, whatever the lines, is the business of the property tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from edgesocket.protocol import blocks
from edgesocket.protocol.blocks import MAX_BAD_LINES, SMALL_BYTES, BlockParser
from edgesocket.protocol.chunks import Chunk
from edgesocket.protocol.commands import Batch, Commit, Invalid
from edgesocket.protocol.exact import LineEvent, LineRules
from edgesocket.protocol.replies import BAD_REQUEST, INVALID_PARAM
from edgesocket.records import RecordBlock

RULES = LineRules(1_000_000, check_utf8=True)


@pytest.fixture(params=["compiled loops", "numpy"], autouse=True)
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds with the compiled loops and without them."""
    if request.param == "numpy":
        monkeypatch.setattr(blocks, "KERNELS", None)
    elif blocks.KERNELS is None:
        pytest.skip("there was no C compiler when the package was built")


def batch_lines(ids: Iterable[int], payload: bytes = b"p", end: bytes = b"\n", width: int = 0) -> list[bytes]:
    return [b"__BATCH__:%0*d:%b%b" % (width, batch_id, payload, end) for batch_id in ids]


def parse(lines: Sequence[bytes], rules: LineRules = RULES, parser: BlockParser | None = None) -> list[LineEvent]:
    return (parser or BlockParser(rules)).parse(Chunk.of(b"".join(lines)))


def shape(events: Iterable[LineEvent]) -> list[object]:
    """Blocks as (first id, count, whether ids are one run), other events as they are."""
    return [(e.first_id, e.count, e.ids is None) if isinstance(e, RecordBlock) else e for e in events]


@pytest.mark.parametrize("count", [1, 2, 31, 33, 1000, 20_000])
def test_consecutive_ids_become_one_block(count: int) -> None:
    (block,) = parse(batch_lines(range(10**7, 10**7 + count), b"payload"))

    assert isinstance(block, RecordBlock)
    assert (block.first_id, block.count, block.ids, block.payload_bytes) == (10**7, count, None, 7 * count)
    assert set(block.payloads()) == {b"payload"}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [0, 1, 3000])
def test_line_ends_are_no_payload(end: bytes, size: int) -> None:
    (block,) = parse(batch_lines(range(100, 200), b"x" * size, end))

    assert isinstance(block, RecordBlock)
    assert block.payloads() == [b"x" * size] * 100


def test_only_one_cr_is_dropped() -> None:
    (block,) = parse(batch_lines(range(100, 200), b"x\r", b"\r\n"))

    assert isinstance(block, RecordBlock)
    assert block.payloads() == [b"x\r"] * 100


def test_ids_with_gaps_become_one_block_with_an_array() -> None:
    ids = [*range(500, 600, 2), *range(700, 800), *range(801, 999, 3)]

    (block,) = parse(batch_lines(ids))

    assert isinstance(block, RecordBlock)
    assert block.ids is not None
    assert block.ids.tolist() == ids


def test_leading_zeros_are_regular() -> None:
    assert shape(parse(batch_lines(range(7, 1007), width=10))) == [(7, 1000, True)]


def test_more_digits_than_an_id_has_are_read_exactly() -> None:
    assert shape(parse(batch_lines(range(7, 1007), width=25))) == [(7, 1000, True)]


@pytest.mark.parametrize("border", [10, 100, 10_000, 10_000_000, 10**15])
def test_where_ids_get_wider_a_new_block_begins(border: int) -> None:
    first = max(1, border - 500)

    events = parse(batch_lines(range(first, border + 500)))

    assert sum(e.count for e in events if isinstance(e, RecordBlock)) == border + 500 - first
    assert all(isinstance(e, RecordBlock) and e.ids is None for e in events)
    assert len(events) <= 1 + len(str(border + 500)) - len(str(first))


def test_where_sparse_ids_get_wider_a_new_block_begins() -> None:
    events = parse(batch_lines(range(10**7 - 3000, 10**7 + 3000, 3)))

    assert [(e.count, e.first_id) for e in events if isinstance(e, RecordBlock)] == [
        (1000, 10**7 - 3000),
        (1000, 10**7),
    ]


def test_the_largest_ids_and_the_first_that_is_none() -> None:
    lines = batch_lines(range(2**63 - 100, 2**63 + 2))

    assert shape(parse(lines)) == [(2**63 - 100, 100, True), Invalid(INVALID_PARAM), Invalid(INVALID_PARAM)]


def test_polls_cut_blocks_where_they_stand() -> None:
    lines: list[bytes] = []
    expected: list[object] = []
    for first in range(1000, 9000, 64):
        lines += [*batch_lines(range(first, first + 64)), b"__COMMIT__:%d\n" % first]
        expected += [(first, 64, True), Commit(first)]
    parser = BlockParser(RULES)

    assert shape(parse(lines, parser=parser)) == expected
    assert shape(parse(lines, parser=parser)) == expected, "also when the parser expects polls"


def test_polls_after_every_few_batches() -> None:
    lines = [
        line
        for batch_id in range(1000, 3000)
        for line in (b"__BATCH__:%d:p\n" % batch_id, b"__COMMIT__:%d\n" % batch_id)
    ]

    events = parse(lines)

    assert shape(events[:3]) == [(1000, 1, True), Commit(1000), (1001, 1, True)]
    assert len(events) == 4000


def test_a_line_that_is_not_utf8_comes_alone_and_the_others_in_blocks() -> None:
    lines = batch_lines(range(1000, 2000), "zwölf".encode())
    lines[100] = b"__BATCH__:1100:\xff\n"
    lines[101] = b"__BATCH__:1101:\xe2\x82\n"
    lines[700] = b"__PING__\xff\n"

    assert shape(parse(lines)) == [
        (1000, 100, True),
        Batch(1100, b"\xff"),
        Batch(1101, b"\xe2\x82"),
        (1102, 598, True),
        Invalid(BAD_REQUEST),
        (1701, 299, True),
    ]


def test_without_the_check_any_bytes_are_in_blocks() -> None:
    lines = batch_lines(range(1000, 2000), b"\xff")

    assert shape(parse(lines, LineRules(1_000_000, check_utf8=False))) == [(1000, 1000, True)]


def test_many_lines_that_are_not_utf8() -> None:
    lines = batch_lines(range(1000, 3000))
    for place in range(50, 2000, 50):
        lines[place] = b"__BATCH__:%d:\x80\n" % (1000 + place)
    assert len(range(50, 2000, 50)) > MAX_BAD_LINES

    events = parse(lines)

    assert [e.batch_id for e in events if isinstance(e, Batch)] == list(range(1050, 3000, 50))
    assert sum(e.count for e in events if isinstance(e, RecordBlock)) == 2000 - 39


def test_an_overlong_line_among_many() -> None:
    lines = batch_lines(range(1000, 2000), b"x" * 185)
    lines[300] = b"__BATCH__:1300:%b\r\n" % (b"x" * 185)
    lines[400] = b"__BATCH__:1400:%b\n" % (b"x" * 186)

    assert shape(parse(lines, LineRules(200, check_utf8=True))) == [
        (1000, 400, True),
        Invalid(BAD_REQUEST),
        (1401, 599, True),
    ]


def test_a_stretch_of_polls_ends_and_blocks_go_on() -> None:
    lines = [*batch_lines(range(100, 500, 2)), *[b"__COMMIT__:100\n"] * 40, *batch_lines(range(600, 999))]

    assert shape(parse(lines)) == [(100, 200, False), *[Commit(100)] * 40, (600, 399, True)]


@pytest.mark.parametrize(
    "odd", [b"\n", b"__PING__\n", b"__COMMIT__:1\n", b"__BATCH__:1:x\n__BATCH__:22:y\n__BATCH__:333:z\n"]
)
@pytest.mark.parametrize("regular", [0, 1, 20, 40])
def test_odd_lines_without_end_cost_linear_time(odd: bytes, regular: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns give up after a while, instead of being tried over all that is left again and again."""
    looked_at = 0

    def counting(name: str) -> None:
        original = getattr(blocks, name)

        def counted(data: object, starts: Sequence[int], *rest: object) -> object:
            nonlocal looked_at
            looked_at += len(starts)
            return original(data, starts, *rest)

        monkeypatch.setattr(blocks, name, counted)

    monkeypatch.setattr(blocks, "KERNELS", None)  # what is counted is how often, and that does not depend on who
    counting("consecutive_count")
    counting("read_ids")
    part = b"".join(batch_lines(range(1000, 1000 + regular))) + odd * 50
    lines = part * (200_000 // len(part))
    line_count = lines.count(b"\n")

    events = parse([lines])

    assert sum(e.count if isinstance(e, RecordBlock) else 1 for e in events) == line_count
    assert looked_at <= (blocks.PATIENCE + blocks.RUN_TRIES) * line_count


def test_a_block_of_a_small_chunk_does_not_pin_the_receive_buffer() -> None:
    chunk = Chunk.of(b"".join(batch_lines(range(1000, 1500))))
    assert chunk.end - chunk.start < SMALL_BYTES

    (block,) = BlockParser(RULES).parse(chunk)

    assert isinstance(block, RecordBlock)
    assert block.columns()[0] is not chunk.data


def test_a_block_of_a_large_chunk_points_into_it() -> None:
    chunk = Chunk.of(b"".join(batch_lines(range(1000, 3000), b"x" * 100)))

    (block,) = BlockParser(RULES).parse(chunk)

    assert isinstance(block, RecordBlock)
    assert block.columns()[0] is chunk.data


def test_few_long_lines_become_a_block_without_copies() -> None:
    chunk = Chunk.of(b"".join(batch_lines(range(1000, 1003), b"x" * 300_000)))

    (block,) = BlockParser(RULES).parse(chunk)

    assert isinstance(block, RecordBlock)
    assert (block.count, block.payload_bytes) == (3, 900_000)
    assert block.columns()[0] is chunk.data
