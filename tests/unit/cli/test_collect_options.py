"""`edgesocket collect`: flags, and what is refused before anything is opened."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from edgesocket.cli import collect as collect_module
from edgesocket.cli.collect_view import LOG_EVERY_S, CollectView, size
from edgesocket.cli.main import main
from edgesocket.collector.agent_sender import SenderView
from edgesocket.collector.agent_status import STALE_S, AgentView, InputView, render_metrics
from edgesocket.collector.client import Phase
from edgesocket.collector.spool.options import SpoolState
from edgesocket.collector.window import WindowCounts
from edgesocket.errors import ExitCode

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESOCKET_TOKEN", "hunter2")
    monkeypatch.delenv("EDGESOCKET_SECRET_KEY", raising=False)


def collect(*arguments: str | Path) -> int:
    return main(["collect", *map(str, arguments)])


SIMPLE = ("--file", "/var/log/*.log", "--to", "edge:9999", "--spool", "/var/spool/edge")


def test_a_check_says_what_would_be_done_and_opens_nothing(tmp_path: Path, capsys: Captured) -> None:
    spool = tmp_path / "spool"
    arguments = ("--file", "/a", "--file", "/b*", "--from-beginning", "--stdin", "--to", "edge:9999", "--spool", spool)
    assert collect(*arguments, "--packet", "--compress", "gzip", "--http-port", "9464", "--check") == ExitCode.OK
    text = capsys.readouterr().out
    for words in ("/a, /b*, from the beginning", "the standard input", str(spool), "edge:9999", "gzip", "9464"):
        assert words in text
    assert not spool.exists()
    assert "hunter2" not in text


def test_a_check_of_a_file_says_all_that_is_wrong(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "to: edge:1\nspool: { directory: /s, max_byts: 1 }\ninputs: [{ type: fil }]\ntoken_file: /no/token\n"
    )
    assert collect(path, "--check") == ExitCode.CONFIG
    text = capsys.readouterr().err
    assert "2 problems in the configuration" in text
    assert "did you mean max_bytes?" in text
    assert "did you mean file?" in text
    path.write_text("to: edge:1\nspool: { directory: /s }\ninputs: [{ type: stdin }]\ntoken_file: /no/token\n")
    assert collect(path, "--check") == ExitCode.CONFIG
    assert "/no/token" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to collect"),
        (("--file", "/a", "--spool", "/s"), "--to is missing"),
        (("--file", "/a", "--to", "e:1"), "--spool is missing"),
        ((*SIMPLE, "--token", "hunter2"), "--token-file"),
        ((*SIMPLE, "--timeout", "5"), "--once"),
        ((*SIMPLE, "--compress", "gzip"), "--packet"),
        (("--stdin", "--from-beginning", "--to", "e:1", "--spool", "/s"), "--file"),
        (("agent.yaml", "--to", "e:1"), "say it in agent.yaml"),
        (("/no/agent.yaml",), "cannot read /no/agent.yaml"),
    ],
)
def test_flags_that_do_not_go_together(arguments: tuple[str, ...], words: str, capsys: Captured) -> None:
    assert collect(*arguments) == ExitCode.USAGE
    text = capsys.readouterr().err
    assert words in text
    assert "hunter2" not in text


@pytest.mark.parametrize(("flag", "value"), [("--to", "edge"), ("--http-port", "99999")])
def test_values_of_flags_are_checked_like_options(flag: str, value: str, capsys: Captured) -> None:
    assert collect(*SIMPLE, flag, value, "--check") == ExitCode.CONFIG
    assert value in capsys.readouterr().err


def test_without_a_token_it_is_said_where_to_put_it(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.delenv("EDGESOCKET_TOKEN")
    assert collect(*SIMPLE, "--check") == ExitCode.CONFIG
    assert "token_file" in capsys.readouterr().err


def view(phase: Phase = Phase.STREAMING, *, records: int = 1234, dropped: int = 0, full_s: float | None = None,
         round_age_s: float = 0.0) -> AgentView:  # fmt: skip
    spool = SpoolState(
        bytes=3 << 20, records=7, unsynced_records=0, segments=1, first_id=1, next_id=8, dropped_oldest_records=dropped,
        dropped_newest_records=0, damaged_parts=0, damaged_bytes=0, lost_records=0, torn_bytes=0, dead_letters=0,
        dead_letters_dropped=0, full_since_us=None,
    )  # fmt: skip
    sender = SenderView(phase, "", WindowCounts(confirmed=1227), 99, 7, 1)
    inputs = [InputView('a"b', "file", records, 5, {"lines_cut": 2}, "")]
    return AgentView("edge:1", 1.0, 1e9, inputs, spool, 1 << 30, sender, full_s, None, "", round_age_s)


def test_a_terminal_shows_one_line_that_is_drawn_again() -> None:
    out, log, now = io.StringIO(), io.StringIO(), [100.0]
    shown = CollectView(out, log, lambda: now[0], live=True)
    now[0] = 102.0
    shown.tick(view(records=2000))
    shown.close()
    text = out.getvalue()
    assert "in 2,000 | spool 7 (3.0 MiB) | confirmed 1,227 | 1000/s | delivering to edge:1" in text
    assert "\n" not in text
    assert log.getvalue() == ""


def test_without_a_terminal_figures_are_logged_now_and_then() -> None:
    out, log, now = io.StringIO(), io.StringIO(), [100.0]
    shown = CollectView(out, log, lambda: now[0], live=False)
    for _ in range(int(LOG_EVERY_S) * 3):
        now[0] += 1.0
        shown.tick(view())
    assert out.getvalue() == ""
    assert log.getvalue().count("confirmed 1,227") == 1, "nothing has changed since"


def test_an_input_with_much_to_say_does_not_crowd_out_the_rest() -> None:
    out, log = io.StringIO(), io.StringIO()
    shown = CollectView(out, log, live=False)
    for number in range(100):
        shown.report(f"input df: complaint {number}")
    shown.report("the spool is full")
    assert "the spool is full" in log.getvalue()
    assert log.getvalue().count("complaint") < 30


def test_what_is_wrong_stands_in_the_picture() -> None:
    assert view().ready
    assert "offline" in view(Phase.OFFLINE).problems[0]
    assert "full since 5 s" in view(full_s=5.0).problems[0]
    hanging = view(round_age_s=STALE_S + 1)
    assert not hanging.alive
    assert "not been looked at" in hanging.problems[0]


def test_metrics_escape_what_labels_may_hold() -> None:
    text = render_metrics(view(dropped=3)).decode()
    assert 'edgesocket_agent_input_records_total{input="a\\"b",type="file"} 1234\n' in text
    assert 'edgesocket_agent_input_events_total{input="a\\"b",event="lines_cut"} 2\n' in text
    assert 'edgesocket_agent_spool_dropped_records_total{which="oldest"} 3\n' in text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (50 << 20, "50 MiB")])
def test_sizes_for_people(count: int, text: str) -> None:
    assert size(count) == text


def test_the_agent_keeps_its_memory_steady_before_its_threads_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    class Agent:
        left = 0

        def __init__(self, *_: Any, **__: Any) -> None: ...

        def run(self) -> ExitCode:
            happened.append("run")
            return ExitCode.OK

    monkeypatch.setattr(collect_module, "keep_memory_steady", lambda: happened.append("steady"))
    monkeypatch.setattr(collect_module, "Agent", Agent)
    monkeypatch.setattr("gc.freeze", lambda: None)  # this process goes on
    arguments = ("--file", tmp_path / "app.log", "--to", "127.0.0.1:1", "--spool", tmp_path / "spool")
    assert collect(*arguments) == ExitCode.OK
    assert happened == ["steady", "run"]
