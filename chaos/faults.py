"""The faults. Each strikes once, lasts a random while, and has put everything right when it returns."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable

from chaos.world import Kept, World, held

Fault = Callable[[World], None]
HOUR_S = 3600.0
AWAKE_LATE_SHARE = 0.6
"""So often the first owner of a job wakes when the second one has confirmed lines; else while that one starts."""
AWAKE_LATE_S = 30.0
FENCED_S = 60.0
"""So soon a process must have noticed that its job is not its own any more, and ended."""
NAP_S = 1.5
"""Half of the least a lease is by default."""


def kill_agent(world: World) -> None:
    _kill(world, world.agent)


def kill_ingress(world: World) -> None:
    _kill(world, world.ingress)


def kill_both(world: World) -> None:
    """In either order, the second a moment after the first."""
    both = [world.agent, world.ingress]
    world.dice.shuffle(both)
    for one in both:
        one.kill()
        world.pause(0.0, 0.1)
    world.dice.shuffle(both)
    for one in both:
        one.start()
        world.pause(0.0, 0.3)


def stop_agent(world: World) -> None:
    _stop(world, world.agent)


def stop_ingress(world: World) -> None:
    _stop(world, world.ingress)


def nap_ingress(world: World) -> None:
    """Stopped for less than its lease, so that it need not end."""
    _stop(world, world.ingress, NAP_S)


def take_over(world: World) -> None:
    """The ingress is stopped and another process takes the job; then the first wakes, and has to end by itself."""
    world.ingress.signal(signal.SIGSTOP)
    world.pause(0.0, 2.0)
    before = world.take_over()
    with held(lambda: before.process.send_signal(signal.SIGCONT)):
        if world.dice.random() < AWAKE_LATE_SHARE:
            world.wait_for_progress(AWAKE_LATE_S)
        world.pause(0.0, 3.0)
    world.fenced[before.process.wait(FENCED_S)] += 1


def cut(world: World) -> None:
    """Connections break, some of them again at once."""
    for _ in range(world.dice.randint(1, 4)):
        world.link.cut()
        world.pause(0.0, 0.3)


def half_open(world: World) -> None:
    """Bytes are taken and go nowhere; then both ends learn of it."""
    with held(world.link.revive):
        world.link.die()
        world.pause(0.5, 4.0)


def slow(world: World) -> None:
    with held(world.link.fast):
        world.link.slow(world.dice.uniform(0.02, 0.4), world.dice.randint(20_000, 300_000))
        world.pause(1.0, 4.0)


def dead_wire(world: World) -> None:
    """No byte and no FIN passes between the two hosts, and none is told."""
    assert world.wire is not None
    with held(world.wire.mend):
        world.wire.cut()
        world.pause(0.5, 6.0)


def full_disk(world: World) -> None:
    assert world.disk is not None
    with held(world.disk.heal):
        world.disk.fill(world.dice.choice([0, 0, 4096, 65536, 300_000]))
        world.pause(0.5, 3.0)


def full_database(world: World) -> None:
    """PostgreSQL gives up when its log has no room; then somebody makes room and starts it again."""
    assert world.database is not None
    with held(world.database.start):
        full_disk(world)


def failing_disk(world: World) -> None:
    assert world.shim is not None
    shim = world.shim
    with held(lambda: shim.fail(0, 0)):
        shim.fail(world.dice.choice([100, 300, 600, 1000]), world.dice.choice([errno.EIO, errno.EIO, errno.ENOSPC]))
        world.pause(0.5, 3.0)


def step_clock(world: World) -> None:
    """The time of day jumps, and stays so until the next jump."""
    assert world.shim is not None
    for _ in range(world.dice.randint(1, 3)):
        world.shim.step_clock(world.dice.choice([-24, -1, -0.01, 0, 0.01, 1, 24]) * HOUR_S)
        world.pause(0.2, 1.0)


def kill_broker(world: World) -> None:
    assert world.broker is not None
    with held(world.broker.start):
        world.broker.kill()
        world.pause(0.0, 2.0)


def stop_broker(world: World) -> None:
    assert world.broker is not None
    with held(world.broker.go_on):
        world.broker.pause()
        world.pause(0.5, 6.0)


def kill_database(world: World) -> None:
    assert world.database is not None
    with held(world.database.start):
        world.database.kill()
        world.pause(0.0, 2.0)


def stop_database(world: World) -> None:
    assert world.database is not None
    with held(world.database.go_on):
        world.database.pause()
        world.pause(0.5, 6.0)


def cut_database(world: World) -> None:
    """The job's connections to the database break, some in the middle of a commit."""
    assert world.sink_link is not None
    for _ in range(world.dice.randint(1, 4)):
        world.sink_link.cut()
        world.pause(0.1, 1.0)


def any_of(*faults: Fault) -> Fault:
    """One of them each time."""

    def strike(world: World) -> None:
        world.dice.choice(faults)(world)

    return strike


def _kill(world: World, one: Kept) -> None:
    with held(one.start):
        one.kill()
        world.pause(0.0, 1.0)


def _stop(world: World, one: Kept, most_s: float = 5.0) -> None:
    with held(lambda: one.signal(signal.SIGCONT)):
        one.signal(signal.SIGSTOP)
        world.pause(0.3, most_s)
