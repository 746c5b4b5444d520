"""What a user can write or read is in the docs: options, replies, commands, their options, and exit codes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgesocket.cli.main import VERBS, verb_module
from edgesocket.config.catalog import ENTRIES
from edgesocket.config.options import Option
from edgesocket.config.reference import TABLES, fill_page
from edgesocket.errors import ExitCode
from edgesocket.protocol.replies import ReplyKind

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_KINDS = ("sources", "sinks", "transforms", "inputs")
USERS_PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *(page for kind in _KINDS for page in sorted((ROOT / "docs" / kind).glob("*.md"))),
]
EXIT_CODES = {name: code for name, code in vars(ExitCode).items() if name.isupper()}
ALL_OPTIONS = [option for entry in ENTRIES for option in entry.table.options]
MADE_BY_MAKE_BENCH = {ROOT / "docs/benchmarks.md"}


def text_of(pages: list[Path]) -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def section(title: str) -> str:
    """The part of the reference under that heading."""
    found = re.search(
        rf"^#+ {re.escape(title)}$(.*?)(?=^#+ |\Z)", REFERENCE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found, title
    return found[1]


def test_the_option_tables_are_those_of_the_program() -> None:
    page = REFERENCE.read_text(encoding="utf-8")
    assert page == fill_page(page), "write them anew: python -m edgesocket.config.reference"


def test_every_option_table_is_on_the_page() -> None:
    assert set(re.findall(r"<!-- options of ([\w ]+) -->", REFERENCE.read_text("utf-8"))) == set(TABLES)


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda option: option.name)
def test_every_option_is_documented(option: Option) -> None:
    assert f"`{option.name}`" in text_of(USERS_PAGES)


def test_a_table_that_is_not_up_to_date_is_noticed() -> None:
    page = REFERENCE.read_text(encoding="utf-8").replace("| `1024` |", "| `1025` |")
    assert page != fill_page(page)


@pytest.mark.parametrize("kind", ReplyKind)
def test_every_reply_is_documented_with_what_a_collector_does(kind: ReplyKind) -> None:
    word = f"`{kind.value}{'<n>' if kind is ReplyKind.ACK else '<ms>' if kind.carries_number else ''}`"
    rows = [line for line in section("Replies").splitlines() if line.startswith(f"| {word} |")]
    assert rows, word
    for row in rows:
        assert len(row.strip("|").split("|")) == 4
        assert all(cell.strip() for cell in row.strip("|").split("|"))
    assert word in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("verb", VERBS)
def test_every_command_is_documented(verb: str) -> None:
    assert re.search(rf"^\| `edgesocket {verb}\b", section("Commands"), re.MULTILINE)
    assert f"edgesocket {verb}" in (ROOT / "README.md").read_text("utf-8")


def flags() -> Iterator[tuple[str, str]]:
    """Every option of every verb, as it is written on a command line."""
    for verb in VERBS:
        subparsers = argparse.ArgumentParser().add_subparsers()
        verb_module(verb).add_parser(subparsers)
        for action in subparsers.choices[verb]._actions:
            for flag in action.option_strings:
                if flag not in ("-h", "--help"):
                    yield verb, flag


@pytest.mark.parametrize(("verb", "flag"), list(flags()))
def test_every_option_of_a_command_is_documented(verb: str, flag: str) -> None:
    rows = [line for line in section("Commands").splitlines() if re.search(rf"`{flag}[ `]", line)]
    assert rows, flag
    general = flag in ("--state-dir", "-i", "--variable", "-n", "--name", "--seatunnel-yaml")
    assert general or any(f"`{verb}`" in row for row in rows), f"{flag} is not said to be of {verb}"


@pytest.mark.parametrize(("name", "code"), EXIT_CODES.items())
def test_every_exit_code_is_documented(name: str, code: int) -> None:
    assert re.search(rf"^\| {code} \| \w", section("Exit codes"), re.MULTILINE), name


def test_no_exit_code_is_documented_that_does_not_exist() -> None:
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", section("Exit codes"), re.MULTILINE)} == set(
        EXIT_CODES.values()
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        path = page.parent / target
        if "://" not in target and path not in MADE_BY_MAKE_BENCH:
            assert path.exists(), f"{page.name}: {target}"
