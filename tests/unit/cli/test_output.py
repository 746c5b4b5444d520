"""Results for people and programs, and lines that show that work goes on."""

from __future__ import annotations

import argparse
import io
import json

import pytest

from edgesocket.cli import main as main_module
from edgesocket.cli.command_tree import command_tree
from edgesocket.cli.output import Progress, add_format_argument, show, wants_json

SILENT = {"run", "serve", "completion", "logs", "lookup"}
"""Verbs that run until they are stopped, or whose result is a text for something else."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_result_is_shown_for_people_or_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_format_argument(parser, old_flag=True)
    show(parser.parse_args([]), {"a": "é"}, ["one", "two"])
    assert capsys.readouterr().out == "one\ntwo\n"
    for arguments in (["--format", "json"], ["--json"]):
        args = parser.parse_args(arguments)
        assert wants_json(args)
        show(args, {"a": "é"}, "one")
        assert json.loads(capsys.readouterr().out) == {"a": "é"}


def test_short_work_shows_nothing_and_long_work_a_line_that_is_drawn_over() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, clock, terminal=True) as progress:
        progress("one")
        assert stream.getvalue() == ""
        for clock.now in (0.6, 0.7, 0.9):  # type: ignore[misc]
            progress(f"at {clock.now}")
    assert stream.getvalue() == "\r\x1b[Kat 0.6 (1 s)\r\x1b[Kat 0.9 (1 s)\r\x1b[K"


def test_without_a_terminal_a_line_now_and_then() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, clock, terminal=False) as progress:
        for clock.now in range(25):  # type: ignore[misc]
            progress("working")
    assert stream.getvalue() == "working (10 s)\nworking (20 s)\n"


def test_a_stream_that_is_gone_ends_no_work() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, clock, terminal=True)
    stream.close()
    clock.now = 5.0
    progress("one")
    progress.close()


@pytest.mark.parametrize("verb", sorted(set(main_module.VERBS) - SILENT))
def test_every_verb_that_prints_has_a_format_for_programs(verb: str) -> None:
    (found,) = [one for one in command_tree().actions if one.name == verb]
    leaves = found.actions or (found,)
    for leaf in leaves:
        flags = {name: flag for flag in leaf.flags for name in flag.names}
        assert "--format" in flags, f"edgesocket {verb} {leaf.name}"
        assert flags["--format"].choices == ("text", "json")
