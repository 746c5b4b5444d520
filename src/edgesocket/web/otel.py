"""The metrics of the jobs for OpenTelemetry: the same catalogue as for Prometheus, sent over OTLP/HTTP.

The library's exporter does the sending and reads the usual variables. What it sends is built here from readings and
not through observable instruments: those know no histograms, and would ask the jobs once for each metric.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import edgesocket
from edgesocket.telemetry.events import MetricsExportFailed, MetricsExportRecovered
from edgesocket.telemetry.metrics import METRICS, Metric, MetricKind, Readable, Reading

ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""One of these variables switches the export on."""

DEFAULT_INTERVAL_MS = 60_000
"""As OpenTelemetry has it; `OTEL_METRIC_EXPORT_INTERVAL` says otherwise."""

SHORTEST_INTERVAL_S = 1.0
"""Jobs publish once a second: asking more often shows nothing new."""

STOP_S = 5.0
"""How long a process that ends waits for the last export."""

_UNITS = {"seconds": "s", "bytes": "By", "": "1"}


def wanted(environ: Mapping[str, str]) -> bool:
    """Whether the environment asks for an export."""
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_METRICS_EXPORTER") == "none"
    return not off and any(environ.get(name) for name in ENDPOINTS)


def start_export(
    board: Callable[[], Readable], environ: Mapping[str, str], report: Callable[[object], None]
) -> MetricsExport | None:
    """Begin to export, where the environment asks for it and the extra `otel` is there.

    Args:
        board: makes what knows the jobs.
        environ: of the process.
        report: told when exports fail and work again, and of a missing extra.
    """
    if not wanted(environ):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ModuleNotFoundError:
        report(
            f"{next(name for name in ENDPOINTS if environ.get(name))} is set, and no metrics are sent there: "
            f"pip install 'edgesocket[otel]'"
        )
        return None
    # What fails is said once, in our own log, and not by the library each time.
    library = logging.getLogger("opentelemetry")
    library.addHandler(logging.NullHandler())
    library.propagate = False
    try:
        interval_s = float(environ.get("OTEL_METRIC_EXPORT_INTERVAL") or DEFAULT_INTERVAL_MS) / 1000
    except ValueError:
        interval_s = DEFAULT_INTERVAL_MS / 1000
    export = MetricsExport(board(), OTLPMetricExporter(), max(SHORTEST_INTERVAL_S, interval_s), report)
    export.start()
    return export


class MetricsExport:
    """Sends the metrics once an interval, on a thread of its own, and once more at the end.

    Args:
        board: who knows the jobs.
        exporter: the library's; its `export` blocks and tries again by itself.
        interval_s: from one export to the next.
        report: told when exports begin to fail, and when they work again.
    """

    def __init__(self, board: Readable, exporter: Any, interval_s: float, report: Callable[[object], None]) -> None:
        self._board = board
        self._exporter = exporter
        self._interval_s = interval_s
        self._report = report
        self._began_ns = time.time_ns()
        self._failing_since: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edgesocket-otel", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Send once more what there is, and end. Returns after `STOP_S` at the latest."""
        self._ended.set()
        self._thread.join(STOP_S)
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._export()
        self._export()

    def _export(self) -> None:
        try:
            done = self._exporter.export(metrics_data(self._board.readings(), self._began_ns, time.time_ns()))
            cause = "" if done.name == "SUCCESS" else "the collector of OpenTelemetry does not take them"
        except Exception as error:  # a library's trouble is no reason for the thread to end
            cause = f"{type(error).__name__}: {error}"
        now = time.monotonic()
        if cause and self._failing_since is None:
            self._failing_since = now
            self._report(MetricsExportFailed(cause))
        elif not cause and self._failing_since is not None:
            self._report(MetricsExportRecovered(now - self._failing_since))
            self._failing_since = None


def metrics_data(readings: Iterable[Reading], began_ns: int, now_ns: int) -> Any:
    """All metrics as the library's `MetricsData`. Times are nanoseconds since 1970 in UTC."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    known = list(readings)
    metrics = [made for metric in METRICS if (made := _metric(metric, known, began_ns, now_ns)) is not None]
    about = {"service.name": "edgesocket", "service.version": edgesocket.__version__}
    scope = ScopeMetrics(InstrumentationScope("edgesocket", edgesocket.__version__), metrics, "")
    return MetricsData([ResourceMetrics(Resource.create(cast("Any", about)), [scope], "")])


def _metric(metric: Metric, readings: list[Reading], began_ns: int, now_ns: int) -> Any:
    """One metric of all jobs; None where no job has it yet."""
    from opentelemetry.sdk.metrics import export

    points: list[Any] = []
    for reading in readings:
        start_ns = _start_ns(metric, reading, began_ns, now_ns)
        for values, value in metric.samples(reading):
            labels = dict(zip(metric.labels, values, strict=True))
            points.append(_point(labels, start_ns, now_ns, value))
    if not points:
        return None
    data: Any
    if metric.kind is MetricKind.GAUGE:
        data = export.Gauge(points)
    elif metric.kind is MetricKind.COUNTER:
        data = export.Sum(points, export.AggregationTemporality.CUMULATIVE, is_monotonic=True)
    else:
        data = export.Histogram(points, export.AggregationTemporality.CUMULATIVE)
    return export.Metric(metric.name.removesuffix("_total"), metric.help, _UNITS[metric.unit], data)


def _start_ns(metric: Metric, reading: Reading, began_ns: int, now_ns: int) -> int:
    """Since when a counter counts: the journal's since the process began, the others since the job was started."""
    if metric.origin == "journal":
        return began_ns
    return now_ns - int(float(reading.status.get("running_for_s") or 0.0) * 1e9)


def _point(labels: dict[str, str], start_ns: int, now_ns: int, value: Any) -> Any:
    from opentelemetry.sdk.metrics.export import HistogramDataPoint, NumberDataPoint

    if not isinstance(value, Mapping):
        return NumberDataPoint(labels, start_ns, now_ns, value)
    upto = [count for _, count in value["buckets"]]
    each = [count - before for before, count in zip([0, *upto], [*upto, value["count"]], strict=True)]
    bounds = [bound for bound, _ in value["buckets"]]
    unknown: Any = None  # the smallest and the largest value are not kept, and may be left out
    return HistogramDataPoint(
        labels, start_ns, now_ns, value["count"], value["sum"], each, bounds, min=unknown, max=unknown
    )
