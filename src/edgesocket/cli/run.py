"""`edgesocket run JOB...`: run jobs until they are stopped.

Several jobs share a process and nothing else: each has its own state directory, threads and restarts, and one that ends
leaves the others alone. The process ends when all have ended.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from edgesocket.cli import check
from edgesocket.cli.job_files import JobFile, add_checking_arguments, add_job_arguments, expand_jobs
from edgesocket.cli.log import LogLines
from edgesocket.cli.running import RunningJob
from edgesocket.config.labels import check_tag_filter
from edgesocket.errors import EdgeSocketError, ExitCode
from edgesocket.store.local import LocalStore

FENCED_GRACE_S = 3.0
"""How long a process that does not own its job any more may take to end by itself."""

LOOK_S = 1.0
"""How often it is looked whether a job was fenced."""

_BY_SEVERITY = (
    ExitCode.OK,
    ExitCode.TRY_LATER,
    ExitCode.UNAVAILABLE,
    ExitCode.BAD_DATA,
    ExitCode.CONFIG,
    ExitCode.BUG,
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "run",
        help="run jobs",
        description="Run jobs until SIGTERM or SIGINT. The first one ends them gracefully: no new records, what is "
        "queued goes to the sinks, one last checkpoint. A second one ends them at once; nothing acknowledged is lost.",
        epilog="Exit codes: 0 stopped, everything confirmed; 65 bad record; 69 port, store or sink unavailable; "
        "75 stopped with batches not confirmed, or another process owns the job; 78 configuration or damaged state. "
        "With several jobs: that of the job which fared worst.",
    )
    add_job_arguments(parser, several=True)
    add_checking_arguments(parser)
    parser.add_argument("--check", action="store_true", help="do what the verb check does, and end")
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
    if args.check:
        return check.run(args)
    files = check.read_all(args, expand_jobs(args.job))
    return run_jobs(files, args)


def run_jobs(files: Sequence[JobFile], args: argparse.Namespace) -> int:
    """Run jobs that are known to fit beside each other. Returns the exit code of the process."""
    warnings = [check_tag_filter(file.spec.name, file.spec.env.tag_filter, file.labels) for file in files]
    jobs = []
    for file, warning in zip(files, warnings, strict=True):
        report = LogLines(sys.stderr, prefix=f"[{file.spec.name}] " if len(files) > 1 else "")
        for note in (*file.notes, *([warning] if warning else ())):
            report(note)
        jobs.append(
            RunningJob(
                file,
                report,
                _open_store,
                take_over=args.take_over,
                drop_sink_state=frozenset(args.drop_sink_state),
            )
        )
    _stop_on_signals(jobs)
    for job in jobs:
        job.report(job.greeting())
    gc.collect()
    gc.freeze()  # nothing made so far is garbage: the collector need not look at it again
    if len(jobs) == 1:
        _when_fenced(jobs[0], lambda: os._exit(ExitCode.TRY_LATER))
        return jobs[0].run()
    return _run_beside_each_other(jobs)


def _open_store(state_dir: Path) -> LocalStore:
    return LocalStore(state_dir)


def _run_beside_each_other(jobs: Sequence[RunningJob]) -> int:
    """Run each job on a thread of its own, until all have ended. Returns the worst exit code.

    A job that was fenced and does not come back (its disk or its sink does not answer) counts as ended: it is silent,
    as its source asks before every byte whether it still owns the job, and the process does not wait for it.
    """
    codes: dict[str, int] = {}
    ended = {job.name: threading.Event() for job in jobs}

    def work(job: RunningJob) -> None:
        code: int = ExitCode.BUG
        try:
            code = job.run()
        except EdgeSocketError as error:
            code = error.exit_code
            job.report(f"the job has ended: {error}")
        except BaseException:  # a bug in one job is not the end of the others
            job.report(f"the job has ended by a bug:\n{traceback.format_exc()}")
        finally:
            codes.setdefault(job.name, code)
            ended[job.name].set()

    def abandon(job: RunningJob) -> None:
        if not ended[job.name].is_set():
            job.report("another process may own this job, and it does not end by itself: nothing waits for it any more")
            codes.setdefault(job.name, ExitCode.TRY_LATER)
            ended[job.name].set()

    threads = [threading.Thread(target=work, args=(job,), name=f"edgesocket-{job.name}", daemon=True) for job in jobs]
    for job, thread in zip(jobs, threads, strict=True):
        _when_fenced(job, lambda job=job: abandon(job), ended[job.name])  # type: ignore[misc]
        thread.start()
    for event in ended.values():
        event.wait()
    code = max(codes.values(), key=_severity)
    for thread in threads:
        thread.join(LOOK_S)
    if any(thread.is_alive() for thread in threads):
        sys.stdout.flush()
        os._exit(code)  # an end in good order would wait for the threads of a job that was given up
    return code


def _severity(code: int) -> int:
    return _BY_SEVERITY.index(code) if code in _BY_SEVERITY else len(_BY_SEVERITY)


def _stop_on_signals(jobs: Sequence[RunningJob]) -> None:
    """SIGTERM and SIGINT stop the jobs gracefully; a second one, or the time for it running out, ends the process.

    They are dealt with on a thread of their own, which the interpreter tells of them through a pipe: a handler would
    interrupt the pump wherever it is, perhaps inside a lock that a stop needs, and would not run at all while a sink
    is stuck in a call that never comes back.
    """
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the pipe says it
    end_within_s = max(job.end_within_s for job in jobs)

    def end() -> None:
        for job in jobs:
            job.report(f"not stopped within {end_within_s:g} s; the last confirmed batch is {job.confirmed}")
        os._exit(ExitCode.TRY_LATER)

    def wait() -> None:
        os.read(told, 1)
        deadline = threading.Timer(end_within_s, end)
        deadline.daemon = True
        deadline.start()
        for job in jobs:
            threading.Thread(target=job.runner.stop, name="edgesocket-stop", daemon=True).start()
        os.read(told, 1)
        os._exit(ExitCode.TRY_LATER)

    threading.Thread(target=wait, name="edgesocket-signals", daemon=True).start()


def _when_fenced(job: RunningJob, act: Callable[[], object], ended: threading.Event | None = None) -> None:
    """Act a little after a job was fenced: see that it ends, even if a disk or a sink never comes back to it."""

    def watch() -> None:
        while not job.runner.fenced:
            time.sleep(LOOK_S)
            if ended is not None and ended.is_set():
                return
        time.sleep(FENCED_GRACE_S)
        act()

    threading.Thread(target=watch, name="edgesocket-fence", daemon=True).start()
