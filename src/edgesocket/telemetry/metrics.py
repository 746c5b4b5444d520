"""The catalogue of metrics: every name, kind, label and help text, and where its value comes from.

One `Reading` is what there is to know of one job at one moment: its status (see `JobRunner.status`) and its journal.
`Metric.read` finds the values of a metric in it. The Prometheus page, the OpenTelemetry export and docs/metrics.md are
all made from this catalogue, so a metric is described once; nothing is counted for it on the path of a record.

Names follow the conventions of Prometheus: base units (seconds, bytes) at the end, `_total` on what only rises. A
counter begins at 0 again when a job is started again after a failure.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgesocket.telemetry.journal import Journal

REPLIES = (
    "RECEIVED",
    "QUEUE_FULL",
    "RETRY",
    "DECODE_FAILED",
    "DECRYPT_FAILED",
    "BAD_REQUEST",
    "INVALID_PARAM",
    "PENDING",
    "RESEND",
    "ACK",
)
"""Replies to requests, as labels have them. The first five can answer a batch with a payload."""

PAYLOAD_REPLIES = REPLIES[:5]

WAITING_STATES = ("held", "lost", "gap")
"""States of an id that only its collector or an operator can move: what holds the watermark in the sense of metrics."""

ENDED = ("ended", "failed", "fenced")
"""States of a job that does not run any more and will not be started again by itself."""

Value = float | Mapping[str, Any]
"""A number; of a histogram what `Histogram.as_json` gives."""

Sample = tuple[tuple[str, ...], Value]
"""The values of a metric's labels, in their order, and the value."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What there is to know of one job at one moment.

    Attributes:
        job: its name.
        status: what its runner says (`JobRunner.status`); the parts that are not there yet have no samples.
        journal: of the job.
    """

    job: str
    status: Mapping[str, Any]
    journal: Journal

    @property
    def source_id(self) -> str:
        """The id of its source."""
        return str(self.status.get("source_id", ""))

    @property
    def over(self) -> bool:
        """Whether the job has ended: what it last said is not so any more, though what it counted stays true."""
        return self.status.get("state") in ENDED


class Readable(Protocol):
    """Who knows the jobs of a process."""

    def readings(self) -> Iterable[Reading]:
        """What there is to know of each job now. Called on the thread of whoever asks."""


class MetricKind(enum.Enum):
    """What a metric is; the values are Prometheus's words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: as it is scraped; a counter ends in `_total`.
        kind: see MetricKind.
        labels: their names, `job_name` first: Prometheus puts a `job` of its own on whatever it scrapes.
        help: what it is, in one sentence.
        origin: the field of the status or the journal that it is read from, for people.
        read: the samples that a reading gives; none while the part that it is about is not there. Ask `samples`.
        outlives: of a gauge: it has a sample for a job that has ended, too.
    """

    name: str
    kind: MetricKind
    labels: tuple[str, ...]
    help: str
    origin: str
    read: Callable[[Reading], Iterable[Sample]]
    outlives: bool = False

    def samples(self, reading: Reading) -> Iterable[Sample]:
        """The samples of one job. A gauge has none of a job that has ended."""
        if self.kind is MetricKind.GAUGE and reading.over and not self.outlives:
            return ()
        return self.read(reading)

    @property
    def unit(self) -> str:
        """`seconds`, `bytes`, or empty for a plain number."""
        ending = self.name.removesuffix("_total").rpartition("_")[2]
        return ending if ending in ("seconds", "bytes") else ""


_JOB = ("job_name",)
_SOURCE = ("job_name", "source")
_SINK = ("job_name", "sink")


def _find(status: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value under a path of keys, None where a part is missing or null."""
    found: Any = status
    for part in path:
        found = found.get(part)
        if found is None:
            return None
    return found


def _plain(name: str, labels: tuple[str, ...], path: str, text: str, *, absent: float | None = None) -> Metric:
    """A metric that is one number of the status. `absent`: what null counts as; None: there is no sample then."""
    keys = path.split(".")

    def read(reading: Reading) -> Iterator[Sample]:
        value = _find(reading.status, keys)
        if value is None and keys[0] in reading.status:
            value = absent
        if value is not None:
            yield ((reading.job,) if labels is _JOB else (reading.job, reading.source_id)), float(value)

    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    return Metric(name, kind, labels, text, f"status {path}", read)


def _keyed(name: str, label: str, path: str, keys: Mapping[str, str], text: str) -> Metric:
    """A metric with one sample for each key of a part of the status, 0 for one that is not there.

    Args:
        keys: name in the status -> value of the label.
    """

    parts = path.split(".")

    def read(reading: Reading) -> Iterator[Sample]:
        found = _find(reading.status, parts)
        if found is not None:
            job, source = reading.job, reading.source_id
            for key, shown in keys.items():
                yield (job, source, shown), float(found.get(key, 0))

    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    return Metric(name, kind, (*_SOURCE, label), text, f"status {path}", read)


def _of_sinks(name: str, kind: MetricKind, key: str, text: str) -> Metric:
    """A metric with one sample for each sink."""

    def read(reading: Reading) -> Iterator[Sample]:
        for sink_id, figures in (_find(reading.status, ("sinks", "each")) or {}).items():
            yield (reading.job, sink_id), figures[key]

    return Metric(name, kind, _SINK, text, f"status sinks.each.SINK.{key}", read)


def _running(reading: Reading) -> Iterator[Sample]:
    yield (reading.job,), float(reading.status.get("state") == "running")


def _failed(reading: Reading) -> Iterator[Sample]:
    yield (reading.job,), float(reading.status.get("state") in ("failed", "fenced"))


def _ready(reading: Reading) -> Iterator[Sample]:
    state = _find(reading.status, ("source", "listener", "state"))
    if "source" in reading.status:
        yield (reading.job, reading.source_id), float(state in ("listening", "connected"))


def _connected(reading: Reading) -> Iterator[Sample]:
    if "source" in reading.status:
        yield (reading.job, reading.source_id), float(bool(_find(reading.status, ("source", "collector"))))


def _held(key: str) -> Callable[[Reading], Iterator[Sample]]:
    def read(reading: Reading) -> Iterator[Sample]:
        if "source" not in reading.status:
            return
        holder = _find(reading.status, ("source", "holder"))
        waits = holder is not None and holder["state"] in WAITING_STATES
        yield (reading.job, reading.source_id), float(holder[key] if waits else 0)

    return read


def _checkpoint_age(reading: Reading) -> Iterator[Sample]:
    age = _find(reading.status, ("checkpoints", "last_completed_ago_s"))
    if age is None:
        age = reading.status.get("running_for_s")
    if age is not None:
        yield (reading.job,), float(age)


def _checkpoints(reading: Reading) -> Iterator[Sample]:
    counts = reading.journal.counts()
    yield (reading.job, "completed"), float(counts.get("checkpoint_completed", 0))
    yield (reading.job, "aborted"), float(counts.get("checkpoint_aborted", 0))


def _durations(reading: Reading) -> Iterator[Sample]:
    yield (reading.job,), reading.journal.checkpoint_durations()


def _levels(reading: Reading) -> Iterator[Sample]:
    for level, count in reading.journal.level_counts().items():
        if level in ("warning", "error"):
            yield (reading.job, level), float(count)


_JOBS = (
    Metric(
        "edgesocket_job_running",
        MetricKind.GAUGE,
        _JOB,
        "1 while the job runs, else 0.",
        "status state",
        _running,
        outlives=True,
    ),
    Metric(
        "edgesocket_job_failed",
        MetricKind.GAUGE,
        _JOB,
        "1 once the job has failed for good or another process owns it, else 0.",
        "status state",
        _failed,
        outlives=True,
    ),
    _plain("edgesocket_job_epoch", _JOB, "epoch", "Number of the running incarnation; rises with every start."),
    _plain("edgesocket_job_restarts_total", _JOB, "restarts", "Times that the job was started again after a failure."),
    _plain("edgesocket_job_rows_total", _JOB, "rows_written", "Rows that the source gave and the sinks took."),
    Metric(
        "edgesocket_job_events_total",
        MetricKind.COUNTER,
        (*_JOB, "level"),
        "Events that an operator should look at (warning) or act on (error).",
        "journal",
        _levels,
    ),
)

_LISTENER = (
    Metric(
        "edgesocket_source_ready",
        MetricKind.GAUGE,
        _SOURCE,
        "1 while the port is open or a collector is connected, else 0.",
        "status source.listener.state",
        _ready,
    ),
    Metric(
        "edgesocket_collector_connected",
        MetricKind.GAUGE,
        _SOURCE,
        "1 while a collector is connected, else 0.",
        "status source.collector",
        _connected,
    ),
    _plain(
        "edgesocket_collector_connected_seconds",
        _SOURCE,
        "source.collector_for_s",
        "How long the collector has been connected; 0 without one.",
        absent=0,
    ),
    _plain(
        "edgesocket_collector_sessions_total",
        _SOURCE,
        "source.listener.sessions",
        "Conversations with a collector that authenticated.",
    ),
    _plain("edgesocket_connections_total", _SOURCE, "source.listener.connections", "TCP connections that came in."),
    _plain(
        "edgesocket_auth_failures_total",
        _SOURCE,
        "source.listener.auth_failed",
        "First lines with a wrong token, answered AUTH_FAILED.",
    ),
    _keyed(
        "edgesocket_peers_refused_total",
        "reason",
        "source.listener",
        {
            "auth_timed_out": "timed_out",
            "peers_dropped": "too_many",
            "peers_rejected": "rejected",
            "peers_not_allowed": "not_allowed",
            "tls_failed": "tls_failed",
            "tls_mismatches": "tls_mismatch",
        },
        "Peers that were closed for another reason than a wrong token, before they became the collector.",
    ),
    _plain(
        "edgesocket_received_bytes_total",
        _SOURCE,
        "source.listener.received_bytes",
        "Bytes received from collectors, line ends and all.",
    ),
    _plain(
        "edgesocket_sent_bytes_total", _SOURCE, "source.listener.sent_bytes", "Bytes of replies sent to collectors."
    ),
)

_TLS = (
    _plain(
        "edgesocket_tls_certificate_expires_timestamp_seconds",
        _SOURCE,
        "source.listener.tls_certificate_expires",
        "When the certificate of the port expires, in seconds since 1970; not there without TLS.",
    ),
)

_BATCHES = (
    _keyed(
        "edgesocket_replies_total",
        "reply",
        "source.replies",
        {reply: reply for reply in REPLIES},
        "Replies to batches and commit polls, by reply.",
    ),
    _keyed(
        "edgesocket_payload_bytes_total",
        "reply",
        "source.payload_bytes",
        {reply: reply for reply in PAYLOAD_REPLIES},
        "Bytes of payloads as they were offered, by the reply to their batch.",
    ),
    _plain(
        "edgesocket_source_records_total",
        _SOURCE,
        "source.records_to_sinks",
        "Records taken out of the queue for the sinks.",
    ),
    _plain(
        "edgesocket_resends_total",
        _SOURCE,
        "source.resends",
        "Batches that were recognised as sent before: answered RECEIVED, not written twice.",
    ),
    _plain(
        "edgesocket_reused_ids_total",
        _SOURCE,
        "source.repeated_ids",
        "Batches under an id already used, with another payload: each is one more record.",
    ),
    _plain(
        "edgesocket_reused_ivs_total",
        _SOURCE,
        "source.reused_ivs",
        "Encrypted packets whose iv another record had: a fault of the collector.",
    ),
    _plain(
        "edgesocket_bad_records_total", _SOURCE, "source.bad_records", "Accepted records that do not fit the schema."
    ),
    _plain(
        "edgesocket_dropped_records_total",
        _SOURCE,
        "source.dropped_payloads",
        "Payloads that made no row, which only json_mode = lenient allows.",
    ),
    _plain(
        "edgesocket_replaced_text_records_total",
        _SOURCE,
        "source.replaced_utf8",
        "Records that were not UTF-8: bad bytes became U+FFFD.",
    ),
    _keyed(
        "edgesocket_batches",
        "state",
        "source.batches",
        {state: state for state in ("received", "captured", "held", "lost", "settled")},
        "Ids that are not confirmed, by state (see the states of a batch).",
    ),
)

_QUEUE = (
    _plain("edgesocket_queue_records", _SOURCE, "source.queue.records", "Records in the queue."),
    _plain("edgesocket_queue_bytes", _SOURCE, "source.queue.bytes", "Bytes of payload in the queue."),
    _plain("edgesocket_queue_capacity_records", _SOURCE, "source.queue.capacity", "Records that the queue can hold."),
    _plain(
        "edgesocket_queue_mark_records",
        _SOURCE,
        "source.queue.high_water_mark",
        "Records in the queue at which batches are answered QUEUE_FULL.",
    ),
    _plain(
        "edgesocket_queue_mark_bytes",
        _SOURCE,
        "source.queue.max_bytes",
        "Bytes in the queue at which batches are answered QUEUE_FULL.",
    ),
    _plain(
        "edgesocket_queue_most_records", _SOURCE, "source.queue.most_records", "The most records the queue ever held."
    ),
)

_WATERMARK = (
    _plain(
        "edgesocket_confirmed_watermark",
        _SOURCE,
        "source.watermark",
        "The batch id up to which everything is confirmed (exact up to 2^53).",
    ),
    _plain("edgesocket_highest_offered_id", _SOURCE, "source.highest_offered", "The highest batch id ever offered."),
    _plain(
        "edgesocket_oldest_unconfirmed_seconds",
        _SOURCE,
        "source.oldest_unconfirmed.age_s",
        "How long ago the oldest batch came that is received and not confirmed; 0 when all is confirmed.",
        absent=0,
    ),
    Metric(
        "edgesocket_watermark_held_id",
        MetricKind.GAUGE,
        _SOURCE,
        "The id that is held, lost or never offered and keeps the watermark below it; 0 when there is none.",
        "status source.holder.id",
        _held("id"),
    ),
    Metric(
        "edgesocket_watermark_held_seconds",
        MetricKind.GAUGE,
        _SOURCE,
        "Since when that id has held the watermark; 0 when nothing does.",
        "status source.holder.since_s",
        _held("since_s"),
    ),
    _plain(
        "edgesocket_ledger_full",
        _SOURCE,
        "source.overloaded",
        "1 while there are so many holes in the ids that every batch is answered QUEUE_FULL.",
    ),
    _plain(
        "edgesocket_arrival_log_failing_seconds",
        _SOURCE,
        "source.arrival_log.failing_for_s",
        "Since when the arrival log cannot be written, so that no batch is answered; 0 while it can.",
        absent=0,
    ),
)

_CHECKPOINTS = (
    Metric(
        "edgesocket_checkpoints_total",
        MetricKind.COUNTER,
        (*_JOB, "result"),
        "Checkpoints that ended: completed or aborted.",
        "journal",
        _checkpoints,
    ),
    Metric(
        "edgesocket_checkpoint_duration_seconds",
        MetricKind.HISTOGRAM,
        _JOB,
        "How long completed checkpoints took.",
        "journal",
        _durations,
    ),
    Metric(
        "edgesocket_checkpoint_age_seconds",
        MetricKind.GAUGE,
        _JOB,
        "Since the last completed checkpoint; since the start where there is none yet.",
        "status checkpoints.last_completed_ago_s",
        _checkpoint_age,
    ),
    _plain(
        "edgesocket_checkpoint_interval_seconds",
        _JOB,
        "checkpoints.interval_s",
        "How long after the end of one checkpoint the next one begins (checkpoint.interval).",
    ),
    _plain("edgesocket_checkpoint_number", _JOB, "checkpoints.last_number", "Number of the last completed checkpoint."),
    _plain(
        "edgesocket_checkpoint_state_bytes",
        _JOB,
        "checkpoints.last_state_bytes",
        "Size of the state that the last checkpoint wrote.",
    ),
    _plain(
        "edgesocket_checkpoint_failing_seconds",
        _JOB,
        "checkpoints.failing_for_s",
        "Since when no checkpoint completes; 0 while they do.",
        absent=0,
    ),
)

_SINKS = (
    _of_sinks("edgesocket_sink_rows_total", MetricKind.COUNTER, "rows", "Rows that the sink took."),
    _of_sinks(
        "edgesocket_sink_failures_total",
        MetricKind.COUNTER,
        "failures",
        "Writes and flushes of the sink that failed; each is tried again.",
    ),
    _of_sinks(
        "edgesocket_sink_write_seconds",
        MetricKind.HISTOGRAM,
        "write_seconds",
        "How long the sink took for each block of rows.",
    ),
    _of_sinks(
        "edgesocket_sink_prepare_seconds",
        MetricKind.HISTOGRAM,
        "prepare_seconds",
        "How long the sink took for each checkpoint to flush and confirm what it had.",
    ),
    _plain(
        "edgesocket_sink_failing_seconds",
        _JOB,
        "sinks.failing_for_s",
        "Since when a sink of the job does not take rows; 0 while all do.",
        absent=0,
    ),
    _plain(
        "edgesocket_dead_letters_total", _JOB, "sinks.dead_letters", "Records and rows that went to the dead letters."
    ),
)

ONLY_WITH_TLS = frozenset(metric.name for metric in _TLS)
"""Metrics that have no sample for a source without TLS."""

METRICS: tuple[Metric, ...] = (*_JOBS, *_LISTENER, *_TLS, *_BATCHES, *_QUEUE, *_WATERMARK, *_CHECKPOINTS, *_SINKS)
"""All of them, in the order of the docs."""

BUILD_INFO = Metric(
    "edgesocket_build_info",
    MetricKind.GAUGE,
    ("version", "python"),
    "Always 1; its labels are the versions of EdgeSocket and Python.",
    "the program",
    lambda _: (),
)
"""The one metric that is of the process and not of a job; who serves metrics fills it in."""
