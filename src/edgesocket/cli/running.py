"""One job of a process that runs one or several: its runner, its status, its log lines, and who may ask it to stop."""

from __future__ import annotations

import secrets
import shlex
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from edgesocket.cli.job_files import JobFile
from edgesocket.cli.jobs import make_plan, this_host
from edgesocket.cli.status_file import read_status, write_status
from edgesocket.cli.stop_request import asked_to_stop, clear_request
from edgesocket.components.state import StateStore
from edgesocket.engine.incarnation import REPLY_GRACE_S
from edgesocket.engine.runner import JobRunner
from edgesocket.errors import BadRecordError, EdgeSocketError, ExitCode, FencedError, NotOwnerError
from edgesocket.store.ownership import Owner

END_MARGIN_S = 5.0
"""What a graceful stop may take beyond replies and the last checkpoint, before the process ends all the same."""

REQUEST_LOOK_S = 0.5
"""How often a job looks whether somebody asks it to stop."""

_WAYS_ON = (
    "two ways on: give the batch up with edgesocket settle {job} {id_} --state-dir {state_dir} --reason TEXT, or keep "
    "such records aside with a dead_letter block and on_bad_record = dead_letter (or run --on-bad-record dead_letter; "
    "for a row that a sink refuses: on_rejected_row = dead_letter of that sink)"
)


class RunningJob:
    """A job that runs, or is about to.

    Args:
        file: the job.
        report: takes its log lines.
        open_store: opens its state directory.
        take_over: claim it without waiting for the beat of another owner.
        drop_sink_state: sinks whose unpublished work may be forgotten.
    """

    def __init__(
        self,
        file: JobFile,
        report: Callable[[object], None],
        open_store: Callable[[Path], StateStore],
        *,
        take_over: bool = False,
        drop_sink_state: frozenset[str] = frozenset(),
    ) -> None:
        self.name = file.spec.name
        self.state_dir = file.state_dir
        self.report = report
        self.file = file
        self._last_status: dict[str, Any] = {}
        self._instance = secrets.token_hex(8)
        self._ended = threading.Event()
        plan = make_plan(file.spec, file.state_dir, take_over=take_over, drop_sink_state=drop_sink_state)
        self.end_within_s = REPLY_GRACE_S + plan.checkpoint_timeout_s + END_MARGIN_S
        self.runner = JobRunner(
            plan,
            partial(open_store, file.state_dir),
            partial(Owner, file.state_dir, self.name),
            this_host(),
            report,
            self._publish,
        )

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
        threading.Thread(target=self._watch_requests, name="edgesocket-requests", daemon=True).start()
        code: int = ExitCode.BUG
        reason = ""
        try:
            complete = self.runner.run()
            code = ExitCode.OK if complete else ExitCode.TRY_LATER
            reason = "" if complete else "it was stopped before everything was confirmed"
        except EdgeSocketError as error:
            code, reason = error.exit_code, str(error)
            if isinstance(error, NotOwnerError | FencedError):
                self._last_status.clear()  # the status file is another process's
            if isinstance(error, BadRecordError):
                where = shlex.quote(str(self.state_dir))
                self.report(_WAYS_ON.format(job=shlex.quote(self.name), id_=error.batch_id, state_dir=where))
            raise
        finally:
            self._ended.set()
            self._publish_end(code, reason)
        if complete:
            self.report(f"stopped; every batch received is confirmed (watermark {self.confirmed})")
        else:
            self.report(f"stopped before everything was confirmed; the last confirmed batch is {self.confirmed}")
        return code

    def _publish(self, status: dict[str, Any]) -> None:
        self._last_status.update(status)
        write_status(self.state_dir, {**status, "instance": self._instance})

    def _publish_end(self, code: int, reason: str) -> None:
        """Say how it ended, for whoever asked it to stop and waits."""
        clear_request(self.state_dir, self._instance)
        shown = read_status(self.state_dir)
        if self._last_status and shown is not None and shown.get("instance") == self._instance:
            end = {"exit_code": code, "confirmed": self.confirmed, "reason": reason}
            write_status(self.state_dir, {**self._last_status, "instance": self._instance, "end": end})

    def _watch_requests(self) -> None:
        while not self._ended.wait(REQUEST_LOOK_S):
            by = asked_to_stop(self.state_dir, self._instance)
            if by:
                self.report(f"asked to stop by {by}")
                self.runner.stop()
                return
