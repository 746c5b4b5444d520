"""What the page of the terminal shows is what the program draws."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from edgesocket.cli.command_tree import command_tree
from edgesocket.cli.completion import add_parser
from edgesocket.cli.dead_letters import NotThereError
from edgesocket.cli.tail import DEFAULT_ROWS, MAX_ROWS
from edgesocket.cli.top_model import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs/terminal.md").read_text("utf-8")


def test_the_picture_has_the_columns_labels_and_keys_of_the_program() -> None:
    pytest.importorskip("rich")
    from edgesocket.cli.top_details import job_lines
    from edgesocket.cli.top_model import Look
    from edgesocket.cli.top_view import KEYS
    from tests.unit.cli.test_top import job

    picture = PAGE.partition("<!-- capture -->")[2].partition("<!-- /capture -->")[0]
    names = [column.name for column in COLUMNS]
    shown = next(line.split() for line in picture.splitlines() if "JOB" in line and "STATE" in line)
    assert [name for name in names if name in shown] == shown
    assert KEYS in picture
    lines = [line.plain for line in job_lines(job(), Look(120)) if line.plain.startswith("  ")]
    labels = {line[2:15].strip() for line in lines if line[2].isalpha()}
    assert {"queue", "watermark", "replies", "checkpoints", "sink", "collector"} <= labels
    for label in labels - {"collector → E"}:
        assert f"\n  {label}" in picture, label


def test_every_action_and_option_of_dead_letters_is_in_the_reference() -> None:
    reference = (Path(__file__).parents[2] / "docs/reference.md").read_text("utf-8")
    (verb,) = [one for one in command_tree().actions if one.name == "dead-letters"]
    for action in verb.actions:
        assert f"dead-letters {action.name}" in PAGE
        for flag in action.flags[1:]:  # the first one is --help
            assert any(re.search(rf"`{name}[ `]", reference) for name in flag.names), flag.names


def test_numbers_and_shells_are_those_of_the_program() -> None:
    assert f"({DEFAULT_ROWS}; at most {MAX_ROWS})" in PAGE
    assert f"{NotThereError.exit_code} a position is not there" in PAGE
    parser = add_parser_of_completion()
    (shells,) = [action.choices for action in parser._actions if action.dest == "shell"]
    assert shells is not None
    for shell in shells:
        assert f"edgesocket completion {shell} >" in PAGE


def add_parser_of_completion() -> argparse.ArgumentParser:
    subparsers = argparse.ArgumentParser().add_subparsers()
    add_parser(subparsers)
    parser: argparse.ArgumentParser = subparsers.choices["completion"]
    return parser
