"""One job of a process that runs one or several: its runner, its status, its log lines, and who may ask it to stop."""

from __future__ import annotations

import secrets
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from edgesocket.cli.job_files import JobFile
from edgesocket.cli.jobs import make_plan, this_host
from edgesocket.cli.status_pace import StatusPace
from edgesocket.config.specs import JobSpec
from edgesocket.engine.incarnation import REPLY_GRACE_S
from edgesocket.engine.performing import unix_ms
from edgesocket.engine.rounds import Rounds, SharedHelpers
from edgesocket.engine.runner import JobRunner
from edgesocket.errors import BadRecordError, EdgeSocketError, ExitCode, FencedError, NotOwnerError
from edgesocket.telemetry.event import Level, describe, kind_of
from edgesocket.telemetry.events import JobStopped, JobStoppedEarly, StopRequested
from edgesocket.telemetry.journal import Journal
from edgesocket.telemetry.masking import Mask
from edgesocket.web.hosted import Outcome, Published

if TYPE_CHECKING:
    from edgesocket.hosting.replay import Replay
    from edgesocket.sources.letter_files import Position

END_MARGIN_S = 5.0
"""What a graceful stop may take beyond replies and the last checkpoint, before the process ends all the same."""

REQUEST_LOOK_S = 5.0
"""How often a job looks whether somebody asks it to stop, beside each time it publishes its status."""

_WAYS_ON = (
    "two ways on: give the batch up with edgesocket settle {job} {id_} --state-dir {state_dir} --reason TEXT, or keep "
    "such records aside with a dead_letter block and on_bad_record = dead_letter (or run --on-bad-record dead_letter; "
    "for a row that a sink refuses: on_rejected_row = dead_letter of that sink)"
)


class RunningJob:
    """A job that runs, or is about to.

    Args:
        file: the job.
        report: takes what happens, for the log; see `journal` too.
        take_over: claim it without waiting for the beat of another owner.
        drop_sink_state: sinks whose unpublished work may be forgotten.

    Attributes:
        published: what it last said of itself.
        outcome: how it ended, once it has.
        created_ms: when this process began with it.
        restored: whether it went on from a state that was there.
        http: where the process shows it; told to whoever reads its status.
        host_start: number of the start of the cluster's host that runs it, told as well; 0 without one.
    """

    def __init__(
        self,
        file: JobFile,
        report: Callable[[object], None],
        *,
        take_over: bool = False,
        drop_sink_state: frozenset[str] = frozenset(),
        rounds: Rounds | None = None,
    ) -> None:
        self.name = file.spec.name
        self.state = file.state
        self.state_dir = file.state.text
        self._mask = Mask(file.spec.secrets)
        self.journal = Journal(threading.Lock(), unix_ms, self._mask)
        self.published: Published | None = None
        self.outcome: Outcome | None = None
        self.created_ms = unix_ms()
        self.restored = False
        self.http = ""
        self.host_start = 0
        self._asked = False
        self._pace = StatusPace()
        self._log = report
        self.file = file
        self._last_status: dict[str, Any] = {}
        self._instance = secrets.token_hex(8)
        self._ended = threading.Event()
        self._rounds = rounds
        plan = make_plan(file.spec, file.state, take_over=take_over, drop_sink_state=drop_sink_state)
        if rounds is not None:
            plan = replace(plan, make_helpers=partial(SharedHelpers, rounds))
        self.tap = plan.tap
        self.end_within_s = REPLY_GRACE_S + plan.checkpoint_timeout_s + END_MARGIN_S
        self.runner = JobRunner(
            plan,
            file.state.open_store,
            partial(file.state.owner, self.name),
            this_host(),
            self.report,
            self._publish,
        )

    def report(self, event: object) -> None:
        """Take note of an event (or a sentence): in the journal and in the log. Safe on any thread."""
        self.journal(event)
        self._log(event)

    @property
    def spec(self) -> JobSpec:
        """What its file says."""
        return self.file.spec

    def stop(self, by: str) -> None:
        """Ask for a graceful end, in the name of `by`. Returns at once; safe on any thread; once is enough."""
        if self._asked:
            return
        self._asked = True
        self.report(StopRequested(by))
        threading.Thread(target=self.runner.stop, name="edgesocket-stop", daemon=True).start()

    def replay(self, wanted: frozenset[Position] | None) -> Replay:
        """A replay of the job's dead letters: `wanted`, or all that were not replayed. Raises UsageError."""
        from edgesocket.hosting.replay import Replay

        plan = make_plan(self.file.spec, self.state)

        def tell(event: object) -> None:
            # As a sentence: what happens to the replay is no figure of this job.
            if kind_of(event).level >= Level.WARNING:
                self.report(f"replay of dead letters: {describe(event)}")

        return Replay(self.file.spec, plan, self.state, this_host(), wanted=wanted, report=tell)

    @property
    def confirmed(self) -> int:
        """The last batch that a completed checkpoint covers."""
        return int(self._last_status.get("source", {}).get("watermark", 0))

    def greeting(self) -> str:
        """What runs, and where."""
        spec = self.file.spec
        options = spec.sources[0].options
        dialled = f", collectors dial {options.endpoint}" if options.endpoint else ""
        steps = [f"EdgeSocket 0.0.0.0:{options.port}{dialled}", *(transform.id for transform in spec.transforms)]
        sinks = ", ".join(sink.id for sink in spec.sinks)
        return f"job {spec.name}: {' -> '.join(steps)} -> {sinks}; state in {self.state_dir}"

    def run(self) -> int:
        """Run until the job is stopped. Returns the exit code for it.

        Raises:
            EdgeSocketError: the job failed.
        """
        if self._rounds is None:
            threading.Thread(target=self._watch_requests, name="edgesocket-requests", daemon=True).start()
        code: int = ExitCode.BUG
        reason, fenced = "it ended by a bug", False
        try:
            complete = self.runner.run()
            code = ExitCode.OK if complete else ExitCode.TRY_LATER
            reason = "" if complete else "it was stopped before everything was confirmed"
        except EdgeSocketError as error:
            code, reason = error.exit_code, str(error)
            fenced = isinstance(error, NotOwnerError | FencedError)
            if fenced:
                self._last_status.clear()  # the status file is another process's
            if isinstance(error, BadRecordError):
                where = shlex.quote(self.state_dir)
                self.report(_WAYS_ON.format(job=shlex.quote(self.name), id_=error.batch_id, state_dir=where))
            raise
        finally:
            self._ended.set()
            self.outcome = Outcome(code, self._mask(reason), unix_ms(), fenced)
            self._publish_end(code, reason)
        if complete:
            self.report(JobStopped(self.confirmed))
        else:
            self.report(JobStoppedEarly(self.confirmed))
        return code

    def _publish(self, status: dict[str, Any]) -> None:
        status = _masked(status, self._mask)
        if self.published is None:
            self.restored = int(status.get("epoch", 0)) > 1
        self.published = Published(status, time.monotonic())
        self._last_status.update(status)
        self._look_for_requests()
        if not self._pace.due(status, time.monotonic()):
            return
        told = {"instance": self._instance, "http": self.http, "host_start": self.host_start}
        self.state.write_status({**status, **{name: value for name, value in told.items() if value}})

    def _publish_end(self, code: int, reason: str) -> None:
        """Say how it ended, for whoever asked it to stop and waits."""
        self.state.clear_request(self._instance)
        shown = self.state.read_status()
        if self._last_status and shown is not None and shown.get("instance") == self._instance:
            end = {"exit_code": code, "confirmed": self.confirmed, "reason": self._mask(reason)}
            self.state.write_status({**self._last_status, "instance": self._instance, "end": end})

    def _watch_requests(self) -> None:
        while not self._ended.wait(REQUEST_LOOK_S):
            self._look_for_requests()

    def _look_for_requests(self) -> None:
        by = "" if self._asked else self.state.asked_to_stop(self._instance)
        if by:
            self.stop(by)


_TOLD_BY_LIBRARIES = frozenset({"last_error", "last_failure", "failure", "bind_problem"})
"""Parts of a status whose text may come from a driver or a peer, and hold what it was given."""


def _masked(status: dict[str, Any], mask: Mask) -> dict[str, Any]:
    """The status without secrets, at whatever depth such a part is."""
    masked = {}
    for name, value in status.items():
        if isinstance(value, dict):
            value = _masked(value, mask)
        elif name in _TOLD_BY_LIBRARIES and isinstance(value, str):
            value = mask(value)
        masked[name] = value
    return masked
