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
from collections.abc import Sequence
from pathlib import Path

from edgesocket.cli import check
from edgesocket.cli.allocator import keep_memory_steady
from edgesocket.cli.job_files import (
    JobFile,
    add_checking_arguments,
    add_job_arguments,
    expand_jobs,
    seatunnel_http,
)
from edgesocket.cli.log import LogLines, add_log_arguments, log_options
from edgesocket.cli.process import ProcessHost, running_job
from edgesocket.cli.running import RunningJob
from edgesocket.cli.together import JobsTogether, when_fenced
from edgesocket.cli.web_flags import add_web_arguments, web_options_of, web_server
from edgesocket.errors import EdgeSocketError, ExitCode, UsageError
from edgesocket.telemetry.events import JobFailed, StopTimedOut
from edgesocket.telemetry.metrics import Readable
from edgesocket.web.options import TOKEN_VARIABLE
from edgesocket.web.otel import MetricsExport, start_export

NO_SUBMIT = (
    "this process takes no jobs over HTTP, because its server has no token: start it with --http-token-file FILE"
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
    add_log_arguments(parser)
    add_web_arguments(parser)
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


def run_jobs(files: Sequence[JobFile], args: argparse.Namespace, *, endless: bool = False) -> int:
    """Run jobs that are known to fit beside each other.

    Args:
        files: the jobs.
        args: of the verb.
        endless: run until told to stop, whether there are jobs or not: more may be submitted.

    Returns:
        The exit code of the process.

    Raises:
        EdgeSocketError: a job that runs alone has failed; or the HTTP server that was asked for cannot be.
    """
    keep_memory_steady()
    directory = files[0].path.parent if files else Path()
    web = web_options_of(args, seatunnel_http(args, directory))
    submitting = web is not None and bool(web.token)
    if endless and not submitting:
        raise UsageError(
            f"jobs can only be submitted with a token: --http-token-file FILE, or ${TOKEN_VARIABLE}, and no --http off"
        )
    several = len(files) != 1 or submitting
    jobs = [running_job(file, args, several=several) for file in files]
    together = JobsTogether(jobs, endless=endless)
    host = ProcessHost(together, args, directory, "" if submitting else NO_SUBMIT)
    server = web_server(web, host, LogLines(sys.stderr, **log_options(args)), lambda: all(map(_runs, jobs)))
    export = None
    try:
        if server is not None:
            host.http = server.url
            for job in jobs:
                job.http = server.url
        _stop_on_signals(together)
        for job in jobs:
            job.report(job.greeting())
        gc.collect()
        gc.freeze()  # nothing made so far is garbage: the collector need not look at it again
        if server is not None:
            server.start()
        export = _metrics_export(host, LogLines(sys.stderr, **log_options(args)))
        if several:
            return together.run()
        when_fenced(jobs[0], lambda: os._exit(ExitCode.TRY_LATER))
        return _run_alone(jobs[0], log_options(args)["form"])
    finally:
        if export is not None:
            export.stop()
        if server is not None:
            server.stop()


def _run_alone(job: RunningJob, form: str) -> int:
    """Run one job. Returns the exit code. Where lines are JSON the last one is too; else the error is raised."""
    try:
        return job.run()
    except EdgeSocketError as error:
        if form != "json":
            raise
        job.report(JobFailed(str(error)))
        return error.exit_code


def _metrics_export(host: ProcessHost, report: LogLines) -> MetricsExport | None:
    """The export to OpenTelemetry, where the environment asks for one."""

    def board() -> Readable:
        from edgesocket.web.board import Board

        return Board(host)

    return start_export(board, os.environ, report)


def _runs(job: RunningJob) -> bool:
    """Whether a job has got through its start, one way or another."""
    published = job.published
    return job.outcome is not None or (published is not None and published.status.get("state") != "starting")


def _stop_on_signals(together: JobsTogether) -> None:
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

    def end(jobs: Sequence[RunningJob], after_s: float) -> None:
        for job in jobs:
            job.report(StopTimedOut(after_s, job.confirmed))
        os._exit(ExitCode.TRY_LATER)

    def wait() -> None:
        os.read(told, 1)
        jobs = together.stop_taking()
        end_within_s = max((job.end_within_s for job in jobs), default=0.0)
        if jobs:
            deadline = threading.Timer(end_within_s, end, (jobs, end_within_s))
            deadline.daemon = True
            deadline.start()
        for job in jobs:
            threading.Thread(target=job.runner.stop, name="edgesocket-stop", daemon=True).start()
        os.read(told, 1)
        os._exit(ExitCode.TRY_LATER)

    threading.Thread(target=wait, name="edgesocket-signals", daemon=True).start()
