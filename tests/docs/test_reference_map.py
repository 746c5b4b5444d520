"""The reference map names only what exists, has no empty cell, and leaves out no option and no reply."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from edgesocket.protocol.replies import ReplyKind

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/decisions/reference-map.md"
OPTIONS = (
    "port",
    "token",
    "auth_type",
    "packet_mode",
    "secret_key",
    "local_queue_capacity",
    "queue_backpressure_watermark_ratio",
    "queue_full_retry_after_ms",
    "max_retries",
    "reconnect_interval_ms",
    "accept_timeout_ms",
    "endpoint",
    "schema",
)
"""The thirteen options of the reference's table, beside `common-options`."""


def rows() -> list[list[str]]:
    """The cells of every row, header rows left out."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "statement" and not set(row[0]) <= {"-"}]


ROWS = rows()
CODE = re.compile(r"`([^`]+)`")


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names of a file's tests, those of a class behind its name; of a transcript file, the titles."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".txt":
        return frozenset(re.findall(r"^== (.+)$", text, re.MULTILINE))
    names: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return frozenset(name for name in names if name.split("::")[-1].startswith("test_"))


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    file = ROOT / "tests" / path
    if not file.is_file():
        return False
    known = names_in(file)
    return sum(title.startswith(name) for title in known) == 1 if file.suffix == ".txt" else name in known


def test_there_is_a_row_for_everything() -> None:
    assert len(ROWS) >= 100
    assert len({row[0] for row in ROWS}) >= 0.95 * len(ROWS), "statements are told apart"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_a_row_is_complete(row: list[str]) -> None:
    assert len(row) == 3
    assert all(row), "no cell is empty"
    _, built, shown = row
    for path in CODE.findall(built):
        if path.endswith(".py"):
            assert (ROOT / "src/edgesocket" / path).is_file(), path
        elif path.endswith(".md"):
            assert (ROOT / path).is_file(), path
    if not shown.startswith("later: "):
        named = CODE.findall(shown)
        assert named
        assert re.sub(r"`[^`]+`|[, ]", "", shown) == "", "tests and nothing else"
        for test in named:
            assert exists(test), test


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_of_the_reference_has_a_row(option: str) -> None:
    assert any(row[0].startswith(f"`{option}`: ") for row in ROWS)


@pytest.mark.parametrize("kind", ReplyKind)
def test_every_reply_has_a_row(kind: ReplyKind) -> None:
    word = kind.value.rstrip(":")
    number = {ReplyKind.ACK: ":watermarkBatchId", ReplyKind.QUEUE_FULL: ":<ms>"}.get(kind, "")
    assert any(re.match(rf"`?{word}{number}`?( to `\w+`)?: ", row[0]) for row in ROWS)


def test_a_name_that_does_not_exist_is_noticed() -> None:
    file = "conformance/test_conformance_table.py"
    assert exists(f"{file}::test_titles_are_unique")
    assert not exists(f"{file}::test_no_such_thing")
    assert not exists("conformance/test_no_such_file.py::test_titles_are_unique")
    assert not exists("conformance/transcripts/batch.txt::a"), "a beginning that several titles have"
    assert exists("unit/collector/test_send_window.py::TestAck::test_it_evicts_up_to_the_watermark")
    assert not exists("unit/collector/test_send_window.py::test_it_evicts_up_to_the_watermark")
