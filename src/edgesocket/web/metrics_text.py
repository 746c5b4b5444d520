"""The text format of Prometheus, written fast: a host with a hundred jobs has more than ten thousand samples.

Names and labels of a sample are the same in every scrape, so the text before its value is made once and kept. The
format is that of `prometheus_client.generate_latest`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from edgesocket.telemetry.metrics import Metric, MetricKind, Reading

MOST_PREFIXES = 200_000
"""Texts that are kept; beyond that all are made anew. Jobs come and go, and so do their names."""


class TextPage:
    """Writes the metrics of readings. Used by one thread at a time.

    Args:
        metrics: in the order in which they are written.
    """

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = [(metric, _head(metric)) for metric in metrics]
        self._prefixes: dict[tuple[str, tuple[str, ...]], Any] = {}

    def write(self, readings: Iterable[Reading]) -> str:
        """All metrics of all readings, each line with its end."""
        if len(self._prefixes) > MOST_PREFIXES:
            self._prefixes.clear()
        known = list(readings)
        parts: list[str] = []
        for metric, head in self._metrics:
            parts.append(head)
            if metric.kind is MetricKind.HISTOGRAM:
                for reading in known:
                    self._add_histograms(parts, metric, reading)
            else:
                for reading in known:
                    self._add_numbers(parts, metric, reading)
        return "".join(parts)

    def _add_numbers(self, parts: list[str], metric: Metric, reading: Reading) -> None:
        prefixes, name = self._prefixes, metric.name
        for values, value in metric.samples(reading):
            prefix = prefixes.get((name, values))
            if prefix is None:
                prefix = prefixes[name, values] = f"{name}{labels_text(metric.labels, values)} "
            parts.append(f"{prefix}{value}\n")

    def _add_histograms(self, parts: list[str], metric: Metric, reading: Reading) -> None:
        prefixes, name = self._prefixes, metric.name
        for values, histogram in metric.samples(reading):
            assert not isinstance(histogram, float | int)
            found = prefixes.get((name, values))
            if found is None:
                bounds = [str(float(bound)) for bound, _ in histogram["buckets"]]
                found = prefixes[name, values] = _histogram_prefixes(metric, values, bounds)
            counts = [count for _, count in histogram["buckets"]]
            numbers = (*counts, histogram["count"], histogram["count"], histogram["sum"])
            parts += [f"{prefix}{float(number)}\n" for prefix, number in zip(found, numbers, strict=True)]


def labels_text(names: Sequence[str], values: Sequence[str]) -> str:
    """`{job_name="a",source="b"}`, values escaped."""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def _histogram_prefixes(metric: Metric, values: tuple[str, ...], bounds: list[str]) -> list[str]:
    """Of every bucket, the count and the sum, in the order in which they are written."""
    bucket_labels = (*metric.labels, "le")
    buckets = [f"{metric.name}_bucket{labels_text(bucket_labels, (*values, le))} " for le in (*bounds, "+Inf")]
    labels = labels_text(metric.labels, values)
    return [*buckets, f"{metric.name}_count{labels} ", f"{metric.name}_sum{labels} "]


def _head(metric: Metric) -> str:
    text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {metric.name} {text}\n# TYPE {metric.name} {metric.kind.value}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
