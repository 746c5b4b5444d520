"""The memory of fingerprints: what it knows, for how long, and when it hashes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesocket.errors import DecodeError
from edgesocket.ids import IdRanges
from edgesocket.ingress import fingerprints as module
from edgesocket.ingress.fingerprints import FingerprintMemory, fingerprint, fingerprint_builder
from tests.support.ingress_kit import block_of, run_of


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The payloads that were hashed so far."""
    seen: list[bytes] = []
    hash_one = module.xxh3_128_digest

    def counting(payload: bytes) -> bytes:
        seen.append(bytes(payload))
        return hash_one(payload)

    monkeypatch.setattr(module, "xxh3_128_digest", counting)
    return seen


def test_a_fingerprint_is_16_bytes_and_the_same_whole_or_in_pieces() -> None:
    builder = fingerprint_builder()
    builder.update(b"he")
    builder.update(b"llo")

    assert len(fingerprint(b"hello")) == 16
    assert builder.digest() == fingerprint(b"hello")
    assert fingerprint(b"") != fingerprint(b"\0")


def test_nothing_is_hashed_on_arrival(hashed: list[bytes]) -> None:
    memory = FingerprintMemory()
    memory.remember(block_of({1: b"a", 2: b"b"}))
    memory.image()

    assert hashed == []
    assert memory.knows(1)
    assert sorted(hashed) == [b"a", b"b"]
    assert memory.matches(2, fingerprint(b"b"))
    assert len(hashed) == 3, "one by the test itself: what is known is not hashed again"


def test_records_that_leave_unasked_are_never_hashed(hashed: list[bytes]) -> None:
    memory = FingerprintMemory(limit=10)
    for first in range(1, 1001, 10):
        memory.remember(run_of(first, 10))

    assert hashed == []
    assert not memory.knows(990)
    assert memory.knows(991)
    assert len(hashed) == 10


def test_digests_that_come_along_are_not_made_again(hashed: list[bytes]) -> None:
    memory = FingerprintMemory()
    memory.remember(block_of({7: b"compressed"}), [b"0123456789abcdef"])

    assert memory.matches(7, b"0123456789abcdef")
    assert hashed == []


def test_payloads_kept_alive_are_bounded_and_hashed_by_whoever_asks(hashed: list[bytes]) -> None:
    memory = FingerprintMemory(pinned_bytes=100)
    for id_ in range(1, 6):
        memory.remember(block_of({id_: b"x" * 40}))

    released = memory.release_pinned()

    assert [segment.id_runs for segment in released] == [[(1, 1)], [(2, 2)], [(3, 3)]]
    assert hashed == []
    for segment in released:
        segment.digests()
    assert len(hashed) == 3
    assert memory.release_pinned() == []
    assert memory.matches(1, fingerprint(b"x" * 40))


def test_long_payloads_are_given_out_for_hashing_at_once(hashed: list[bytes]) -> None:
    memory = FingerprintMemory()
    memory.remember(block_of({1: b"x" * module.LONG_PAYLOAD_BYTES}))
    memory.remember(block_of({2: b"y"}))

    assert [segment.id_runs for segment in memory.release_pinned()] == [[(1, 1)]]
    assert memory.release_pinned() == []


def test_a_pinned_segment_that_leaves_the_memory_is_counted_no_more() -> None:
    memory = FingerprintMemory(limit=2, pinned_bytes=100)
    for id_ in range(1, 50):
        memory.remember(block_of({id_: b"x" * 40}))

    assert memory.release_pinned() == []


def test_two_threads_may_want_the_same_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes while the first one hashes, and the first one lets go of the block before it goes on."""
    memory = FingerprintMemory()
    memory.remember(block_of({1: b"a"}))
    (segment,) = memory.image()._segments
    expected = fingerprint(b"a")
    hash_one = module.xxh3_128_digest
    calls: list[bytes] = []

    def first_thread_is_slow(payload: bytes) -> bytes:
        monkeypatch.setattr(module, "xxh3_128_digest", hash_one)
        calls.append(segment.digests())
        return hash_one(payload)

    monkeypatch.setattr(module, "xxh3_128_digest", first_thread_is_slow)

    assert segment.digests() == expected
    assert calls == [expected]


def test_the_block_is_read_before_the_digests() -> None:
    """Between the two reads the other thread may finish: then the digests must be what is read second."""
    memory = FingerprintMemory()
    memory.remember(block_of({1: b"a"}))
    (segment,) = memory.image()._segments
    reads: list[str] = []

    class Watched(type(segment)):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> object:
            if name in ("_block", "_digests"):
                reads.append(name)
            return super().__getattribute__(name)

    watched = Watched(segment.id_runs, 1, block_of({1: b"a"}), None)
    watched.digests()

    assert reads[:2] == ["_block", "_digests"]


RECORDS = st.lists(st.lists(st.tuples(st.integers(1, 6), st.binary(max_size=2)), min_size=1, max_size=4), max_size=12)


@given(RECORDS, st.integers(1, 8), st.integers(0, 3))
def test_it_knows_the_newest_records_and_only_whole_blocks_leave(
    blocks: list[list[tuple[int, bytes]]], limit: int, look_every: int
) -> None:
    memory, kept = FingerprintMemory(limit), []
    for number, records in enumerate(blocks):
        memory.remember(block_of(records))
        kept.append(records)
        while sum(map(len, kept)) - len(kept[0]) >= limit:
            del kept[0]
        if look_every and number % look_every == 0:
            memory.knows(1)

    newest = [record for records in blocks for record in records][-limit:]
    known = [record for records in kept for record in records]
    assert all(memory.matches(id_, fingerprint(payload)) for id_, payload in newest)
    for id_ in range(1, 7):
        assert memory.knows(id_) == (id_ in {i for i, _ in known})
        for _, payload in (record for records in blocks for record in records):
            assert memory.matches(id_, fingerprint(payload)) == ((id_, payload) in known)


@given(RECORDS, st.sets(st.integers(1, 6)))
def test_settled_ids_are_forgotten_and_others_stay(blocks: list[list[tuple[int, bytes]]], settled: set[int]) -> None:
    memory = FingerprintMemory()
    for records in blocks:
        memory.remember(block_of(records))

    memory.forget(IdRanges((id_, id_) for id_ in settled))

    known = {record for records in blocks for record in records if record[0] not in settled}
    for id_ in range(1, 7):
        assert memory.knows(id_) == (id_ in {i for i, _ in known})
    assert all(memory.matches(id_, fingerprint(payload)) for id_, payload in known)


@given(RECORDS)
def test_an_image_is_restored_as_it_was(blocks: list[list[tuple[int, bytes]]]) -> None:
    memory = FingerprintMemory()
    for records in blocks:
        memory.remember(block_of(records))
    image = memory.image()
    memory.remember(block_of({99: b"later"}))

    restored = FingerprintMemory()
    restored.remember(block_of({50: b"what was there before is gone"}))
    restored.restore(image.encode())

    assert restored.image().encode() == image.encode()
    assert not restored.knows(99)
    assert not restored.knows(50)
    for id_, payload in (record for records in blocks for record in records):
        assert restored.matches(id_, fingerprint(payload))


@given(RECORDS, st.data())
def test_bytes_of_another_length_are_refused_and_change_nothing(
    blocks: list[list[tuple[int, bytes]]], data: st.DataObject
) -> None:
    memory = FingerprintMemory()
    for records in blocks:
        memory.remember(block_of(records))
    good = memory.image().encode()
    cut = data.draw(st.integers(0, len(good) - 1))
    bit = data.draw(st.integers(0, 63))
    other_length = (int.from_bytes(good[:8], "little") ^ 1 << bit).to_bytes(8, "little") + good[8:]

    for bad in (good[:cut], good + b"\0", other_length):
        with pytest.raises(DecodeError):
            memory.restore(bad)
    assert memory.image().encode() == good


def test_a_restored_memory_makes_room_for_new_records() -> None:
    full = FingerprintMemory(limit=4)
    full.remember(run_of(1, 4))
    memory = FingerprintMemory(limit=4)
    memory.restore(full.image().encode())

    memory.remember(run_of(5, 3))
    assert memory.knows(1), "the newest 4 are 4..7, and blocks leave whole"
    memory.remember(run_of(8, 1))
    assert not memory.knows(4)
    assert memory.knows(5)


def test_what_it_costs_does_not_grow_with_what_has_left() -> None:
    memory = FingerprintMemory(limit=100)
    order = random.Random(7)
    for first in range(1, 100_001, 100):
        memory.remember(run_of(first, 100))
        if order.random() < 0.1:
            memory.knows(first)

    assert len(memory._segments) == 1
    assert len(memory._index) <= 100
    assert len(memory._unhashed) <= 1
