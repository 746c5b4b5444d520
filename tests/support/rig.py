"""A job without processes, threads or sockets: the real engine, source and store, stepped by a test.

A crash is `rig.crash()`: everything in memory is forgotten, nothing is closed. A power cut is `rig.crash(boot="...")`
with another boot id. `rig.start()` is the next incarnation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgesocket.checkpoint.drive import drive
from edgesocket.checkpoint.procedure import CheckpointEnd
from edgesocket.components.sink import Sink
from edgesocket.components.state import Host
from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.engine.incarnation import Incarnation
from edgesocket.engine.plan import JobPlan, SinkPlan
from edgesocket.protocol.commands import Batch, Commit
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.sources.edge_socket import EdgeSocketSource
from edgesocket.store.local import LocalStore
from edgesocket.store.scratch import ScratchDirectory
from edgesocket.testing.sinks import ListSink, ListStorage


class NoOwnership:
    """Ownership that is always granted: the rig kills what it starts."""

    def watch(self, lease_ms: int = 0, *, take_over: bool = False) -> None: ...

    def start(self, epoch: int) -> None: ...

    def wait_until_alone(self) -> None: ...

    def beat(self) -> None: ...

    def is_overdue(self, now: float) -> bool:
        return False

    def close(self) -> None: ...


@dataclass
class Rig:
    """One job on one state directory.

    Attributes:
        directory: the state directory.
        storage: what outlives the sink.
        make_sink: makes the sink of each incarnation.
        options: further options of the source.
        fault: fault points of the store and the arrival log.
        boot: the running kernel, as far as the job knows.
        plan: further fields of the job's plan.
        apart: the directory of the arrival log, where it does not lie with the state.
    """

    directory: Path
    storage: ListStorage
    make_sink: Callable[[ListStorage], Sink] = lambda storage: ListSink(storage, with_ids=True)
    options: dict[str, Any] | None = None
    fault: Callable[[str], None] | None = None
    boot: str = "boot-1"
    sink_id: str = "sink"
    drop_sink_state: frozenset[str] = frozenset()
    plan: dict[str, Any] | None = None
    apart: ScratchDirectory | None = None

    def __post_init__(self) -> None:
        self.reports: list[str] = []
        self.incarnation: Incarnation | None = None

    def start(self) -> Rig:
        """The next incarnation, up to the point where it would open its port."""
        options = {"port": 1, "token": "t", "queue_full_wait_ms": 0, **(self.options or {})}
        plan = JobPlan(
            name="job",
            state_dir=self.apart.directory if self.apart else self.directory,
            apart=self.apart,
            source_id="EdgeSocket",
            make_source=lambda: EdgeSocketSource("job", EdgeSocketOptions.of(**options)),
            sinks=(SinkPlan(self.sink_id, lambda: self.make_sink(self.storage)),),
            arrival_sync_ms=options.get("arrival_sync_ms", 1000),
            drop_sink_state=self.drop_sink_state,
            **(self.plan or {}),
        )
        store = LocalStore(self.directory, fault=self.fault)
        self.incarnation = Incarnation(
            plan, store, NoOwnership(), Host("host", self.boot), lambda event: self.reports.append(str(event))
        )
        self.incarnation._acquire()
        self.incarnation._restore()
        self.source.session_started("test")
        return self

    @property
    def source(self) -> EdgeSocketSource:
        """The running source."""
        assert self.incarnation is not None
        source = self.incarnation._source
        assert isinstance(source, EdgeSocketSource)
        return source

    def offer(self, batch_id: int, payload: str | bytes = b"x") -> str:
        """`__BATCH__`; returns the reply."""
        payload = payload.encode() if isinstance(payload, str) else payload
        return self._ask(Batch(batch_id, payload))

    def poll(self, batch_id: int) -> str:
        """`__COMMIT__`; returns the reply."""
        return self._ask(Commit(batch_id))

    def _ask(self, event: Batch | Commit) -> str:
        replies = ReplyQueue()
        self.source.handle([event], replies)
        return replies.peek(100).decode().strip()

    def reconnect(self) -> None:
        """The collector comes back."""
        self.source.session_started("test")

    def pump(self) -> int:
        """What is queued goes to the sink. Returns how many records."""
        assert self.incarnation is not None
        self.source.wake()
        return self.incarnation._pump(0.0)

    def checkpoint(self, *, force: bool = True) -> CheckpointEnd:
        """One checkpoint, all steps."""
        incarnation = self.incarnation
        assert incarnation is not None
        runner = incarnation._checkpoints
        assert runner is not None
        number, runner._number = runner._number, runner._number + 1
        end: CheckpointEnd = drive(incarnation._make_checkpoint(number, force), self._perform)
        return end

    def _perform(self, effect: Any) -> Any:
        assert self.incarnation is not None
        if hasattr(effect, "encode"):
            return effect.encode()
        if self.fault is not None:
            self.fault(f"before {type(effect).__name__}")
        result = self.incarnation._perform_any(effect)
        if self.fault is not None:
            self.fault(f"after {type(effect).__name__}")
        return result

    def stop(self) -> None:
        """A graceful end."""
        incarnation = self.incarnation
        assert incarnation is not None
        self.pump()
        self.checkpoint()
        incarnation._append_ended(reason="", covered=True)
        self.incarnation = None

    def crash(self, *, boot: str = "") -> None:
        """Forget everything in memory. `boot`: the host went down too."""
        self.incarnation = None
        if boot:
            self.boot = boot

    def files(self, part: str) -> list[Path]:
        """Files of the state directory whose path holds `part`, sorted by name."""
        return sorted(path for path in self.directory.rglob("*") if path.is_file() and part in str(path))
