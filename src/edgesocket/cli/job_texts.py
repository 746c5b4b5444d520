"""Job files as the cluster carries them: with what they include, and everything the command line said."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from edgesocket.cli.binding import bound
from edgesocket.cli.job_files import JobFile, _checked_name, _engine_file, _read_included, read_text
from edgesocket.cli.plugged import InstalledPlugins
from edgesocket.cluster.job_text import JobText
from edgesocket.cluster.jobs_of import Jobs
from edgesocket.config.variables import parse_variables
from edgesocket.errors import UsageError


def read_job_text(args: argparse.Namespace, path: Path, jobs: Jobs) -> tuple[JobText, JobFile]:
    """One of the jobs that the arguments name, known to fit together.

    Args:
        args: of `add_job_arguments`, `add_checking_arguments` and `add_env_argument`.
        path: the job file.
        jobs: of the cluster.

    Raises:
        UsageError: a file cannot be read, or an argument is off.
        ConfigError: the job cannot run as it is.
    """
    engine = _engine_file(args.seatunnel_yaml, "seatunnel.yaml", path.parent)
    text = JobText(
        file=str(path),
        text=read_text(path),
        name=None if args.name is None else _checked_name(args.name),
        variables=parse_variables(args.variable) | _from_environment(args.env),
        engine_file="" if engine is None else str(engine),
        engine_text="" if engine is None else read_text(engine),
        strict=args.strict,
        lenient=args.lenient,
        on_bad_record=args.on_bad_record,
    )
    text, spec = text.with_included(_read_included, os.environ, InstalledPlugins())
    return text, bound(JobFile(path, spec, jobs.place(spec.name), dict(spec.env.tag_filter), spec.notes))


def add_env_argument(parser: argparse.ArgumentParser) -> None:
    """`--env`."""
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME",
        help="carry this environment variable to the worker (it is then kept with the job's state); all others are "
        "looked up in the environment of the worker",
    )


def _from_environment(names: list[str]) -> dict[str, str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise UsageError(f"--env {missing[0]}: there is no such environment variable here")
    return {name: os.environ[name] for name in names}
