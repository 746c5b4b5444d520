"""The benchmarks' own arithmetic: a wrong median or ratio would be believed."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import pytest

from bench.harness.build import Program
from bench.harness.machine import Pins
from bench.harness.measure import Bench, Load, Run, Series, Slice, parse_run
from bench.harness.report import PartResult, Table, Verdict, count, worst
from bench.harness.servers import Server, ServerSpec
from bench.parts.throughput import MODES, PAYLOADS, QUEUES, Cell, Only, judge
from bench.run import merged, render_part

NO_PINS = Pins(frozenset(), frozenset())


def make_run(rate: float = 100.0, *, p50_us: float | None = None, disturbed: float | None = None) -> Run:
    piece = Slice(seconds=2.0, received=int(rate * 2), answered=int(rate * 2), own_cpu_s=0.5, server_cpu_s=1.0)
    return Run(int(rate * 2), int(rate * 2), 0, 0, "", 100, (piece,), p50_us=p50_us, disturbed=disturbed)


def make_series(key: str, runs: list[Run], queue: int | None = None, load: Load | None = None) -> Series:
    server = Server(ServerSpec(key, key, (), queue), None, 0, Path())  # type: ignore[arg-type]
    return Series(server, load or Load(), runs)


class ScriptedBench(Bench):
    """Hands out prepared runs and notes which server was asked."""

    def __init__(self, runs: list[Run], *, windows: int = 1, tries: int = 1) -> None:
        super().__init__(Program((), "C"), NO_PINS, windows, tries)
        object.__setattr__(self, "runs", runs)
        object.__setattr__(self, "asked", [])

    def run(self, server: Server, load: Load) -> Run:
        self.asked.append(server.spec.key)  # type: ignore[attr-defined]
        return self.runs.pop(0)  # type: ignore[attr-defined,no-any-return]


def test_only_defaults_to_every_cell() -> None:
    assert Only.parse("") == Only(PAYLOADS, MODES, QUEUES)


def test_only_takes_alternatives_and_leaves_the_other_keys_alone() -> None:
    assert Only.parse("payload=64|256,mode=full") == Only((64, 256), ("full",), QUEUES)


@pytest.mark.parametrize("text", ["size=3", "mode=fast", "payload=", "payload=big"])
def test_only_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        Only.parse(text)


def test_a_ratio_is_the_median_of_the_rounds_not_the_ratio_of_the_medians() -> None:
    fast = make_series("product", [make_run(100), make_run(300), make_run(200)])
    slow = make_series("blind", [make_run(100), make_run(100), make_run(400)])
    assert fast.ratio(slow, lambda run: run.rate) == 1.0
    assert fast.median(lambda run: run.rate) == 200.0


def test_a_disturbed_window_is_measured_again_and_the_calmest_try_counts() -> None:
    runs = [make_run(1, disturbed=0.5), make_run(2, disturbed=0.2), make_run(3, disturbed=0.4), make_run(4)]
    bench = ScriptedBench(runs, tries=3)
    server = make_series("blind", []).server
    assert bench.clean_run(server, Load()).rate == 2.0
    assert bench.clean_run(server, Load()).rate == 4.0


def test_rounds_alternate_and_start_with_another_server_each() -> None:
    bench = ScriptedBench([make_run() for _ in range(6)], windows=3)
    servers = [make_series(key, []).server for key in ("a", "b")]
    rows = bench.alternate(servers, Load())
    assert bench.asked == ["a", "b", "b", "a", "a", "b"]  # type: ignore[attr-defined]
    assert [len(row.runs) for row in rows] == [3, 3]


def test_cpu_of_the_whole_run_is_shared_out_where_the_generator_could_not_ask() -> None:
    piece = {"seconds": 1.0, "received": 50, "answered": 50, "own_cpu_s": 0.1}
    text = json.dumps(
        {"sent": 100, "received": 100, "queue_full": 0, "other": 0, "other_sample": "", "line_bytes": 10}
        | {"next_id": 7, "slices": [piece, piece]}
    )
    run, next_id = parse_run(text, 2.0, None)
    assert (run.cpu_ns, next_id) == (2.0 / 100 * 1e9, 7)
    assert parse_run(text, None, None)[0].cpu_ns is None


@pytest.mark.parametrize(
    ("measured", "at_least", "word"),
    [
        (0.4, True, "PASS"),
        (0.39, True, "MISS"),
        (1.3, False, "PASS"),
        (1.31, False, "MISS"),
        (None, True, "not measured"),
    ],
)
def test_verdict_words(measured: float | None, at_least: bool, word: str) -> None:
    assert Verdict("t", measured, 0.4 if at_least else 1.3, at_least).word == word


def test_the_worst_cell_decides() -> None:
    found = [(0.5, "a"), (None, "b"), (0.3, "c")]
    assert worst(found, at_least=True) == (0.3, "c")
    assert worst(found, at_least=False) == (0.5, "a")
    assert worst([(None, "b")], at_least=True) == (None, "")


def test_every_target_is_judged_by_the_cells_it_speaks_of() -> None:
    full, stop = Load("full", 256), Load("stop", 256)
    cells = [
        Cell(
            full,
            [
                make_series("blind", [make_run(1000)]),
                make_series("list", [make_run(50)]),
                make_series("stream", [make_run(20)]),
                make_series("product", [make_run(600)], 1024),
                make_series("product", [make_run(300)], 65536),
            ],
        ),
        Cell(
            stop,
            [make_series("blind", [make_run(p50_us=50)]), make_series("product", [make_run(p50_us=60)], 1024, stop)],
        ),
    ]
    verdicts = judge(cells)
    assert [verdict.word for verdict in verdicts] == ["MISS", "PASS", "MISS", "not measured", "PASS", "not measured"]
    assert [verdict.measured for verdict in verdicts] == [0.3, 15.0, 6.0, None, 1.2, None]
    assert verdicts[0].where == "full pipelining, 256 B, queue 65,536"


def test_a_table_is_markdown_with_its_columns_in_line() -> None:
    lines = Table("T", ["server", "n"], [["a", "1,000"]]).render().splitlines()
    assert lines == ["### T", "", "| server |     n |", "| ------ | ----: |", "| a      | 1,000 |"]


@pytest.mark.parametrize(
    ("value", "text"), [(999, "999"), (1234, "1.23 k"), (56_700, "56.7 k"), (123e6, "123 M"), (None, "")]
)
def test_counts_are_short(value: float | None, text: str) -> None:
    assert count(value) == text


def test_results_are_not_part_of_the_repository() -> None:
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        pytest.skip("not a checkout")
    ignored = subprocess.run(["git", "-C", root, "check-ignore", "-q", "bench/results/latest.md"], check=False)
    assert ignored.returncode == 0


def test_the_page_of_the_docs_keeps_what_was_not_measured_again() -> None:
    tables = [Table("T", ["server", "n"], [["a", "1"]])]
    first = {name: render_part(name, PartResult(tables), ["on Monday"]) for name in ("throughput", "jobs", "edge")}
    page = merged("", "# Benchmarks\n", first)
    assert page.count("## ") == 6  # three parts, each with one table
    again = {"jobs": render_part("jobs", PartResult(tables, [Verdict("fast", 2.0, 1.0)]), ["on Tuesday"])}
    page = merged(page, "# Benchmarks\n", again)
    assert page.count("on Monday") == 2
    assert page.index("on Monday") < page.index("on Tuesday") < page.rindex("on Monday")
    assert "| PASS | fast" in page
    assert merged(page, "# Benchmarks\n", again) == page
