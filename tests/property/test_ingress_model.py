"""The ingress against a second, plain reading of its rules (`support/ingress_model.py`), over random lives of a job.

Each run is a job: a collector that sends, resends and polls, sinks, checkpoints that complete or not, an operator,
and crashes from which the source restores itself the way it does in production (`sources.restore`). After every step
the real ingress and the model agree on every id, and no ACK that could be sent now covers a batch that is not safe.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edgesocket.errors import DecryptError
from edgesocket.ingress.admission import Admitted, RawCodec
from edgesocket.ingress.batch_states import GapRule
from edgesocket.ingress.fingerprints import FingerprintMemory
from edgesocket.ingress.ledger import Ledger, LedgerImage
from edgesocket.ingress.record_queue import RecordQueue, high_water_mark
from edgesocket.ingress.service import AdmissionRules, Burst, IngressService, Note, NoteKind, RepeatedId
from edgesocket.ingress.snapshot import decode_blocks, encode_blocks
from edgesocket.protocol.commands import Batch, Commit
from edgesocket.protocol.replies import Reply
from edgesocket.records import RecordBlock
from tests.support.ingress_model import ACCEPTED, Memory, Model

ALL_IDS = range(1, 16)
IDS = st.one_of(st.integers(1, 4), st.integers(1, 12))
PAYLOADS = {"a": b"a", "bb": b"bb", "ccc": b"ccc", "bad": b"\xff\xfe\xfd", "locked": b"locked"}
GOOD = st.sampled_from(["a", "bb", "ccc"])
ANY = st.sampled_from(list(PAYLOADS))
NOTE_NAMES = {
    NoteKind.ACCEPTED: "accepted",
    NoteKind.HELD: "held",
    NoteKind.REFUSED: "refused",
    NoteKind.RECOGNISED: "recognised",
    NoteKind.SETTLED_BY_OPERATOR: "operator",
    NoteKind.UNCLEAN_ENDED: "unclean end settled",
}
SETS = ("_received", "_captured", "_captured_in_cut", "_confirmed", "_held_here", "_held_earlier", "_settled", "_gaps")


class Codec(RawCodec):
    """RAW, but one payload cannot be decrypted."""

    def admit(self, payload: bytes) -> Admitted:
        if payload == b"locked":
            raise DecryptError("no key")
        return super().admit(payload)


@dataclass
class Checkpoint:
    """What a completed checkpoint leaves: the source's part as JSON and bytes, the model's, and what the sinks got."""

    epoch: int
    ledger: str
    queue: tuple[bytes, int, int]
    prints: bytes
    sequence: int
    settled_through: int
    model: Memory
    records: list[tuple[int, str]]


class Replies(list[str]):
    def add(self, reply: Reply, count: int = 1) -> None:
        self.extend([str(reply)] * count)


class IngressMachine(RuleBasedStateMachine):
    @initialize(
        gaps=st.sampled_from(GapRule),
        capacity=st.integers(3, 6),
        ratio=st.sampled_from(["0.6", "0.9", "1.0"]),
        max_bytes=st.sampled_from([9, 1000]),
        dedupe=st.sampled_from([True, True, True, False]),
        repeated=st.sampled_from(RepeatedId),
        prints_kept=st.sampled_from([2, 1000]),
    )
    def start(
        self,
        gaps: GapRule,
        capacity: int,
        ratio: str,
        max_bytes: int,
        dedupe: bool,
        repeated: RepeatedId,
        prints_kept: int,
    ) -> None:
        self.options: dict[str, Any] = {"dedupe": dedupe, "repeated": repeated, "prints_kept": prints_kept}
        self.options |= {"gaps": gaps, "capacity": capacity, "ratio": ratio, "max_bytes": max_bytes}
        mark = high_water_mark(capacity, ratio)
        self.service = self._new_service()
        self.model = Model(gaps.value, mark, max_bytes, dedupe, repeated.value, prints_kept)
        self.blocks_are_exact = prints_kept == 1000
        # The engine: what went to the sinks since the last cut, what the cut under way has, what is committed.
        self.emitted: list[tuple[int, str]] = []
        self.cut_under_way: Checkpoint | None = None
        self.completed: Checkpoint | None = None
        self.sink: set[tuple[int, str]] = set()
        # The commit log's operator entries, counted from 1: first and last id, and whether they end an unclean end.
        self.settlements: list[tuple[int, int, bool]] = []
        # The arrival log. Of this incarnation: bursts, with the length of the model's log behind each. Of those before:
        # notes by epoch and sequence number, and None for an unclean end.
        self.epoch = 1
        self.bursts: list[tuple[Burst, int]] = []
        self.logged = self.incarnation_start = 0
        self.earlier: list[tuple[int, int, Note | None]] = []
        # The collector: what it holds, and what no ACK may cover yet ("received" or only "refused").
        self.buffer: set[tuple[int, str]] = set()
        self.owed: dict[tuple[int, str], str] = {}
        self.lowest_w = 0
        self.connect()

    def _new_service(self) -> IngressService:
        job = self.options
        rules = AdmissionRules(500, job["dedupe"], job["repeated"])
        mark = high_water_mark(job["capacity"], job["ratio"])
        queue = RecordQueue(job["capacity"], mark, job["max_bytes"])
        service = IngressService(rules, Ledger(job["gaps"]), queue, Codec())
        service.fingerprints = FingerprintMemory(job["prints_kept"])
        return service

    # ---- the collector

    @rule()
    def connect(self) -> None:
        self.service.session_started()
        self.model.session_started()

    @rule(id_=IDS, payload=st.sampled_from(["a", "bb", "bad"]))
    def offer_again(self, id_: int, payload: str) -> None:
        self.offer(id_, payload)

    @rule(id_=IDS, payload=ANY)
    def offer(self, id_: int, payload: str) -> None:
        replies = Replies()
        batch = Batch(id_, PAYLOADS[payload])
        if not self.service.offer_batch(batch, replies):
            self.service.hold_batch(batch, replies)
        self._answered([(id_, payload)], replies)

    @rule(id_=IDS, payloads=st.lists(GOOD, min_size=1, max_size=5), columns=st.booleans())
    def offer_consecutive(self, id_: int, payloads: list[str], columns: bool) -> None:
        self._offer_block([(id_ + n, payload) for n, payload in enumerate(payloads)], columns)

    @rule(records=st.lists(st.tuples(IDS, GOOD), min_size=1, max_size=5), columns=st.booleans(), rising=st.booleans())
    def offer_sparse(self, records: list[tuple[int, str]], columns: bool, rising: bool) -> None:
        self._offer_block(sorted(dict(records).items()) if rising else records, columns)

    def _offer_block(self, records: list[tuple[int, str]], columns: bool) -> None:
        if not self.blocks_are_exact:
            for id_, payload in records:
                self.offer(id_, payload)
            return
        block = RecordBlock.of_payloads([id_ for id_, _ in records], [PAYLOADS[p] for _, p in records])
        if columns:
            block = RecordBlock.of_columns(*block.columns(), block.first_id, block.ids)
        replies = Replies()
        rest = self.service.offer_block(block, replies)
        if rest is not None:
            assert len(replies) + rest.count == len(records)
            self.service.hold_block(rest, replies)
        self._answered(records, replies)

    @precondition(lambda self: self.buffer)
    @rule(data=st.data())
    def resend(self, data: st.DataObject) -> None:
        self.offer(*data.draw(st.sampled_from(sorted(self.buffer))))

    @rule(id_=st.sampled_from(ALL_IDS))
    def poll(self, id_: int) -> None:
        """An eager collector: it deletes what an ACK covers."""
        replies = Replies()
        self.service.answer(Commit(id_), replies)
        assert replies == [self.model.commit(id_)]
        if replies[0].startswith("ACK:"):
            a = int(replies[0].removeprefix("ACK:"))
            self.buffer = {(i, p) for i, p in self.buffer if i > a}

    def _answered(self, records: list[tuple[int, str]], replies: list[str]) -> None:
        """One reply each; the model gives the same ones. From the first QUEUE_FULL of a block on, all get it."""
        assert len(replies) == len(records)
        expected = ""
        for (id_, payload), reply in zip(records, replies, strict=True):
            before = self.model.of(id_)
            full = expected == "QUEUE_FULL"
            expected = self.model.refuse_for_now(id_) if full else self._model_offer(id_, payload)
            assert reply.split(":")[0] == expected
            self._owe(id_, payload, expected, before)
        self._write_burst()

    def _model_offer(self, id_: int, payload: str) -> str:
        if payload == "locked":
            room = self.model.has_room(len(payload))
            self.model.refuse_for_now(id_)
            return "DECRYPT_FAILED" if room else "QUEUE_FULL"
        return self.model.offer(id_, payload)

    def _alive(self) -> set[tuple[int, str]]:
        """Records that are on their way or there."""
        in_cut = self.cut_under_way.records if self.cut_under_way else []
        return {*self.model.queue, *self.emitted, *in_cut, *self.sink}

    def _owe(self, id_: int, payload: str, reply: str, before: str) -> None:
        """Keep the books of W1: which batches an ACK may cover only once they are in a completed checkpoint."""
        others = [key for key in self.owed if key[0] == id_]
        alive = self._alive()
        if reply == "RECEIVED":
            for key in others:
                # The latest word on an id decides; and one RECEIVED ends lost, whatever else was lost of the id.
                if self.owed[key] == "refused" or (before not in ACCEPTED and key not in alive):
                    del self.owed[key]
            if (id_, payload) in alive:
                self.owed[id_, payload] = "received"
                self.buffer.add((id_, payload))
        elif reply == "DECODE_FAILED":
            if before not in ACCEPTED:
                for key in others:
                    if key not in alive:
                        del self.owed[key]
        elif before not in ACCEPTED:
            self.owed.setdefault((id_, payload), "refused")
            self.buffer.add((id_, payload))

    def _write_burst(self) -> None:
        """What the source does before the replies leave. The notes say exactly what the model says of each id."""
        burst = self.service.take_burst()
        notes = [] if burst is None else burst.notes
        said = [(NOTE_NAMES[n.kind], id_, n.log_index) for n in notes for id_ in range(n.first, n.last + 1)]
        assert said == self.model.log[self.logged :]
        self.logged = len(self.model.log)
        if burst is not None:
            self.bursts.append((burst, self.logged))

    # ---- sinks and checkpoints

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        blocks = self.service.take(count, 10**9)
        taken = [(block.id_at(n), block.payload(n).decode()) for block in blocks for n in range(block.count)]
        assert taken == self.model.queue[:count]
        self.model.take(count)
        self.emitted += taken

    @precondition(lambda self: self.cut_under_way is None)
    @rule()
    def cut(self) -> None:
        cut = self.service.cut()
        self.cut_under_way = Checkpoint(
            self.epoch,
            json.dumps(asdict(cut.ledger)),
            (b"".join(encode_blocks(cut.queue.blocks)), cut.queue.head, cut.queue.generation),
            cut.fingerprints.encode(),
            cut.arrival_sequence,
            cut.settled_through,
            self.model.cut(),
            self.emitted,
        )
        self.emitted = []

    @precondition(lambda self: self.cut_under_way is not None)
    @rule()
    def complete(self) -> None:
        self._land()
        self.service.ledger.complete()
        self.model.complete()

    def _land(self) -> None:
        assert self.cut_under_way is not None
        self.completed, self.cut_under_way = self.cut_under_way, None
        self.sink |= set(self.completed.records)

    @precondition(lambda self: self.cut_under_way is None)
    @rule()
    def checkpoint(self) -> None:
        self.take(100)
        self.cut()
        self.complete()

    @precondition(lambda self: self.cut_under_way is not None)
    @rule()
    def abort(self) -> None:
        assert self.cut_under_way is not None
        self.emitted = self.cut_under_way.records + self.emitted
        self.cut_under_way = None
        self.service.ledger.abort()
        self.model.abort()

    # ---- the operator

    def _enter(self, first: int, last: int, ends_unclean: bool) -> None:
        self.settlements.append((first, last, ends_unclean))
        self.owed = {key: word for key, word in self.owed.items() if not first <= key[0] <= last}

    def _apply_settlement(self, log_index: int) -> None:
        first, last, ends_unclean = self.settlements[log_index - 1]
        self.service.settle(first, last, log_index)
        self.model.settle(first, last, log_index)
        self.model.log += [("operator", id_, log_index) for id_ in range(first, last + 1)]
        if ends_unclean:
            self.service.end_unclean(log_index)
            self.model.k = None
            self.model.log.append(("unclean end settled", 1, log_index))
            self._drop_what_nobody_knows()

    @rule(first=st.sampled_from(ALL_IDS), count=st.integers(1, 4), ends_unclean=st.booleans())
    def settle(self, first: int, count: int, ends_unclean: bool) -> None:
        self._enter(first, first + count - 1, ends_unclean)
        self._apply_settlement(len(self.settlements))

    def _drop_what_nobody_knows(self) -> None:
        """`skip`, or the operator's word, on what a lost host had accepted: nothing is missing."""
        self.owed = {key: word for key, word in self.owed.items() if self.model.of(key[0]) != "gap"}

    # ---- crashes

    @rule(kind=st.sampled_from(["kill", "kill", "lose host", "settle", "options"]), data=st.data())
    def crash(self, kind: str, data: st.DataObject) -> None:
        """A checkpoint that had reached its point of no return is completed by the next incarnation."""
        landed = self.cut_under_way is not None and data.draw(st.booleans())
        if kind == "lose host":
            # Bursts that were not synced may be gone.
            synced = max([n + 1 for n, (burst, _) in enumerate(self.bursts) if burst.must_sync], default=0)
            self._crash(landed, data.draw(st.integers(synced, len(self.bursts))), host_lost=True)
            return
        if kind == "settle":
            # The operator's word on a job that does not run.
            id_ = data.draw(IDS)
            self._enter(id_, id_, ends_unclean=False)
        elif kind == "options":
            self._change_options(data.draw(st.sampled_from(GapRule)), data.draw(st.integers(1, 6)))
        self._crash(landed, len(self.bursts), host_lost=False)

    def _change_options(self, gaps: GapRule, capacity: int) -> None:
        self.options |= {"gaps": gaps, "capacity": capacity, "dedupe": not self.options["dedupe"]}
        self.model.rule, self.model.dedupe = gaps.value, self.options["dedupe"]
        self.model.mark = high_water_mark(capacity, self.options["ratio"])

    def _crash(self, landed: bool, kept: int, *, host_lost: bool) -> None:
        if self.cut_under_way is not None and landed:
            self._land()
        self.cut_under_way, self.emitted = None, []
        log = self.model.log[: self.bursts[kept - 1][1] if kept else self.incarnation_start]
        for burst, _ in self.bursts[:kept]:
            for sequence, note in enumerate(burst.notes, burst.first_sequence):
                self.earlier.append((self.epoch, sequence, note))
        self.epoch += 1
        if host_lost:
            self.earlier.append((self.epoch, 0, None))
        self.bursts = []
        self._restore_service()
        self._restore_model(log, host_lost=host_lost)
        for log_index in range(1, len(self.settlements) + 1):
            if log_index > self.model.settled_through:
                self._apply_settlement(log_index)
        self.connect()

    def _restore_service(self) -> None:
        """As a source does it."""
        self.service = service = self._new_service()
        checkpoint, last = self.completed, 0
        if checkpoint is not None:
            blocks = decode_blocks(checkpoint.queue[0])
            runs = [run for block in blocks for run in block.runs()]
            service.ledger.restore(LedgerImage(**json.loads(checkpoint.ledger)), runs)
            service.queue.restore(blocks, *checkpoint.queue[1:])
            service.fingerprints.restore(checkpoint.prints)
            service.settled_through, last = checkpoint.settled_through, checkpoint.sequence
        position, epoch_of_record = last, checkpoint.epoch if checkpoint else 0
        for epoch, sequence, note in self.earlier:
            if note is None and epoch > epoch_of_record:
                service.ledger.ended_unclean()
            elif note is not None and sequence > position:
                service.replay(note.kind, note.first, note.last, note.log_index)
                last = sequence
        service.start_sequence(last)

    def _restore_model(self, log: list[tuple[str, int, int]], *, host_lost: bool) -> None:
        memory = self.completed.model if self.completed else Memory()
        log += [("nothing", 0, 0)] * (memory.position - len(log))
        if host_lost:
            log.append(("unclean end", 0, 0))
        self.model.restore(memory, log)
        if self.model.rule == "skip":
            self._drop_what_nobody_knows()
        # A second record that the operator settled does not make its id less confirmed, and no refusal does.
        for id_, payload in [key for key, word in self.owed.items() if word == "refused"]:
            if self.model.of(id_) == "confirmed":
                del self.owed[id_, payload]
        self.logged = self.incarnation_start = len(log)

    # ---- what holds after every step

    @invariant()
    def every_answer_is_the_models(self) -> None:
        ledger, model = self.service.ledger, self.model
        assert {i: ledger.state(i).value for i in ALL_IDS} == {i: model.of(i) for i in ALL_IDS}
        assert (ledger.watermark, ledger.ack_number) == (model.w, model.a)
        assert (ledger.floor, ledger.unclean_floor, ledger.highest_offered) == (model.floor, model.k, model.highest)
        assert [str(ledger.answer_commit(i)) for i in ALL_IDS] == [model.commit(i) for i in ALL_IDS]
        queued = [id_ for first, last in self.service.queue.image().runs() for id_ in range(first, last + 1)]
        assert queued == [id_ for id_, _ in model.queue]
        assert self.service.queue.payload_bytes == sum(len(payload) for _, payload in model.queue)

    @invariant()
    def the_watermark_never_falls(self) -> None:
        assert self.service.ledger.watermark >= self.lowest_w
        self.lowest_w = self.service.ledger.watermark

    @invariant()
    def no_ack_covers_a_batch_that_is_not_safe(self) -> None:
        a = self.service.ledger.ack_number
        unsafe = {key: word for key, word in self.owed.items() if key[0] <= a and key not in self.sink}
        assert not unsafe, f"ACK:{a} covers {unsafe}"

    @invariant()
    def an_id_is_in_one_set_only(self) -> None:
        ledger: Any = self.service.ledger
        listed = [id_ for name in SETS for first, last in getattr(ledger, name) for id_ in range(first, last + 1)]
        assert len(listed) == len(set(listed))

    def teardown(self) -> None:
        """Once everything that holds is accepted and a checkpoint completes, everything is confirmed."""
        if not hasattr(self, "service"):
            return
        if self.cut_under_way is not None:
            self.complete()
        holding = ("held", "lost", "gap") if self.model.rule == "hold" else ("held", "lost")
        for id_ in range(1, self.model.highest + 1):
            while self.model.of(id_) in holding and id_ > (self.model.floor or 0):
                self.take(100)
                self.offer(id_, "a")
            while self.model.of(id_) in ("held", "lost"):
                self.take(100)
                self.offer(id_, "a")
        self.take(100)
        self.cut()
        self.complete()
        self.every_answer_is_the_models()
        self.no_ack_covers_a_batch_that_is_not_safe()
        assert self.service.ledger.ack_number == self.service.ledger.watermark >= self.model.highest


TestIngress = IngressMachine.TestCase
TestIngress.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
