"""`edgesocket check JOB...`: read job files, say everything that is wrong with them, or what they will do.

Nothing is bound, opened or made, and no driver of a sink is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgesocket.cli.binding import bound
from edgesocket.cli.job_files import JobFile, add_checking_arguments, add_job_arguments, expand_jobs, read_job
from edgesocket.cli.output import Progress, add_format_argument, show, wants_json
from edgesocket.config.labels import check_tag_filter
from edgesocket.config.specs import SinkSpec
from edgesocket.errors import ConfigError, ConfigProblem, EdgeSocketError, ExitCode


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "check",
        help="say what is wrong with job files, or what they will do",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 all can run; 64 a file cannot be read; 78 a job has problems.",
    )
    add_job_arguments(parser, several=True)
    add_checking_arguments(parser)
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    return check_jobs(args, expand_jobs(args.job))


def check_jobs(args: argparse.Namespace, paths: Sequence[Path], *, several: bool = False) -> int:
    """Print what is wrong with jobs, or what they will do. Returns the exit code.

    Args:
        args: as `job_files.read_job` takes them.
        paths: the job files.
        several: `--state-dir` is the directory above the states, as with more than one file.
    """
    several = several or len(paths) > 1
    good: list[JobFile] = []
    shown: list[dict[str, Any]] = []
    code: int = ExitCode.OK
    with Progress() as progress:
        for number, path in enumerate(paths, 1):
            progress(f"checking {number} of {len(paths)}: {path}")
            try:
                file = bound(read_job(args, path, several=several))
                warning = check_tag_filter(file.spec.name, file.spec.env.tag_filter, file.labels)
            except EdgeSocketError as error:
                code = max(code, error.exit_code)
                shown.append({"file": str(path), "can_run": False, "problems": _problems_of(error)})
                if not wants_json(args):
                    progress.close()
                    print(f"{path}: {error}", file=sys.stderr)
                continue
            good.append(file)
            shown.append(_as_json(file, warning))
            if not wants_json(args):
                progress.close()
                print("\n".join([*describe(file), *([f"  warning: {warning}"] if warning else [])]))
    problems = list(conflicts(good))
    if problems:
        code = ExitCode.CONFIG
        if not wants_json(args):
            print(f"together: {ConfigError(problems)}", file=sys.stderr)
    if wants_json(args):
        together = _problems_of(ConfigError(problems)) if problems else []
        show(args, {"can_run": code == ExitCode.OK, "jobs": shown, "together": together}, "")
    return code


def _as_json(file: JobFile, warning: str | None) -> dict[str, Any]:
    spec = file.spec
    return {
        "file": str(file.path),
        "can_run": True,
        "job": spec.name,
        "port": spec.sources[0].options.port,
        "transforms": [{"id": one.id, "inputs": list(one.inputs)} for one in spec.transforms],
        "sinks": [{"id": one.id, "inputs": list(one.inputs), "guarantee": guarantee(one)} for one in spec.sinks],
        "dead_letter": None if spec.dead_letter is None else spec.dead_letter.plugin,
        "checkpoint_interval_ms": spec.env.checkpoint_interval_ms,
        "state_dir": file.state_dir,
        "notes": list(file.notes),
        "warning": warning or "",
    }


def _problems_of(error: EdgeSocketError) -> list[dict[str, str]]:
    if isinstance(error, ConfigError):
        return [
            {"path": one.path, "message": one.message, "fix": one.fix, "location": one.location}
            for one in error.problems
        ]
    return [{"path": "", "message": str(error), "fix": "", "location": ""}]


def read_all(args: argparse.Namespace, paths: Sequence[Path]) -> list[JobFile]:
    """All the jobs, each known to run, and to fit beside the others.

    Raises:
        UsageError: a file cannot be read.
        ConfigError: every problem of every file.
    """
    files: list[JobFile] = []
    problems: list[ConfigProblem] = []
    for path in paths:
        try:
            file = bound(read_job(args, path, several=len(paths) > 1))
            files.append(file)
            check_tag_filter(file.spec.name, file.spec.env.tag_filter, file.labels)
        except ConfigError as error:
            problems += error.problems
    problems += conflicts(files)
    if problems:
        raise ConfigError(problems)
    return files


def conflicts(files: Sequence[JobFile]) -> Iterator[ConfigProblem]:
    """What keeps jobs from running in one process: two with one name, or with one port."""
    names: dict[str, JobFile] = {}
    ports: dict[int, JobFile] = {}
    for file in files:
        first = names.setdefault(file.spec.name, file)
        if first is not file:
            yield ConfigProblem(
                "env.job.name",
                f"{first.path} names its job {file.spec.name} too, and a job's state belongs to its name",
                "give each job a job.name of its own",
                str(file.path),
            )
        for source in file.spec.sources:
            first = ports.setdefault(source.options.port, file)
            if first is not file:
                yield ConfigProblem(
                    f"source.{source.plugin}.port",
                    f"{first.path} binds port {source.options.port} too",
                    "give each job a port of its own",
                    source.location,
                )


def describe(file: JobFile) -> Iterator[str]:
    """What a job will do, in lines: rows' way, what each sink guarantees, checkpoints, what was filled in."""
    spec, env = file.spec, file.spec.env
    yield f"{file.path}: job {spec.name} can run"
    for source in spec.sources:
        options = source.options
        yield f"  source     {source.plugin}: port {options.port}, {options.packet_mode}"
    for transform in spec.transforms:
        yield f"  transform  {transform.id} <- {', '.join(transform.inputs)}"
    for sink in spec.sinks:
        yield f"  sink       {sink.id} <- {', '.join(sink.inputs)}: {guarantee(sink)}"
    if spec.dead_letter is not None:
        yield f"  refused    {spec.dead_letter.plugin} <- records and rows refused for good"
    yield (
        f"  checkpoint every {env.checkpoint_interval_ms / 1000:g} s, {env.checkpoints_kept} kept; "
        f"{env.retry_times} restarts after failures"
    )
    yield f"  state in   {file.state_dir}"
    for note in file.notes:
        yield f"  note: {note}"


def guarantee(sink: SinkSpec) -> str:
    """How often a row shows in what the sink writes, with these options."""
    if sink.plugin == "Null":
        return "rows are counted and dropped"
    if sink.decides:
        return "every row exactly once; checkpoints are decided in its transaction"
    if sink.exactly_once:
        return "every row exactly once"
    return "every row at least once: after a crash some come again"
