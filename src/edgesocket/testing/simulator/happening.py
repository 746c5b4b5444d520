"""Lets faults happen to a world."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

from edgesocket.testing.simulator.faults import Fault, FaultKind
from edgesocket.testing.simulator.inodes import Trouble
from edgesocket.testing.simulator.operator import Settlement
from edgesocket.testing.simulator.process import IngressProcess
from edgesocket.testing.simulator.strangers import Stranger
from edgesocket.testing.simulator.surroundings import STATE
from edgesocket.testing.simulator.world import World

_STRANGER_STAYS_S = 2.0
_SLOW_FOR_S = 3.0
_FOR_EVER = 1e9


def schedule(world: World, faults: Iterable[Fault]) -> None:
    """Let the faults happen at their times, as long as the world is not calm."""

    def happen(fault: Fault) -> None:
        if not world.calm:
            _HAPPEN[fault.kind](world, fault.value)

    for fault in faults:
        world.loop.at(fault.at_ms / 1000, lambda fault=fault: happen(fault))  # type: ignore[misc]


def _any_process(world: World) -> IngressProcess | None:
    return world.loop.random.choice(world.processes) if world.processes else None


def _cut(world: World, _: int) -> None:
    link = world.collector.link
    if link is not None and link.connection is not None:
        link.connection.cut()


def _half_open(world: World, _: int) -> None:
    link = world.collector.link
    if link is not None and link.connection is not None:
        link.connection.half_open()


def _not_reading(world: World, ms: int) -> None:
    link = world.collector.link
    if link is not None and link.connection is not None:
        pipe = link.connection.down
        pipe.blocked = True
        world.loop.after(ms / 1000, pipe.unblock, link.actor)


def _stranger(world: World, kind: int) -> None:
    stranger = Stranger(kind)
    world.connect(stranger)
    world.loop.after(_STRANGER_STAYS_S, stranger.leave, stranger)


def _kill(world: World, _: int) -> None:
    process = _any_process(world)
    if process is not None:
        process.crashed()


def _kill_at(world: World, calls: int) -> None:
    world.disk.on_crash = lambda: None
    world.disk.crash_in = calls


def _power(world: World, _: int) -> None:
    world.lose_power(world.loop.random.choice(world.hosts))


def _power_at(world: World, calls: int) -> None:
    def power() -> None:
        running = world.loop.running
        host = running.host if isinstance(running, IngressProcess) else world.hosts[0]
        world.loop.after(0.0, lambda: world.lose_power(host))

    world.disk.on_crash = power
    world.disk.crash_in = calls


def _pause(world: World, ms: int) -> None:
    process = _any_process(world)
    if process is not None and not process.paused:
        process.paused = True

        def go_on() -> None:
            if process.paused:
                process.resume(world.loop)

        world.loop.after(ms / 1000, go_on)


def _stop(world: World, _: int) -> None:
    process = _any_process(world)
    if process is not None and not process.paused:
        process.stop()


def _trouble(world: World, calls: Iterable[str], code: int, until_s: float, count: int) -> None:
    world.disk.troubles.append(Trouble(frozenset(calls), code, until_s, count))


def _disk_fails(world: World, count: int) -> None:
    choices = (("write",), ("fsync",), ("link",), ("unlink",), ("write", "fsync", "link", "rename", "truncate", "open"))
    _trouble(world, world.loop.random.choice(choices), errno.EIO, _FOR_EVER, count)


def _disk_full(world: World, ms: int) -> None:
    _trouble(world, ("write",), errno.ENOSPC, world.loop.now + ms / 1000, 1_000_000)


def _disk_unreadable(world: World, count: int) -> None:
    _trouble(world, ("read", "list"), errno.EIO, _FOR_EVER, count)


def _disk_slow(world: World, ms: int) -> None:
    world.disk.slow_s = ms / 1000

    def fast() -> None:
        world.disk.slow_s = 0.0

    world.loop.after(_SLOW_FOR_S, fast)


def _sinks(*calls: str) -> Callable[[World, int], None]:
    def begin(world: World, ms: int) -> None:
        world.sink_trouble.begin(frozenset(calls), world.loop.now + ms / 1000)

    return begin


def _clock(world: World, seconds: int) -> None:
    world.loop.random.choice(world.hosts).wall_ms += seconds * 1000


def _damaged(world: World, _: int) -> None:
    blobs = sorted(name for name in world.disk.names if name.startswith(f"{STATE}/state/") and "/.tmp" not in name)
    if blobs:
        data = world.disk.names[blobs[-1]].data
        if data:
            data[world.loop.random.randrange(len(data))] ^= 0x55
            world.facts.duplicates_allowed = True


def _settle(world: World, _: int) -> None:
    owner = world.owner
    holder = None if owner is None else owner.source.ledger.holder()
    if holder is not None:
        Settlement(world.around, ((holder[0], holder[0]),))


_HAPPEN: dict[FaultKind, Callable[[World, int], None]] = {
    FaultKind.CUT: _cut,
    FaultKind.HALF_OPEN: _half_open,
    FaultKind.NOT_READING: _not_reading,
    FaultKind.STRANGER: _stranger,
    FaultKind.COLLECTOR_DIES: lambda world, _: world.restart_collector(with_spool=True),
    FaultKind.COLLECTOR_FORGETS: lambda world, _: world.restart_collector(with_spool=False),
    FaultKind.KILL: _kill,
    FaultKind.KILL_AT: _kill_at,
    FaultKind.POWER: _power,
    FaultKind.POWER_AT: _power_at,
    FaultKind.PAUSE: _pause,
    FaultKind.TAKE_OVER: lambda world, _: world.start_process(take_over=True),
    FaultKind.SECOND: lambda world, _: world.start_process(take_over=False),
    FaultKind.STOP: _stop,
    FaultKind.DISK_FAILS: _disk_fails,
    FaultKind.DISK_FULL: _disk_full,
    FaultKind.DISK_UNREADABLE: _disk_unreadable,
    FaultKind.DISK_SLOW: _disk_slow,
    FaultKind.SINK_FAILS: _sinks("write"),
    FaultKind.PREPARE_FAILS: _sinks("prepare", "flush"),
    FaultKind.COMMIT_FAILS: _sinks("commit"),
    FaultKind.ANSWER_LOST: _sinks("answer"),
    FaultKind.CLOCK: _clock,
    FaultKind.DAMAGED: _damaged,
    FaultKind.SETTLE: _settle,
}
