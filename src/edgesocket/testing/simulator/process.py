"""One process of the ingress, from its start to its end: what `engine.incarnation` does, in events instead of threads.

The procedures (reading the log, claim, recovery, checkpoints), the runner of checkpoints, the source, the arrival log
and the store are the real ones. What is written anew is only who calls them when: each effect of a procedure on the
store is an event of its own, and a crash can come before any system call and before any effect.
"""

from __future__ import annotations

from edgesocket.checkpoint.log_view import Log
from edgesocket.engine.helpers import beat_s_of
from edgesocket.engine.performing import ProcedureRun
from edgesocket.errors import EdgeSocketError, FencedError, StoreError
from edgesocket.store.identity import HostIdentity
from edgesocket.store.local import LocalStore
from edgesocket.testing.simulator.conversation import Conversation
from edgesocket.testing.simulator.executor import SimulatedExecutor
from edgesocket.testing.simulator.loop import Actor, Loop
from edgesocket.testing.simulator.ownership import SimulatedOwner
from edgesocket.testing.simulator.pump import Pump
from edgesocket.testing.simulator.sinks import SimulatedSink
from edgesocket.testing.simulator.source import SimulatedSource
from edgesocket.testing.simulator.starting import Restored, starting
from edgesocket.testing.simulator.surroundings import EPOCH_MS, STATE, Host, Surroundings
from edgesocket.testing.simulator.system_calls import DiskPath

_RECEIVER_S = 0.1
"""How long the receiver is held up at most, where the pump has a turn in between."""


class IngressProcess(Actor):
    """See the module's text.

    Attributes:
        host, boot: where it runs.
        log: the commit log as it knows it.
        owner: its hold on the job.
        serving: whether its port is open.
        stopping: whether it was asked to end.
        failure: why it ended, None while it runs, after a crash and after a graceful end.
        pump: what it does once it is restored.
        restored_records: how many records a checkpoint gave it back; they may be more than the queue would take.
        seen_watermark: its watermark when it was looked at last.
    """

    def __init__(self, name: str, host: Host, around: Surroundings, *, take_over: bool, lease_ms: int) -> None:
        super().__init__(name)
        self.host = host
        self.boot = host.boot
        self.around = around
        self.loop: Loop = around.loop
        self.take_over = take_over
        self.log = Log()
        self._beat_s = beat_s_of(lease_ms)
        self.owner = SimulatedOwner(around.loop, around.files, self, HostIdentity(host.name, host.boot), lease_ms)
        self.serving = False
        self.stopping = False
        self.failure: BaseException | None = None
        self.pump: Pump | None = None
        self.restored_records = 0
        self.seen_watermark = -1
        self.sinks: dict[str, SimulatedSink] = {}
        self.executor = SimulatedExecutor(around.loop, self, self._store_s)
        self._source: SimulatedSource | None = None
        self._fenced = False
        self._conversations: list[Conversation] = []
        self._elected: Conversation | None = None
        self._in_between = False
        self._pump_failed = False
        self._turn_at: float | None = None
        self._start: ProcedureRun | None = None
        self.loop.after(0.0, self._begin, self)

    @property
    def source(self) -> SimulatedSource:
        """Its source; there is none before the restore."""
        assert self._source is not None
        return self._source

    @property
    def epoch(self) -> int:
        """Of its claim, 0 before."""
        return self.log.epoch

    def wall_ms(self) -> int:
        """The time of day on its host."""
        return EPOCH_MS + int(self.loop.now * 1000) + self.host.wall_ms

    def still_owner(self) -> bool:
        """Whether it may send another byte."""
        return self.alive and not self._fenced and not self.owner.is_overdue(self.loop.now)

    # ---- the end -------------------------------------------------------------------------------------------------

    def fail(self, error: BaseException | None) -> None:
        """End with an error; None: all is done."""
        if not self.alive:
            return
        self.failure = error
        self._fenced = self._fenced or isinstance(error, FencedError)
        self._hang_up()
        if self._source is not None:
            self._source.close(clean=False)
        self.owner.close()
        self.alive = False
        self.around.ended(self)

    def crashed(self) -> None:
        """kill -9, whatever it was doing."""
        if self.alive:
            self._hang_up()
            self.alive = False
            self.around.ended(self)

    def lose_power(self) -> None:
        """Its machine is gone."""
        if self.alive:
            self._hang_up(power=True)
            self.alive = False
            self.around.ended(self)

    def stop(self) -> None:
        """SIGTERM: the listener closes, what is queued is written, one last checkpoint is taken."""
        if self.alive and self.serving:
            self.stopping = True
            self.soon()

    def hang_up(self) -> None:
        """Close the conversations after their replies."""
        for conversation in list(self._conversations):
            conversation.abandon()

    def _hang_up(self, *, power: bool = False) -> None:
        self.serving = False
        conversations, self._conversations, self._elected = self._conversations, [], None
        for conversation in conversations:
            conversation.open = False
            conversation.connection.server_gone(power=power)

    # ---- connections ---------------------------------------------------------------------------------------------

    @property
    def accepts(self) -> bool:
        """Whether its listener is open: it runs, and no collector was elected."""
        return self.alive and self.serving and self._elected is None and not self.stopping

    @property
    def conversations(self) -> list[Conversation]:
        """Every open connection."""
        return self._conversations

    def greet(self, conversation: Conversation) -> None:
        """Somebody has connected."""
        self._conversations.append(conversation)

    def elect(self, conversation: Conversation) -> bool:
        """The first that authenticates is the collector; all others are turned away."""
        if self._elected is not None:
            return False
        self._elected = conversation
        for other in [other for other in self._conversations if other is not conversation]:
            other.turn_away()
        return True

    def left(self, conversation: Conversation) -> None:
        """A connection is over."""
        if conversation in self._conversations:
            self._conversations.remove(conversation)
        if self._elected is conversation:
            self._elected = None

    # ---- turns ---------------------------------------------------------------------------------------------------

    def soon(self) -> None:
        """Take a turn as soon as possible."""
        self.turn_in(0.0)

    def turn_in(self, delay_s: float) -> None:
        """Take a turn at the latest then."""
        when = self.loop.now + delay_s
        if self._turn_at is None or when < self._turn_at:
            self._turn_at = when
            self.loop.at(when, lambda: self._turn(when), self)

    def _turn(self, planned: float) -> None:
        if planned != self._turn_at:
            return  # an earlier one was taken instead
        self._turn_at = None
        try:
            if self.pump is not None:
                if not self._pump_failed:
                    self.pump.turn()
            elif self._start is not None:
                self._continue_start()
        except EdgeSocketError as error:
            self.fail(error)

    def between(self) -> None:
        """Another thread's turn, in the middle of what the receiver does."""
        if self.pump is None or self._in_between or self.loop.random.random() >= self.around.settings.between:
            return
        if self._pump_failed:
            return  # that was its last turn
        self._in_between = True
        self.loop.pass_time(self.loop.random.random() * _RECEIVER_S)
        try:
            self.pump.turn()
        except EdgeSocketError as error:
            caught, self._pump_failed = error, True
            self.loop.after(0.0, lambda: self.fail(caught), self)
        finally:
            self._in_between = False

    def _begin(self) -> None:
        try:
            store = LocalStore(DiskPath(self.around.disk, STATE))  # type: ignore[arg-type]
        except StoreError as error:
            self.fail(error)
            return
        self.store = store
        self._start = ProcedureRun(starting(self), self._here, store.perform, self.executor, self.soon)
        self.soon()

    def _here(self, effect: object) -> object:
        return Pump.perform(self, effect)

    def _continue_start(self) -> None:
        assert self._start is not None
        if not self._start.advance(self.loop.now):
            self.turn_in(0.1)
            return
        restored: Restored = self._start.result
        self._source = restored.source
        self.restored_records = restored.source.queue.records
        self.pump = Pump(self, restored.next_number)
        self.serving = True
        self.soon()

    def keep_on(self) -> None:
        """The keeper and the housekeeper: once a second from the claim on, more often with a short lease."""
        self.loop.after(self._beat_s, self._keep, self)

    def _keep(self) -> None:
        try:
            self.owner.beat()
            if self.pump is not None:
                self.source.tick()
        except FencedError as error:
            self.fail(error)
            return
        except StoreError:
            pass  # the arrival log cannot be written now; it tries again
        self.keep_on()

    def _store_s(self) -> float:
        return self.around.settings.store_ms / 1000 + self.around.disk.slow_s
