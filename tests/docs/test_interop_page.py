"""The page about SeaTunnel's programs names a test in every row, and leaves no test of theirs out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from edgesocket.collector.agent_inputs import further_problems
from edgesocket.config.agent_file import load_agent

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/interop.md").read_text("utf-8")
CONFORMANCE = ROOT / "tests/conformance"
SECTIONS = {
    "Their agent, our source": "test_interop_seatunnel_agent.py",
    "Our agent, their source": "test_interop_reference_source.py",
}
TITLES = re.findall(r"^== (.+)$", (CONFORMANCE / "transcripts/interop/seatunnel_agent.txt").read_text(), re.MULTILINE)


def names_in(file: str) -> set[str]:
    """Its tests, but for those that play transcripts."""
    body = ast.parse((CONFORMANCE / file).read_text("utf-8")).body
    names = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return {name for name in names if name.startswith("test_") and not name.startswith("test_transcript_")}


def rows_of(section: str) -> list[list[str]]:
    """The cells of its table."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line.strip("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")] for line in lines][1:]


def shown_by(section: str) -> list[str]:
    return [name for row in rows_of(section) for name in re.findall(r"`([^`]+)`", row[3])]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_names_tests_or_transcripts_that_exist(section: str) -> None:
    rows, tests = rows_of(section), names_in(SECTIONS[section])
    assert len(rows) >= 10
    for row in rows:
        assert len(row) == 4
        assert all(row), row
    for name in shown_by(section):
        if name.startswith("test_"):
            assert name in tests, name
        else:
            assert sum(title.startswith(name) for title in TITLES) == 1, name


@pytest.mark.parametrize("section", SECTIONS)
def test_every_test_is_named_in_a_row(section: str) -> None:
    assert names_in(SECTIONS[section]) <= set(shown_by(section))


def test_every_transcript_is_named_in_a_row() -> None:
    named = shown_by("Their agent, our source")
    assert [title for title in TITLES if not any(title.startswith(name) for name in named)] == []


def test_its_agent_file_is_right() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    spec, notes = load_agent(block, "example.yaml")
    assert further_problems(spec) == []
    assert notes == ()


def test_it_says_that_their_programs_were_not_run() -> None:
    assert "SeaTunnel's programs themselves were not run" in PAGE
