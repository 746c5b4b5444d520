"""Fingerprints of the newest records, to tell a resend from a second record of the same batch.

A collector that lost a reply sends the batch again. Whether the line is that resend or one more record under the
same id is decided by its payload: a record with the same id and the same 128-bit fingerprint is a resend.

Hashing every record would cost more than everything else on the hot path together. So nothing is hashed on arrival:
the memory keeps a reference to the block, and hashes it only when it must know (an id is offered again, a checkpoint
writes the memory down) or when the payloads that it keeps alive pass a byte bound. Most records of a fast stream
leave the memory without ever being hashed.

Fingerprints are of the decoded payload (after decryption and decompression), so they do not depend on how a
collector compressed it the second time. XXH3-128 is not a cryptographic hash: it guards against repeats, not against a
collector that crafts one.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
from xxhash import xxh3_128, xxh3_128_digest

from edgesocket.errors import DecodeError
from edgesocket.ids import IdRange, IdRanges, runs_of
from edgesocket.records import RecordBlock

FINGERPRINT_RECORDS = 65_536
"""How many of the newest records are remembered."""

PINNED_BYTES = 32 * 1024 * 1024
"""How many bytes of not yet hashed payload buffers the memory may keep alive."""

LONG_PAYLOAD_BYTES = 512
"""Blocks whose payloads are this long on average are hashed at the next chance, while a cache still holds them:
keeping the newest 65,536 of them would cost more in memory traffic than hashing them does."""

DIGEST_BYTES = 16


def fingerprint(payload: bytes) -> bytes:
    """16 bytes that stand for a decoded payload."""
    return xxh3_128_digest(payload)


def fingerprint_builder() -> xxh3_128:
    """Builds the fingerprint of a payload that comes in pieces: `update(piece)`, then `digest()`."""
    return xxh3_128()


class Segment:
    """Records that came together: their ids, and either their payloads or their fingerprints."""

    __slots__ = ("_block", "_digests", "count", "id_runs", "long", "pinned_bytes")

    def __init__(self, runs: list[IdRange], count: int, block: RecordBlock | None, digests: bytes | None) -> None:
        self.id_runs = runs
        self.count = count
        self._block = block
        self._digests = digests
        self.pinned_bytes = 0 if block is None else block.span_bytes
        self.long = block is not None and block.payload_bytes >= count * LONG_PAYLOAD_BYTES

    def digests(self) -> bytes:
        """`count` fingerprints of 16 bytes in record order. Safe to call from a second thread."""
        block = self._block  # read first: the other thread lets go of it only when the digests are there
        known = self._digests
        if known is None:
            assert block is not None
            known = b"".join(map(xxh3_128_digest, block.payload_views()))
            self._digests = known
            self._block = None
        return known

    def ids(self) -> list[int]:
        return [id_ for first, last in self.id_runs for id_ in range(first, last + 1)]


class FingerprintImage:
    """The memory as of a cut. `encode` may run later, on another thread."""

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self._segments = segments

    def encode(self) -> bytes:
        """Count, then all ids (8 bytes each), then all fingerprints, oldest record first."""
        ids: list[int] = []
        digests: list[bytes] = []
        for segment in self._segments:
            ids.extend(segment.ids())
            digests.append(segment.digests())
        return struct.pack("<Q", len(ids)) + np.array(ids, dtype="<i8").tobytes() + b"".join(digests)


class FingerprintMemory:
    """The newest `limit` accepted records, by id.

    Not thread-safe, except that images may be encoded elsewhere.
    """

    def __init__(self, limit: int = FINGERPRINT_RECORDS, pinned_bytes: int = PINNED_BYTES) -> None:
        self._limit = limit
        self._pinned_limit = pinned_bytes
        self._segments: deque[Segment] = deque()
        self._records = 0
        self._pinned = 0
        self._unhashed: deque[Segment] = deque()
        self._hash_soon: list[Segment] = []
        self._index: dict[int, list[bytes]] = {}
        self._not_indexed: deque[Segment] = deque()

    def remember(self, block: RecordBlock, digests: Sequence[bytes] | None = None) -> None:
        """Note an accepted block. Payloads that are compressed come with their `digests`."""
        segment = Segment(block.runs(), block.count, block if digests is None else None, None)
        if digests is not None:
            segment._digests = b"".join(digests)
        self._push(segment)

    def _push(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._not_indexed.append(segment)
        self._records += segment.count
        if segment.long:
            self._hash_soon.append(segment)
        elif segment.pinned_bytes:
            self._pinned += segment.pinned_bytes
            self._unhashed.append(segment)
        while self._records - self._segments[0].count >= self._limit:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        segment = self._segments.popleft()
        self._records -= segment.count
        if self._unhashed and self._unhashed[0] is segment:
            self._unhashed.popleft()
            self._pinned -= segment.pinned_bytes
        if self._not_indexed and self._not_indexed[0] is segment:
            self._not_indexed.popleft()
            return
        for id_ in segment.ids():
            known = self._index[id_]
            known.pop(0)
            if not known:
                del self._index[id_]

    def release_pinned(self) -> list[Segment]:
        """The oldest segments whose payloads the memory may not keep alive any longer.

        The caller calls `digests()` on each, off the receiver's path and without the lock; that lets go of them.
        """
        released, self._hash_soon = self._hash_soon, []
        while self._pinned > self._pinned_limit and self._unhashed:
            segment = self._unhashed.popleft()
            self._pinned -= segment.pinned_bytes
            released.append(segment)
        return released

    def knows(self, id_: int) -> bool:
        """Whether any remembered record has this id."""
        self._bring_index_up_to_date()
        return id_ in self._index

    def matches(self, id_: int, digest: bytes) -> bool:
        """Whether a remembered record of this id has this fingerprint."""
        self._bring_index_up_to_date()
        return digest in self._index.get(id_, ())

    def _bring_index_up_to_date(self) -> None:
        index = self._index
        while self._not_indexed:
            segment = self._not_indexed.popleft()
            digests = segment.digests()
            for position, id_ in enumerate(segment.ids()):
                digest = digests[position * DIGEST_BYTES : (position + 1) * DIGEST_BYTES]
                index.setdefault(id_, []).append(digest)

    def forget(self, ids: IdRanges) -> None:
        """Forget every record of `ids`: the operator settled them, so a resend is a new record."""
        kept: list[tuple[int, bytes]] = []
        for segment in self._segments:
            digests = segment.digests()
            for position, id_ in enumerate(segment.ids()):
                if id_ not in ids:
                    kept.append((id_, digests[position * DIGEST_BYTES : (position + 1) * DIGEST_BYTES]))
        self._reset(kept)

    def image(self) -> FingerprintImage:
        """The memory as of now."""
        return FingerprintImage(tuple(self._segments))

    def restore(self, data: bytes) -> None:
        """Take over what `FingerprintImage.encode` wrote.

        Raises:
            DecodeError: the bytes are not such an image; the memory is unchanged.
        """
        count = struct.unpack_from("<Q", data)[0] if len(data) >= 8 else -1
        if len(data) != 8 + count * (8 + DIGEST_BYTES):
            raise DecodeError("fingerprints: wrong length")
        ids = np.frombuffer(data, dtype="<i8", count=count, offset=8).tolist()
        base = 8 + 8 * count
        self._reset((id_, data[base + 16 * n : base + 16 * n + 16]) for n, id_ in enumerate(ids))

    def _reset(self, records: Iterable[tuple[int, bytes]]) -> None:
        pairs = list(records)
        self._segments.clear()
        self._unhashed.clear()
        self._hash_soon.clear()
        self._not_indexed.clear()
        self._index.clear()
        self._records = self._pinned = 0
        if pairs:
            runs = runs_of(id_ for id_, _ in pairs)
            self._push(Segment(runs, len(pairs), None, b"".join(digest for _, digest in pairs)))
