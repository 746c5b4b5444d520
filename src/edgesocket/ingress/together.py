"""Records that were admitted one by one, and are queued as one block: the cost of moving a block is paid once."""

from __future__ import annotations

from edgesocket.compression import Compression
from edgesocket.ingress.admission import Admitted
from edgesocket.records import RecordBlock

MOST_DECODED_TO_STORED = 8
"""Decoded payloads travel along only where they are at most so many times as large as what is queued."""


class Together:
    """Admitted records with ids that follow each other, compressed in one way. Empty at first.

    Attributes:
        records: how many.
        bytes: of what will be queued.
        offered_bytes: of the payloads as they came; counted by the caller.
        digests: fingerprints of the decoded payloads.
    """

    __slots__ = (
        "_compression",
        "_decoded",
        "_decoded_bytes",
        "_first_id",
        "_stored",
        "bytes",
        "digests",
        "offered_bytes",
        "records",
    )

    def __init__(self) -> None:
        self.records = 0
        self.bytes = self.offered_bytes = 0
        self.digests: list[bytes] = []
        self._first_id = 0
        self._compression = Compression.NONE
        self._stored: list[bytes] = []
        self._decoded: list[bytes] = []
        self._decoded_bytes = 0

    def fits(self, admitted: Admitted) -> bool:
        """Whether a record may join: blocks have one compression."""
        return not self.records or admitted.compression is self._compression

    def add(self, batch_id: int, admitted: Admitted) -> None:
        """Take the record of the id that comes next."""
        if not self.records:
            self._first_id, self._compression = batch_id, admitted.compression
        self.records += 1
        self.bytes += len(admitted.stored)
        self._stored.append(admitted.stored)
        self.digests.append(admitted.digest)
        if admitted.record is not None:
            self._decoded.append(admitted.record)
            self._decoded_bytes += len(admitted.record)

    def block(self, *, with_decoded: bool) -> RecordBlock:
        """All of them. Not of an empty one.

        Args:
            with_decoded: let the decoded payloads travel along, if all are at hand and not much larger.
        """
        block = RecordBlock.of_run(self._first_id, self._stored, self._compression)
        all_known = len(self._decoded) == self.records
        if with_decoded and all_known and self._decoded_bytes <= MOST_DECODED_TO_STORED * self.bytes:
            block.decoded = self._decoded
        return block
