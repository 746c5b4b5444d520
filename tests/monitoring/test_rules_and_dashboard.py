"""Alert rules and the dashboard: they load, name only metrics that there are, and every alert can fire."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgesocket.telemetry.metrics import BUILD_INFO, METRICS, MetricKind

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus"
DASHBOARD = json.loads((ROOT / "deploy/grafana/edgesocket.json").read_text("utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

CATALOGUE = {metric.name: metric for metric in (*METRICS, BUILD_INFO)}
SERIES = {
    name + ending
    for name, metric in CATALOGUE.items()
    for ending in (("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",))
}


def rules(file: str) -> list[dict[str, Any]]:
    document = yaml.safe_load((RULES / file).read_text("utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


ALERTS = rules("alerts.yml")
RECORDED = {rule["record"]: rule["expr"] for rule in rules("recording.yml")}
EXPRESSIONS = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in ALERTS),
    *(pytest.param(expression, id=name) for name, expression in RECORDED.items()),
    *(
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in PANELS
        for target in panel["targets"]
    ),
    *(
        pytest.param(variable["definition"], id=f"${variable['name']}")
        for variable in DASHBOARD["templating"]["list"]
        if "definition" in variable
    ),
]


def names_in(expression: str) -> set[str]:
    """Series of EdgeSocket that an expression names. Recorded ones have colons in their names."""
    return set(re.findall(r"(?<![\w:])edgesocket_\w+(?![\w:])", expression))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_it_names_only_series_that_there_are(expression: str) -> None:
    named = names_in(expression)
    assert named or "process_" in expression
    assert named <= SERIES, named - SERIES


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_it_sums_and_joins_only_by_labels_that_there_are(expression: str) -> None:
    labels = {label for name in names_in(expression) for label in CATALOGUE[_metric_of(name)].labels}
    used = {
        label.strip() for group in re.findall(r"(?:\bby|\bon) \(([^)]*)\)", expression) for label in group.split(",")
    }
    assert used <= labels | {"instance", "job", "le"}


def _metric_of(series: str) -> str:
    return series if series in CATALOGUE else re.sub(r"_(bucket|sum|count)$", "", series)


def test_a_renamed_metric_is_noticed() -> None:
    assert not names_in("rate(edgesocket_job_rowz_total[5m])") <= SERIES


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_says_how_urgent_it_is_and_what_to_do_first(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert len(rule["annotations"]["runbook"]) > 60
    assert "{{ $labels." in rule["annotations"]["summary"], "which job"


@pytest.mark.parametrize(
    ("what", "metric"),
    [
        ("no checkpoint lately", "edgesocket_checkpoint_age_seconds"),
        ("checkpoints fail", "edgesocket_checkpoint_failing_seconds"),
        ("the watermark is held", "edgesocket_watermark_held_seconds"),
        ("the queue is at its mark", "edgesocket_queue_mark_records"),
        ("the collector is gone", "edgesocket_collector_connected"),
        ("wrong tokens", "edgesocket_auth_failures_total"),
        ("bad records", "edgesocket_bad_records_total"),
        ("the arrival log fails", "edgesocket_arrival_log_failing_seconds"),
        ("restarts", "edgesocket_job_restarts_total"),
    ],
)
def test_there_is_an_alert_for(what: str, metric: str) -> None:
    assert any(metric in names_in(rule["expr"]) for rule in ALERTS), what


def test_every_alert_has_a_test_in_which_it_is_quiet_and_one_in_which_it_fires() -> None:
    tests = yaml.safe_load((RULES / "rules_test.yml").read_text("utf-8"))["tests"]
    outcomes: dict[str, set[bool]] = {}
    for test in tests:
        for one in test["promql_expr_test"]:
            outcomes.setdefault(test["name"], set()).add(bool(one["exp_samples"]))
    assert outcomes == {rule["alert"]: {True, False} for rule in ALERTS}


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool (Debian's package prometheus has it)")
@pytest.mark.parametrize(
    "command",
    [
        ["check", "rules", "alerts.yml", "recording.yml"],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "rules_test.yml"],
    ],
    ids=" ".join,
)
def test_promtool_is_content(command: list[str]) -> None:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *command], cwd=RULES, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_have_ids_of_their_own_and_lie_beside_each_other() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_every_panel_asks_the_chosen_data_source() -> None:
    for panel in PANELS:
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]


def test_the_dashboard_shows_most_of_the_catalogue() -> None:
    shown = {_metric_of(name) for panel in PANELS for target in panel["targets"] for name in names_in(target["expr"])}
    assert len(shown) >= len(CATALOGUE) * 2 // 3
