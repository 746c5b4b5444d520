"""The catalogue of metrics: every name, kind, label and help text, and where its value comes from.

One `Reading` is what there is to know of one job at one moment: its status (see `JobRunner.status`) and its journal.
`Metric.read` finds the values of a metric in it. The Prometheus page, the OpenTelemetry export and docs/metrics.md are
all made from this catalogue, so a metric is described once; nothing is counted for it on the path of a record.

Names follow the conventions of Prometheus: base units (seconds, bytes) at the end, `_total` on what only rises. A
counter begins at 0 again when a job is started again after a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from edgesocket.telemetry.metric import (
    JOB,
    SOURCE,
    Metric,
    MetricKind,
    Readable,
    Reading,
    Sample,
    find,
    keyed,
    of_sinks,
    plain,
)

__all__ = ["BUILD_INFO", "METRICS", "ONLY_WITH_TLS", "Metric", "MetricKind", "Readable", "Reading"]

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


def _running(reading: Reading) -> Iterator[Sample]:
    yield (reading.job,), float(reading.status.get("state") == "running")


def _failed(reading: Reading) -> Iterator[Sample]:
    yield (reading.job,), float(reading.status.get("state") in ("failed", "fenced"))


def _ready(reading: Reading) -> Iterator[Sample]:
    state = find(reading.status, ("source", "listener", "state"))
    if "source" in reading.status:
        yield (reading.job, reading.source_id), float(state in ("listening", "connected"))


def _connected(reading: Reading) -> Iterator[Sample]:
    if "source" in reading.status:
        yield (reading.job, reading.source_id), float(bool(find(reading.status, ("source", "collector"))))


def _held(key: str) -> Callable[[Reading], Iterator[Sample]]:
    def read(reading: Reading) -> Iterator[Sample]:
        if "source" not in reading.status:
            return
        holder = find(reading.status, ("source", "holder"))
        waits = holder is not None and holder["state"] in WAITING_STATES
        yield (reading.job, reading.source_id), float(holder[key] if waits else 0)

    return read


def _checkpoint_age(reading: Reading) -> Iterator[Sample]:
    age = find(reading.status, ("checkpoints", "last_completed_ago_s"))
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
        JOB,
        "1 while the job runs, else 0.",
        "status state",
        _running,
        outlives=True,
    ),
    Metric(
        "edgesocket_job_failed",
        MetricKind.GAUGE,
        JOB,
        "1 once the job has failed for good or another process owns it, else 0.",
        "status state",
        _failed,
        outlives=True,
    ),
    plain("edgesocket_job_epoch", JOB, "epoch", "Number of the running incarnation; rises with every start."),
    plain("edgesocket_job_restarts_total", JOB, "restarts", "Times that the job was started again after a failure."),
    plain("edgesocket_job_rows_total", JOB, "rows_written", "Rows that the source gave and the sinks took."),
    Metric(
        "edgesocket_job_events_total",
        MetricKind.COUNTER,
        (*JOB, "level"),
        "Events that an operator should look at (warning) or act on (error).",
        "journal",
        _levels,
    ),
)

_LISTENER = (
    Metric(
        "edgesocket_source_ready",
        MetricKind.GAUGE,
        SOURCE,
        "1 while the port is open or a collector is connected, else 0.",
        "status source.listener.state",
        _ready,
    ),
    Metric(
        "edgesocket_collector_connected",
        MetricKind.GAUGE,
        SOURCE,
        "1 while a collector is connected, else 0.",
        "status source.collector",
        _connected,
    ),
    plain(
        "edgesocket_collector_connected_seconds",
        SOURCE,
        "source.collector_for_s",
        "How long the collector has been connected; 0 without one.",
        absent=0,
    ),
    plain(
        "edgesocket_collector_sessions_total",
        SOURCE,
        "source.listener.sessions",
        "Conversations with a collector that authenticated.",
    ),
    plain("edgesocket_connections_total", SOURCE, "source.listener.connections", "TCP connections that came in."),
    plain(
        "edgesocket_auth_failures_total",
        SOURCE,
        "source.listener.auth_failed",
        "First lines with a wrong token, answered AUTH_FAILED.",
    ),
    keyed(
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
    plain(
        "edgesocket_received_bytes_total",
        SOURCE,
        "source.listener.received_bytes",
        "Bytes received from collectors, line ends and all.",
    ),
    plain("edgesocket_sent_bytes_total", SOURCE, "source.listener.sent_bytes", "Bytes of replies sent to collectors."),
)

_TLS = (
    plain(
        "edgesocket_tls_certificate_expires_timestamp_seconds",
        SOURCE,
        "source.listener.tls_certificate_expires",
        "When the certificate of the port expires, in seconds since 1970; not there without TLS.",
    ),
)

_BATCHES = (
    keyed(
        "edgesocket_replies_total",
        "reply",
        "source.replies",
        {reply: reply for reply in REPLIES},
        "Replies to batches and commit polls, by reply.",
    ),
    keyed(
        "edgesocket_payload_bytes_total",
        "reply",
        "source.payload_bytes",
        {reply: reply for reply in PAYLOAD_REPLIES},
        "Bytes of payloads as they were offered, by the reply to their batch.",
    ),
    plain(
        "edgesocket_source_records_total",
        SOURCE,
        "source.records_to_sinks",
        "Records taken out of the queue for the sinks.",
    ),
    plain(
        "edgesocket_resends_total",
        SOURCE,
        "source.resends",
        "Batches that were recognised as sent before: answered RECEIVED, not written twice.",
    ),
    plain(
        "edgesocket_reused_ids_total",
        SOURCE,
        "source.repeated_ids",
        "Batches under an id already used, with another payload: each is one more record.",
    ),
    plain(
        "edgesocket_reused_ivs_total",
        SOURCE,
        "source.reused_ivs",
        "Encrypted packets whose iv another record had: a fault of the collector.",
    ),
    plain("edgesocket_bad_records_total", SOURCE, "source.bad_records", "Accepted records that do not fit the schema."),
    plain(
        "edgesocket_dropped_records_total",
        SOURCE,
        "source.dropped_payloads",
        "Payloads that made no row, which only json_mode = lenient allows.",
    ),
    plain(
        "edgesocket_replaced_text_records_total",
        SOURCE,
        "source.replaced_utf8",
        "Records that were not UTF-8: bad bytes became U+FFFD.",
    ),
    keyed(
        "edgesocket_batches",
        "state",
        "source.batches",
        {state: state for state in ("received", "captured", "held", "lost", "settled")},
        "Ids that are not confirmed, by state (see the states of a batch).",
    ),
)

_QUEUE = (
    plain("edgesocket_queue_records", SOURCE, "source.queue.records", "Records in the queue."),
    plain("edgesocket_queue_bytes", SOURCE, "source.queue.bytes", "Bytes of payload in the queue."),
    plain("edgesocket_queue_capacity_records", SOURCE, "source.queue.capacity", "Records that the queue can hold."),
    plain(
        "edgesocket_queue_mark_records",
        SOURCE,
        "source.queue.high_water_mark",
        "Records in the queue at which batches are answered QUEUE_FULL.",
    ),
    plain(
        "edgesocket_queue_mark_bytes",
        SOURCE,
        "source.queue.max_bytes",
        "Bytes in the queue at which batches are answered QUEUE_FULL.",
    ),
    plain(
        "edgesocket_queue_most_records", SOURCE, "source.queue.most_records", "The most records the queue ever held."
    ),
)

_WATERMARK = (
    plain(
        "edgesocket_confirmed_watermark",
        SOURCE,
        "source.watermark",
        "The batch id up to which everything is confirmed (exact up to 2^53).",
    ),
    plain("edgesocket_highest_offered_id", SOURCE, "source.highest_offered", "The highest batch id ever offered."),
    plain(
        "edgesocket_oldest_unconfirmed_seconds",
        SOURCE,
        "source.oldest_unconfirmed.age_s",
        "How long ago the oldest batch came that is received and not confirmed; 0 when all is confirmed.",
        absent=0,
    ),
    Metric(
        "edgesocket_watermark_held_id",
        MetricKind.GAUGE,
        SOURCE,
        "The id that is held, lost or never offered and keeps the watermark below it; 0 when there is none.",
        "status source.holder.id",
        _held("id"),
    ),
    Metric(
        "edgesocket_watermark_held_seconds",
        MetricKind.GAUGE,
        SOURCE,
        "Since when that id has held the watermark; 0 when nothing does.",
        "status source.holder.since_s",
        _held("since_s"),
    ),
    plain(
        "edgesocket_ledger_full",
        SOURCE,
        "source.overloaded",
        "1 while there are so many holes in the ids that every batch is answered QUEUE_FULL.",
    ),
    plain(
        "edgesocket_arrival_log_failing_seconds",
        SOURCE,
        "source.arrival_log.failing_for_s",
        "Since when the arrival log cannot be written, so that no batch is answered; 0 while it can.",
        absent=0,
    ),
)

_CHECKPOINTS = (
    Metric(
        "edgesocket_checkpoints_total",
        MetricKind.COUNTER,
        (*JOB, "result"),
        "Checkpoints that ended: completed or aborted.",
        "journal",
        _checkpoints,
    ),
    Metric(
        "edgesocket_checkpoint_duration_seconds",
        MetricKind.HISTOGRAM,
        JOB,
        "How long completed checkpoints took.",
        "journal",
        _durations,
    ),
    Metric(
        "edgesocket_checkpoint_age_seconds",
        MetricKind.GAUGE,
        JOB,
        "Since the last completed checkpoint; since the start where there is none yet.",
        "status checkpoints.last_completed_ago_s",
        _checkpoint_age,
    ),
    plain(
        "edgesocket_checkpoint_interval_seconds",
        JOB,
        "checkpoints.interval_s",
        "How long after the end of one checkpoint the next one begins (checkpoint.interval).",
    ),
    plain("edgesocket_checkpoint_number", JOB, "checkpoints.last_number", "Number of the last completed checkpoint."),
    plain(
        "edgesocket_checkpoint_state_bytes",
        JOB,
        "checkpoints.last_state_bytes",
        "Size of the state that the last checkpoint wrote.",
    ),
    plain(
        "edgesocket_checkpoint_failing_seconds",
        JOB,
        "checkpoints.failing_for_s",
        "Since when no checkpoint completes; 0 while they do.",
        absent=0,
    ),
)

_SINKS = (
    of_sinks("edgesocket_sink_rows_total", MetricKind.COUNTER, "rows", "Rows that the sink took."),
    of_sinks(
        "edgesocket_sink_failures_total",
        MetricKind.COUNTER,
        "failures",
        "Writes and flushes of the sink that failed; each is tried again.",
    ),
    of_sinks(
        "edgesocket_sink_write_seconds",
        MetricKind.HISTOGRAM,
        "write_seconds",
        "How long the sink took for each block of rows.",
    ),
    of_sinks(
        "edgesocket_sink_prepare_seconds",
        MetricKind.HISTOGRAM,
        "prepare_seconds",
        "How long the sink took for each checkpoint to flush and confirm what it had.",
    ),
    plain(
        "edgesocket_sink_failing_seconds",
        JOB,
        "sinks.failing_for_s",
        "Since when a sink of the job does not take rows; 0 while all do.",
        absent=0,
    ),
    plain(
        "edgesocket_dead_letters_total", JOB, "sinks.dead_letters", "Records and rows that went to the dead letters."
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
