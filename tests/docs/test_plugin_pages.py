"""Every plugin has a page that begins with its guarantee, with its options as they are, and examples that read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgesocket.config.catalog import ENTRIES, Entry
from edgesocket.config.document import Surroundings, read_document
from edgesocket.config.job import load_job
from edgesocket.config.nodes import ListNode, ObjectNode, PluginNode, Report
from edgesocket.config.options import parse_options
from edgesocket.config.reference import fill_page, main, pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
A_KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
PLUGINS = [entry for entry in ENTRIES if entry.plugin]
EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    for number, block in enumerate(
        re.findall(r"^```hocon\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE), 1
    )
]


@pytest.mark.parametrize("entry", PLUGINS, ids=lambda entry: entry.title)
def test_every_plugin_has_a_page_that_begins_with_its_guarantee(entry: Entry) -> None:
    page = (DOCS / entry.page).read_text(encoding="utf-8")
    first_paragraph = page.split("\n\n")[1]
    assert page.startswith("# ")
    assert re.search(r"\b(once|nothing)\b", first_paragraph), first_paragraph
    assert f"<!-- options: {entry.title} -->" in page


@pytest.mark.parametrize("page", pages(DOCS), ids=lambda page: page.name)
def test_its_options_are_those_of_the_program(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == fill_page(text), "write them anew: python -m edgesocket.config.reference"


def test_a_stale_page_is_named_and_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- options: sink Console -->\nold\n<!-- /options -->\nafter\n")
    assert main(["--check", str(page)]) == 1
    assert "stale" in capsys.readouterr().err
    assert "old" in page.read_text(), "a check writes nothing"
    assert main([str(page)]) == 0
    assert "`log.print.data`" in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("<!-- /options -->\nafter\n")
    assert main(["--check", str(page)]) == 0


def test_a_marker_that_names_no_plugin_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill_page("<!-- options: sink Nowhere -->\n<!-- /options -->")


@pytest.mark.parametrize("block", EXAMPLES)
def test_every_example_reads(block: str) -> None:
    names = re.findall(r"\$\{\??([A-Z0-9_]+)", block)
    environ = {name: A_KEY if name.endswith("KEY") else "5" for name in names}
    report = Report()
    root = read_document(block, "example.conf", Surroundings(environ=environ), report).root
    assert report.sorted_problems("example.conf") == []
    if {"source", "sink"} <= set(root.fields):
        load_job(block, "example.conf", environ=environ)
        return
    tables = {(entry.kind, entry.plugin.lower()): entry.table for entry in ENTRIES}
    for kind in ("source", "transform", "sink"):
        field = root.fields.get(kind)
        for item in field.node.items if field and isinstance(field.node, ListNode) else ():
            assert isinstance(item, PluginNode)
            assert isinstance(item.body, ObjectNode)
            parse_options(tables[kind, item.name.lower()], item.body, f"{kind}.{item.name}", report)
    if "env" in root.fields:
        assert isinstance(root.fields["env"].node, ObjectNode)
        parse_options(tables["env", ""], root.fields["env"].node, "env", report)
    assert [str(problem) for problem in report.sorted_problems("example.conf")] == []
