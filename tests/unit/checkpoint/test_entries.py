"""Writing and reading one entry of the commit log."""

import json
from zlib import crc32

import pytest

from edgesocket.checkpoint.entries import (
    FIRST,
    Accept,
    Claim,
    Commit,
    Ended,
    Placed,
    Settle,
    Started,
    decode_entry,
    encode_entry,
    entry_name,
    index_of,
)
from edgesocket.errors import DamagedStateError
from edgesocket.ids import MAX_BATCH_ID

ENTRIES = [
    Claim(
        7, 1_700_000_000_000, "f00d", "edge-1", "b-o-o-t", 4711, "orders", "EdgeSocket", ("a", "b"), "xyz", "h:10091"
    ),
    Started(7, 5, 12, 1000, "edge-1", "b-o-o-t"),
    Started(7, 5, None, 0, "edge-1", ""),
    Started(7, 5, None, 0, "edge-1", "", scratch="5c7a"),
    Commit(7, 5, 3, {"w": MAX_BATCH_ID, "queued": [[1, 2]], "sinks": {"console": None}}),
    Settle(7, 5, ((1, 3), (9, MAX_BATCH_ID)), "pump 3 was replaced, ☃", "root"),
    Accept(7, 5, 41, "root"),
    Ended(7, 5, clean=True),
    Ended(7, 5, clean=True, covered=True),
    Ended(7, 5, clean=False, reason="batch 9: field a", batch_id=9),
]


def written(**changes):
    """A line whose checksum is right and whose text is changed."""
    line = encode_entry(Ended(7, 5, clean=True), 3, "03ce9d10")
    document = json.loads(line[9:]) | changes
    body = json.dumps({key: value for key, value in document.items() if value is not ...}).encode()
    return b"%08x %s\n" % (crc32(body), body)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_an_entry_comes_back_as_it_was_written(entry):
    line = encode_entry(entry, 3, "03ce9d10")
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode_entry(entry_name(3), line) == Placed(3, entry, line[:8].decode(), "03ce9d10")


def test_the_line_is_checksum_space_compact_json_lf():
    line = encode_entry(Accept(2, 5, 41, "root"), 1, FIRST)
    body = b'{"format":1,"index":1,"after":"00000000","kind":"accept","epoch":2,"time_ms":5,"n":41,"by":"root"}'
    assert line == b"%08x %s\n" % (crc32(body), body)


def test_a_number_that_json_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        encode_entry(Commit(1, 0, 1, {"x": float("nan")}), 1, FIRST)


@pytest.mark.parametrize("data", [b"", b"\0" * 200, b"\n", b"00000000 \n", b"not an entry at all\n"])
def test_what_is_no_entry_names_the_file(data):
    with pytest.raises(DamagedStateError, match=r"log/00000000000000000003\.json") as caught:
        decode_entry(entry_name(3), data)
    assert caught.value.name == entry_name(3)


def test_every_cut_is_noticed():
    line = encode_entry(ENTRIES[3], 3, FIRST)
    for length in range(len(line)):
        with pytest.raises(DamagedStateError):
            decode_entry(entry_name(3), line[:length])


def test_every_flipped_bit_is_noticed():
    line = encode_entry(ENTRIES[0], 3, FIRST)
    for bit in range(len(line) * 8):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedStateError):
            decode_entry(entry_name(3), bytes(flipped))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 2}, "format 2"),
        ({"format": ...}, "format None"),
        ({"kind": "coup"}, "unknown kind 'coup'"),
        ({"kind": ["ended"]}, "unhashable"),
        ({"index": 4}, "was written as log/00000000000000000004.json"),
        ({"index": "3"}, "not a number"),
        ({"epoch": True}, "not a number"),
        ({"epoch": -1}, "not a number"),
        ({"clean": 1}, "not true or false"),
        ({"clean": ...}, "clean"),
        ({"reason": None}, "not a text"),
        ({"after": 5}, "not a text"),
        ({"kind": "commit", "n": 1, "record": []}, "not a JSON object"),
        ({"kind": "settle", "ids": [[0, 1]], "by": ""}, "id ranges"),
        ({"kind": "settle", "ids": [[3, 2]], "by": ""}, "id ranges"),
        ({"kind": "settle", "ids": [[1, 2, 3]], "by": ""}, "too many values"),
        ({"kind": "settle", "ids": 5, "by": ""}, "not iterable"),
    ],
)
def test_a_line_with_a_good_checksum_and_wrong_contents_says_what_is_wrong(changes, says):
    with pytest.raises(DamagedStateError, match=says):
        decode_entry(entry_name(3), written(**changes))


def test_a_line_that_is_json_but_no_object_is_damaged():
    body = b"[1]"
    with pytest.raises(DamagedStateError, match="not a JSON object"):
        decode_entry(entry_name(3), b"%08x %s\n" % (crc32(body), body))


def test_fields_of_a_later_writer_with_the_same_format_are_passed_over():
    assert decode_entry(entry_name(3), written(mood="good")).entry == Ended(7, 5, clean=True)


def test_fields_that_came_later_have_a_value_for_entries_before_them():
    early = written(covered=...)
    assert b"covered" not in early
    assert decode_entry(entry_name(3), early).entry == Ended(7, 5, clean=True)


def test_names_and_indexes():
    assert entry_name(12) == "log/00000000000000000012.json"
    assert index_of(entry_name(12)) == 12
    for name in ("log/12.json", "log/00000000000000000012.json~", "log/README", "x/00000000000000000012.json", ""):
        assert index_of(name) is None
