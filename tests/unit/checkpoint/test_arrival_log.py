"""The bytes of the arrival log; what survives cuts and flips is in tests/property."""

import struct
from zlib import crc32

import pytest

from edgesocket.checkpoint.arrival_log import (
    HEADER_BYTES,
    BurstEncoder,
    Change,
    Event,
    EventKind,
    Segment,
    decode_segment,
    encode_header,
    first_sequence_of,
)
from edgesocket.ids import MAX_BATCH_ID


def record(body):
    return struct.pack("<II", len(body), crc32(body, len(body))) + body


def test_the_layout_is_the_documented_one():
    header = b"ESAL" + struct.pack("<HHQQ", 1, 0, 7, 100)
    assert encode_header(7, 100) == header + struct.pack("<I", crc32(header))
    body = struct.pack("<Q", 100) + struct.pack("<BQQ", 2, 5, 9) + struct.pack("<BQQQ", 5, 1, 1, 44)
    burst = BurstEncoder(100).burst([Change(EventKind.HELD, 5, 9), Change(EventKind.OPERATOR_SETTLED, 1, 1, 44)])
    assert burst == record(body)


def test_the_short_way_gives_the_same_bytes():
    one, other = BurstEncoder(41), BurstEncoder(41)
    for _ in range(2):
        assert one.accepted(3, MAX_BATCH_ID) == other.burst([Change(EventKind.ACCEPTED, 3, MAX_BATCH_ID)])
    assert one.next_sequence == other.next_sequence == 43


def test_every_event_has_a_number():
    encoder = BurstEncoder(10)
    bursts = encoder.accepted(1, 5) + encoder.burst([Change(EventKind.HELD, 6, 6), Change(EventKind.RECOGNISED, 2, 3)])
    assert encoder.next_sequence == 13
    assert first_sequence_of(bursts) == 10
    assert decode_segment(encode_header(1, 10) + bursts).events == [
        Event(10, EventKind.ACCEPTED, 1, 5),
        Event(11, EventKind.HELD, 6, 6),
        Event(12, EventKind.RECOGNISED, 2, 3),
    ]


def test_no_events_are_no_bytes():
    encoder = BurstEncoder(10)
    assert encoder.burst([]) == b""
    assert encoder.next_sequence == 10


def test_a_huge_burst_is_several_records():
    encoder = BurstEncoder(0)
    changes = [Change(EventKind.OPERATOR_SETTLED, i, i, i) for i in range(1, 10_000)]
    segment = decode_segment(encode_header(1, 0) + encoder.burst(changes))
    assert [Change(*event[1:]) for event in segment.events] == changes
    assert segment.damage == ""
    assert encoder.next_sequence == 9_999


def test_a_file_that_ends_in_its_header_is_torn():
    for length in range(HEADER_BYTES):
        assert decode_segment(encode_header(7, 100)[:length]) == Segment(0, 0, torn=True)
    assert decode_segment(bytes(500)) == Segment(0, 0, torn=True)


@pytest.mark.parametrize("start", [b"ESAL\x02\0", b"NOPE\x01\0"])
def test_another_format_is_reported(start):
    header = start + encode_header(7, 100)[6:-4]
    segment = decode_segment(header + struct.pack("<I", crc32(header)))
    assert "does not know" in segment.damage
    assert not segment.torn


@pytest.mark.parametrize(
    "event",
    [
        struct.pack("<BQQ", 9, 1, 1),
        struct.pack("<BQQ", 0, 1, 1),
        struct.pack("<BQQ", 1, 0, 1),
        struct.pack("<BQQ", 1, 3, 2),
        struct.pack("<BQQ", 1, 1, MAX_BATCH_ID + 1),
        struct.pack("<BQQB", 1, 1, 1, 5),
        struct.pack("<BQQ", 5, 1, 1),
    ],
)
def test_a_record_with_a_good_checksum_and_wrong_contents_is_damage(event):
    good = BurstEncoder(100).accepted(1, 1)
    data = encode_header(7, 100) + good + record(struct.pack("<Q", 101) + event)
    segment = decode_segment(data)
    assert len(segment.events) == 1
    assert segment.damage
    assert segment.good_bytes == HEADER_BYTES + len(good)


def test_damage_in_the_middle_hides_what_follows_and_is_reported():
    encoder = BurstEncoder(100)
    records = [encoder.accepted(i, i) for i in range(1, 4)]
    records[1] = records[1][:-1] + b"\xff"
    segment = decode_segment(encode_header(7, 100) + b"".join(records))
    assert [event.lo for event in segment.events] == [1]
    assert segment.damage == f"bytes from {HEADER_BYTES + 33} on are damaged"


def test_a_rest_that_no_record_can_be_is_damage():
    segment = decode_segment(encode_header(7, 100) + b"\x01" + bytes(200_000))
    assert segment.damage
    assert not segment.torn


def test_the_next_number_of_an_empty_segment_is_its_first():
    assert decode_segment(encode_header(7, 100)).next_sequence == 100
