"""A process that runs jobs, as its HTTP server sees it: the jobs there are, and those it is sent."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from typing import Literal

from edgesocket.cli import check
from edgesocket.cli.binding import bound
from edgesocket.cli.job_files import JobFile, read_job_text
from edgesocket.cli.log import LogLines, log_options
from edgesocket.cli.running import RunningJob
from edgesocket.cli.together import JobsTogether
from edgesocket.config.labels import check_tag_filter
from edgesocket.errors import ConfigError, NotOwnerError, UsageError
from edgesocket.telemetry.masking import Mask

MAX_RUNNING = 1000
"""Jobs that run in a process at a time, those that are submitted included."""


class ProcessHost:
    """See `web.hosted.Host`: the jobs of this process, and those it is sent.

    Args:
        jobs: where they run.
        args: of the verb; jobs that are sent are read as those of the command line are.
        directory: the engine files beside the first job file are those of submitted jobs too.
        refusal: why no job can be submitted; empty: one can.
    """

    def __init__(self, jobs: JobsTogether, args: argparse.Namespace, directory: Path, refusal: str) -> None:
        self.why_no_submit = refusal
        self.http = ""
        self._jobs = jobs
        self._args = args
        self._directory = directory
        self._one_at_a_time = threading.Lock()

    def jobs(self) -> list[RunningJob]:
        """See Host."""
        return self._jobs.jobs()

    def submit(self, text: str, file_format: Literal["json", "hocon"], name: str | None, *, restored: bool) -> str:
        """See Host."""
        with self._one_at_a_time:
            file = self._read(text, file_format, name)
            running = self._jobs.running()
            if any(job.name == file.spec.name for job in running):
                raise NotOwnerError(f"job {file.spec.name} runs in this process already: stop it first")
            if len(running) >= MAX_RUNNING:
                raise NotOwnerError(f"{MAX_RUNNING} jobs run in this process, which is the most it takes")
            problems = list(check.conflicts([*(job.file for job in running), file]))
            if problems:
                raise ConfigError(problems)
            if restored and not file.state.exists():
                raise UsageError(f"job {file.spec.name} has no state in {file.state.text} to go on from")
            waits_its_turn = argparse.Namespace(**{**vars(self._args), "take_over": False, "drop_sink_state": []})
            job = running_job(file, waits_its_turn, several=True)
            job.http = self.http
            job.report(job.greeting())
            self._jobs.start(job)
        return file.spec.name

    def _read(self, text: str, file_format: str, name: str | None) -> JobFile:
        values = {**vars(self._args), "name": name, "state_dir": self._state_root()}
        ending = "json" if file_format == "json" else "conf"
        path = self._directory / f"submitted.{ending}"
        file = bound(read_job_text(argparse.Namespace(**values), text, path, several=True))
        check_tag_filter(file.spec.name, file.spec.env.tag_filter, file.labels)
        return file

    def _state_root(self) -> str | None:
        """`--state-dir` where it is the directory above the states, and not the state of one job."""
        given: str | None = self._args.state_dir
        return given if len(getattr(self._args, "job", ())) != 1 else None


def running_job(file: JobFile, args: argparse.Namespace, *, several: bool) -> RunningJob:
    """A job with its log; what is to be noted of it is in there. Raises ConfigError for labels that do not fit."""
    warning = check_tag_filter(file.spec.name, file.spec.env.tag_filter, file.labels)
    prefix = f"[{file.spec.name}] " if several else ""
    report = LogLines(sys.stderr, prefix=prefix, job=file.spec.name, mask=Mask(file.spec.secrets), **log_options(args))
    for note in (*file.notes, *([warning] if warning else ())):
        report(note)
    return RunningJob(file, report, take_over=args.take_over, drop_sink_state=frozenset(args.drop_sink_state))
