"""What one simulation is like: the job, the collector, the network and the disk. Each seed draws its own.

Swarm style: a seed does not have a little of everything, but much of something. Rare combinations come up because
most choices are left out of most seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

SinkChoice = Literal["recommittable", "deciding", "both"]
IdChoice = Literal["counted", "sparse", "time"]
CollectorChoice = Literal["sender", "eager", "lazy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One job and its surroundings; times in milliseconds.

    Attributes:
        batches: how many batches the collector has to deliver.
        produced_every_ms, produced_at_once: how they come up.
        ids: counted from 1; sparse; or the time of day, which a collector without a spool goes on with.
        first_id: of counted and sparse ids.
        bad_every: every so many-th batch is not UTF-8 and is refused for good; 0 for none.
        collector: `sender` is the real client's machine, `eager` and `lazy` follow section 10 of the protocol in
            their own way: eager sends everything kept again on a new connection, lazy only what was never received.
        window: batches on their way at once.
        poll_ms: how often the collector polls.
        queue_capacity: of the ingress; small ones answer QUEUE_FULL.
        retry_after_ms: what QUEUE_FULL tells the collector to wait.
        arrival_sync_ms: 0 or more, see the option.
        gaps: `batch_id_gaps`.
        sink: what rows go to.
        checkpoint_ms, checkpoint_timeout_ms: interval and timeout.
        drain: most records that the pump takes at once.
        hosts: 1 or 2 that may run the job on a shared state directory.
        leases_ms: of the processes, in turn.
        latency_ms: most that a piece of bytes travels.
        pieces: how many pieces a send is cut into at most.
        merge: how likely a piece is read together with the next.
        send_room: bytes that fit into a connection before its reader reads.
        store_ms: most that an operation of the store takes.
        keep: how likely an unsynced change survives a power cut.
        between: how likely the pump does something between a receive's decision and its note.
        keepalive_ms: after this long a dead connection is noticed.
    """

    batches: int = 40
    produced_every_ms: int = 200
    produced_at_once: int = 4
    ids: IdChoice = "counted"
    first_id: int = 1
    bad_every: int = 0
    collector: CollectorChoice = "sender"
    window: int = 16
    poll_ms: int = 300
    queue_capacity: int = 100
    retry_after_ms: int = 100
    arrival_sync_ms: int = 1000
    gaps: Literal["auto", "hold", "skip"] = "auto"
    sink: SinkChoice = "recommittable"
    checkpoint_ms: int = 1000
    checkpoint_timeout_ms: int = 10_000
    drain: int = 1000
    hosts: int = 1
    leases_ms: tuple[int, ...] = (3000,)
    latency_ms: int = 20
    pieces: int = 1
    merge: float = 0.0
    send_room: int = 10_000
    store_ms: int = 5
    keep: float = 0.5
    between: float = 0.0
    keepalive_ms: int = 5000


def draw_settings(random: Random) -> Settings:
    """The settings of one seed."""
    choice, chance = random.choice, random.random
    ids: IdChoice = choice(("counted", "counted", "sparse", "time", "time"))
    sync_ms = choice((0, 1000, 1000, 5000))
    gaps: Literal["auto", "hold", "skip"] = "auto"
    if ids == "counted" and chance() < 0.25:
        gaps = "hold"
    elif sync_ms == 0 and chance() < 0.2:
        gaps = "skip"
    return Settings(
        batches=choice((10, 20, 40)),
        produced_every_ms=choice((100, 300, 600)),
        produced_at_once=choice((1, 2, 6)),
        ids=ids,
        first_id=choice((1, 1, 1000, 9_990)),
        bad_every=choice((0, 0, 0, 3, 10)),
        collector=choice(("sender", "sender", "eager", "lazy", "lazy")),
        window=choice((1, 4, 16, 64)),
        poll_ms=choice((50, 300, 1000)),
        queue_capacity=choice((1, 3, 10, 100, 100)),
        retry_after_ms=choice((50, 200, 1000)),
        arrival_sync_ms=sync_ms,
        gaps=gaps,
        sink=choice(("recommittable", "deciding", "both")),
        checkpoint_ms=choice((100, 500, 2000)),
        checkpoint_timeout_ms=choice((300, 10_000)),
        drain=choice((1, 5, 1000)),
        hosts=choice((1, 1, 2)),
        latency_ms=choice((1, 10, 100)),
        pieces=choice((1, 1, 2, 5)),
        merge=choice((0.0, 0.0, 0.7)),
        send_room=choice((20, 200, 10_000)),
        store_ms=choice((1, 10, 100)),
        keep=choice((0.0, 0.3, 0.8)),
        between=choice((0.0, 0.0, 0.3)),
        leases_ms=choice(((3000,), (3000,), (2000, 6000), (1000, 2000, 5000))),
    )
