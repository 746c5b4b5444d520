"""Jobs beside each other in one process, each on a thread of its own; more may come while it runs.

They share the process and nothing else: one that ends leaves the others alone.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence

from edgesocket.cli.running import RunningJob
from edgesocket.errors import EdgeSocketError, ExitCode, NotOwnerError
from edgesocket.telemetry.events import JobAbandoned, JobCrashed, JobFailed

FENCED_GRACE_S = 3.0
"""How long a process that does not own its job any more may take to end by itself."""

LOOK_S = 1.0
"""How often it is looked whether a job was fenced."""

MAX_ENDED = 100
"""Jobs that have ended and are remembered; the oldest are forgotten first."""

_BY_SEVERITY = (
    ExitCode.OK,
    ExitCode.TRY_LATER,
    ExitCode.UNAVAILABLE,
    ExitCode.BAD_DATA,
    ExitCode.CONFIG,
    ExitCode.BUG,
)


class _Entry:
    """A job, the thread it runs on, and its exit code once it has ended."""

    def __init__(self, job: RunningJob) -> None:
        self.job = job
        self.code: int | None = None
        self.ended = threading.Event()
        self.thread: threading.Thread | None = None


class JobsTogether:
    """The jobs of a process. Safe on any thread.

    Args:
        jobs: those that `run` starts.
        endless: it does not end with its last job, but when it is told to.
    """

    def __init__(self, jobs: Sequence[RunningJob] = (), *, endless: bool = False) -> None:
        self._endless = endless
        self._changed = threading.Condition()
        self._entries = [_Entry(job) for job in jobs]
        self._worst: int = ExitCode.OK
        self._stopping = False

    def jobs(self) -> list[RunningJob]:
        """All of them, those that have ended too, in the order they came."""
        with self._changed:
            return [entry.job for entry in self._entries]

    def running(self) -> list[RunningJob]:
        """Those that have not ended."""
        with self._changed:
            return [entry.job for entry in self._entries if not entry.ended.is_set()]

    def start(self, job: RunningJob) -> None:
        """Run one more job. One of that name that has ended is forgotten.

        Raises:
            NotOwnerError: the process is about to end, or a job of that name runs.
        """
        entry = _Entry(job)
        with self._changed:
            if self._stopping:
                raise NotOwnerError("this process is about to end")
            same = next((one for one in self._entries if one.job.name == job.name), None)
            if same is not None and not same.ended.is_set():
                raise NotOwnerError(f"job {job.name} runs in this process already")
            ended = [one for one in self._entries if one.ended.is_set()]
            forgotten = {id(one) for one in (*ended[: max(0, len(ended) - MAX_ENDED)], same) if one is not None}
            self._entries = [one for one in self._entries if id(one) not in forgotten] + [entry]
        self._begin(entry)

    def _begin(self, entry: _Entry) -> None:
        name = f"edgesocket-{entry.job.name}"
        entry.thread = threading.Thread(target=self._work, args=(entry,), name=name, daemon=True)
        when_fenced(entry.job, lambda: self._abandon(entry), entry.ended)
        entry.thread.start()

    def stop_taking(self) -> list[RunningJob]:
        """Take no more jobs; the process ends with those that run, which are returned."""
        with self._changed:
            self._stopping = True
            if self._endless:
                self._worst = ExitCode.OK  # how jobs fared that ended before is not how the process ends
            self._changed.notify_all()
        return self.running()

    def run(self) -> int:
        """Run the jobs, until all have ended and nobody may start another one. Returns the worst exit code.

        A job that was fenced and does not come back (its disk or its sink does not answer) counts as ended: it is
        silent, as its source asks before every byte whether it still owns the job; the process does not wait for it.
        """
        for entry in list(self._entries):
            self._begin(entry)
        with self._changed:
            while (self._endless and not self._stopping) or any(not one.ended.is_set() for one in self._entries):
                self._changed.wait()
            self._stopping = True
            threads = [one.thread for one in self._entries if one.thread is not None]
        for thread in threads:
            thread.join(LOOK_S)
        if any(thread.is_alive() for thread in threads):
            sys.stdout.flush()
            os._exit(self._worst)  # an end in good order would wait for the threads of a job that was given up
        return self._worst

    def _work(self, entry: _Entry) -> None:
        code: int = ExitCode.BUG
        job = entry.job
        try:
            code = job.run()
        except EdgeSocketError as error:
            code = error.exit_code
            job.report(JobFailed(str(error)))
        except BaseException:  # a bug in one job is not the end of the others
            job.report(JobCrashed(traceback.format_exc()))
        finally:
            self._end(entry, code)

    def _abandon(self, entry: _Entry) -> None:
        if not entry.ended.is_set():
            entry.job.report(JobAbandoned())
            self._end(entry, ExitCode.TRY_LATER)

    def _end(self, entry: _Entry, code: int) -> None:
        with self._changed:
            if entry.ended.is_set():
                return
            entry.code = code
            self._worst = max(self._worst, code, key=severity)
            entry.ended.set()
            self._changed.notify_all()


def severity(code: int) -> int:
    """How bad an exit code is beside others."""
    return _BY_SEVERITY.index(code) if code in _BY_SEVERITY else len(_BY_SEVERITY)


def when_fenced(job: RunningJob, act: Callable[[], object], ended: threading.Event | None = None) -> None:
    """Act a little after a job was fenced: see that it ends, even if a disk or a sink never comes back to it."""

    def watch() -> None:
        while not job.runner.fenced:
            time.sleep(LOOK_S)
            if ended is not None and ended.is_set():
                return
        time.sleep(FENCED_GRACE_S)
        act()

    threading.Thread(target=watch, name="edgesocket-fence", daemon=True).start()
