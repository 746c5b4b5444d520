"""What the verbs that deal with jobs share: arguments that name jobs, reading job files, and where their state lies.

Nothing here needs numpy or a driver, so that a job file can be checked anywhere.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgesocket.cli.cluster_options import add_cluster_arguments, cluster_text
from edgesocket.cli.plugged import InstalledPlugins
from edgesocket.config.convert import Refused
from edgesocket.config.document import ReadFile, SourceFile, no_files
from edgesocket.config.env import check_job_name
from edgesocket.config.job import load_job
from edgesocket.config.labels import ENVIRONMENT_NAME, parse_environment_labels, parse_labels
from edgesocket.config.specs import JobSpec
from edgesocket.config.variables import parse_variables
from edgesocket.config.yaml_files import SeaTunnelYaml, read_hazelcast_yaml, read_seatunnel_yaml
from edgesocket.errors import UsageError
from edgesocket.store.place import Place, Root, place_of, root_of

STATE_DIRECTORY = ".edgesocket"
STATE_VARIABLE = "EDGESOCKET_STATE"
"""Environment variable that names where the states of jobs lie: a directory, or s3://BUCKET/PREFIX."""

JOB_ENDINGS = (".conf", ".json")
"""Files of a directory that are jobs."""


def add_job_arguments(parser: argparse.ArgumentParser, *, several: bool = False, short_name: bool = True) -> None:
    """The arguments that name a job, or `several`. `short_name`: -n is --name, and not something of the verb."""
    if several:
        parser.add_argument(
            "job",
            type=Path,
            nargs="+",
            metavar="JOB",
            help="a job file (HOCON, or JSON if it ends in .json), or a directory of them",
        )
    else:
        parser.add_argument("job", type=Path, metavar="JOB", help="the job file, or the name of a job that has state")
        add_cluster_arguments(parser)
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="where the job keeps its state: a directory, or s3://BUCKET/PREFIX; with several jobs each below it "
        "(default: "
        f"$EDGESOCKET_STATE/<job name>, or {STATE_DIRECTORY}/<job name> beside the job file)",
    )
    parser.add_argument(
        "-i", "--variable", action="append", default=[], metavar="KEY=VALUE", help="a variable for ${KEY} in the job"
    )
    names = ("-n", "--name") if short_name else ("--name",)
    parser.add_argument(*names, metavar="NAME", help="name of the job, instead of what its file says")
    parser.add_argument(
        "--seatunnel-yaml",
        type=Path,
        metavar="FILE",
        help="SeaTunnel's engine file: checkpoint defaults and the directory of states (default: that in "
        "$SEATUNNEL_HOME/config, or in config beside the job file)",
    )


def add_checking_arguments(parser: argparse.ArgumentParser, *, place: bool = True) -> None:
    """The arguments that say how a job file is read, and what is known of this `place` where the job is to run here."""
    parser.add_argument("--strict", action="store_true", help="fill nothing in: a missing env or sink is an error")
    parser.add_argument("--lenient", action="store_true", help="an unknown option is noted, and not an error")
    parser.add_argument(
        "--on-bad-record",
        choices=("fail", "reject", "dead_letter"),
        help="what a record that does not fit the schema does, instead of what the source says; dead_letter needs a "
        "dead_letter block",
    )
    if not place:
        return
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"a label of this place, for env.tag_filter; also ${ENVIRONMENT_NAME}, and hazelcast.yaml",
    )
    parser.add_argument(
        "--hazelcast-yaml", type=Path, metavar="FILE", help="a hazelcast.yaml whose member-attributes are labels"
    )


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that can run.

    Attributes:
        path: the file.
        spec: what it says.
        state: where its state lies, or will.
        labels: those of this place.
        notes: of the engine files and of the job file.
    """

    path: Path
    spec: JobSpec
    state: Place
    labels: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def state_dir(self) -> str:
        """The place of its state as a text, for messages and for `--state-dir`."""
        return self.state.text


def expand_jobs(paths: Sequence[Path]) -> list[Path]:
    """The job files that these paths name: files, and the *.conf and *.json of directories in the order of their names.

    Raises:
        UsageError: a directory holds no job file.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in JOB_ENDINGS and entry.is_file())
        if not inside:
            raise UsageError(
                f"{path} holds no job file (*{', *'.join(JOB_ENDINGS)}): name the file, or another directory"
            )
        found += inside
    return found


def read_job(args: argparse.Namespace, path: Path, *, several: bool = False, lenient: bool | None = None) -> JobFile:
    """Read one of the jobs that the arguments name.

    Args:
        args: of `add_job_arguments`, perhaps of `add_checking_arguments`.
        path: the job file.
        several: `--state-dir` is the directory above the states.
        lenient: instead of what the arguments say.

    Raises:
        UsageError: a file cannot be read, or an argument is off.
        ConfigError: the job cannot run as it is.
    """
    return read_job_text(args, read_text(path), path, several=several, lenient=lenient, read_file=_read_included)


def read_job_text(
    args: argparse.Namespace,
    text: str,
    path: Path,
    *,
    several: bool = False,
    lenient: bool | None = None,
    read_file: ReadFile = no_files,
) -> JobFile:
    """Read a job whose text is here already. Arguments and errors as `read_job`.

    Args:
        text: the job file.
        path: its name for messages; engine files are looked for beside it.
        read_file: reads included files; by default there are none.
    """
    engine = _seatunnel_yaml(args, path.parent)
    labels, notes = _labels(args, path.parent)
    spec = load_job(
        text,
        str(path),
        read_file=read_file,
        environ=os.environ,
        variables=parse_variables(args.variable),
        strict=getattr(args, "strict", False),
        lenient=getattr(args, "lenient", False) if lenient is None else lenient,
        env_defaults=engine.env_defaults,
        on_bad_record=getattr(args, "on_bad_record", None),
        plugged=InstalledPlugins(),
    )
    if args.name is not None:
        spec = replace(spec, name=_checked_name(args.name))
    return JobFile(
        path, spec, _state(args, path, spec.name, engine, several), labels, engine.notes + notes + spec.notes
    )


def find_state(args: argparse.Namespace) -> tuple[str, Place]:
    """Name and place of the state of the job that the arguments name: by its file, or by its name.

    Raises:
        UsageError, ConfigError: as `read_job`; or the job has no state.
    """
    path: Path = args.job
    in_cluster = cluster_text(args)
    if path.is_file() or path.parent != Path() or path.suffix.lower() in JOB_ENDINGS:
        # However it is run, its state is found: what `run --lenient` accepts is accepted here.
        file = read_job(args, path, lenient=True)
        name, place = file.spec.name, file.state
        if in_cluster:
            place = root_of(in_cluster).place(name)
    else:
        name = str(path)
        place = root_of(in_cluster).place(name) if in_cluster else _place_by_name(args, name)
    if not place.exists():
        raise UsageError(
            f"job {name} has no state in {place.text}: it has not run yet, or needs --state-dir; edgesocket jobs lists "
            "those there are"
        )
    return name, place


def _place_by_name(args: argparse.Namespace, name: str) -> Place:
    """The place of a job that is named: `--state-dir` itself where it holds a state, else the one below the root."""
    if args.state_dir is not None:
        itself = place_of(args.state_dir, _seatunnel_yaml(args, Path()).s3)
        if itself.exists():
            return itself
    return state_root(args, Path()).place(name)


def state_root(args: argparse.Namespace, directory: Path) -> Root:
    """Where states lie.

    `--state-dir`; else `$EDGESOCKET_STATE`; else what seatunnel.yaml says; else `.edgesocket` in `directory`, which is
    that of the job file. Raises UsageError and ConfigError for an engine file that is off.
    """
    engine = _seatunnel_yaml(args, directory)
    return _default_root(directory, engine) if args.state_dir is None else root_of(args.state_dir, engine.s3)


def _default_root(directory: Path, engine: SeaTunnelYaml) -> Root:
    named = os.environ.get(STATE_VARIABLE) or engine.state_root
    return root_of(named or str(directory / STATE_DIRECTORY), engine.s3)


def seatunnel_http(args: argparse.Namespace, directory: Path) -> dict[str, str]:
    """The `http` settings of the seatunnel.yaml that counts for jobs of a directory. Raises UsageError, ConfigError."""
    return _seatunnel_yaml(args, directory).http


def read_text(path: Path) -> str:
    """The text of a file. Raises UsageError where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error


def _state(args: argparse.Namespace, path: Path, name: str, engine: SeaTunnelYaml, several: bool) -> Place:
    if args.state_dir is None:
        return _default_root(path.parent, engine).place(name)
    return root_of(args.state_dir, engine.s3).place(name) if several else place_of(args.state_dir, engine.s3)


def _checked_name(name: str) -> str:
    try:
        return check_job_name(name)
    except Refused as refused:
        raise UsageError(f"--name: {refused.message}") from None


def _seatunnel_yaml(args: argparse.Namespace, directory: Path) -> SeaTunnelYaml:
    found = _engine_file(args.seatunnel_yaml, "seatunnel.yaml", directory)
    return SeaTunnelYaml() if found is None else read_seatunnel_yaml(read_text(found), str(found))


def _labels(args: argparse.Namespace, directory: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    if not hasattr(args, "label"):
        return {}, ()
    labels: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    found = _engine_file(args.hazelcast_yaml, "hazelcast.yaml", directory)
    if found is not None:
        labels, notes = read_hazelcast_yaml(read_text(found), str(found))
    labels |= parse_environment_labels(os.environ.get(ENVIRONMENT_NAME, ""))
    labels |= parse_labels(args.label, "--label")
    return labels, notes


def _engine_file(given: Path | None, name: str, directory: Path) -> Path | None:
    """The file as given; else the first there is of `$SEATUNNEL_HOME/config` and `config` beside the job file."""
    if given is not None:
        return given
    home = os.environ.get("SEATUNNEL_HOME")
    places = [Path(home) / "config"] if home else []
    places.append(directory / "config")
    return next((place / name for place in places if (place / name).is_file()), None)


def _read_included(name: str, including: str, /) -> SourceFile | None:
    path = Path(including).parent / name
    try:
        return SourceFile(str(path), path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
