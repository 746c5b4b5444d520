"""A second reading of the rules for batch ids, to check the real one against.

It is written from the protocol page, sections 3 to 6, in the plainest way there is: one dict entry an id, one list
entry a record, loops over all ids. It shares no code with the ingress. Nothing here is bounded, fast or thread-safe.

States are words: gap, received, captured, confirmed, held, settled, and lost, which lies over one of the others.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

ACCEPTED = ("received", "captured", "confirmed")


@dataclass
class Memory:
    """What a completed checkpoint keeps."""

    w: int = 0
    floor: int | None = None
    k: int | None = None
    highest: int = 0
    accepted: int = 0
    state: dict[int, str] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    queue: list[tuple[int, str]] = field(default_factory=list)
    prints: list[list[tuple[int, str]]] = field(default_factory=list)
    settled_through: int = 0
    position: int = 0


class Model(Memory):
    """See the module's text. `log` is the arrival log: (kind, id, log index), one entry an id."""

    def __init__(self, rule: str, mark: int, max_bytes: int, dedupe: bool, repeated: str, prints_kept: int) -> None:
        super().__init__()
        self.rule, self.mark, self.max_bytes = rule, mark, max_bytes
        self.dedupe, self.repeated, self.prints_kept = dedupe, repeated, prints_kept
        self.held_here: set[int] = set()
        self.confirmed_at_auth: set[int] = set()
        self.accepted_before = 0
        self.in_cut: set[int] | None = None
        self.w_of_cut = 0
        self.log: list[tuple[str, int, int]] = []

    # ---- section 4: states, watermark, promise

    def of(self, id_: int) -> str:
        return "lost" if id_ in self.lost else self.state.get(id_, "gap")

    @property
    def a(self) -> int:
        blocking = [i for i in self.lost | set(self.state) if self.of(i) in ("received", "captured", "held", "lost")]
        return min([self.w, *(i - 1 for i in blocking)])

    def w_once_complete(self) -> int:
        def passes(id_: int) -> bool:
            state = self.of(id_)
            legal_gap = state == "gap" and self.rule != "hold" and id_ < self.highest
            return state in ("captured", "confirmed", "settled") or legal_gap

        if self.floor is None:
            return self.w
        w = max(self.w, self.floor)
        while passes(w + 1):
            w += 1
        return w

    def offered(self, id_: int) -> None:
        if self.floor is None:
            self.floor = id_ - 1
        if id_ > self.highest:
            if self.k is not None and self.rule != "skip":
                self.lost |= {i for i in range(max(self.k, self.highest) + 1, id_) if self.of(i) == "gap"}
            self.highest = id_

    def unclean_end(self) -> None:
        if self.rule != "skip" and self.floor is not None:
            if self.k is not None:
                self.lost |= {i for i in range(self.k + 1, self.highest) if self.of(i) == "gap"}
            self.k = self.highest

    # ---- section 3 and the resend rule: a batch

    def has_room(self, payload_bytes: int) -> bool:
        fits = sum(len(p) for _, p in self.queue) + payload_bytes <= self.max_bytes
        return not self.queue or (len(self.queue) < self.mark and fits)

    def offer(self, id_: int, payload: str) -> str:
        if not self.has_room(len(payload)):
            return self.refuse_for_now(id_)
        if payload == "bad":
            return self.refuse_for_good(id_)
        if self.dedupe and self.is_resend(id_, payload):
            if id_ in self.lost:
                self.lost.discard(id_)
                self.log.append(("recognised", id_, 0))
            return "RECEIVED"
        self.accept(id_)
        self.queue.append((id_, payload))
        self.prints.append([(id_, payload)] if self.dedupe else [])
        while sum(map(len, self.prints)) - len(self.prints[0]) >= self.prints_kept:
            del self.prints[0]
        return "RECEIVED"

    def is_resend(self, id_: int, payload: str) -> bool:
        known = [p for group in self.prints for i, p in group if i == id_]
        if self.state.get(id_) not in ACCEPTED:
            return False
        if known or id_ in self.lost:
            return payload in known
        return id_ not in self.confirmed_at_auth or self.repeated == "resend"

    def accept(self, id_: int) -> None:
        self.offered(id_)
        self.lost.discard(id_)
        self.held_here.discard(id_)
        (self.in_cut or set()).discard(id_)
        self.state[id_] = "received"
        self.accepted = max(self.accepted, id_)
        self.log.append(("accepted", id_, 0))

    def refuse_for_now(self, id_: int) -> str:
        self.offered(id_)
        if id_ not in self.lost and self.state.get(id_) not in ACCEPTED:
            self.state[id_] = "held"
            self.held_here.add(id_)
        self.log.append(("held", id_, 0))
        return "QUEUE_FULL"

    def refuse_for_good(self, id_: int) -> str:
        self.offered(id_)
        # A refusal that changes nothing must not settle anything when it is read back either.
        self.log.append(("refused" if self.of(id_) not in ACCEPTED else "held", id_, 0))
        self.lost.discard(id_)
        self.settle_unless(id_, ACCEPTED)
        return "DECODE_FAILED"

    def settle_unless(self, id_: int, states: tuple[str, ...]) -> None:
        if self.state.get(id_) not in states:
            self.state[id_] = "settled"
            self.held_here.discard(id_)

    def settle(self, first: int, last: int, log_index: int) -> None:
        """The operator's word: it also takes a batch out of the queue, though not back from the sinks."""
        for id_ in range(first, last + 1):
            self.lost.discard(id_)
            if self.state.get(id_) == "received":
                self.queue = [(i, p) for i, p in self.queue if i != id_]
                self.prints = [[(i, p) for group in self.prints for i, p in group if i != id_]]
            self.settle_unless(id_, ("confirmed",))
            (self.in_cut or set()).discard(id_)
        self.settled_through = max(self.settled_through, log_index)

    def session_started(self) -> None:
        self.held_here.clear()
        self.confirmed_at_auth = {i for i in self.state if self.of(i) == "confirmed"}

    # ---- section 5: a commit poll

    def commit(self, id_: int) -> str:
        state, a = self.of(id_), self.a
        if state in ("received", "captured"):
            return "PENDING"
        if state == "lost" or (state == "held" and id_ not in self.held_here):
            return "RESEND"
        if id_ <= a:
            return f"ACK:{a}"
        if id_ <= self.w or state in ("confirmed", "settled"):
            return "PENDING"
        if state == "gap" and (id_ <= self.accepted_before or (self.k is not None and id_ > self.highest)):
            return "RESEND"
        return "RETRY"

    # ---- section 6: sinks and checkpoints

    def take(self, count: int) -> None:
        taken, self.queue = self.queue[:count], self.queue[count:]
        for id_, _ in taken:
            if id_ not in [i for i, _ in self.queue]:
                self.state[id_] = "captured"

    def cut(self) -> Memory:
        self.in_cut = {i for i, state in self.state.items() if state == "captured"}
        self.w_of_cut = self.w_once_complete()
        self.position = len(self.log)
        image = copy.deepcopy({name: getattr(self, name) for name in Memory.__dataclass_fields__})
        image["w"] = self.w_of_cut
        image["state"] = {i: "confirmed" if s == "captured" else s for i, s in image["state"].items()}
        return Memory(**image)

    def complete(self) -> None:
        for id_ in self.in_cut or ():
            self.state[id_] = "confirmed"
        self.w, self.in_cut = max(self.w, self.w_of_cut), None

    def abort(self) -> None:
        self.in_cut = None

    def restore(self, image: Memory, log: list[tuple[str, int, int]]) -> None:
        """A new incarnation: the newest completed checkpoint, then what the log says after its position."""
        for name, value in copy.deepcopy(vars(image)).items():
            setattr(self, name, value)
        self.prints = [[record for group in self.prints for record in group]]
        self.in_cut, self.log, self.accepted_before = None, log, self.accepted
        for kind, id_, number in log[self.position :]:
            if kind == "unclean end":
                self.unclean_end()
                continue
            if kind == "nothing":
                continue
            if kind == "operator":
                self.settle(id_, id_, number)
                continue
            if kind == "unclean end settled":
                self.k, self.settled_through = None, max(self.settled_through, number)
                continue
            self.offered(id_)
            if kind == "accepted":
                self.accepted = self.accepted_before = max(self.accepted, id_)
                if self.state.get(id_) not in ACCEPTED:
                    self.state.pop(id_, None)
                self.lost.add(id_)
            elif kind == "recognised":
                self.lost.discard(id_)
            elif kind == "refused":
                self.lost.discard(id_)
                self.settle_unless(id_, ACCEPTED)
            elif id_ not in self.lost and self.state.get(id_) not in ACCEPTED:
                self.state[id_] = "held"
        self.session_started()
