"""Metrics for Prometheus: the catalogue (`telemetry/metrics.py`), read from the jobs when somebody asks.

Nothing is counted here. A scrape reads what every job last said of itself, so that it costs the same whether a job
moves ten records a second or a million, and takes no lock of a source.

`render` is what `/metrics` answers. `registry_of` gives the same to a program that serves metrics of its own.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator
from typing import Any, cast
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

import edgesocket
from edgesocket.telemetry.metrics import BUILD_INFO, METRICS, Metric, MetricKind, Readable, Reading
from edgesocket.web.metrics_text import TextPage

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The text format, which every Prometheus reads."""


def render(board: Readable, accept: str = "") -> tuple[bytes, str]:
    """Every metric, as `/metrics` answers. Safe on any thread.

    Args:
        board: who knows the jobs.
        accept: the header of the request. There is one format; whoever asks for OpenMetrics takes this one too.

    Returns: the body and its content type.
    """
    del accept
    with _lock:
        page = _pages.get(board)
        if page is None:
            page = _pages[board] = (_process_registry(), TextPage(METRICS))
        registry, text = page
        return generate_latest(registry) + text.write(board.readings()).encode(), MEDIA_TYPE


def registry_of(board: Readable) -> CollectorRegistry:
    """A registry with the metrics of every job, of the process and of the program."""
    registry = _process_registry()
    registry.register(JobsCollector(board))
    return registry


class JobsCollector(Collector):
    """Gives the metrics of the jobs to a registry.

    Args:
        board: who knows the jobs.
    """

    def __init__(self, board: Readable) -> None:
        self._board = board

    def describe(self) -> list[Family]:
        """Their names, without asking any job."""
        return [_family(metric) for metric in METRICS]

    def collect(self) -> Iterator[Family]:
        """Every metric with the samples of every job."""
        readings = list(self._board.readings())
        for metric in METRICS:
            family = _family(metric)
            for reading in readings:
                _add_samples(family.samples, metric, reading)
            yield family


class BuildCollector(Collector):
    """Gives `edgesocket_build_info`."""

    def collect(self) -> Iterator[Family]:
        """The one sample."""
        family = _family(BUILD_INFO)
        labels = dict(zip(BUILD_INFO.labels, (edgesocket.__version__, platform.python_version()), strict=True))
        family.samples.append(Sample(BUILD_INFO.name, labels, 1.0))
        yield family


_lock = threading.Lock()
_pages: WeakKeyDictionary[Readable, tuple[CollectorRegistry, TextPage]] = WeakKeyDictionary()


def _process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(BuildCollector())
    return registry


def _add_samples(samples: list[Sample], metric: Metric, reading: Reading) -> None:
    names = metric.labels
    if metric.kind is not MetricKind.HISTOGRAM:
        samples += [
            Sample(metric.name, dict(zip(names, values, strict=True)), cast("float", value))
            for values, value in metric.samples(reading)
        ]
        return
    for values, histogram in metric.samples(reading):
        labels = dict(zip(names, values, strict=True))
        samples += [Sample(metric.name + name, {**labels, **more}, value) for name, more, value in _parts(histogram)]


def _parts(histogram: Any) -> Iterator[tuple[str, dict[str, str], float]]:
    for bound, count in histogram["buckets"]:
        yield "_bucket", {"le": str(float(bound))}, float(count)
    yield "_bucket", {"le": "+Inf"}, float(histogram["count"])
    yield "_count", {}, float(histogram["count"])
    yield "_sum", {}, float(histogram["sum"])


def _family(metric: Metric) -> Family:
    # The library takes counters without their ending, and puts it back into the text format.
    return Family(metric.name.removesuffix("_total"), metric.help, metric.kind.value)
