"""What a metric is, what it is read from, and the ways of reading it that the catalogue (`metrics.py`) is made of."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgesocket.telemetry.journal import Journal

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


JOB = ("job_name",)
SOURCE = ("job_name", "source")
SINK = ("job_name", "sink")


def find(status: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value under a path of keys, None where a part is missing or null."""
    found: Any = status
    for part in path:
        found = found.get(part)
        if found is None:
            return None
    return found


def plain(name: str, labels: tuple[str, ...], path: str, text: str, *, absent: float | None = None) -> Metric:
    """A metric that is one number of the status. `absent`: what null counts as; None: there is no sample then."""
    keys = path.split(".")

    def read(reading: Reading) -> Iterator[Sample]:
        value = find(reading.status, keys)
        if value is None and keys[0] in reading.status:
            value = absent
        if value is not None:
            yield ((reading.job,) if labels is JOB else (reading.job, reading.source_id)), float(value)

    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    return Metric(name, kind, labels, text, f"status {path}", read)


def keyed(name: str, label: str, path: str, keys: Mapping[str, str], text: str) -> Metric:
    """A metric with one sample for each key of a part of the status, 0 for one that is not there.

    Args:
        keys: name in the status -> value of the label.
    """

    parts = path.split(".")

    def read(reading: Reading) -> Iterator[Sample]:
        found = find(reading.status, parts)
        if found is not None:
            job, source = reading.job, reading.source_id
            for key, shown in keys.items():
                yield (job, source, shown), float(found.get(key, 0))

    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE
    return Metric(name, kind, (*SOURCE, label), text, f"status {path}", read)


def of_sinks(name: str, kind: MetricKind, key: str, text: str) -> Metric:
    """A metric with one sample for each sink."""

    def read(reading: Reading) -> Iterator[Sample]:
        for sink_id, figures in (find(reading.status, ("sinks", "each")) or {}).items():
            yield (reading.job, sink_id), figures[key]

    return Metric(name, kind, SINK, text, f"status sinks.each.SINK.{key}", read)
