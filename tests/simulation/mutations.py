"""Deliberate faults, each a small change to the product while it is simulated, and the invariant that has to notice.

A simulator that finds nothing proves something only if it finds what is there. Each fault names the invariants that may
notice it and a seed that does; the test looks at that seed first, and at others where the product has changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from edgesocket.checkpoint import commit_log, procedure, recovery
from edgesocket.checkpoint.effects import Complete
from edgesocket.collector.retention import Retention
from edgesocket.ids import IdRanges
from edgesocket.ingress.fingerprints import FingerprintMemory
from edgesocket.ingress.ledger import Ledger
from edgesocket.ingress.record_queue import RecordQueue
from edgesocket.ingress.service import IngressService
from edgesocket.protocol.reply_queue import ReplyQueue, _Run
from edgesocket.sources import arrival_journal
from edgesocket.store import arrivals, local
from edgesocket.store.lease import LeasedOwner
from edgesocket.testing.simulator import FaultKind, Outcome, draw_scenario, pump, run, source, starting

LOST = ("ack-covers-committed", "evicted-is-committed", "nothing-acknowledged-missing")
"""Acknowledged, and not there."""


@dataclass(frozen=True)
class Mutation:
    """One deliberate fault.

    Attributes:
        name: what is wrong.
        noticed_by: the invariants that may notice.
        seed: one that does.
        places: (object, attribute, what to put there).
        only: the kinds of faults that are drawn; any by default.
        like: settings that are given.
    """

    name: str
    noticed_by: tuple[str, ...]
    seed: int
    places: tuple[tuple[Any, str, Any], ...]
    only: tuple[FaultKind, ...] = ()
    like: dict[str, Any] = field(default_factory=dict)

    def run(self, seed: int) -> Outcome:
        """The scenario of a seed, with the fault in place."""
        with self.in_place():
            return run(draw_scenario(seed, self.only, **self.like))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While this lasts, the product is wrong."""
        with ExitStack() as stack:
            for where, name, value in self.places:
                stack.enter_context(patch.object(where, name, value))
            yield


MUTATIONS: list[Mutation] = []


def nothing(*_: Any, **__: Any) -> None:
    """Instead of something."""


def mutation(
    name: str,
    noticed_by: tuple[str, ...],
    seed: int,
    *places: tuple[Any, str, Any],
    only: tuple[FaultKind, ...] = (),
    **like: Any,
) -> None:
    MUTATIONS.append(Mutation(name, noticed_by, seed, places, only, like))


def around(where: Any, name: str) -> Callable[[Callable[..., Any]], tuple[Any, str, Any]]:
    """A place whose replacement is given what was there first."""
    was = getattr(where, name)

    def place(replacement: Callable[..., Any]) -> tuple[Any, str, Any]:
        return where, name, lambda *args, **kwargs: replacement(was, *args, **kwargs)

    return place


# ---- what is noted before it is answered ---------------------------------------------------------------------------

_late: list[Any] = []


@around(arrival_journal.ArrivalJournal, "write")
def _answer_first(was: Any, journal: Any, burst: Any) -> None:
    waiting = [(old, late) for old, late in _late if old is journal]
    _late[:] = [(journal, burst)]
    for old, late in waiting:
        was(old, late)


mutation("RECEIVED leaves before the arrival log has it", ("noted-before-answered", *LOST), 1, _answer_first)
mutation("the arrival log is never synced", LOST, 29, (arrivals, "sync_file", nothing))
mutation("the arrival log is not replayed", LOST, 2, (IngressService, "replay", nothing))
mutation(
    "an old arrival log is trusted to be on the disk",
    LOST,
    44,
    (source, "make_durable", nothing),
    only=(FaultKind.KILL, FaultKind.POWER, FaultKind.COLLECTOR_FORGETS),
    ids="time",
    keep=0.0,
    checkpoint_ms=5000,
    arrival_sync_ms=1000,
    store_ms=1,
)


@around(IngressService, "start_sequence")
def _begin_at_one(was: Any, service: Any, _: int) -> None:
    was(service, 0)


mutation(
    "numbers in the arrival log begin at 1 again",
    LOST,
    13,
    _begin_at_one,
    only=(FaultKind.KILL, FaultKind.COLLECTOR_FORGETS),
    ids="time",
)


@around(arrivals._OpenSegment, "rebuild")
def _sync_again(_: Any, segment: Any) -> None:
    arrivals.sync_file(segment.fd)
    segment.suspect = False


mutation(
    "a sync that failed is simply repeated",
    LOST,
    64,
    _sync_again,
    only=(FaultKind.DISK_FAILS, FaultKind.POWER, FaultKind.COLLECTOR_FORGETS),
    ids="time",
    keep=0.0,
    arrival_sync_ms=0,
    checkpoint_ms=5000,
    produced_at_once=1,
    produced_every_ms=600,
)


@around(source.SimulatedSource, "cut")
def _cut_log_at_once(was: Any, self: Any) -> Any:
    cut = was(self)
    self._arrivals.delete_through(self._cut_sequence)
    return cut


mutation("the arrival log is cut at the barrier, not at the end", LOST, 181, _cut_log_at_once)


@around(IngressService, "cut")
def _never_sealed(was: Any, service: Any) -> Any:
    cut = was(service)
    service._sealed_notes = 0
    return cut


mutation(
    "a note grows after the cut that counted it",
    LOST,
    1000,
    _never_sealed,
    only=(FaultKind.KILL,),
    ids="counted",
    gaps="auto",
    collector="lazy",
    between=1.0,
    checkpoint_ms=300,
    latency_ms=300,
    merge=0.7,
    poll_ms=50,
    window=64,
    queue_capacity=100,
    produced_at_once=1,
    produced_every_ms=50,
    batches=100,
)


@around(IngressService, "_accept_block")
def _floor_in_memory(was: Any, service: Any, *args: Any) -> None:
    first, must = service.ledger.floor is None, service._must_sync
    was(service, *args)
    if first:
        service._must_sync = must


mutation("the floor is not durable before the first reply", LOST, 94, _floor_in_memory)


# ---- the ledger ----------------------------------------------------------------------------------------------------


def _blind_to(*sets: str) -> tuple[tuple[Any, str, Any], ...]:
    """A ledger that does not see some of its sets where it makes promises."""

    def hidden(was: Any, ledger: Any) -> Any:
        kept = {name: getattr(ledger, name) for name in sets}
        for name in sets:
            setattr(ledger, name, IdRanges())
        try:
            return was(ledger)
        finally:
            for name, ids in kept.items():
                setattr(ledger, name, ids)

    getter = Ledger.ack_number.fget
    return (
        around(Ledger, "_watermark_once_complete")(hidden),
        (Ledger, "ack_number", property(lambda ledger: hidden(getter, ledger))),
    )


mutation("the watermark passes over a held id", LOST, 23, *_blind_to("_held_here", "_held_earlier"))
mutation("the watermark passes over a lost id", LOST, 29, *_blind_to("_lost"))
mutation("the watermark passes over a queued id", LOST, 180, *_blind_to("_received"))


@around(Ledger, "complete")
def _all_of_it(was: Any, ledger: Any) -> None:
    ledger._captured_in_cut.update(ledger._captured)
    ledger._captured.clear()
    ledger._watermark_of_cut = ledger._watermark_once_complete()
    was(ledger)


mutation("a checkpoint confirms what came after its cut", LOST, 28, _all_of_it)


@around(Ledger, "restore")
def _from_zero(was: Any, ledger: Any, *args: Any) -> None:
    was(ledger, *args)
    ledger.watermark = 0


mutation("the watermark begins at 0 again", ("watermark-never-falls",), 8, _from_zero)
mutation("an unclean end is forgotten", LOST, 133, (Ledger, "ended_unclean", nothing))


@around(IngressService, "_hold")
def _hold_unnoted(_: Any, service: Any, first: int, last: int) -> None:
    service.ledger.hold(first, last)


mutation(
    "a refusal is not noted",
    LOST,
    6,
    _hold_unnoted,
    only=(FaultKind.KILL, FaultKind.COLLECTOR_FORGETS, FaultKind.SINK_FAILS),
    ids="time",
    queue_capacity=1,
)


# ---- queue and resends ---------------------------------------------------------------------------------------------

mutation("no resend is recognised", ("each-batch-once",), 1, (IngressService, "_is_resend", lambda *_: False))


@around(IngressService, "_is_resend")
def _only_prints(was: Any, service: Any, batch_id: int, *args: Any) -> bool:
    return service.fingerprints.knows(batch_id) and bool(was(service, batch_id, *args))


mutation(
    "a duplicate is accepted after a restore",
    ("each-batch-once",),
    1,
    _only_prints,
    (FingerprintMemory, "restore", nothing),
)
mutation("queued records are not restored", ("progress-returns", *LOST), 36, (RecordQueue, "restore", nothing))
mutation(
    "the high-water mark is not looked at",
    ("bounded-memory",),
    2,
    (RecordQueue, "takes", lambda *_: True),
    (RecordQueue, "takes_of", lambda _, block: block.count),
)


def _swapped(queue: Any, reply: Any, count: int = 1) -> None:
    queue._runs.append(_Run(reply, count))
    if len(queue._runs) > 1 and not queue._taken:
        queue._runs[-1], queue._runs[-2] = queue._runs[-2], queue._runs[-1]


mutation(
    "replies leave in the wrong order",
    ("one-reply-a-request", "noted-before-answered"),
    1,
    (ReplyQueue, "add", _swapped),
)


@around(ReplyQueue, "add")
def _one_short(was: Any, queue: Any, reply: Any, count: int = 1) -> None:
    was(queue, reply, count - 1 if count > 2 else count)


mutation("one reply of a long run is missing", ("one-reply-a-request",), 2, _one_short)


# ---- checkpoints and the commit log --------------------------------------------------------------------------------


@around(procedure, "_append_record")
def _publish_first(was: Any, log: Any, entry: Any) -> Any:
    yield from procedure._commit_sinks(entry.n, entry.record["sinks"])
    yield from was(log, entry)


mutation("sinks publish before the record is there", ("each-batch-once",), 76, _publish_first)


@around(procedure, "_append_record")
def _confirm_first(was: Any, log: Any, entry: Any) -> Any:
    yield Complete(entry.n)
    yield from was(log, entry)


@around(Ledger, "complete")
def _complete_once(was: Any, ledger: Any) -> None:
    if ledger._watermark_of_cut is not None:
        was(ledger)


mutation(
    "the watermark moves before the record is there",
    ("watermark-never-falls", *LOST),
    2,
    _confirm_first,
    _complete_once,
)
mutation(
    "publishing is not repeated after a crash", ("progress-returns", *LOST), 31, (starting, "_prepared", lambda *_: {})
)


def _nothing_landed(*_: Any) -> Any:
    return None
    yield


mutation(
    "nobody asks the deciding sink what landed",
    ("each-batch-once", "watermark-never-falls"),
    31,
    (recovery, "_record_of_landed", _nothing_landed),
)


def _judge_nothing(*_: Any) -> Any:
    return
    yield


def _take_anything(log: Any, found: Any) -> None:
    log.add(found)


mutation(
    "no fencing check in the commit log",
    ("watermark-never-falls", "each-batch-once", "no-surprise", *LOST),
    112,
    (commit_log, "_judge_what_is_above", _judge_nothing),
    (commit_log, "_refuse_foreign", _judge_nothing),
    (commit_log, "_take_in_as_owner", _take_anything),
)
mutation(
    "state files are not synced", ("progress-returns", "watermark-never-falls", *LOST), 8, (local, "sync_file", nothing)
)
mutation(
    "the directory of the state is not synced",
    ("watermark-never-falls", "each-batch-once", *LOST),
    82,
    (local, "sync_directory", nothing),
)
mutation(
    "the cut takes rows in the hand for captured",
    LOST,
    1,
    (pump.Pump, "_may_begin", lambda _: True),
    only=(FaultKind.SINK_FAILS,),
)


# ---- collectors ----------------------------------------------------------------------------------------------------


def _drop_window(retention: Any) -> None:
    retention._sent.clear()
    retention._in_flight.clear()
    retention._in_flight_count = retention._in_flight_bytes = 0


mutation(
    "the window is dropped on a reconnect",
    ("evicted-is-committed", "unanswered-go-first", "progress-returns"),
    1,
    (Retention, "connection_lost", _drop_window),
)
mutation("a collector sends above a refused id", ("nothing-above-refused",), 22, (Retention, "_hold", nothing))


@around(Retention, "_take_received")
def _evict_received(was: Any, retention: Any, *args: Any) -> None:
    retention._commit = False
    was(retention, *args)


mutation("a collector evicts at RECEIVED", ("evicted-is-committed",), 1, _evict_received)


@around(Retention, "resume")
def _no_doubt(was: Any, retention: Any, first_id: int, cursor: int, _: Any) -> None:
    was(retention, first_id, cursor, IdRanges())


mutation(
    "a collector trusts an ACK for what was in doubt",
    ("evicted-is-committed",),
    33,
    _no_doubt,
    only=(FaultKind.COLLECTOR_DIES, FaultKind.CUT),
    collector="sender",
    bad_every=3,
    checkpoint_ms=100,
)


# ---- who owns the job ----------------------------------------------------------------------------------------------


@around(LeasedOwner, "until_alone")
def _impatient(was: Any, owner: Any) -> Any:
    owner._alone = True
    return was(owner)


mutation(
    "nobody waits until a live owner that was taken over has fallen silent",
    ("noted-before-answered", "watermark-never-falls", *LOST),
    9,
    _impatient,
    only=(FaultKind.TAKE_OVER, FaultKind.PAUSE),
)
mutation(
    "a starter waits for its own lease, not for that of the owner before it",
    ("noted-before-answered", "watermark-never-falls", *LOST),
    145,
    (LeasedOwner, "_longest_lease_s", lambda owner, _: owner._lease_s),
    only=(FaultKind.TAKE_OVER, FaultKind.PAUSE),
    leases_ms=(500, 6000),
    collector="lazy",
    ids="time",
    produced_every_ms=100,
    produced_at_once=1,
)
