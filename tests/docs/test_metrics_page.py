"""docs/metrics.md has every metric, event, level and flag of the log, as they are in the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgesocket.cli.log import FORMATS, LEFT_OUT, LEVELS, LINES_A_PEER, LINES_A_WINDOW
from edgesocket.telemetry.event import kinds
from edgesocket.telemetry.metrics import BUILD_INFO, METRICS
from edgesocket.web import metrics_page
from edgesocket.web.metrics_page import fill_page, main
from edgesocket.web.otel import ENDPOINTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")


def test_its_tables_are_those_of_the_program() -> None:
    assert fill_page(PAGE) == PAGE, "write them anew: python -m edgesocket.web.metrics_page"


@pytest.mark.parametrize("metric", [*METRICS, BUILD_INFO], ids=lambda metric: metric.name)
def test_every_metric_is_there(metric: object) -> None:
    assert f"\n| `{metric.name}` |" in PAGE  # type: ignore[attr-defined]


def test_every_event_is_there() -> None:
    for kind in kinds():
        assert f"\n| `{kind.name}` | {kind.level} |" in PAGE, kind.name


def test_a_renamed_metric_makes_it_stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "metrics.md"
    page.write_text(PAGE.replace("`edgesocket_queue_records`", "`edgesocket_queue_rows`"), encoding="utf-8")
    monkeypatch.setattr(metrics_page, "PAGE", page)
    assert main(["--check"]) == 1
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert page.read_text(encoding="utf-8") == PAGE


def test_levels_formats_and_limits_of_the_log_are_there() -> None:
    for level in LEVELS:
        assert f"| `{level}` |" in PAGE
    assert "json" in FORMATS
    assert "--log-format json" in PAGE
    assert f"`{LEFT_OUT}`" in PAGE
    assert f"{LINES_A_WINDOW} lines within" in PAGE
    assert f"each peer {LINES_A_PEER} of them" in PAGE


def test_the_files_it_names_are_there() -> None:
    files = re.findall(r"`(deploy/[\w./]+)`", PAGE)
    assert len(files) >= 5
    assert all((ROOT / file).exists() for file in files)


def test_the_variable_that_switches_the_export_on_is_there() -> None:
    assert ENDPOINTS[1] in PAGE


def test_every_file_of_rules_is_named() -> None:
    for file in sorted((ROOT / "deploy/prometheus").iterdir()):
        assert f"`deploy/prometheus/{file.name}`" in PAGE
