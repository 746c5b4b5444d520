"""SeaTunnel's command line, without a verb: `edgesocket -c JOB -e local -i KEY=VALUE`.

A job runs in this process, in the foreground. Its id is its name. What asks for a cluster is refused with the reason;
`docs/migration.md` has the differences.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from edgesocket.cli import cancel, check, job_list, run, savepoint, status
from edgesocket.cli.binding import bound
from edgesocket.cli.job_files import JobFile, add_checking_arguments, read_job, state_root
from edgesocket.cli.main import Parser
from edgesocket.cli.stopping import WAIT_S
from edgesocket.errors import UsageError
from edgesocket.store.place import Place, Root

_REFUSED = {
    "--async": "a job runs in the foreground; leave it to a service manager, or put & behind the command",
    "--encrypt": "write base64 into the file yourself and set shade.identifier, or use ${VARIABLE}",
    "--decrypt": "write the plain value, or use ${VARIABLE}",
    "--get_running_job_metrics": "edgesocket jobs lists the jobs, edgesocket status JOB --format json has the figures",
}


def main(arguments: Sequence[str]) -> int:
    """Run a command line of SeaTunnel. Returns the exit code.

    Raises:
        EdgeSocketError: as the verbs that do the work.
    """
    args = _parser().parse_args(list(arguments))
    _refuse_what_is_not_here(args)
    root = state_root(args, args.config.parent if args.config else Path())
    if args.list:
        return job_list.show(root)
    if args.job_id or args.metrics:
        return status.show(*_state_of(args.job_id or args.metrics, root), as_json=bool(args.metrics))
    if args.savepoint:
        return savepoint.savepoint(*_state_of(args.savepoint, root), WAIT_S)
    if args.cancel:
        states = [_state_of(job_id, root) for job_id in args.cancel]
        return max(cancel.cancel(*state, WAIT_S) for state in states)
    if args.config is None:
        raise UsageError("say which job: -c JOB")
    if args.check or args.dry_run:
        return check.check_jobs(args, [args.config], several=True)
    file = bound(read_job(args, args.config, several=True))  # --state-dir is the directory above the states
    if args.restore is not None:
        _check_restore(file, args.restore)
    return run.run_jobs([file], argparse.Namespace(**vars(args), take_over=False, drop_sink_state=[]))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="edgesocket", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("-c", "--config", type=Path, metavar="JOB", help="the job file to run")
    add("-e", "--deploy-mode", "-m", "--master", dest="deploy", metavar="local", help="only local")
    add("-n", "--name", metavar="NAME", help="name of the job, instead of what its file says")
    add("-i", "--variable", action="append", default=[], metavar="KEY=VALUE", help="a variable for ${KEY} in the job")
    add("-l", "--list", action="store_true", help="list the jobs that have state")
    add("-j", "--job-id", metavar="ID", help="what a job is doing")
    add("--metrics", metavar="ID", help="the figures of a job, as JSON")
    add("-s", "--savepoint", metavar="ID", help="stop a job with a last checkpoint, and wait for it")
    add("-r", "--restore", metavar="ID", help="with -c: go on from the state of job ID, which must be there")
    add("-can", "--cancel-job", "--cancel", dest="cancel", nargs="+", metavar="ID", help="stop jobs; their state stays")
    add("--check", action="store_true", help="with -c: say what is wrong with the job, or what it will do")
    add("-d", "--dry-run", choices=("static",), help="the same as --check")
    add("-cj", "--close-job", nargs="?", const="true", metavar="true", help="accepted: Ctrl-C stops the job")
    add("-cn", "--cluster", metavar="NAME", help="refused: there is no cluster")
    add("--set-job-id", metavar="ID", help="refused: the id of a job is its name, see -n")
    for option, instead in _REFUSED.items():
        add(option, action="store_true", help=f"refused: {instead}")
    add("--state-dir", metavar="DIR", help="the directory that states of jobs lie in, or s3://BUCKET/PREFIX")
    add("--seatunnel-yaml", type=Path, metavar="FILE", help="SeaTunnel's engine file")
    add_checking_arguments(parser)
    return parser


def _refuse_what_is_not_here(args: argparse.Namespace) -> None:
    if args.deploy is not None and args.deploy.lower() != "local":
        raise UsageError(f"-e {args.deploy}: there is no cluster to send a job to, it runs in this process: -e local")
    if args.cluster is not None:
        raise UsageError("-cn: there is no cluster to send a job to, it runs in this process: leave -cn out")
    if args.set_job_id is not None:
        raise UsageError(f"--set-job-id: the id of a job is its name: -n {args.set_job_id}")
    if args.close_job is not None and args.close_job.lower() != "true":
        raise UsageError("-cj false: the job is this process, so it ends with it: leave -cj out")
    for option, instead in _REFUSED.items():
        if getattr(args, option[2:].replace("-", "_")):
            raise UsageError(f"{option} is not supported: {instead}")


def _check_restore(file: JobFile, job_id: str) -> None:
    """Refuse to start where there is nothing to go on from."""
    if job_id != file.spec.name:
        raise UsageError(
            f"-r {job_id}: {file.path} is job {file.spec.name}, and a job's state lies under its name: "
            f"-r {file.spec.name}, or with -n {job_id}"
        )
    if not file.state.exists():
        raise UsageError(
            f"-r {job_id}: there is no state of this job in {file.state_dir}; leave -r out for a first start"
        )


def _state_of(job_id: str, root: Root) -> tuple[str, Place]:
    """Name and place of the state of a job. Raises UsageError where there is none."""
    place = root.place(job_id)
    if not place.exists():
        raise UsageError(
            f"there is no job {job_id} in {root.text}; -l lists those there are, --state-dir says where to look"
        )
    return job_id, place
