"""What can be read of a segment after something happened to its bytes: a prefix of what was written, or all of it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.checkpoint.arrival_log import (
    HEADER_BYTES,
    BurstEncoder,
    Change,
    Event,
    EventKind,
    decode_segment,
    encode_header,
)
from edgesocket.ids import MAX_BATCH_ID

IDS = st.one_of(st.integers(1, 300), st.integers(1, MAX_BATCH_ID))


@st.composite
def changes(draw):
    kind = draw(st.sampled_from(EventKind))
    lo, hi = sorted((draw(IDS), draw(IDS)))
    return Change(kind, lo, hi, draw(st.integers(0, 2**40)) if kind is EventKind.OPERATOR_SETTLED else 0)


BURSTS = st.lists(st.lists(changes(), min_size=1, max_size=4), max_size=6)
FIRST_NUMBERS = st.integers(0, 2**50)


def write(first, bursts):
    """The bytes of a segment, its events, and how many events are complete at each record's end."""
    encoder = BurstEncoder(first)
    data = encode_header(7, first)
    events = []
    ends = {0: 0, len(data): 0}
    for burst in bursts:
        data += encoder.burst(burst)
        events += [Event(first + len(events) + i, *change) for i, change in enumerate(burst)]
        ends[len(data)] = len(events)
    return data, events, ends


@given(FIRST_NUMBERS, BURSTS)
def test_everything_comes_back_in_order(first, bursts):
    data, events, _ = write(first, bursts)
    segment = decode_segment(data)
    assert (segment.epoch, segment.first_sequence, segment.events) == (7, first, events)
    assert (segment.torn, segment.damage, segment.good_bytes) == (False, "", len(data))
    assert segment.next_sequence == first + len(events)


@given(FIRST_NUMBERS, BURSTS, st.data())
def test_cut_at_any_byte_the_complete_records_come_out(first, bursts, data):
    """A cut is torn, never damage: what is missing was not answered."""
    whole, events, ends = write(first, bursts)
    length = data.draw(st.integers(0, len(whole)))
    segment = decode_segment(whole[:length])
    complete = max(end for end in ends if end <= length)
    assert segment.events == events[: ends[complete]]
    assert segment.damage == ""
    assert segment.torn == (complete != length or length == 0)
    if length >= HEADER_BYTES:
        assert segment.good_bytes == complete


@settings(max_examples=150)
@given(FIRST_NUMBERS, BURSTS, st.data())
def test_with_any_bit_flipped_only_a_prefix_comes_out_and_it_is_reported(first, bursts, data):
    whole, events, ends = write(first, bursts)
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    segment = decode_segment(bytes(flipped))
    before = max(end for end in ends if end <= bit // 8)
    assert segment.events == events[: ends[before]]
    assert segment.damage
    assert not segment.torn


@given(FIRST_NUMBERS, BURSTS, st.integers(1, 100))
def test_length_without_bytes_at_the_end_is_torn(first, bursts, zeros):
    """After a power cut a file may have its new length and not its new bytes."""
    whole, events, _ = write(first, bursts)
    segment = decode_segment(whole + b"\0" * zeros)
    assert segment.events == events
    assert segment.torn
    assert segment.damage == ""


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_any_bytes_can_be_read(data):
    """Nothing raises, and bytes that nobody wrote give no events."""
    assert decode_segment(data).events == []
    behind_a_header = decode_segment(encode_header(1, 5) + data)
    assert behind_a_header.events == []
    assert behind_a_header.epoch == 1


@given(FIRST_NUMBERS, BURSTS, BURSTS, st.integers(1, 50))
def test_numbers_may_skip_but_never_go_back(first, one, other, skipped):
    """The numbers of a burst that could not be written are lost; a record from elsewhere is not taken."""
    encoder = BurstEncoder(first)
    head = encode_header(7, first)
    written = b"".join(map(encoder.burst, one))
    count = sum(map(len, one))
    encoder.next_sequence += skipped
    later = b"".join(map(encoder.burst, other))
    segment = decode_segment(head + written + later)
    assert len(segment.events) == count + sum(map(len, other))
    assert segment.damage == ""
    if one:
        doubled = decode_segment(head + written + written)
        assert len(doubled.events) == count
        assert doubled.damage
