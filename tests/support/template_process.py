"""`edgesocket run` from a process that has everything imported already: forked instead of started.

A test that kills a job 200 times would spend most of its time on Python's imports. So a template process imports them
once, and each run is a fork of it: a process of its own from there on, which can be killed like any other. The template
has one thread and has run nothing, so what is forked is what an interpreter is after its imports.

The test process adopts the runs (it is their subreaper), so it can wait for them. Linux only; elsewhere `fork_run`
returns None and the caller starts an interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PR_SET_CHILD_SUBREAPER = 36
_IMPORTS = [
    "tests.support.killable_run",
    "pyarrow.parquet",
    "edgesocket.sinks.local_file",
    "edgesocket.sinks.jdbc",
    "edgesocket.sinks.kafka",
    "sqlalchemy.dialects.postgresql",
    "psycopg",
]
"""Whatever of these is not installed is left to the run."""


class ForkedRun:
    """What tests use of `subprocess.Popen`, for a process that is adopted."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(["edgesocket"], timeout or 0.0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


@functools.cache
def _template() -> subprocess.Popen[str] | None:
    if sys.platform != "linux" or ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        return None
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.template_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(30)
    process.stdout.close()


def fork_run(fault: tuple[str, str, int], arguments: Sequence[str], log: Path) -> ForkedRun | None:
    """Start `killable_run` with a fault and arguments; None where that is not possible.

    Args:
        fault: signal name (or HANG), point, and which time.
        arguments: of the `edgesocket` command.
        log: where standard error is appended; standard output goes nowhere.
    """
    template = _template()
    if template is None:
        return None
    assert template.stdin is not None
    assert template.stdout is not None
    template.stdin.write(json.dumps({"fault": fault, "arguments": list(arguments), "log": str(log)}) + "\n")
    template.stdin.flush()
    return ForkedRun(int(template.stdout.readline()))


def _run(order: dict[str, Any]) -> None:
    """The forked process: the real command, with the fault built in. Does not return."""
    from edgesocket.cli.main import main
    from tests.support import killable_run

    code = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for standard, descriptor in enumerate((null, null, log)):
            os.dup2(descriptor, standard)
        name, point, nth = order["fault"]
        number = None if name == killable_run.HANG else signal.Signals[name]
        killable_run.install(killable_run.KillAt(number, point, nth))
        code = main(order["arguments"])
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 70
    finally:
        sys.stderr.flush()
        os._exit(code)


def _serve() -> None:
    for module in _IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    for line in sys.stdin:
        reading, writing = os.pipe()
        between = os.fork()  # ends at once, so that the run is nobody's child, and the subreaper adopts it
        if between == 0:
            pid = os.fork()
            if pid == 0:
                _run(json.loads(line))
            os.write(writing, b"%d\n" % pid)
            os._exit(0)
        os.waitpid(between, 0)
        os.write(1, os.read(reading, 20))
        os.close(reading)
        os.close(writing)


if __name__ == "__main__":
    _serve()
