"""Input exec: what a command prints, at most once on the way here, at least once from here on.

Each line of its standard output is a record. It runs once, at every start of the agent, or again and again. While the
spool is full nothing is read and the command waits when its pipe is full. It runs in a process group of its own, which
is ended with the agent: first asked, then killed.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from edgesocket.collector.intake.contract import Intake
from edgesocket.collector.intake.enveloping import Envelope
from edgesocket.collector.intake.framing import Framer, FramingCounts, FramingOptions
from edgesocket.collector.intake.pipe import PipeLines

if TYPE_CHECKING:
    from subprocess import Popen

STOP_GRACE_S = 2.0
"""How long a command may take to end when it is asked to."""

LAST_WORDS_S = 1.0
"""How long after its end a command's pipe is read, where a child of its keeps it open."""

MOST_LAST_BYTES = 1024 * 1024
"""So much of what it printed before it was stopped is read."""

_LOOK_S = 0.2
"""How often it is looked whether a command that has closed its output has ended."""

_STDERR_LINE_BYTES = 500
_MINUTE_S = 60.0


class _Run:
    """One run of the command."""

    def __init__(self, process: Popen[bytes], lines: PipeLines, now: float) -> None:
        self.process = process
        self.lines = lines
        self.began = now
        self.exited: float | None = None
        self.stderr: Framer | None = Framer(FramingOptions(max_line_bytes=_STDERR_LINE_BYTES, skip_empty=True))
        self.stopped = False


class ExecInput:
    """See the module's text. An `Input`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        framing: FramingOptions,
        envelope: Envelope | None,
        report: Callable[[str], object],
        *,
        every_s: float | None = None,
        timeout_s: float | None = None,
        directory: str | None = None,
        environment: Mapping[str, str] | None = None,
        stderr_lines_a_minute: int = 60,
    ) -> None:
        """Args: the options of the input; `report` takes a line for the log."""
        self._name = name
        self._command = list(command)
        self._framing = framing
        self._envelope = envelope
        self._report = report
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._directory = directory
        self._environment = environment or {}
        self._stderr_limit = stderr_lines_a_minute
        self._stderr_window = (0.0, 0)
        self._framing_counts = FramingCounts()
        self._counts = {"runs": 0, "runs_failed": 0, "stderr_lines": 0, "stderr_lines_left_out": 0}
        self._run: _Run | None = None
        self._next_start: float | None = 0.0

    @property
    def name(self) -> str:
        return self._name

    @property
    def counts(self) -> Mapping[str, int]:
        return {**self._counts, **self._framing_counts.as_dict()}

    @property
    def pid(self) -> int | None:
        """Of the command, while it runs."""
        return None if self._run is None else self._run.process.pid

    def open(self, marks: Mapping[str, str], now: float) -> None:  # noqa: ARG002
        self._next_start = now

    def descriptors(self) -> Sequence[int]:
        run = self._run
        if run is None:
            return []
        found = [] if run.lines.ended else [run.lines.descriptor]
        if run.stderr is not None and run.process.stderr is not None:
            found.append(run.process.stderr.fileno())
        return found

    def next_time(self, now: float) -> float | None:
        run = self._run
        if run is None:
            return self._next_start
        times = [run.lines.next_time]
        if run.exited is not None:
            times.append(run.exited + LAST_WORDS_S)
        elif run.lines.ended or run.stopped:
            times.append(now + _LOOK_S)
        if self._timeout_s is not None and not run.stopped:
            times.append(run.began + self._timeout_s)
        return min((at for at in times if at is not None), default=None)

    def discover(self, now: float) -> None:
        """Start the command when it is time, log what it complains of, see whether it has ended."""
        if self._run is None:
            if self._next_start is not None and now >= self._next_start:
                self._start(now)
            return
        run = self._run
        self._read_stderr(run, now)
        if run.exited is None and run.process.poll() is not None:
            run.exited = now
        if run.exited is None and self._timeout_s is not None and now - run.began >= self._timeout_s:
            if not run.stopped:
                self._report(f"input {self._name}: the command runs for more than {self._timeout_s:g} s: stopped")
                run.stopped = True
                self._signal(run, signal.SIGTERM)
            elif now - run.began >= self._timeout_s + STOP_GRACE_S:
                self._signal(run, signal.SIGKILL)

    def read(self, budget_bytes: int, now: float) -> Intake | None:
        run = self._run
        if run is None:
            return None
        records = run.lines.read_all(budget_bytes, now)
        if run.exited is not None and not run.lines.ended and now - run.exited >= LAST_WORDS_S:
            records += run.lines.finish()
        if run.exited is not None and run.lines.ended:
            self._finish(run, now)
        return self._intake(records)

    def stored(self, intake: Intake, now: float) -> None:
        """Nobody waits for an answer."""

    @property
    def ended(self) -> bool:
        return self._run is None and self._next_start is None

    def close(self, now: float) -> Intake | None:
        run = self._run
        if run is None:
            return None
        if run.exited is None:
            self._signal(run, signal.SIGTERM)
            deadline = time.monotonic() + STOP_GRACE_S
            while not _has_exited(run.process.pid) and time.monotonic() < deadline:
                time.sleep(0.01)
            self._signal(run, signal.SIGKILL)
            run.process.wait()
        records = run.lines.read_all(MOST_LAST_BYTES, now) + run.lines.finish()
        self._every_s = None
        self._finish(run, now, told=False)
        return self._intake(records)

    def _start(self, now: float) -> None:
        import subprocess

        self._next_start = None if self._every_s is None else now + self._every_s
        self._counts["runs"] += 1
        try:
            process = subprocess.Popen(  # noqa: S603 - running what the configuration says is what this input is for
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._directory,
                env={**os.environ, **self._environment},
                start_new_session=True,
            )
        except OSError as problem:
            self._counts["runs_failed"] += 1
            cause = problem.strerror or problem
            self._report(f"input {self._name}: cannot run {shlex.quote(self._command[0])}: {cause}")
            return
        assert process.stdout is not None
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        lines = PipeLines(process.stdout.fileno(), self._framing, self._framing_counts)
        self._run = _Run(process, lines, now)

    def _finish(self, run: _Run, now: float, *, told: bool = True) -> None:
        """A run is over."""
        self._read_stderr(run, now)
        if run.stderr is not None:
            self._log_stderr(run.stderr.flush(final=True), now)
        for pipe in (run.process.stdout, run.process.stderr):
            if pipe is not None:
                pipe.close()
        code = run.process.returncode
        if code:
            self._counts["runs_failed"] += 1
            if told:
                how = f"exit code {code}" if code > 0 else f"signal {-code}"
                self._report(f"input {self._name}: the command ended with {how}")
        self._run = None

    def _read_stderr(self, run: _Run, now: float) -> None:
        if run.stderr is None or run.process.stderr is None:
            return
        for _ in range(16):
            try:
                data = os.read(run.process.stderr.fileno(), 64 * 1024)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._log_stderr(run.stderr.flush(final=True), now)
                run.stderr = None
                return
            self._log_stderr(run.stderr.feed(data), now)

    def _log_stderr(self, lines: Sequence[bytes], now: float) -> None:
        """Log lines up to the limit of this minute; the rest is counted, and said once."""
        for line in lines:
            self._counts["stderr_lines"] += 1
            since, said = self._stderr_window
            if said == 0 or now - since >= _MINUTE_S:
                since, said = now, 0
            self._stderr_window = (since, said + 1)
            if said < self._stderr_limit:
                text = line.decode("utf-8", "replace")
                self._report(f"input {self._name}: {''.join(c if c.isprintable() else '?' for c in text)}")
                continue
            self._counts["stderr_lines_left_out"] += 1
            if said == self._stderr_limit:
                self._report(f"input {self._name}: more on the standard error is left out for a minute")

    def _signal(self, run: _Run, number: signal.Signals) -> None:
        """To all of the command's group that is left. Only while its leader is not reaped: the number is still its."""
        try:
            os.killpg(run.process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _intake(self, records: list[bytes]) -> Intake | None:
        if not records:
            return None
        return Intake(records if self._envelope is None else self._envelope.wrap(records))


def _has_exited(pid: int) -> bool:
    """Whether a child has ended, which is left to be waited for: so its number stays its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
