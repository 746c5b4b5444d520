"""The whole of one simulation: machines, disk, network, collector, ingress and operator, and what is done to them."""

from __future__ import annotations

from edgesocket.protocol.chunks import BufferPool
from edgesocket.testing.simulator.collector import SimulatedCollector
from edgesocket.testing.simulator.conversation import Conversation
from edgesocket.testing.simulator.disk import Disk
from edgesocket.testing.simulator.invariants import Facts, Violation
from edgesocket.testing.simulator.link import SimulatedLink
from edgesocket.testing.simulator.loop import Loop
from edgesocket.testing.simulator.network import Connection
from edgesocket.testing.simulator.operator import Operator
from edgesocket.testing.simulator.ownership import OwnershipFiles
from edgesocket.testing.simulator.process import IngressProcess
from edgesocket.testing.simulator.settings import Settings
from edgesocket.testing.simulator.sinks import SimulatedSink, SinkTrouble
from edgesocket.testing.simulator.spool import SimulatedSpool
from edgesocket.testing.simulator.strangers import Stranger
from edgesocket.testing.simulator.surroundings import Host, Surroundings
from edgesocket.testing.simulator.wire_tap import WireTap
from edgesocket.testing.sinks import ListStorage

SUPERVISE_S = 0.3
"""How often somebody looks whether the job runs at all."""
OPERATE_S = 1.0
PATIENCE_S = 3.0
"""How long the operator lets something hold the watermark."""
MOST_OWED_RUNS = 10_000
MOST_RANGES_A_BATCH = 4
LOOK_CLOSER_EVERY = 16
"""What is dear to ask is asked every so many steps."""


class World:
    """See the module's text.

    Attributes:
        loop, settings, facts: of this simulation.
        processes: of the ingress, those that live.
        collector: the one that lives now.
        calm: no more faults, and everything that is broken is being put right.
    """

    def __init__(self, seed: int, settings: Settings) -> None:
        self.loop = Loop(seed)
        self.settings = settings
        self.calm = False
        self.storages = [ListStorage() for _ in range(2 if settings.sink == "both" else 1)]
        self.facts = Facts(self.storages)
        self.disk = Disk(self.loop.random, lambda: self.loop.now, self._host_of_running, settings.keep)
        self.sink_trouble = SinkTrouble(lambda: self.loop.now)
        self.hosts = [Host(f"host{n}", f"host{n}-boot0") for n in range(settings.hosts)]
        self.processes: list[IngressProcess] = []
        self.connections: list[Connection] = []
        self.made = 0
        self._names = 0
        self._boots = 0
        self._starting = False
        self.around = Surroundings(
            loop=self.loop,
            settings=settings,
            disk=self.disk,
            files=OwnershipFiles(),
            facts=self.facts,
            pool=BufferPool(64 * 1024),
            make_sinks=self._make_sinks,
            ended=self._process_ended,
        )
        self.operator = Operator(self.around)
        self.collector = self._new_collector(SimulatedSpool(self.facts), 0)
        self.start_process(take_over=False)
        self.loop.after(0.0, self._produce)
        self.loop.after(SUPERVISE_S, self._supervise)
        self.loop.after(OPERATE_S, self._operate)

    # ---- the ingress's side --------------------------------------------------------------------------------------

    @property
    def owner(self) -> IngressProcess | None:
        """The process that claimed the job last, if it lives and has restored."""
        restored = [process for process in self.processes if process.pump is not None]
        return max(restored, key=lambda process: process.epoch, default=None)

    def _make_sinks(self) -> dict[str, SimulatedSink]:
        deciding = {"recommittable": (False,), "deciding": (True,), "both": (True, False)}[self.settings.sink]
        return {
            name: SimulatedSink(decides, storage, self.sink_trouble)
            for name, decides, storage in zip(("one", "two"), deciding, self.storages, strict=False)
        }

    def start_process(self, *, take_over: bool) -> None:
        """Somebody starts the job, on any machine that is up."""
        up = [host for host in self.hosts if host.up]
        if up and len(self.processes) < 3:
            self._names += 1
            host = self.loop.random.choice(up)
            leases = self.settings.leases_ms
            lease_ms = leases[self._names % len(leases)]
            self.processes.append(
                IngressProcess(f"ingress{self._names}", host, self.around, take_over=take_over, lease_ms=lease_ms)
            )

    def _process_ended(self, process: IngressProcess) -> None:
        self.disk.dying = False
        if process in self.processes:
            self.processes.remove(process)

    def _supervise(self) -> None:
        if not self.processes:
            self.start_process(take_over=False)
        self.loop.after(SUPERVISE_S * (0.5 + self.loop.random.random()), self._supervise)

    def lose_power(self, host: Host) -> None:
        """A machine goes down, and comes back some time later under another boot."""
        if not host.up:
            return
        host.up = False
        for process in [process for process in self.processes if process.host is host]:
            process.lose_power()
        self.disk.lose_power(host.name)
        self.disk.dying = False
        self.disk.crash_in = 0
        self._boots += 1
        host.boot = f"{host.name}-boot{self._boots}"

        def boot() -> None:
            host.up = True

        self.loop.after(self.loop.random.random() * 3, boot)

    def _host_of_running(self) -> str:
        running = self.loop.running
        return running.host.name if isinstance(running, IngressProcess) else self.hosts[0].name

    def _operate(self) -> None:
        owner = self.owner
        if owner is not None and not owner.paused:
            self.operator.look(owner.source.ledger, self.collector.spool.kept, PATIENCE_S)
        self.loop.after(OPERATE_S, self._operate)

    # ---- the collector's side ------------------------------------------------------------------------------------

    def _new_collector(self, spool: SimulatedSpool, last_id: int) -> SimulatedCollector:
        self._names += 1
        return SimulatedCollector(
            f"collector{self._names}", self.loop, self.settings, self.facts, self.connect, spool, last_id
        )

    def restart_collector(self, *, with_spool: bool) -> None:
        """The collector dies; another process goes on with what is left."""
        old = self.collector
        old.die()
        spool = old.spool if with_spool else SimulatedSpool(self.facts)
        self.collector = self._new_collector(spool, old.last_id if with_spool else 0)

    def read_again(self) -> None:
        """The collector reads its replies."""
        link = self.collector.link
        if link is not None and link.connection is not None:
            link.connection.down.unblock()

    def _produce(self) -> None:
        for _ in range(self.settings.produced_at_once):
            if self.made < self.settings.batches:
                self.made += 1
                self.collector.make_batch(self.made)
        self.collector.advance()
        if self.made < self.settings.batches:
            self.loop.after(self.settings.produced_every_ms / 1000, self._produce)

    def connect(self, link: SimulatedLink | Stranger) -> None:
        """Somebody dials the job; some time later he is connected, or refused."""
        self.loop.after(self.loop.random.random() * self.settings.latency_ms / 1000, lambda: self._dial(link))

    def _dial(self, link: SimulatedLink | Stranger) -> None:
        if not link.actor.alive:
            return
        listeners: dict[str, IngressProcess] = {}
        for process in self.processes:  # on each machine one has the port: the one that had it first
            if process.serving:
                listeners.setdefault(process.host.name, process)
        open_ = [process for process in listeners.values() if process.accepts]
        if not open_:
            link.lost()
            return
        process = self.loop.random.choice(open_)
        conversation = Conversation(process, self.around.pool, WireTap(self.facts))
        connection = Connection(self.loop, self.settings, link, conversation)
        link.connection = conversation.connection = connection
        process.greet(conversation)
        self.connections.append(connection)
        link.opened()

    # ---- the end of faults ---------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """Faults stop, and what was broken is put right."""
        self.calm = True
        self.disk.troubles.clear()
        self.disk.slow_s = 0.0
        self.disk.crash_in = 0
        self.sink_trouble.end()
        for process in list(self.processes):
            if process.paused:
                process.resume(self.loop)
        self.read_again()

    # ---- what must hold ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Every invariant that can be seen from outside, after any step."""
        process = self.loop.last
        if isinstance(process, IngressProcess):
            self.facts.look_at_sinks()
            if process.alive and process.pump is not None:
                self._check_process(process)
        elif self.collector.outstanding > self.settings.window:
            raise Violation("bounded-memory", f"{self.collector.outstanding} batches are on their way")

    def _check_process(self, process: IngressProcess) -> None:
        source = process.source
        watermark = source.ledger.watermark
        if watermark != process.seen_watermark:
            process.seen_watermark = watermark
            self.facts.watermark(watermark, of_owner=process is self.owner)
        queue = source.queue
        if queue.records > max(queue.mark, process.restored_records):
            raise Violation("bounded-memory", f"{queue.records} records are queued, the mark is {queue.mark}")
        if self.loop.steps % LOOK_CLOSER_EVERY:
            return
        if source.ledger.range_count > MOST_RANGES_A_BATCH * self.settings.batches:
            raise Violation("bounded-memory", f"the ledger holds {source.ledger.range_count} ranges")
        for conversation in process.conversations:
            if conversation.replies.run_count > MOST_OWED_RUNS:
                raise Violation("bounded-memory", f"{conversation.replies.run_count} runs of replies are owed")

    @property
    def done(self) -> bool:
        """Whether everything that the collector has is confirmed."""
        return self.made >= self.settings.batches and not self.collector.spool.kept
