"""A sink in the hands of a small engine: what a test needs to tell a story of writes, checkpoints and crashes.

The engine keeps manifests as JSON, as the commit log does, and crashes by forgetting the sink.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from edgesocket.components.sink import CommitRole, DecidingSink, Manifest, Sink, SinkContext
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows


def received_block(payloads: Sequence[bytes], first_id: int = 1) -> RecordBlock:
    """A columnar block over the lines a collector would have sent; no payload holds a line feed."""
    lines, starts, ends, position = [], [], [], 0
    for number, payload in enumerate(payloads, first_id):
        line = b"__BATCH__:%d:%b\n" % (number, payload)
        position += len(line)
        lines.append(line)
        starts.append(position - 1 - len(payload))
        ends.append(position - 1)
    data = np.frombuffer(b"".join(lines), dtype=np.uint8)
    return RecordBlock.of_columns(data, np.array(starts), np.array(ends), first_id)


def listed_block(payloads: Sequence[bytes], first_id: int = 1) -> RecordBlock:
    """A block of separate payloads."""
    return RecordBlock.of_payloads(range(first_id, first_id + len(payloads)), payloads)


def listed_rows(payloads: Sequence[bytes], first_id: int = 1) -> Rows:
    """Rows over `listed_block`."""
    return Rows.of_records(listed_block(payloads, first_id))


class SinkHarness(Protocol):
    """How the suite gets at a sink and its destination. One harness is one destination."""

    def sink(self) -> Sink:
        """A new sink for the destination, not opened."""

    def read(self) -> list[bytes]:
        """The payloads that a reader of the destination sees now, in order."""


class Story:
    """A small engine: one sink after another on one destination.

    It remembers what a source would give again: the rows that no recorded checkpoint covers.

    Attributes:
        sink: the sink of this run.
        epoch: of this run.
        recorded: the last checkpoint whose commit record is there, 0 for none.
        unrecorded: payloads written that no recorded checkpoint covers, in order.
    """

    def __init__(self, harness: SinkHarness) -> None:
        self.harness = harness
        self.epoch = 0
        self.recorded = 0
        self.unrecorded: list[bytes] = []
        self._next_id = 1
        self._manifests: dict[int, str] = {}
        self._prepared, self._covered = 0, 0  # the last checkpoint prepared, and how many unrecorded rows it covers
        self.sink: Sink = self.start()

    def start(self, *restored: int) -> Sink:
        """Open a sink in a new epoch with the prepared manifests of `restored`."""
        self.epoch += 1
        self.sink = self.harness.sink()
        self.sink.open(
            SinkContext(
                job="contract",
                epoch=self.epoch,
                sink_id="sink",
                last_checkpoint=max(restored, default=0),
                prepared={n: self.manifest(n) for n in sorted(restored)},
            )
        )
        return self.sink

    def write(self, *payloads: bytes) -> None:
        """Write the payloads, the first half as a columnar block, the rest as a list."""
        half = (len(payloads) + 1) // 2
        for part, make in ((payloads[:half], received_block), (payloads[half:], listed_block)):
            if part:
                self.write_block(make(part, self._next_id))

    def write_block(self, block: RecordBlock) -> None:
        """Write one block."""
        self._next_id = block.last_id + 1
        self.unrecorded += block.payloads()
        self.sink.write(Rows.of_records(block))

    def prepare(self, checkpoint: int) -> None:
        """Prepare, and keep the manifest as a commit record would."""
        self._manifests[checkpoint] = json.dumps(self.sink.prepare(checkpoint))
        self._prepared, self._covered = checkpoint, len(self.unrecorded)

    def record(self, checkpoint: int) -> None:
        """The commit record of a prepared checkpoint is there: it will not be aborted any more."""
        del self.unrecorded[: self._covered]
        self.recorded, self._covered = checkpoint, 0

    def commit(self, checkpoint: int) -> None:
        """Commit with the manifest as it came back from the commit record."""
        self.sink.commit(checkpoint, self.manifest(checkpoint))

    def checkpoint(self, checkpoint: int) -> None:
        """Prepare, record and commit in the order of the sink's role."""
        self.prepare(checkpoint)
        if self.sink.commit_role is CommitRole.DECIDING:
            self.commit(checkpoint)
            self.record(checkpoint)
        else:
            self.record(checkpoint)
            self.commit(checkpoint)

    def restore(self) -> None:
        """Go on after a crash as the engine does: find out what happened, commit that, write the rest again."""
        sink = self.start(*([self.recorded] if self.recorded else []))
        if sink.commit_role is CommitRole.DECIDING:
            deciding: DecidingSink = sink  # type: ignore[assignment]
            deciding.fence(self.epoch)
            if deciding.landed() == self._prepared > self.recorded:
                self.record(self._prepared)
        elif self.recorded:
            self.commit(self.recorded)
        self._covered = 0
        if self.unrecorded:
            again, self.unrecorded = self.unrecorded, []
            self.write(*again)

    def manifest(self, checkpoint: int) -> Manifest:
        """The manifest as it came back from the commit record."""
        manifest: Manifest = json.loads(self._manifests[checkpoint])
        return manifest

    def read(self) -> list[bytes]:
        """What a reader sees."""
        return self.harness.read()
