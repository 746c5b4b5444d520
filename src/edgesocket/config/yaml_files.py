"""SeaTunnel's engine files: what of `seatunnel.yaml` and `hazelcast.yaml` means something here.

`seatunnel.yaml` gives defaults for checkpoints, below what a job's env says, and where job states lie.
`hazelcast.yaml` gives labels (its member attributes). Everything else is noted and has no effect. PyYAML is needed, and
imported when a file is read: the extra `yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from edgesocket.config.env import ENV
from edgesocket.config.nodes import Field, Location, Report, Scalar
from edgesocket.config.options import Kind
from edgesocket.config.s3_settings import S3Settings
from edgesocket.config.state_storage import STORAGE, is_storage_key, read_storage
from edgesocket.errors import ConfigError

_CHECKPOINT = "seatunnel.engine.checkpoint"
_HTTP = "seatunnel.engine.http"

_ENV_OPTIONS = {
    f"{_CHECKPOINT}.interval": "checkpoint.interval",
    f"{_CHECKPOINT}.timeout": "checkpoint.timeout",
    f"{_CHECKPOINT}.min-pause": "min-pause",
    f"{STORAGE}.max-retained": "checkpoint.max-retained",
}
HTTP_SETTINGS = ("enable-http", "port", "enable-dynamic-port", "port-range")
"""Settings of the http service that count here."""

MAX_VALUES = 10_000
"""Values of one file. Aliases of aliases can make any number of them out of a few lines."""

BEFORE_EVERYTHING = -1
"""Reading order of what comes from a yaml file: any assignment in a job file is newer."""


@dataclass(frozen=True, slots=True)
class SeaTunnelYaml:
    """What a `seatunnel.yaml` says.

    Attributes:
        env_defaults: env options, for `load_job`.
        state_root: the directory, or `s3://bucket/prefix`, that the states of jobs lie in; empty: the file names none.
        http: settings of the http service by their names, as text.
        s3: how the bucket of `state_root` is reached.
        notes: what has no effect, one line each.
    """

    env_defaults: dict[str, Field] = field(default_factory=dict)
    state_root: str = ""
    http: dict[str, str] = field(default_factory=dict)
    s3: S3Settings = field(default_factory=S3Settings)
    notes: tuple[str, ...] = ()


def read_seatunnel_yaml(text: str, name: str) -> SeaTunnelYaml:
    """Read a `seatunnel.yaml`.

    Args:
        text: its content.
        name: its name for messages.

    Raises:
        ConfigError: it is no YAML, or its checkpoint storage is one that does not exist here.
        ModuleNotFoundError: PyYAML is not installed.
    """
    settings = _settings(text, name)
    report = Report()
    defaults: dict[str, Field] = {}
    for key, scalar in settings.items():
        if key in _ENV_OPTIONS:
            option = ENV.named(_ENV_OPTIONS[key])
            if option is None or option.kind is Kind.LATER:
                report.note(
                    f"{scalar.location}: {key} is ignored: {option.description if option else 'no such option'}"
                )
            else:
                defaults[option.name] = Field(scalar, BEFORE_EVERYTHING, scalar.location)
        elif not _is_known(key):
            report.note(f"{scalar.location}: {key} has no effect here")
    state_root, s3 = read_storage(settings, report)
    if report.problems:
        raise ConfigError(report.sorted_problems(name))
    http = {key.removeprefix(f"{_HTTP}."): one.text for key, one in settings.items() if key.startswith(f"{_HTTP}.")}
    for key in http:
        if key not in HTTP_SETTINGS:
            report.note(f"{settings[f'{_HTTP}.{key}'].location}: {_HTTP}.{key} has no effect here")
    return SeaTunnelYaml(defaults, state_root, http, s3, tuple(report.notes))


def read_hazelcast_yaml(text: str, name: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Labels of a `hazelcast.yaml`: `hazelcast.member-attributes.<name>.value`, as text; and notes. Raises as above."""
    labels: dict[str, str] = {}
    rest: list[str] = []
    beginning = "hazelcast.member-attributes."
    for key, scalar in _settings(text, name).items():
        if not key.startswith(beginning):
            top = key.removeprefix("hazelcast.").partition(".")[0]
            rest += [top] if top not in rest else []
        elif key.endswith(".value"):
            labels[key[len(beginning) : -len(".value")]] = scalar.text
    notes = (f"{name}: only member-attributes is read, not {', '.join(rest)}",) if rest else ()
    return labels, notes


def _is_known(key: str) -> bool:
    return is_storage_key(key) or key.startswith(f"{_HTTP}.")


def _settings(text: str, name: str) -> dict[str, Scalar]:
    """Every single value of a file by its path, with dots between the names."""
    import yaml

    try:
        root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
        values = dict(islice(_walk(root, "", name, frozenset()), MAX_VALUES + 1))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        report = Report()
        report.problem(Location(name, mark.line + 1 if mark else 1), "YAML", error.problem or "cannot be read")
        raise ConfigError(report.sorted_problems(name)) from None
    except yaml.YAMLError as error:
        report = Report()
        report.problem(Location(name, 1), "YAML", str(error).partition("\n")[0])
        raise ConfigError(report.sorted_problems(name)) from None
    if len(values) > MAX_VALUES:
        report = Report()
        report.problem(Location(name, 1), "YAML", f"holds more than {MAX_VALUES} values")
        raise ConfigError(report.sorted_problems(name))
    return values


def _walk(node: Any, path: str, name: str, inside: frozenset[int]) -> Iterator[tuple[str, Scalar]]:
    if node is None or id(node) in inside or len(inside) > _MAX_NESTING:
        return
    if node.id == "scalar":
        quoted = node.style is not None
        location = Location(name, node.start_mark.line + 1, node.start_mark.column + 1)
        yield path, Scalar(node.value, location, quoted=quoted)
    elif node.id == "mapping":
        for key, value in node.value:
            below = f"{path}.{key.value}" if path else str(key.value)
            yield from _walk(value, below, name, inside | {id(node)})


_MAX_NESTING = 32
