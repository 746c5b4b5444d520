"""A segment is a pure function of what was appended; and whatever happens to its bytes, no wrong record comes out."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.collector.spool import frames as frames_module
from edgesocket.collector.spool.frames import (
    HEADER_BYTES,
    Frame,
    FrameKind,
    Hole,
    Place,
    append_bytes,
    cut_pieces,
    encode_append,
    encode_head,
    encode_seal,
    walk,
)
from edgesocket.collector.spool.letters import DeadLetter, id_of_line, parse_letter
from edgesocket.collector.spool.marks import decode_marks, encode_marks, merge_marks, size_of_marks
from edgesocket.collector.spool.note import SLOT_BYTES, decode_note, encode_note
from edgesocket.collector.spool.survey import HeadInfo, survey_newest, survey_older

LINES = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")), max_size=8)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=()), max_size=8)
MARKS = st.dictionaries(NAMES, NAMES, max_size=3)
APPENDS = st.lists(st.tuples(LINES, MARKS, st.booleans()), max_size=6)
SALTS = st.integers(0, 2**32 - 1)
INFO = HeadInfo(77, "group").to_bytes()


def build(salt, appends, *, sealed=False, marks=None):
    """The bytes of a segment, and for each append (end offset, records so far, synced when it was written)."""
    data = encode_head(salt, encode_marks(marks or {}), INFO)
    ordinal = 0
    synced = 0
    for lines, own_marks, sync in appends:
        place = Place(salt, len(data), ordinal, synced)
        data += b"".join(encode_append(cut_pieces(lines), encode_marks(own_marks), place))
        ordinal += len(lines)
        if sync:
            synced = len(data)
    if sealed:
        data += encode_seal(Place(salt, len(data), ordinal, len(data)), ordinal)
    return data


def reader_of(data):
    return lambda offset, length: data[offset : offset + length]


def records_of(data, salt, limit=None):
    """ordinal -> record, and the holes."""
    found, holes = {}, []
    for item in walk(reader_of(data), salt, 0, len(data) if limit is None else limit):
        if isinstance(item, Hole):
            holes.append(item)
        elif item.header.kind == FrameKind.DATA:
            found.update(enumerate(item.lines(), item.header.ordinal))
    return found, holes


@given(SALTS, APPENDS, st.booleans())
def test_what_was_appended_is_read_back(salt, appends, sealed):
    data = build(salt, appends, sealed=sealed)
    found, holes = records_of(data, salt)
    assert holes == []
    assert list(found.values()) == [line for lines, _, _ in appends for line in lines]
    assert list(found) == list(range(len(found)))
    survey = survey_newest(reader_of(data), salt, len(data))
    marks = {}
    for _, own_marks, _ in appends:
        marks.update(own_marks)
    assert survey.marks == marks
    assert survey.head == HeadInfo(77, "group")
    assert (survey.end, survey.torn, survey.records, survey.next_ordinal) == (len(data), None, len(found), len(found))
    assert (survey.seal is not None) == sealed


@given(LINES, MARKS)
def test_the_size_of_an_append_is_known_before(lines, marks):
    pieces, encoded = cut_pieces(lines), encode_marks(marks)
    assert append_bytes(pieces, encoded) == sum(map(len, encode_append(pieces, encoded, Place(1, 2, 3, 4))))


@settings(max_examples=60)
@given(st.lists(st.integers(0, 600), min_size=1, max_size=30), st.integers(40, 400))
def test_a_large_append_becomes_several_frames_that_are_one_append(sizes, frame_bytes):
    lines = [bytes([65 + number % 26]) * size for number, size in enumerate(sizes)]
    whole = frames_module.FRAME_BYTES
    frames_module.FRAME_BYTES = frame_bytes
    try:
        pieces = cut_pieces(lines)
        data = build(5, [([b"first"], {}, True), (lines, {"a": "1"}, False)])
    finally:
        frames_module.FRAME_BYTES = whole
    assert all(len(piece.joined) <= frame_bytes or piece.records == 1 for piece in pieces)
    assert list(records_of(data, 5)[0].values()) == [b"first", *lines]
    # Any end before the last one leaves nothing of it, and no mark.
    for cut in range(len(data) - 1, len(data) - len(pieces[-1].joined) - 4, -7):
        survey = survey_newest(reader_of(data), 5, cut)
        assert (survey.records, survey.marks) == (1, {})
        assert survey.torn is not None


@settings(max_examples=50)
@given(SALTS, st.lists(st.tuples(LINES, MARKS, st.just(True)), min_size=1, max_size=4))
def test_every_truncation_leaves_the_appends_that_are_whole(salt, appends):
    data = build(salt, appends)
    ends = [len(build(salt, appends[:count])) for count in range(len(appends) + 1)]
    for size in range(len(data) + 1):
        survey = survey_newest(reader_of(data[:size]), salt, size)
        whole = max((count for count, end in enumerate(ends) if end <= size), default=-1)
        assert survey.end == (ends[whole] if whole >= 0 else 0)
        assert survey.records == sum(len(lines) for lines, _, _ in appends[: max(whole, 0)])
        assert (survey.torn is None) == (survey.end == size)


@settings(max_examples=50)
@given(SALTS, st.lists(st.tuples(LINES, MARKS, st.just(True)), min_size=2, max_size=4), st.data())
def test_a_changed_byte_costs_its_own_append_and_shifts_no_other(salt, appends, data):
    segment = build(salt, appends, sealed=True)
    right, _ = records_of(segment, salt)
    where = data.draw(st.integers(0, len(segment) - 1))
    changed = bytearray(segment)
    changed[where] ^= data.draw(st.integers(1, 255))
    found, holes = records_of(bytes(changed), salt)
    assert all(right[ordinal] == line for ordinal, line in found.items())
    assert len(holes) == 1
    assert holes[0].offset <= where < holes[0].end
    ends = [len(build(salt, appends[:count])) for count in range(len(appends) + 1)]
    hit = next((count for count, end in enumerate(ends) if where < end), None)
    lost = len(appends[hit - 1][0]) if hit else 0
    assert len(found) == len(right) - lost
    if hit != len(ends) - 1 or lost == 0:
        survey = survey_newest(reader_of(bytes(changed)), salt, len(segment))
        if where < ends[-1]:
            assert survey.torn is None  # the seal says that all of it was durable
            assert survey.lost_records == lost


@given(SALTS, st.binary(max_size=200), st.binary(max_size=200))
def test_anything_at_all_can_be_walked(salt, before, after):
    good = build(salt, [([b"x"], {}, True)])
    for data in (before + after, before + good + after, good + before + good):
        items = list(walk(reader_of(data), salt, 0, len(data)))
        at = 0
        for item in items:
            start, end = (item.offset, item.end) if isinstance(item, Hole) else (item.header.offset, item.header.end)
            assert start == at
            assert end > start
            at = end
        assert at == len(data)


@given(SALTS, SALTS, st.integers(0, 3))
def test_a_frame_counts_only_in_its_own_segment_and_place(salt, other, shift):
    data = build(salt, [([b"one", b"two"], {}, True)])
    moved = b"\0" * shift + data
    found, _ = records_of(moved, other)
    assert found == ({0: b"one", 1: b"two"} if (salt, shift) == (other, 0) else {})


def test_a_copy_of_a_frame_inside_a_record_is_never_taken_for_one():
    salt = 9
    inner = build(salt, [([b"forged"], {}, True)])[len(encode_head(salt, b"", INFO)) :]
    lines = [inner.replace(b"\n", b" ")] * 3
    data = bytearray(build(salt, [(lines, {}, True), ([b"next"], {}, True)], sealed=True))
    data[len(encode_head(salt, b"", INFO)) + HEADER_BYTES + 1] ^= 1
    found, holes = records_of(bytes(data), salt)
    assert found == {3: b"next"}
    assert len(holes) == 1


def test_a_hole_that_was_never_called_durable_ends_the_segment():
    """After a power cut: pages of the first append are missing, those of the second made it."""
    salt = 3
    appends = [([b"kept"], {"f": "1"}, True), ([b"lost"], {"f": "2"}, False), ([b"behind"], {"f": "3"}, False)]
    data = bytearray(build(salt, appends))
    start = len(build(salt, appends[:1]))
    data[start : start + 20] = bytes(20)
    survey = survey_newest(reader_of(bytes(data)), salt, len(data))
    assert (survey.end, survey.records, survey.marks) == (start, 1, {"f": "1"})
    assert survey.torn == Hole(start, len(data), "no frame begins here")


def test_a_hole_that_was_called_durable_is_passed():
    salt = 3
    appends = [([b"kept"], {"f": "1"}, True), ([b"lost"], {"f": "2"}, True), ([b"behind"], {"f": "3"}, False)]
    data = bytearray(build(salt, appends))
    start = len(build(salt, appends[:1]))
    data[start : start + 20] = bytes(20)
    survey = survey_newest(reader_of(bytes(data)), salt, len(data))
    assert (survey.end, survey.records, survey.lost_records, survey.marks) == (len(data), 2, 1, {"f": "3"})
    assert survey.torn is None
    assert survey.next_ordinal == 3


def test_a_hole_at_the_end_of_an_older_segment_may_have_held_a_record_a_byte():
    salt = 3
    data = build(salt, [([b"kept"], {}, True), ([b"lost"] * 4, {}, True)])
    start = len(build(salt, [([b"kept"], {}, True)]))
    survey = survey_older(reader_of(data[:-1]), salt, len(data) - 1)
    assert survey.next_ordinal == 1 + len(data) - 1 - start


def test_frames_do_not_hold_more_than_they_need():
    frame = next(walk(reader_of(build(1, [])), 1, 0, 10_000))
    assert isinstance(frame, Frame)
    assert frame.joined == INFO


@given(MARKS)
def test_marks_are_read_back_and_their_size_is_bounded(marks):
    encoded = encode_marks(marks)
    assert decode_marks(encoded) == marks
    assert len(encoded) == size_of_marks(marks)


@given(MARKS, MARKS)
def test_an_empty_mark_takes_the_name_away(older, newer):
    merged = {name: text for name, text in older.items() if text}
    before = size_of_marks(merged)
    growth = merge_marks(merged, newer)
    assert size_of_marks(merged) == before + growth
    assert merged == {name: text for name, text in {**older, **newer}.items() if text}


@given(st.integers(1, 2**63 - 1), st.integers(0, 2**60), st.text(max_size=9), st.binary(max_size=50))
def test_dead_letters_are_read_back(batch_id, time_us, reason, payload):
    letter = DeadLetter(batch_id, time_us, reason.encode("utf-8", "replace").decode(), payload.replace(b"\n", b""))
    line = letter.to_line()
    assert line.count(b"\n") == 1
    assert parse_letter(line) == letter
    assert id_of_line(line) == batch_id
    assert id_of_line(line[:-1]) is None
    for cut in range(len(line) - 1):
        assert parse_letter(line[:cut]) is None


@given(st.integers(0, 2**63), st.binary(max_size=100), st.data())
def test_notes_are_read_back_and_damage_is_noticed(number, text, data):
    slot = encode_note(number, text) + bytes(SLOT_BYTES - 100)
    assert decode_note(slot) == (number, text)
    where = data.draw(st.integers(0, len(encode_note(number, text)) - 1))
    changed = bytearray(slot)
    changed[where] ^= 1 << data.draw(st.integers(0, 7))
    assert decode_note(bytes(changed)) is None
