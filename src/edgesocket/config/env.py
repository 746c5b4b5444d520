"""The options of the `env` block, and what they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.options import INT_MAX, LONG_MAX, Kind, Option, OptionTable, duration, whole_number

MAX_JOB_NAME = 120
"""Characters of a job's name: it becomes a directory's name."""

REPLAY_SUFFIX = ".replay"
"""What replays a job's dead letters is called as the job with this behind it, and its state too."""

_OTHER_ENGINE = "it is for another engine"
_PLAIN_SECRETS = "secrets are written as they are, or as ${VARIABLE}"
_DEAD_NAME = "SeaTunnel no longer reads this name either; write "


def check_job_name(name: str) -> str:
    """A name that can be a directory's, and is not that of another job's replay.

    Raises:
        Refused: it cannot.
    """
    if not name.strip():
        raise Refused("the name is blank")
    if name in (".", "..") or "/" in name or not name.isprintable():
        raise Refused(f"{shorten(name, quote=True)} cannot be the name of a directory", 'job.name = "edge"')
    if name.endswith(REPLAY_SUFFIX):
        other = shorten(name.removesuffix(REPLAY_SUFFIX))
        raise Refused(
            f"a name that ends with {REPLAY_SUFFIX} is that of the replay of the dead letters of the job {other}",
            'job.name = "edge"',
        )
    if len(name.encode()) > MAX_JOB_NAME:
        raise Refused(f"the name is longer than {MAX_JOB_NAME} bytes")
    return name


def _check_parallelism(readers: int) -> int:
    if readers > 1:
        message = f"{readers} readers cannot share one TCP port, which the EdgeSocket source binds"
        raise Refused(message, "parallelism = 1")
    return readers


def _later(name: str, reason: str, *harmless: str) -> Option:
    return Option(name=name, kind=Kind.LATER, harmless=harmless, description=reason)


ENV = OptionTable(
    Option(
        name="job.mode",
        kind=Kind.CHOICE,
        default="STREAMING",
        choices=("STREAMING",),
        refused={"BATCH": "does not fit: a batch job ends with its data, and what collectors push has no end"},
        example='"STREAMING"',
        description="Mode of the job.",
    ),
    Option(
        name="job.name",
        kind=Kind.TEXT,
        default_text="the job file's name without its ending",
        check=check_job_name,
        example='"edge"',
        description="Name of the job; its state lies in a directory of that name.",
    ),
    whole_number("parallelism", 1, "Readers of the source. Only 1: a port is bound once.", check=_check_parallelism),
    duration(
        "checkpoint.interval",
        10_000,
        "Time from one checkpoint to the next.",
        minimum=10,
        attribute="checkpoint_interval_ms",
    ),
    duration(
        "checkpoint.timeout",
        60_000,
        "Longest time a checkpoint may take before it is given up.",
        minimum=10,
        attribute="checkpoint_timeout_ms",
    ),
    whole_number(
        "checkpoint.max-retained", 3, "Completed checkpoints that are kept.", maximum=1000, attribute="checkpoints_kept"
    ),
    duration(
        "checkpoint.failure.timeout",
        600_000,
        "How long the state store or a sink may keep failing before the job fails.",
        minimum=1000,
        attribute="checkpoint_failure_timeout_ms",
    ),
    whole_number(
        "job.retry.times",
        3,
        "How often a failed job is started again from its last checkpoint.",
        minimum=0,
        attribute="retry_times",
    ),
    duration(
        "job.retry.interval.seconds",
        3,
        "Wait before each of those starts.",
        unit="s",
        minimum=0,
        attribute="retry_interval_s",
    ),
    duration(
        "job.retry.reset.seconds",
        600,
        "Time of completed checkpoints after which job.retry.times counts anew; 0 is never.",
        unit="s",
        minimum=0,
        attribute="retry_reset_s",
    ),
    Option(
        name="lease_ms",
        kind=Kind.DURATION,
        unit="ms",
        default=None,
        default_text="`3000`; `2000` on a cluster whose states lie on a shared path",
        minimum=2000,
        example="3000",
        description="Silence of a job's owner after which another process may take the job. The owner beats every "
        "second, and four times in a lease below 3 s.",
    ),
    Option(
        name="tag_filter",
        kind=Kind.TEXT_MAP,
        default=MappingProxyType({}),
        default_text="no filter",
        check=MappingProxyType,
        example='{ zone = "a" }',
        description="Tags a worker must have to be given this job.",
    ),
    Option(
        name="min-pause",
        kind=Kind.DURATION,
        unit="ms",
        default=-1,
        minimum=-1,
        maximum=INT_MAX,
        attribute="min_pause_ms",
        example="1000",
        description="Least time from the end of a checkpoint to the start of the next; -1 is checkpoint.interval.",
    ),
    _later("checkpoint.retain-after-job-cancelled", "the state of a job stays until it is deleted", "true"),
    duration(
        "sink.flush.interval",
        0,
        "How often sinks send what they hold back for a full batch, besides at checkpoints; 0 is never.",
        minimum=0,
        attribute="flush_interval_ms",
    ),
    Option(
        name="read_limit.rows_per_second",
        kind=Kind.INTEGER,
        default=0,
        default_text="no limit",
        minimum=1,
        maximum=INT_MAX,
        example="10000",
        attribute="rows_per_second",
        description="Most records a second that are taken out of the queue.",
    ),
    Option(
        name="read_limit.bytes_per_second",
        kind=Kind.SIZE,
        unit="bytes",
        default=0,
        default_text="no limit",
        minimum=1,
        maximum=LONG_MAX,
        example="10 MiB",
        attribute="bytes_per_second",
        description="Most bytes of payloads a second that are taken out of the queue.",
    ),
    Option(
        name="shade.identifier",
        kind=Kind.TEXT,
        default="default",
        example='"base64"',
        description="How the secrets of the job are encoded: default is not at all, base64 decodes them first.",
    ),
    Option(
        name="shade.options",
        kind=Kind.TEXT_LIST,
        default=(),
        example='["kafka.config"]',
        description="Further options whose values are encoded in that way.",
    ),
    _later("shade.properties", _PLAIN_SECRETS),
    _later("jars", "there is no JVM"),
    _later("pipeline_concurrency", "a job has one pipeline"),
    _later("error_handler", "see on_bad_record of the source"),
    _later("transform_error_handler", "there are no transforms yet"),
    _later("sink_error_handler", "see on_rejected_row of the sinks"),
    ignored={
        "flink.": _OTHER_ENGINE,
        "spark.": _OTHER_ENGINE,
        "savemode.execute.location": "nothing is created outside the job",
        "custom_parameters": "nobody reads it",
        "execution.parallelism": f"{_DEAD_NAME}parallelism",
        "execution.checkpoint.interval": f"{_DEAD_NAME}checkpoint.interval",
    },
)
"""Every option of the env block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """The env block, checked. Meanings and limits stand in `ENV`.

    Attributes:
        job_name: None if the file names none; `JobSpec.name` is never empty.
        lease_ms: None if the file names none: where the job runs decides.
    """

    job_mode: Literal["STREAMING"]
    job_name: str | None
    parallelism: int
    checkpoint_interval_ms: int
    checkpoint_timeout_ms: int
    checkpoints_kept: int
    checkpoint_failure_timeout_ms: int
    retry_times: int
    retry_interval_s: int
    retry_reset_s: int
    lease_ms: int | None
    tag_filter: Mapping[str, str]
    min_pause_ms: int
    flush_interval_ms: int
    rows_per_second: int
    bytes_per_second: int
    shade_identifier: str
    shade_options: tuple[str, ...]

    @classmethod
    def of(cls, **given: Any) -> EnvSpec:
        """An env with the table's default for everything not given. Checks nothing."""
        return cls(**{**ENV.defaults(), **given})
