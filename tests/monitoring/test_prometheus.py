"""A real Prometheus scrapes a real run, loads the rules, and answers every question of the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgesocket.telemetry.metrics import BUILD_INFO, METRICS, ONLY_WITH_TLS, MetricKind
from tests.support.jobs import Job, Wire, free_port, wait_until, write_job

RULES = Path(__file__).parents[2] / "deploy/prometheus"
DASHBOARD = json.loads((RULES.parent / "grafana/edgesocket.json").read_text("utf-8"))
PROMETHEUS = shutil.which("prometheus")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROMETHEUS is None, reason="there is no prometheus (Debian has a package of that name)"),
]


class Prometheus:
    """A server of the test's own, that scrapes one address every second."""

    def __init__(self, directory: Path, target: str) -> None:
        assert PROMETHEUS is not None
        config = (RULES / "prometheus.yml").read_text("utf-8")
        assert "127.0.0.1:8080" in config
        config = config.replace("127.0.0.1:8080", target).replace("15s", "1s")
        (directory / "prometheus.yml").write_text(config)
        for file in ("alerts.yml", "recording.yml"):
            text = (RULES / file).read_text("utf-8")
            (directory / file).write_text(text.replace("interval: 30s", "interval: 1s"))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = (directory / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def get(self, path: str, **query: str) -> Any:
        """Data of an answer of its API, or None while it does not answer."""
        try:
            with urllib.request.urlopen(
                f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10
            ) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it has just been started
                return None
            raise AssertionError(f"{query}: {error.read().decode()}") from None
        except OSError:
            return None

    def ask(self, expression: str) -> list[Any]:
        """The result of an expression now."""
        found = self.get("query", query=expression)
        return [] if found is None else list(found["result"])

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._log.close()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("prometheus")
    port = free_port()
    with Job(write_job(directory, port), "--http", "127.0.0.1:0") as job:
        assert job.wait_until_listening()
        found = re.search(r"metrics at http://(\S+)", job.log_text())
        assert found, job.log_text()
        server = Prometheus(directory, found[1].rstrip("/"))
        try:
            wait_until(lambda: server.ask("edgesocket_job_running == 1"), what="the first scrape")
            wire = Wire(port)
            for batch in range(1, 6):
                assert wire.ask(f"__BATCH__:{batch}:row {batch}") == "RECEIVED"
            wait_until(lambda: server.ask("edgesocket_confirmed_watermark == 5"), what="a scrape of what was sent")
            wait_until(lambda: server.ask('{__name__=~"job_name.*:edgesocket_.*"}'), what="a recorded series")
            yield server
            wire.close()
        finally:
            server.close()
        job.stop()


def test_every_metric_of_the_catalogue_was_scraped(prometheus: Prometheus) -> None:
    for metric in (*METRICS, BUILD_INFO):
        if metric.name in ONLY_WITH_TLS:
            continue
        series = metric.name + ("_bucket" if metric.kind is MetricKind.HISTOGRAM else "")
        found = prometheus.ask(series)
        assert found, metric.name
        assert set(metric.labels) <= set(found[0]["metric"])
        if metric is not BUILD_INFO:
            assert found[0]["metric"]["job_name"] == "job"
            assert found[0]["metric"]["job"] == "edgesocket", "the label of Prometheus itself"


def test_it_knows_their_kinds_and_help_texts(prometheus: Prometheus) -> None:
    known = prometheus.get("targets/metadata")
    kinds = {one["metric"]: (one["type"], one["help"]) for one in known}
    for metric in METRICS:
        assert kinds[metric.name] == (metric.kind.value, metric.help)
    assert "process_cpu_seconds_total" in kinds


def test_every_rule_is_healthy(prometheus: Prometheus) -> None:
    def evaluated() -> list[Any]:
        loaded = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return loaded if loaded and all(rule["health"] != "unknown" for rule in loaded) else []

    loaded = wait_until(evaluated)
    assert {rule["health"] for rule in loaded} == {"ok"}
    assert [rule["name"] for rule in loaded if rule["type"] == "alerting" and rule["state"] == "firing"] == []


@pytest.mark.parametrize(
    "panel", [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"], ids=lambda panel: panel["title"]
)
def test_every_panel_of_the_dashboard_gets_an_answer(prometheus: Prometheus, panel: dict[str, Any]) -> None:
    empty = []
    for target in panel["targets"]:
        expression = (
            target["expr"].replace("$__rate_interval", "1m").replace("$job_name", ".*").replace("$instance", ".*")
        )
        if not wait_until(lambda e=expression: prometheus.ask(e) or " > 0" in e, 10):  # type: ignore[misc]
            empty.append(expression)
    assert empty == []
