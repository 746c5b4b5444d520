"""What `edgesocket top` draws, and what keys change. No terminal is needed."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("rich")

from rich.console import Console

from edgesocket.cli.keys import split_key
from edgesocket.cli.top import Screen, moved, typed
from edgesocket.cli.top_data import Answer
from edgesocket.cli.top_details import pipeline_lines, sparkline
from edgesocket.cli.top_model import COLUMNS, Frame, Look, View, arrange, next_sort, short
from edgesocket.cli.top_view import draw, draw_job
from tests.unit.cli.test_verdict import changed

NODES = [
    {"id": "collector", "kind": "collector", "plugin": "", "label": "collector"},
    {"id": "EdgeSocket", "kind": "source", "plugin": "EdgeSocket", "label": "EdgeSocket :9999"},
    {"id": "queue", "kind": "queue", "plugin": "", "label": "queue"},
    {"id": "Filter", "kind": "transform", "plugin": "Filter", "label": "Filter"},
    {"id": "Kafka", "kind": "sink", "plugin": "Kafka", "label": "Kafka"},
    {"id": "Null", "kind": "sink", "plugin": "Null", "label": "Null"},
    {"id": "dead_letter", "kind": "sink", "plugin": "DeadLetter", "label": "dead letters (DeadLetter)"},
]
EDGES = [
    ["collector", "EdgeSocket"],
    ["EdgeSocket", "queue"],
    ["queue", "Filter"],
    ["Filter", "Kafka"],
    ["Filter", "Null"],
    ["queue", "dead_letter"],
]


def job(name: str = "clicks", state: str = "running", *, rate: float = 0.0, **paths: Any) -> dict[str, Any]:
    """A job as /api/jobs has it."""
    return {
        "name": name,
        "state": state,
        "status": changed(**paths) if state == "running" else {},
        "rates": {"received_records_per_s": rate, "received_bytes_per_s": 10 * rate, "written_rows_per_s": rate},
        "pipeline": {"nodes": NODES, "edges": EDGES},
        "holds": None,
        "checkpoints": [
            {"number": 1, "started_ms": 0, "duration_s": 0.01, "state_bytes": 1, "status": "completed", "reason": ""},
            {"number": 2, "started_ms": 0, "duration_s": 0.08, "state_bytes": 1, "status": "completed", "reason": ""},
            {"number": 3, "started_ms": 0, "duration_s": 0.0, "state_bytes": 0, "status": "failed", "reason": "full"},
        ],
        "sessions": [],
        "last_error": "it broke" if state == "failed" else "",
        "restarts": 0,
        "origin": "",
    }


def drawn(frame: Frame, view: View = View(), look: Look = Look(120)) -> str:  # noqa: B008 - frozen
    """The picture as text."""
    console = Console(file=io.StringIO(), width=look.width, color_system=None, legacy_windows=False)
    console.print(draw(frame, view, look))
    out = console.file
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def test_a_job_is_a_line_with_its_figures() -> None:
    text = drawn(Frame([job(rate=12_345.0)], host="h1", clock="09:30:00"))
    head, names, line = text.splitlines()
    assert head.split()[:4] == ["edgesocket", "h1", "09:30:00", "1"]
    assert names.split() == [column.name for column in COLUMNS]
    assert line.split() == [
        "clicks",
        "running",
        "12.3k",
        "123",
        "kB",
        "██░░░░░░░░",
        "2/9",
        "2",
        "2",
        "s",
        "#3",
        "2",
        "s",
        "12.3k",
        "0",
        "10.0.0.7:5000",
    ]


def test_a_narrow_terminal_loses_the_columns_that_matter_least() -> None:
    for width in range(20, 140, 7):
        text = drawn(Frame([job()]), look=Look(width))
        assert all(len(line) <= width for line in text.splitlines())
        assert "clicks" in text
    assert "QUEUE" in drawn(Frame([job()]), look=Look(50))
    assert "COLLECTOR" not in drawn(Frame([job()]), look=Look(50))


def test_only_ascii_where_nothing_else_can_be_shown() -> None:
    look = Look(100, ascii_only=True)
    text = drawn(Frame([job(source__queue__records=9)]), View(chosen="clicks"), look)
    assert text.isascii()
    assert "##########" in text
    assert "collector -> EdgeSocket :9999 -> queue -> Filter -> Kafka" in text


def test_the_chosen_job_is_shown_whole() -> None:
    text = drawn(Frame([job(sinks__dead_letters=3), job("other")]), View(chosen="clicks"))
    for part in (
        "collector → EdgeSocket :9999 → queue → Filter → Kafka",
        "watermark    10 of 12 offered, 2 behind",
        "replies      RECEIVED 12",
        "▂█x",
        "sink         Kafka: 12 rows",
        "refused      3 records went to the dead letters",
        "collector    10.0.0.7:5000 for 2 h",
    ):
        assert part in text, part


def test_paths_share_their_beginning() -> None:
    lines = list(pipeline_lines(job(), Look()))
    assert lines == [
        "collector → EdgeSocket :9999 → queue → Filter → Kafka",
        "                                              → Null",
        "                                     → dead letters (DeadLetter)",
    ]


def test_a_job_in_trouble_is_marked_and_says_what_to_do() -> None:
    held = job(source__holder={"id": 4, "state": "held", "since_s": 40.0})
    held["holds"] = {"id": 4, "state": "held", "since_s": 40.0, "what_to_do": "do this, as the process says"}
    text = drawn(Frame([held, job("well")]), View(chosen="clicks"))
    assert "\n! clicks" in text
    assert "\n  well" in text
    assert "do this, as the process says" in text


@pytest.mark.parametrize(
    ("state", "what"), [("failed", "it broke"), ("unknown", "ended without a word"), ("ended", "")]
)
def test_a_job_that_does_not_run_is_there_too(state: str, what: str) -> None:
    text = drawn(Frame([job(state=state)]), View(chosen="clicks"))
    assert state in text
    assert what in text
    assert ("! clicks" in text) == (state != "ended")


def test_jobs_are_sorted_and_filtered() -> None:
    jobs = [job("b", rate=1.0), job("a", rate=2.0), job("c", "failed")]
    names = lambda view: [one["name"] for one in arrange(jobs, view)]  # noqa: E731
    assert names(View()) == ["a", "b", "c"]
    assert names(View(sort="IN/S", reverse=True)) == ["a", "b", "c"]
    assert names(View(sort="IN/S")) == ["c", "b", "a"]
    assert names(View(filter_text="FAIL")) == ["c"]
    assert names(View(filter_text="10.0.0.7")) == ["a", "b"]


def test_sorting_goes_through_every_column_and_back() -> None:
    view = View()
    seen = []
    for _ in COLUMNS:
        view = next_sort(view)
        seen.append(view.sort)
    assert set(seen) == {column.name for column in COLUMNS}
    assert view.sort == "JOB"
    assert next_sort(replace(view, sort="STATE")).reverse, "rates: the largest first"


def test_a_long_list_is_cut_around_the_chosen_job() -> None:
    jobs = [job(f"job{n:03d}") for n in range(100)]
    view = View(chosen="job050", details=False)
    text = drawn(Frame(jobs), view, Look(100, 20))
    assert len(text.splitlines()) <= 20
    assert "job050" in text
    assert "job000" not in text


def test_problems_help_and_empty_places_are_said() -> None:
    assert "no job has state here" in drawn(Frame([]))
    assert "no job fits the filter" in drawn(Frame([job()]), View(filter_text="x"))
    assert "! http://h:1 does not answer" in drawn(Frame([job()], problems=("http://h:1 does not answer",)))
    assert "QUEUE_FULL" in drawn(Frame([job()]), View(help=True))
    assert "PAUSED" in drawn(Frame([job()]), View(paused=True))
    assert "a line of the log" in drawn(Frame([job()], log=("a line of the log",)), View(log=True))


def test_names_are_never_markup() -> None:
    assert "[red]x[/red]" in drawn(Frame([job("[red]x[/red]")]))
    console = Console(file=io.StringIO(), width=80, color_system=None, markup=False)
    console.print(draw_job(job("[b]"), Look(80)))


def test_sparks_are_bounded_by_the_longest() -> None:
    done = {"status": "completed"}
    assert sparkline([{**done, "duration_s": 0.0}], Look()) == "▁"
    assert sparkline([{**done, "duration_s": n / 8} for n in range(1, 9)], Look()) == "▂▃▄▅▆▇██"


def test_figures_are_short() -> None:
    assert [short(n) for n in (0, 999, 12_345, 1_234_567, 2e9)] == ["0", "999", "12.3k", "1.23M", "2G"]


# ---- keys ------------------------------------------------------------------------------------------------------------


def screen(*names: str) -> Screen:
    made = Screen.__new__(Screen)
    made.view = View(chosen=names[0])
    made._answer = Answer([job(name) for name in names])
    made._ended = False
    made._log = ()
    return made


def test_keys_choose_sort_filter_and_end() -> None:
    one = screen("a", "b", "c")
    for key, chosen in (("down", "b"), ("j", "c"), ("down", "c"), ("up", "b"), ("home", "a"), ("end", "c")):
        one.press(key)
        assert one.view.chosen == chosen
    one.press("s")
    assert one.view.sort == "STATE"
    one.press("/")
    for key in ("q", "u", "backspace", "enter"):
        one.press(key)
    assert (one.view.filter_text, one.view.typing) == ("q", False)
    one.press("escape")
    assert one.view.filter_text == ""
    for key, name in (("enter", "details"), ("p", "paused"), ("?", "help"), ("r", "reverse")):
        before = getattr(one.view, name)
        one.press(key)
        assert getattr(one.view, name) is not before
    assert not one._ended
    one.press("q")
    assert one._ended


def test_typing_is_given_up_with_escape() -> None:
    assert typed(View(typing=True, filter_text="ab"), "escape") == View()
    assert typed(View(typing=True), "up") == View(typing=True)


def test_choosing_among_no_jobs() -> None:
    assert moved([], "a", "down") == ""
    assert moved(["a"], "gone", "down") == "a"


@pytest.mark.parametrize(
    ("read", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOA", ["up"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[5~x", ["", "x"]),
        (b"\x1b[1;5Cx", ["", "x"]),
        ("é".encode(), ["é"]),
        (b"\xffx", ["", "x"]),
        (b"\r\x7f\x03", ["enter", "backspace", "q"]),
    ],
)
def test_keys_are_cut_out_of_what_a_terminal_sends(read: bytes, keys: list[str]) -> None:
    found = []
    while read:
        key, read = split_key(read)
        found.append(key)
    assert found == keys
