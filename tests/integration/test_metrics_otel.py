"""The export to OpenTelemetry: what a real OTLP/HTTP receiver gets from a real job."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from edgesocket.telemetry.event import sentence
from edgesocket.telemetry.metrics import METRICS, ONLY_WITH_TLS, MetricKind
from edgesocket.web.otel import MetricsExport, start_export, wanted
from tests.support.jobs import wait_until
from tests.support.metered_jobs import Metered, MeteredJob

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Receiver:
    """An OTLP/HTTP receiver that keeps what it gets; answers `code`."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.code = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                if receiver.code == 200:
                    receiver.headers.append(dict(self.headers))
                    receiver.requests.append(ExportMetricsServiceRequest.FromString(body))
                self.send_response(receiver.code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def metrics(self) -> dict[str, Any]:
        """Those of the last export, by name."""
        scope = self.requests[-1].resource_metrics[0].scope_metrics[0]
        return {metric.name: metric for metric in scope.metrics}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeteredJob]:
    job = MeteredJob(tmp_path_factory.mktemp("otel"), "orders")
    job.start()
    job.send("a", "b", "c")
    wait_until(lambda: job.reading().status["source"]["watermark"] == 3)
    yield job
    job.stop()


def export_to(receiver: Receiver, job: MeteredJob, monkeypatch: pytest.MonkeyPatch, told: list[str]) -> MetricsExport:
    environ = {ENDPOINT: receiver.url, "OTEL_METRIC_EXPORT_INTERVAL": "1000"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    export = start_export(lambda: Metered(job), environ, lambda event: told.append(sentence(event)))
    assert export is not None
    return export


def test_a_receiver_gets_every_metric_of_the_job(
    receiver: Receiver, job: MeteredJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    export = export_to(receiver, job, monkeypatch, told)
    wait_until(lambda: receiver.requests)
    export.stop()

    resource = {one.key: one.value.string_value for one in receiver.requests[0].resource_metrics[0].resource.attributes}
    assert resource["service.name"] == "edgesocket"
    assert receiver.headers[0]["authorization"] == "Bearer abc", "the library's variables count"
    shown = receiver.metrics()
    assert set(shown) == {metric.name.removesuffix("_total") for metric in METRICS if metric.name not in ONLY_WITH_TLS}
    for metric in METRICS:
        if metric.name in ONLY_WITH_TLS:
            continue
        kind = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}[metric.kind.value]
        made = shown[metric.name.removesuffix("_total")]
        assert made.WhichOneof("data") == kind, metric.name
        points = getattr(made, kind).data_points
        assert {one.key for one in points[0].attributes} == set(metric.labels)
        if metric.kind is MetricKind.COUNTER:
            assert made.sum.is_monotonic
    assert shown["edgesocket_confirmed_watermark"].gauge.data_points[0].as_double == 3
    assert shown["edgesocket_received_bytes"].unit == "By"
    writes = shown["edgesocket_sink_write_seconds"].histogram.data_points[0]
    assert sum(writes.bucket_counts) == writes.count > 0
    assert len(writes.bucket_counts) == len(writes.explicit_bounds) + 1
    assert writes.start_time_unix_nano < writes.time_unix_nano
    assert told == []


def test_the_end_of_a_process_sends_once_more(
    receiver: Receiver, job: MeteredJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_to(receiver, job, monkeypatch, []).stop()
    assert len(receiver.requests) == 1


def test_trouble_is_said_once_and_its_end_too(
    receiver: Receiver, job: MeteredJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    receiver.code = 400
    export = export_to(receiver, job, monkeypatch, told)
    export._export()
    export._export()
    receiver.code = 200
    export._export()
    export.stop()
    assert len(told) == 2
    assert "cannot be exported" in told[0]
    assert "exported again" in told[1]


@pytest.mark.parametrize(
    ("environ", "asked"),
    [
        ({}, False),
        ({ENDPOINT: ""}, False),
        ({ENDPOINT: "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"}, True),
        ({ENDPOINT: "http://x", "OTEL_SDK_DISABLED": "true"}, False),
        ({ENDPOINT: "http://x", "OTEL_METRICS_EXPORTER": "none"}, False),
    ],
)
def test_only_the_environment_switches_it_on(environ: dict[str, str], asked: bool) -> None:
    assert wanted(environ) is asked
    if not asked:
        assert start_export(lambda: pytest.fail("not asked for"), environ, lambda _: None) is None


def test_a_missing_extra_is_said_and_the_job_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    told: list[str] = []
    assert (
        start_export(lambda: pytest.fail("no"), {ENDPOINT: "http://x"}, lambda event: told.append(str(event))) is None
    )
    assert "edgesocket[otel]" in told[0]
