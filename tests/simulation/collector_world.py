"""A collector's pure side, a network, and the ingress's own decisions, in one seeded and single-threaded world.

What is real: `Sender`, `Delivery`, `Retention`, `Doubts`, `CollectorSession`, and the ingress's service, ledger and
fingerprint memory. What is modelled: the spool, the link (bytes that come late, in pieces, or never), sinks with
transactions, checkpoints, and the crashes of both sides. Time is a number that the world moves on.

What must hold, checked all the time: a batch leaves the spool only when a completed checkpoint has it, or the dead
letters have; nothing goes out above a batch that was refused for now; polls ask only while something is unconfirmed; no
row is doubled. And at the end, once nothing breaks any more: everything is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from edgesocket.collector import doubts
from edgesocket.collector.delivery import Delivery
from edgesocket.collector.link import LinkLostError
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.retention import Retention
from edgesocket.collector.sender import Phase, Sender
from edgesocket.collector.source import BatchRun
from edgesocket.collector.window import WindowLimits
from edgesocket.errors import CollectorError, DecodeError, DecryptError, RejectedError
from edgesocket.ingress.admission import Admitted, RawCodec
from edgesocket.ingress.service import AdmissionRules, IngressCut
from edgesocket.protocol.collector_session import Answer, Asked, CollectorSession
from edgesocket.protocol.replies import RETRY, Reply, ReplyKind
from tests.support.ingress_kit import Ingress

WINDOW = 4
REFUSED_FOR_NOW = {ReplyKind.QUEUE_FULL, ReplyKind.RETRY}
MEMORY_RECORDS = 24
"""What the ingress of this world remembers of records; the collector's own numbers are scaled down with it."""

SCALED = {"MAX_DOUBT": 16, "NOTE_EVERY": 2, "SYNC_EVERY": 6, "MAX_WINDOW": WINDOW, "NOTE_AHEAD": 2}


class Violation(AssertionError):
    """A rule of this world was broken."""


class Codec(RawCodec):
    """Admission whose mind can be changed: what is `odd` is refused while `strict`, all while `locked`."""

    def __init__(self) -> None:
        super().__init__()
        self.strict = False
        self.locked = False

    def admit(self, payload: bytes) -> Admitted:
        if self.locked:
            raise DecryptError("locked")
        if payload.startswith(b"bad") or (self.strict and payload.startswith(b"odd")):
            raise DecodeError("refused")
        return super().admit(payload)


class ModelSpool:
    """What a spool promises, in a dict. `memory` is lost with the power, `disk` is not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.batches: dict[int, bytes] = {}
        self.dead: dict[int, bytes] = {}
        self.below = 1
        self.note = self.durable_note = ""

    def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
        lowest = max(at_least_id, self.below)
        ids = [id_ for id_ in self.batches if id_ >= lowest and id_ not in self.dead][:most_batches]
        if not ids:
            return None
        payloads: list[bytes] = []
        for place, id_ in enumerate(ids):
            size = sum(map(len, payloads)) + len(self.batches[id_])
            if id_ != ids[0] + place or (payloads and size > most_bytes) or (payloads and self._world.odds(0.1)):
                break
            payloads.append(self.batches[id_])
        return BatchRun(ids[0], payloads)

    def refused(self, batch_id: int, payload: bytes, reply: Reply) -> None:
        if self.batches.get(batch_id) != payload:
            raise Violation(f"batch {batch_id} was refused with another payload")
        self._world.may_crash("refused")
        self.dead[batch_id] = payload
        self._world.may_crash("refused and written")

    def done(self, below_id: int) -> None:
        for id_ in self.batches:
            if self.below <= id_ < below_id and id_ not in self.dead and id_ not in self._world.committed_ids:
                raise Violation(f"batch {id_} was thrown away and is nowhere")
        self.below = max(self.below, below_id)

    def crashed(self, *, power: bool) -> None:
        """Only whole segments are thrown away: some of what was done is there again."""
        self.below = max(1, self.below - self._world.random.choice([0, 0, 5, 30]))
        if power:
            self.note = self.durable_note

    def recall(self) -> str:
        return self.note

    def remember(self, text: str, durable: bool) -> None:
        self._world.may_crash("remember")
        self.note = text
        if durable:
            self.durable_note = text
        self._world.may_crash("remembered")


class AgentCrashError(BaseException):
    """Not an Exception: nothing in the collector may catch it."""


class ModelLink:
    """A `Link` whose bytes lie in two queues of the world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.session = CollectorSession()
        self.authenticated = False
        self.connected = True
        self.dead = False
        self.requests = bytearray(self.session.authenticate(b"t"))
        self.replies = bytearray()
        self.bytes_under_way = None

    @property
    def has_room(self) -> bool:
        return True

    def write_batches(self, first_id: int, payloads: Sequence[bytes]) -> None:
        last = first_id + len(payloads) - 1
        refused = self.world.refused_for_now
        if refused and last > min(refused):
            raise Violation(f"batch {last} goes out above {min(refused)}, which was refused for now")
        if refused.get(first_id, 0.0) > self.world.now:
            raise Violation(f"batch {first_id} does not wait as long as it was told")
        self.world.check_note(first_id, last)
        ids = set(range(first_id, last + 1))
        self.world.repeated |= ids & self.world.sent_ids
        self.world.sent_ids |= ids
        self.requests += self.session.send_batches(first_id, payloads)

    def write_poll(self, batch_id: int) -> None:
        sender = self.world.sender
        assert sender is not None
        if not (sender.phase is Phase.CATCHING_UP or self.world.retention.unconfirmed):
            raise Violation("a poll while nothing is unconfirmed")
        if sender.phase is Phase.CATCHING_UP and batch_id != min(self.world.kept_ids, default=0):
            raise Violation(f"the first poll asks for {batch_id}, not for the lowest batch")
        self.world.polled = True
        self.requests += self.session.send_commit(batch_id)

    def push(self) -> None:
        pass

    def ready(self) -> list[Answer]:
        """A piece of what came, cut anywhere."""
        if not self.replies:
            if self.dead:
                raise LinkLostError("cut")
            return []
        whole = self.world.calm or self.world.odds(0.6)
        size = len(self.replies) if whole else self.world.random.randint(1, len(self.replies))
        data, self.replies = bytes(self.replies[:size]), self.replies[size:]
        answers = self.session.receive_data(data)
        if answers and not self.authenticated:
            self._take_first(answers.pop(0).reply)
        for answer in answers:
            self.world.note_reply(answer)
        return answers

    def _take_first(self, reply: Reply | None) -> None:
        if str(reply) == "REJECTED":
            raise RejectedError("rejected")
        self.authenticated = True
        self.world.repeated_before |= self.world.repeated
        self.world.polled = self.world.sent_ids.isdisjoint(self.world.kept_ids)

    def close(self) -> None:
        self.dead = True
        self.world.cut(self)


@dataclass
class Pending:
    """A checkpoint that is cut and not complete."""

    cut: IngressCut
    records: list[tuple[int, bytes]]


class World:
    """See the module's text. One seed is one life."""

    def __init__(self, seed: int, records: int = 90) -> None:
        self.random = Random(seed)
        self.now = 1000.0
        self.records = records
        self.calm = False
        self.next_id = self.random.choice([1, 990, 1_700_000_000_000_000])
        self.spool = ModelSpool(self)
        self.committed: Counter[tuple[int, bytes]] = Counter()
        self.committed_ids: set[int] = set()
        self.acked_at_auth = 0
        self.repeated: set[int] = set()
        self.repeated_before: set[int] = set()
        self.forgotten: set[int] = set()
        """Batches that a collector had to send again and that the ingress no longer knew."""
        self.codec = Codec()
        self.capacity = self.random.choice([2, 4, 60])
        self.trouble = self.random.choice([0.3, 1.0, 2.0])
        self.ingress = Ingress(self.capacity, "1", rules=AdmissionRules(20), codec=self.codec)
        self.ingress.service.fingerprints._limit = MEMORY_RECORDS
        self.completed: IngressCut | None = None
        self.pending: Pending | None = None
        self.emitted: list[tuple[int, bytes]] = []
        self.link: ModelLink | None = None
        self.refused_for_now: dict[int, float] = {}
        self.polled = False
        self.sent_ids: set[int] = set()
        self.sender: Sender | None = None
        self.agent_back_at = 0.0
        self.crashes: Counter[str] = Counter()
        self.ingress_is_up = True
        self.held_by_other = False
        self.start_agent()

    def odds(self, probability: float) -> bool:
        return self.random.random() < probability

    @property
    def kept_ids(self) -> list[int]:
        return [id_ for id_ in self.spool.batches if id_ >= self.spool.below and id_ not in self.spool.dead]

    # ---- the collector -------------------------------------------------------------------------------------------

    def start_agent(self) -> None:
        self.refused_for_now.clear()
        for first, last in doubts.DoubtNote.parse(self.spool.note).ranges:
            self.repeated_before.update(range(first, last + 1))  # or were about to be, when the last process died
        self.retention = Retention(WindowLimits(self.random.randint(1, WINDOW), 200, 1), commit=True)
        delivery = Delivery(self.spool, self.retention, None)
        delivery.resume()
        self.sender = Sender(
            ("ingress", 1),
            b"t",
            ClientOptions(
                commit=True,
                progress_timeout_s=None,
                poll_least_s=0.02,
                poll_most_s=0.1,
                reconnect_least_s=0.02,
                reconnect_most_s=0.2,
            ),
            delivery,
            always=True,
            on_refused=lambda *_: None,
            on_notice=lambda _: None,
            connect=self.connect,  # type: ignore[arg-type]
            jitter=self.random.random,
        )

    def connect(self, host: str, port: int, token: bytes) -> ModelLink:
        if not self.ingress_is_up or (self.link is not None and not self.link.dead):
            raise LinkLostError("Connection refused")
        self.link = ModelLink(self)
        return self.link

    def collector_works(self) -> None:
        sender = self.sender
        if sender is None:
            if self.now >= self.agent_back_at:
                self.start_agent()
            return
        try:
            sender.advance(self.now)
            if sender._link is not None:
                sender.ready(self.now)
        except AgentCrashError:
            self.agent_crashes(power=self.odds(0.3))
        except CollectorError:
            self.sender, self.agent_back_at = None, self.now + 0.2

    def may_crash(self, where: str) -> None:
        if not self.calm and self.odds(0.02):
            self.crashes[where] += 1
            raise AgentCrashError

    def agent_crashes(self, *, power: bool) -> None:
        """Everything but the spool is gone; with the power also what was not made durable in it."""
        if self.sender is not None and self.sender._link is not None:
            self.sender._link.close()
        self.crashes["power" if power else "kill"] += 1
        self.sender, self.agent_back_at = None, self.now + self.random.random() / 5
        self.spool.crashed(power=power)

    def append(self) -> None:
        """A record more in the spool; now and then the ids leave a gap."""
        for _ in range(min(self.random.choice([1, 1, 4, 12]), self.records - len(self.spool.batches))):
            kind = self.random.choice(["p", "p", "p", "odd", "odd", "bad"])
            self.spool.batches[self.next_id] = b"%s%d" % (kind.encode(), self.next_id)
            self.next_id += 200 if self.odds(0.02) else 1

    def note_reply(self, answer: Answer) -> None:
        """What the collector has been told: which batches it must not pass."""
        request, reply = answer
        for id_ in range(request.first_id, request.first_id + request.lines):
            if request.asked is Asked.RECEIPT and reply is not None and reply.kind in REFUSED_FOR_NOW:
                self.refused_for_now[id_] = self.now + max(reply.number, 1) / 1000
            elif request.asked is Asked.RECEIPT:
                self.refused_for_now.pop(id_, None)

    def check_note(self, first: int, last: int) -> None:
        """What goes out is in doubt, also for a process that would find only the durable note."""
        if not self.polled:
            raise Violation("a batch goes out before the first poll of a connection")
        for text, most in ((self.spool.note, 0), (self.spool.durable_note, SCALED["MAX_DOUBT"])):
            note = doubts.DoubtNote.parse(text)
            if note.covered_to(first) < last:
                raise Violation(f"{first}-{last} goes out and is not in doubt: {text}")
            if most and first >= note.open_from and last - note.open_from >= most:
                raise Violation(f"more than {most} ids are in doubt: {text}, {last}")

    # ---- the network ---------------------------------------------------------------------------------------------

    def cut(self, link: ModelLink) -> None:
        """What was on its way is lost, or some of it is still read by the ingress; no reply comes any more."""
        link.dead = True
        if self.ingress_is_up:
            self.answer(link, self.random.randint(0, link.requests.count(b"\n")))
        link.requests.clear()
        link.replies.clear()

    def network_works(self) -> None:
        link = self.link
        if link is None or link.dead or not self.ingress_is_up:
            return
        lines = link.requests.count(b"\n")
        self.answer(link, lines if self.calm else self.random.randint(0, lines))

    def answer(self, link: ModelLink, lines: int) -> None:
        for _ in range(lines):
            line, _, rest = bytes(link.requests).partition(b"\n")
            link.requests[:] = rest
            if line.startswith(b"__AUTH__"):
                if not self.calm and self.odds(0.03):
                    link.replies += b"REJECTED\n"
                    continue
                self.ingress.reconnect()
                self.acked_at_auth = self.ingress.ledger.ack_number
                link.replies += b"ACK\n"
            elif line.startswith(b"__BATCH__") and not self.calm and self.odds(0.02):
                batch_id = int(line.split(b":")[1])
                self.ingress.service._hold(batch_id, batch_id)
                self.ingress._write_burst()
                link.replies += RETRY.encode()
            else:
                resends = self.ingress.service.resends
                word = self.ingress.say(line)[0]
                if word == "RECEIVED" and self.ingress.service.resends == resends:
                    self.accepted_as_new(int(line.split(b":")[1]))
                link.replies += word.encode() + b"\n"

    def accepted_as_new(self, batch_id: int) -> None:
        """A batch that a checkpoint has came again, and the ingress did not know it: it forgets old records.

        What it did not acknowledge when this connection began a collector must send again. Of the rest a collector that
        takes care sends none that is so old, save those that went out again before and had no reply read.
        """
        if batch_id in self.committed_ids:
            if batch_id <= self.acked_at_auth and batch_id not in self.repeated_before:
                raise Violation(f"batch {batch_id} is confirmed and was sent again when nobody knew it any more")
            self.forgotten.add(batch_id)

    # ---- the ingress ---------------------------------------------------------------------------------------------

    def converse(self) -> None:
        """A few turns without anything between them."""
        for _ in range(self.random.randint(1, 5)):
            self.now += 0.01
            self.collector_works()
            self.network_works()

    def take(self) -> None:
        self.emitted += self.ingress.take(self.random.randint(1, 20))

    def begin_checkpoint(self) -> None:
        if self.pending is None:
            self.pending = Pending(self.ingress.service.cut(), self.emitted)
            self.emitted = []

    def end_checkpoint(self) -> None:
        """It completes, or it is given up and its records belong to the next one."""
        if self.pending is None:
            return
        pending, self.pending = self.pending, None
        if not self.calm and self.odds(0.2):
            self.ingress.ledger.abort()
            self.emitted = pending.records + self.emitted
            return
        self.ingress.ledger.complete()
        self.commit(pending)

    def commit(self, pending: Pending) -> None:
        self.completed = pending.cut
        self.committed.update(pending.records)
        self.committed_ids.update(id_ for id_, _ in pending.records)
        for record, count in self.committed.items():
            if count > 1 and record[0] not in self.forgotten:
                raise Violation(f"{record} is in the sink {count} times")

    def ingress_crashes(self) -> None:
        """Back from the newest checkpoint and the arrival log; a checkpoint past its point of no return counts."""
        if self.pending is not None and self.odds(0.5):
            self.commit(self.pending)
        self.pending, self.emitted = None, []
        if self.link is not None and not self.link.dead:
            self.ingress_is_up = False
            self.link.close()
        before = self.ingress
        self.ingress = before.restarted(self.completed)
        self.ingress.bursts[:0] = before.bursts
        self.ingress.service.codec = self.codec
        self.ingress.service.fingerprints._limit = MEMORY_RECORDS
        self.codec.strict = self.odds(0.5)
        self.ingress_is_up = False
        self.crashes["ingress"] += 1

    # ---- a life --------------------------------------------------------------------------------------------------

    def live(self, steps: int) -> None:
        """Anything may happen; then nothing breaks any more, and all has to get done."""
        happenings = (
            [self.collector_works] * 3
            + [self.network_works] * 3
            + [self.converse] * 4
            + [self.append] * 2
            + [self.take, self.take, self.begin_checkpoint, self.end_checkpoint]
        )
        for _ in range(steps):
            self.now += self.random.choice([0.0, 0.001, 0.01, 0.1])
            self.random.choice(happenings)()
            trouble = self.random.random() / self.trouble
            if trouble < 0.01:
                self.agent_crashes(power=self.odds(0.3))
            elif trouble < 0.02:
                self.ingress_crashes()
            elif trouble < 0.05 and self.link is not None and not self.link.dead:
                self.link.close()
            elif trouble < 0.055:
                self.codec.locked = True
            elif trouble < 0.3:
                self.ingress_is_up, self.codec.locked = True, False
        self.settle_down()

    def settle_down(self) -> None:
        self.calm = self.ingress_is_up = True
        self.codec.locked = False
        for _ in range(100):
            self.now += 0.3
            for _ in range(4):
                self.collector_works()
                self.network_works()
                self.take()
            self.begin_checkpoint()
            self.end_checkpoint()
            if not self.kept_ids:
                break
        else:
            raise Violation(f"{self.kept_ids} never get done; {self.retention.counts}")
        for id_, payload in self.spool.batches.items():
            if not self.committed[id_, payload] and id_ not in self.spool.dead:
                raise Violation(f"batch {id_} is lost")


__all__ = ["SCALED", "Violation", "World"]
