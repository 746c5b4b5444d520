"""The decisions of the ingress: a block or command in, replies out, the ledger and the queue in step.

The checks on a batch run in this order, and the first that fails answers (the first two belong to the wire and are
done before an event gets here):

| # | check | reply |
|---|---|---|
| 1 | known prefix and a second colon | BAD_REQUEST |
| 2 | a batch id | INVALID_PARAM |
| 3 | the queue is below both high-water marks, the ledger below its bound | QUEUE_FULL:<ms> |
| 4 | the payload can be decrypted and decoded | DECRYPT_FAILED, DECODE_FAILED |
| 5 | the queue takes one more record | RETRY |
|   | otherwise | RECEIVED |

Waiting is the shell's part: `offer_block` and `offer_batch` hand back what is above the mark, and the shell either
offers it again when there is room or calls `hold_block`.

Everything that a restore must know of (accepted, held, settled) is noted in the *burst*, which the shell writes to
the arrival log before the replies leave. Each note has a sequence number, so that a cut can say up to which of them
it knows.

Not thread-safe: the shell holds one lock around every call.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from edgesocket.errors import DecodeError, DecryptError
from edgesocket.ingress.admission import Admitted, IvMemory, PayloadCodec
from edgesocket.ingress.batch_states import BatchState
from edgesocket.ingress.fingerprints import FingerprintImage, FingerprintMemory
from edgesocket.ingress.ledger import Ledger, LedgerImage
from edgesocket.ingress.record_queue import QueueImage, RecordQueue
from edgesocket.ingress.together import Together
from edgesocket.protocol.commands import Batch, Commit, Invalid
from edgesocket.protocol.replies import DECODE_FAILED, DECRYPT_FAILED, RECEIVED, RETRY, Reply, ReplyKind, queue_full
from edgesocket.records import Origin, RecordBlock


class ReplySink(Protocol):
    """Where replies go, in request order."""

    def add(self, reply: Reply, count: int = 1) -> None:
        """Owe `count` equal replies."""


class NoteKind(enum.IntEnum):
    """What the arrival log must know. The numbers are written to disk."""

    ACCEPTED = 1
    HELD = 2
    REFUSED = 3
    RECOGNISED = 4
    SETTLED_BY_OPERATOR = 5
    UNCLEAN_ENDED = 6


class Note(NamedTuple):
    """One thing that happened to a range of ids."""

    kind: NoteKind
    first: int
    last: int
    log_index: int = 0
    """SETTLED_BY_OPERATOR: place of the operator's entry in the commit log."""


class Burst(NamedTuple):
    """Notes to be written before replies leave.

    Attributes:
        first_sequence: sequence number of the first note.
        notes: in the order they happened.
        must_sync: whether they must be on disk, not only with the kernel.
    """

    first_sequence: int
    notes: tuple[Note, ...]
    must_sync: bool


@dataclass(frozen=True, slots=True)
class IngressCut:
    """Everything the source must remember, as of one moment (checkpoint step 1)."""

    ledger: LedgerImage
    queue: QueueImage
    fingerprints: FingerprintImage
    arrival_sequence: int
    settled_through: int


class RepeatedId(enum.Enum):
    """What a confirmed id that is offered again, beyond the memory of fingerprints, counts as."""

    RECORD = "record"
    RESEND = "resend"


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """How batches are answered.

    Attributes:
        retry_after_ms: the wait that QUEUE_FULL names.
        deduplicate: whether a repeated batch with the same payload is a resend.
        repeated_id: see RepeatedId.
    """

    retry_after_ms: int = 500
    deduplicate: bool = True
    repeated_id: RepeatedId = RepeatedId.RECORD


SOON_BYTES = 1024 * 1024
"""With less than this in the queue, decoded payloads are kept beside the compressed ones: so at most of this and what
one receive brings, times `MOST_DECODED_TO_STORED`."""

_NEVER_A_RESEND = frozenset({BatchState.GAP, BatchState.HELD, BatchState.SETTLED})
"""States without an accepted record: there is nothing that the payload could repeat."""


_HAS_A_RECORD = frozenset({BatchState.RECEIVED, BatchState.CAPTURED, BatchState.CONFIRMED})
"""States that a refusal never changes."""


class IngressService:
    """One source's decisions."""

    def __init__(
        self,
        rules: AdmissionRules,
        ledger: Ledger,
        queue: RecordQueue,
        codec: PayloadCodec,
        *,
        raw_blocks: bool = True,
    ) -> None:
        """Args: `raw_blocks`: whether payloads of blocks are records as they are (RAW), or each needs the codec."""
        self.rules = rules
        self.ledger = ledger
        self.queue = queue
        self.fingerprints = FingerprintMemory()
        self.codec = codec
        self.received = 0
        """Replies RECEIVED."""
        self.other_replies: Counter[ReplyKind] = Counter()
        """Replies to requests but RECEIVED, by kind."""
        self.received_payload_bytes = 0
        """Bytes of the payloads answered RECEIVED, as they came."""
        self.other_payload_bytes: Counter[ReplyKind] = Counter()
        """Bytes of the payloads answered otherwise."""
        self.resends = 0
        """Batches recognised as resends."""
        self.repeated_with_other_payload = 0
        self.last_repeated_id = 0
        self.reused_ivs = 0
        """Encrypted packets whose iv another record had."""
        self.origin: Origin | None = None
        """Where the records that are accepted now come from; None where nobody asks."""
        self._ivs = IvMemory()
        self._raw_blocks = raw_blocks
        self._queue_full = queue_full(rules.retry_after_ms)
        self._notes: list[Note] = []
        self._sealed_notes = 0
        """Pending notes that a cut has counted: they grow no more."""
        self._sequence = 0
        self._must_sync = False
        self.settled_through = 0
        """The newest operator's entry of the commit log that is applied."""

    # ---- the conversation ----------------------------------------------------------------------------------------

    def session_started(self) -> None:
        """A collector authenticated."""
        self.ledger.session_started()

    def offer_block(self, block: RecordBlock, replies: ReplySink) -> RecordBlock | None:
        """Admit the leading records of a block. Returns those at the mark (not answered yet), None if all are in."""
        if self._raw_blocks and block.first_id > self.ledger.highest_known and block.rising:
            taken = 0 if self.ledger.overloaded else self.queue.takes_of(block)
            if taken:
                part = block.part(0, taken)
                self._accept_block(part)
                self._reply(replies, RECEIVED, taken, part.payload_bytes)
            return None if taken == block.count else block.part(taken, block.count)
        return self._offer_known_ids(block, replies)

    def _offer_known_ids(self, block: RecordBlock, replies: ReplySink) -> RecordBlock | None:
        if self._raw_blocks and block.ids is None:
            position = 0
            for state, first, last in self.ledger.segments(block.first_id, block.last_id):
                part = block.part(position, position + last - first + 1)
                rest = self._offer_new(part, state, replies) if state in _NEVER_A_RESEND else self._each(part, replies)
                position += part.count - (rest.count if rest else 0)
                if rest:
                    return block.part(position, block.count)
            return None
        return self._each(block, replies)

    def _offer_new(self, block: RecordBlock, state: BatchState, replies: ReplySink) -> RecordBlock | None:
        taken = 0 if self.ledger.overloaded else self.queue.takes_of(block)
        if taken:
            self._must_sync |= self._nobody_would_miss(state, block.first_id)
            part = block.part(0, taken)
            self._accept_block(part)
            self._reply(replies, RECEIVED, taken, part.payload_bytes)
        return None if taken == block.count else block.part(taken, block.count)

    def _each(self, block: RecordBlock, replies: ReplySink) -> RecordBlock | None:
        if block.ids is None and block.first_id > self.ledger.highest_known:
            return self._each_new(block, replies)
        for index, payload in enumerate(block.payloads()):
            if not self._offer(block.id_at(index), payload, replies):
                return block.part(index, block.count)
        return None

    def _each_new(self, block: RecordBlock, replies: ReplySink) -> RecordBlock | None:
        """Admit records of ids that nobody knows, so that none can be a resend: those accepted go in as one block."""
        together = Together()
        overloaded = self.ledger.overloaded
        for index, payload in enumerate(block.payloads()):
            batch_id = block.first_id + index
            if overloaded or not self.queue.takes(len(payload), together.records, together.bytes):
                self._accept_together(together, replies)
                return block.part(index, block.count)
            try:
                admitted = self.codec.admit(payload)
                refusal = RETRY if self.queue.is_full(together.records) else None
            except DecryptError:
                refusal = DECRYPT_FAILED
            except DecodeError:
                refusal = DECODE_FAILED
            if refusal is not None:
                self._accept_together(together, replies)
                together = Together()
                (self._refuse if refusal is DECODE_FAILED else self._hold_one)(batch_id)
                self._reply(replies, refusal, 1, len(payload))
                overloaded = self.ledger.overloaded
                continue
            if admitted.iv is not None:
                self.reused_ivs += self._ivs.is_reused(admitted.iv, batch_id, admitted.digest)
            if not together.fits(admitted):
                self._accept_together(together, replies)
                together = Together()
            together.add(batch_id, admitted)
            together.offered_bytes += len(payload)
        self._accept_together(together, replies)
        return None

    def _accept_together(self, together: Together, replies: ReplySink) -> None:
        if together.records:
            # Behind a short queue the sinks come soon, and would only have to inflate what was just inflated.
            soon = self.queue.payload_bytes < SOON_BYTES
            self._accept_block(together.block(with_decoded=soon), together.digests)
            self._reply(replies, RECEIVED, together.records, together.offered_bytes)

    def hold_block(self, block: RecordBlock, replies: ReplySink) -> None:
        """Answer QUEUE_FULL to every record of a block that `offer_block` handed back."""
        for first, last in block.runs():
            self._hold(first, last)
        self._reply(replies, self._queue_full, block.count, block.payload_bytes)

    def offer_batch(self, batch: Batch, replies: ReplySink) -> bool:
        """Answer one batch line. False when it is at the mark: offer it again or hold it."""
        return self._offer(batch.batch_id, batch.payload, replies)

    def hold_batch(self, batch: Batch, replies: ReplySink) -> None:
        """Answer QUEUE_FULL to one batch line."""
        self._hold(batch.batch_id, batch.batch_id)
        self._reply(replies, self._queue_full, 1, len(batch.payload))

    def answer(self, command: Commit | Invalid, replies: ReplySink) -> None:
        """Answer a commit poll, or a line that is no request."""
        reply = self.ledger.answer_commit(command.batch_id) if isinstance(command, Commit) else command.reply
        self._reply(replies, reply)

    def _offer(self, batch_id: int, payload: bytes, replies: ReplySink) -> bool:
        if self.ledger.overloaded or not self.queue.takes(len(payload)):
            return False
        self._reply(replies, self._decide(batch_id, payload), 1, len(payload))
        return True

    def _decide(self, batch_id: int, payload: bytes) -> Reply:
        """Checks 4 and 5, then what an accepted line is: a new record or a resend."""
        try:
            admitted = self.codec.admit(payload)
        except DecryptError:
            self._hold(batch_id, batch_id)
            return DECRYPT_FAILED
        except DecodeError:
            self._refuse(batch_id)
            return DECODE_FAILED
        if self.queue.is_full():
            self._hold(batch_id, batch_id)
            return RETRY
        state = self.ledger.state(batch_id)
        if self._is_resend(batch_id, state, admitted):
            self.resends += 1
            if self.ledger.recognise(batch_id):
                self._note(NoteKind.RECOGNISED, batch_id, batch_id)
            return RECEIVED
        if admitted.iv is not None:
            self.reused_ivs += self._ivs.is_reused(admitted.iv, batch_id, admitted.digest)
        self._must_sync |= self._nobody_would_miss(state, batch_id)
        block = RecordBlock.of_payloads([batch_id], [admitted.stored], admitted.compression)
        self._accept_block(block, [admitted.digest])
        return RECEIVED

    def _is_resend(self, batch_id: int, state: BatchState, admitted: Admitted) -> bool:
        if not self.rules.deduplicate or not self.ledger.has_record(batch_id):
            return False
        if self.fingerprints.knows(batch_id):
            if self.fingerprints.matches(batch_id, admitted.digest):
                return True
            self.repeated_with_other_payload += 1
            self.last_repeated_id = batch_id
            return False
        if state is BatchState.LOST:
            return False
        if self.ledger.was_confirmed_at_auth(batch_id):
            return self.rules.repeated_id is RepeatedId.RESEND
        return True

    def _accept_block(self, block: RecordBlock, digests: list[bytes] | None = None) -> None:
        # The floor must be on disk before the first reply ever: without it the watermark has no beginning.
        self._must_sync |= self.ledger.floor is None
        block = self.queue.fitted(block)
        if self.origin is not None:
            block = block.with_origin(self.origin)
        self.queue.append(block)
        if self.rules.deduplicate:
            self.fingerprints.remember(block, digests)
        for first, last in block.runs():
            self.ledger.accept(first, last)
            self._note(NoteKind.ACCEPTED, first, last)

    def _refuse(self, batch_id: int) -> None:
        # A refusal settles nothing where a record is here already. Noted as REFUSED it would, at a restore that finds
        # that record lost; a hold leaves lost what is lost.
        settles = self.ledger.state(batch_id) not in _HAS_A_RECORD
        self.ledger.refuse(batch_id)
        self._note(NoteKind.REFUSED if settles else NoteKind.HELD, batch_id, batch_id)
        self._must_sync = True

    def _nobody_would_miss(self, state: BatchState, id_: int) -> bool:
        """Whether a record accepted now, and lost with the host, would leave an id that an ACK may cover.

        An id above all others would not: after an unclean end it counts as lost when it is passed over. A late one
        would look like a legal gap, and a second record like the first one.
        """
        return state in _HAS_A_RECORD or self._nobody_would_hold(state, id_)

    def _nobody_would_hold(self, state: BatchState, id_: int) -> bool:
        """The same of an id that is refused for now."""
        return state is BatchState.SETTLED or (state is BatchState.GAP and id_ < self.ledger.highest_offered)

    def _hold_one(self, batch_id: int) -> None:
        self._hold(batch_id, batch_id)

    def _hold(self, first: int, last: int) -> None:
        if self.ledger.floor is None:
            self._must_sync = True
        elif first <= self.ledger.highest_known:
            known = self.ledger.segments(first, last)
            self._must_sync |= any(self._nobody_would_hold(state, low) for state, low, _ in known)
        self.ledger.hold(first, last)
        self._note(NoteKind.HELD, first, last)

    def _reply(self, replies: ReplySink, reply: Reply, count: int = 1, payload_bytes: int = 0) -> None:
        """Owe `count` equal replies, to batches with so many bytes of payload together."""
        replies.add(reply, count)
        if reply is RECEIVED:
            self.received += count
            self.received_payload_bytes += payload_bytes
        else:
            self.other_replies[reply.kind] += count
            self.other_payload_bytes[reply.kind] += payload_bytes

    def reply_counts(self) -> dict[str, int]:
        """How often each kind of reply was given to a request, for the status."""
        counts = {kind.name: count for kind, count in self.other_replies.items()}
        return {ReplyKind.RECEIVED.name: self.received, **counts} if self.received else counts

    def payload_byte_counts(self) -> dict[str, int]:
        """Bytes of payloads as they were offered, by the reply they got, for the status. None of a poll."""
        counts = {kind.name: count for kind, count in self.other_payload_bytes.items() if count}
        received = self.received_payload_bytes
        return {ReplyKind.RECEIVED.name: received, **counts} if received else counts

    def _note(self, kind: NoteKind, first: int, last: int) -> None:
        notes = self._notes
        if len(notes) > self._sealed_notes and notes[-1].kind is kind and notes[-1].last + 1 == first:
            notes[-1] = Note(kind, notes[-1].first, last)
            return
        notes.append(Note(kind, first, last))
        self._sequence += 1

    def take_burst(self) -> Burst | None:
        """The notes since the last call, to be written before any of their replies leaves; None if there are none."""
        if not self._notes:
            return None
        burst = Burst(self._sequence - len(self._notes) + 1, tuple(self._notes), self._must_sync)
        self._notes.clear()
        self._sealed_notes = 0
        self._must_sync = False
        return burst

    # ---- the pipeline --------------------------------------------------------------------------------------------

    def take(self, max_records: int, max_bytes: int) -> list[RecordBlock]:
        """Take queued blocks for the sinks, see `RecordQueue.take`; they count as emitted from here on."""
        blocks = self.queue.take(max_records, max_bytes)
        if blocks:
            self.ledger.emit([run for block in blocks for run in block.runs()])
        return blocks

    def cut(self) -> IngressCut:
        """Checkpoint step 1."""
        # A note that grew after this cut would carry ids that the cut does not know under a number that it does.
        self._sealed_notes = len(self._notes)
        return IngressCut(
            self.ledger.cut(), self.queue.image(), self.fingerprints.image(), self._sequence, self.settled_through
        )

    def settle(self, first: int, last: int, log_index: int) -> int:
        """The operator settled `first..last` by commit log entry `log_index`. Returns how many records were dropped."""
        discarded = self._settle(first, last)
        self._notes.append(Note(NoteKind.SETTLED_BY_OPERATOR, first, last, log_index))
        self._sequence += 1
        self.settled_through = max(self.settled_through, log_index)
        return discarded

    def end_unclean(self, log_index: int) -> None:
        """The operator said, by commit log entry `log_index`, that nothing is missing after the unclean end."""
        self.ledger.end_unclean()
        self._notes.append(Note(NoteKind.UNCLEAN_ENDED, 1, 1, log_index))
        self._sequence += 1
        self.settled_through = max(self.settled_through, log_index)

    def _settle(self, first: int, last: int) -> int:
        queued = self.ledger.settle(first, last)
        if not queued:
            return 0
        self.fingerprints.forget(queued)
        return self.queue.discard(queued)

    # ---- restore -------------------------------------------------------------------------------------------------

    def replay(self, kind: NoteKind, first: int, last: int, log_index: int = 0) -> None:
        """Take over one note of an earlier incarnation's arrival log."""
        replays = {
            NoteKind.ACCEPTED: self.ledger.replay_accepted,
            NoteKind.HELD: self.ledger.replay_held,
            NoteKind.REFUSED: self.ledger.replay_refused,
            NoteKind.RECOGNISED: self.ledger.replay_recognised,
        }
        if kind in (NoteKind.SETTLED_BY_OPERATOR, NoteKind.UNCLEAN_ENDED):
            if kind is NoteKind.UNCLEAN_ENDED:
                self.ledger.end_unclean()
            else:
                self._settle(first, last)
            self.settled_through = max(self.settled_through, log_index)
        else:
            replays[kind](first, last)

    def start_sequence(self, last_used: int) -> None:
        """Number notes from `last_used + 1` on: sequence numbers rise over incarnations."""
        self._sequence = last_used
