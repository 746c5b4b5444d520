"""A collector's lines against one ingress service, without a socket: what the tests of decisions talk with."""

from __future__ import annotations

import json

from edgesocket.ingress.admission import Admitted, PayloadCodec, RawCodec
from edgesocket.ingress.batch_states import GapRule
from edgesocket.ingress.ledger import Ledger, LedgerImage
from edgesocket.ingress.record_queue import DEFAULT_QUEUE_MAX_BYTES, RecordQueue, high_water_mark
from edgesocket.ingress.service import AdmissionRules, Burst, IngressCut, IngressService
from edgesocket.ingress.snapshot import decode_blocks, encode_blocks
from edgesocket.protocol.commands import Batch, parse_line
from edgesocket.protocol.replies import Reply
from edgesocket.records import RecordBlock

EVERYTHING = 1 << 40


class Replies(list[str]):
    """Replies in order, as words."""

    def add(self, reply: Reply, count: int = 1) -> None:
        self.extend([str(reply)] * count)


class CountingCodec(RawCodec):
    """RAW, and tells how often a payload was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[bytes] = []

    def admit(self, payload: bytes) -> Admitted:
        self.looked_at.append(payload)
        return super().admit(payload)


class Ingress:
    """A source without threads: lines in, replies out; bursts are kept as the arrival log would have them."""

    def __init__(
        self,
        capacity: int = 10,
        ratio: str = "0.9",
        *,
        max_bytes: int = DEFAULT_QUEUE_MAX_BYTES,
        rules: AdmissionRules | None = None,
        gaps: GapRule = GapRule.AUTO,
        codec: PayloadCodec | None = None,
        raw_blocks: bool = True,
    ) -> None:
        self.queue = RecordQueue(capacity, high_water_mark(capacity, ratio), max_bytes)
        self.ledger = Ledger(gaps)
        self.service = IngressService(
            rules or AdmissionRules(), self.ledger, self.queue, codec or RawCodec(), raw_blocks=raw_blocks
        )
        self.bursts: list[Burst] = []
        self.sink: list[tuple[int, bytes]] = []
        self.service.session_started()

    def say(self, *lines: str | bytes) -> list[str]:
        """One receive of whole lines; what is above the mark is refused without waiting."""
        replies = Replies()
        for line in lines:
            command = parse_line(line.encode() if isinstance(line, str) else line)
            if not isinstance(command, Batch):
                self.service.answer(command, replies)
            elif not self.service.offer_batch(command, replies):
                self.service.hold_batch(command, replies)
        assert len(replies) == len(lines)
        self._write_burst()
        return replies

    def batch(self, id_: int, payload: str | bytes = "p") -> str:
        """The reply to one batch."""
        text = payload.encode() if isinstance(payload, str) else payload
        return self.say(b"__BATCH__:%d:%b" % (id_, text))[0]

    def commit(self, id_: int) -> str:
        """The reply to one poll."""
        return self.say(f"__COMMIT__:{id_}")[0]

    def block(self, block: RecordBlock) -> list[str]:
        """One receive that the block parser has made a block of."""
        replies = Replies()
        rest = self.service.offer_block(block, replies)
        if rest is not None:
            self.service.hold_block(rest, replies)
        assert len(replies) == block.count
        self._write_burst()
        return replies

    def reconnect(self) -> None:
        self.service.session_started()

    def take(self, records: int = EVERYTHING) -> list[tuple[int, bytes]]:
        """Queued records go to the sink."""
        blocks = self.service.take(records, EVERYTHING)
        taken = [(block.id_at(n), block.payload(n)) for block in blocks for n in range(block.count)]
        self.sink += taken
        return taken

    def checkpoint(self) -> IngressCut:
        """What was taken so far is confirmed."""
        cut = self.service.cut()
        self.ledger.complete()
        return cut

    def pass_on(self) -> IngressCut:
        """Everything received is taken and confirmed."""
        self.take()
        return self.checkpoint()

    def restarted(self, cut: IngressCut | None, *, host_lost: bool = False) -> Ingress:
        """A new incarnation after a kill -9, restored from a completed checkpoint and this one's arrival log."""
        new = Ingress(self.queue.capacity, "1", rules=self.service.rules, gaps=self.ledger.gap_rule)
        last = 0
        if cut is not None:
            blocks = decode_blocks(b"".join(encode_blocks(cut.queue.blocks)))
            image = LedgerImage(**json.loads(json.dumps({n: getattr(cut.ledger, n) for n in LedgerImage.__slots__})))
            new.ledger.restore(image, [run for block in blocks for run in block.runs()])
            new.queue.restore(blocks, cut.queue.head, cut.queue.generation)
            new.service.fingerprints.restore(cut.fingerprints.encode())
            last = cut.arrival_sequence
        position = last
        for burst in self.bursts:
            for last, note in enumerate(burst.notes, burst.first_sequence):
                if last > position:
                    new.service.replay(note.kind, note.first, note.last, note.log_index)
        if host_lost:
            new.ledger.ended_unclean()
        new.service.start_sequence(last)
        new.reconnect()
        return new

    @property
    def queued(self) -> list[tuple[int, bytes]]:
        """Id and payload of every queued record."""
        blocks = self.queue.image().blocks
        return [(block.id_at(n), block.payload(n)) for block in blocks for n in range(block.count)]

    def _write_burst(self) -> None:
        burst = self.service.take_burst()
        if burst is not None:
            self.bursts.append(burst)


def block_of(records: dict[int, bytes] | list[tuple[int, bytes]]) -> RecordBlock:
    """A columnar block of records."""
    pairs = list(records.items()) if isinstance(records, dict) else records
    block = RecordBlock.of_payloads([id_ for id_, _ in pairs], [payload for _, payload in pairs])
    return RecordBlock.of_columns(*block.columns(), block.first_id, block.ids)


def run_of(first: int, count: int, payload: bytes = b"p") -> RecordBlock:
    """A block of consecutive ids, each with the same payload."""
    return block_of([(first + n, payload) for n in range(count)])
