from __future__ import annotations

import pytest

from edgesocket.errors import LocalProtocolError
from edgesocket.protocol.collector_session import encode_batches, write_ahead
from edgesocket.protocol.commands import encode_batch
from edgesocket.protocol.ended_lines import EndedLines, fitting, joined_lines, payload_bytes

SOME = [[b"a"], [b""], [b"", b""], [b"a", b"", b"bc"], [b"", b"x\r", b"\0\x0b\x85"], [b"a" * 300] * 5]


@pytest.mark.parametrize("payloads", [[], *SOME])
def test_they_are_a_sequence_of_their_payloads_however_they_are_made(payloads: list[bytes]) -> None:
    made = [
        EndedLines(b"".join(line + b"\n" for line in payloads)),
        EndedLines.of([line + b"\n" for line in payloads]),
        EndedLines.between(b"\n".join(payloads), len(payloads)),
        EndedLines(b"".join(line + b"\n" for line in payloads) + b"begun", sum(len(line) + 1 for line in payloads)),
    ]
    packed = EndedLines.of([line + b"\n" for line in payloads])
    packed.pack()
    made.append(packed)
    for lines in made:
        assert lines == payloads
        assert list(lines) == payloads == [lines[n] for n in range(len(lines))]
        assert lines.joined == b"\n".join(payloads)
        assert payload_bytes(lines) == lines.payload_bytes == sum(map(len, payloads))
        assert bool(lines) == bool(payloads)
        for first in range(len(payloads) + 1):
            assert lines[first:] == payloads[first:]
            assert lines[:first].joined == b"\n".join(payloads[:first])
            assert lines[:first].payload_bytes == sum(map(len, payloads[:first]))
        assert lines[::-1] == payloads[::-1]


def test_other_payloads_are_not_equal() -> None:
    assert EndedLines(b"a\n") != [b"b"]
    assert EndedLines(b"a\n") != [b"a", b""]
    assert EndedLines(b"a\n") != b"a"


def test_a_line_without_its_end_is_refused() -> None:
    with pytest.raises(ValueError, match="no line feed"):
        EndedLines(b"a\nb")


@pytest.mark.parametrize("payloads", SOME)
@pytest.mark.parametrize("most", [0, 1, 2, 3, 299, 300, 600, 1500])
def test_how_many_fit_is_the_same_for_both_kinds(payloads: list[bytes], most: int) -> None:
    expected = max(n for n in range(len(payloads) + 1) if sum(map(len, payloads[:n])) <= most)
    assert fitting(payloads, most) == fitting(EndedLines.of([line + b"\n" for line in payloads]), most) == expected


def test_parts_become_one_in_order() -> None:
    ended, plain = EndedLines(b"a\n\n"), [b"b"]
    assert joined_lines([]) == []
    assert joined_lines([ended]) is ended
    both = joined_lines([ended, EndedLines(b"c\n")])
    assert isinstance(both, EndedLines)
    assert both == [b"a", b"", b"c"]
    assert joined_lines([ended, plain]) == [b"a", b"", b"b"]
    assert plain == [b"b"], "no part changes"


@pytest.mark.parametrize("first_id", [1, 998, 1000, 1_999_998, 1_796_032_927_444_766])
@pytest.mark.parametrize("payloads", [*SOME, [b"x"] * 2500])
def test_batches_are_written_as_one_by_one(first_id: int, payloads: list[bytes]) -> None:
    one_by_one = b"".join(encode_batch(first_id + n, payload) for n, payload in enumerate(payloads))
    assert encode_batches(first_id, EndedLines.of([line + b"\n" for line in payloads])) == one_by_one
    assert encode_batches(first_id, payloads) == one_by_one


def test_batches_that_were_written_ahead_are_those_of_their_ids_only() -> None:
    lines = EndedLines(b"a\nbc\n")
    write_ahead(5000, lines)
    assert lines.written == (5000, b"__BATCH__:5000:a\n__BATCH__:5001:bc\n")
    assert encode_batches(5000, lines) == lines.written[1]
    assert encode_batches(6000, lines) == b"__BATCH__:6000:a\n__BATCH__:6001:bc\n"
    assert encode_batches(5001, lines[1:]) == b"__BATCH__:5001:bc\n"
    assert lines == [b"a", b"bc"]


def test_a_payload_with_a_line_feed_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        encode_batches(5000, [b"a\nb"])
