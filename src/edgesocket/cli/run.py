"""`edgesocket run JOB`: run a job until it is stopped."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from edgesocket.cli.jobs import add_job_arguments, make_plan, read_job, state_directory, this_host
from edgesocket.cli.log import LogLines
from edgesocket.cli.status_file import write_status
from edgesocket.config.job import JobSpec
from edgesocket.engine.incarnation import REPLY_GRACE_S
from edgesocket.engine.runner import JobRunner
from edgesocket.errors import ExitCode
from edgesocket.store.local import LocalStore
from edgesocket.store.ownership import Owner

END_MARGIN_S = 5.0
"""What a graceful stop may take beyond replies and the last checkpoint, before the process ends all the same."""

FENCED_GRACE_S = 3.0
"""How long a process that does not own its job any more may take to end by itself."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "run",
        help="run a job",
        description="Run a job until SIGTERM or SIGINT. The first one ends it gracefully: no new records, what is "
        "queued goes to the sinks, one last checkpoint. A second one ends it at once; nothing acknowledged is lost.",
        epilog="Exit codes: 0 stopped, everything confirmed; 65 bad record; 69 port, store or sink unavailable; "
        "75 stopped with batches not confirmed, or another process owns the job; 78 configuration or damaged state.",
    )
    add_job_arguments(parser)
    parser.add_argument("--strict", action="store_true", help="fill nothing in: a missing env or sink is an error")
    parser.add_argument("--check", action="store_true", help="read the job file, say what is wrong with it, and end")
    parser.add_argument(
        "--take-over", action="store_true", help="claim the job without waiting for the beat of another owner"
    )
    parser.add_argument(
        "--drop-sink-state",
        action="append",
        default=[],
        metavar="NAME",
        help="forget the unpublished work of a sink that is not in the job any more",
    )


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    spec = read_job(args, strict=args.strict)
    state_dir = state_directory(args, spec.name)
    reporter = LogLines(sys.stderr)
    for note in spec.notes:
        reporter(note)
    if args.check:
        reporter(f"{args.job}: job {spec.name} can run")
        return ExitCode.OK
    plan = make_plan(spec, state_dir, take_over=args.take_over, drop_sink_state=frozenset(args.drop_sink_state))
    last_status: dict[str, Any] = {}

    def publish(status: dict[str, Any]) -> None:
        last_status.update(status)
        write_status(state_dir, status)

    runner = JobRunner(
        plan,
        partial(_open_store, state_dir),
        partial(Owner, state_dir, spec.name),
        this_host(),
        reporter,
        publish,
    )

    def confirmed() -> int:
        return int(last_status.get("source", {}).get("watermark", 0))

    end_within_s = REPLY_GRACE_S + plan.checkpoint_timeout_s + END_MARGIN_S
    _stop_on_signals(
        runner,
        end_within_s,
        lambda: reporter(f"not stopped within {end_within_s:g} s; the last confirmed batch is {confirmed()}"),
    )
    _end_when_fenced(runner)
    reporter(_greeting(spec, state_dir))
    gc.collect()
    gc.freeze()  # nothing made so far is garbage: the collector need not look at it again
    complete = runner.run()
    if complete:
        reporter(f"stopped; every batch received is confirmed (watermark {confirmed()})")
        return ExitCode.OK
    reporter(f"stopped before everything was confirmed; the last confirmed batch is {confirmed()}")
    return ExitCode.TRY_LATER


def _open_store(state_dir: Path) -> LocalStore:
    return LocalStore(state_dir)


def _greeting(spec: JobSpec, state_dir: Path) -> str:
    options = spec.sources[0].options
    dialled = f", collectors dial {options.endpoint}" if options.endpoint else ""
    sinks = ", ".join(sink.id for sink in spec.sinks)
    return f"job {spec.name}: EdgeSocket 0.0.0.0:{options.port}{dialled} -> {sinks}; state in {state_dir}"


def _stop_on_signals(runner: JobRunner, end_within_s: float, give_up: Callable[[], None]) -> None:
    """SIGTERM and SIGINT stop the job gracefully; a second one, or `end_within_s` after the first, ends the process.

    They are dealt with on a thread of their own, which the interpreter tells of them through a pipe: a handler would
    interrupt the pump wherever it is, perhaps inside a lock that a stop needs, and would not run at all while a sink
    is stuck in a call that never comes back.
    """
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the pipe says it

    def end() -> None:
        give_up()
        os._exit(ExitCode.TRY_LATER)

    def wait() -> None:
        os.read(told, 1)
        deadline = threading.Timer(end_within_s, end)
        deadline.daemon = True
        deadline.start()
        threading.Thread(target=runner.stop, name="edgesocket-stop", daemon=True).start()
        os.read(told, 1)
        os._exit(ExitCode.TRY_LATER)

    threading.Thread(target=wait, name="edgesocket-signals", daemon=True).start()


def _end_when_fenced(runner: JobRunner) -> None:
    """See that a process which lost its job ends, even if a disk or a sink never comes back to it."""

    def watch() -> None:
        while not runner.fenced:
            time.sleep(1)
        time.sleep(FENCED_GRACE_S)
        os._exit(ExitCode.TRY_LATER)

    threading.Thread(target=watch, name="edgesocket-fence", daemon=True).start()
