"""What the page is made of, and that the played server speaks as the real one does. Needs no browser."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import get_type_hints

import pytest

from edgesocket.web.views import JobsView, JobView, Rates
from tests.browser.fake_figures import busy_job
from tests.browser.fake_server import CSP, SCENES, FakeServer
from tests.support.jobs import ROOT

PAGE = Path(str(files("edgesocket.web") / "page"))
MODULES = sorted(PAGE.glob("*.js"))
MAX_PAGE_BYTES = 200_000


def test_the_page_is_small_and_has_what_it_refers_to() -> None:
    index = (PAGE / "index.html").read_text()
    named = re.findall(r'(?:src|href)="static/([^"]+)"', index)
    assert named
    assert [name for name in named if not (PAGE / name).is_file()] == []
    symbols = set(re.findall(r'<symbol id="([^"]+)"', index))
    assert set(re.findall(r'href="#(i-[^"]+)"', index)) <= symbols
    assert sum(path.stat().st_size for path in PAGE.iterdir()) < MAX_PAGE_BYTES


def test_nothing_in_the_page_is_inline_or_from_elsewhere() -> None:
    index = (PAGE / "index.html").read_text()
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", index) == []
    for path in PAGE.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert re.findall(r"https?://|url\((?!#)|@import|@font-face", text.replace("`url(#", "")) == [], path.name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_modules_take_no_markup_and_name_modules_that_are_there(path: Path) -> None:
    text = path.read_text()
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", text) == []
    )
    for imported in re.findall(r'from "([^"]+)"', text):
        assert (PAGE / imported).is_file(), imported
    assert text.startswith("// ")


def test_the_played_server_speaks_as_the_real_one() -> None:
    job = busy_job("meters", 7)
    assert job.keys() == JobView.__annotations__.keys()
    assert job["rates"].keys() == Rates.__annotations__.keys()
    for part, kind in get_type_hints(JobView).items():
        if part in ("checkpoints", "sessions"):
            assert job[part][0].keys() == kind.__args__[0].__annotations__.keys()
    with FakeServer(SCENES["busy"]) as server:
        assert server.now().keys() == JobsView.__annotations__.keys()


def test_the_played_server_has_the_policy_of_the_real_one() -> None:
    from edgesocket.web.guard import HEADERS

    real = {part.split()[0]: part.split()[1:] for part in HEADERS["Content-Security-Policy"].split("; ")}
    played = {part.split()[0]: part.split()[1:] for part in CSP.split("; ")}
    # The played one may be stricter: the page has to live with either.
    assert all(set(played[name]) <= set(real.get(name, played[name])) for name in played)
    assert "'unsafe-inline'" not in HEADERS["Content-Security-Policy"]


def test_every_key_of_the_help_is_in_the_docs() -> None:
    shown = re.findall(
        r'^  \["([^"]+)", "([^"]+)"\]', (PAGE / "keys.js").read_text().replace("], [", "],\n  ["), re.MULTILINE
    )
    docs = (ROOT / "docs" / "dashboard.md").read_text()
    assert len(shown) >= 9
    for keys, does in shown:
        for key in re.split(r"  | – ", keys):
            assert f"`{key}`" in docs, key
        assert does.split(",")[0] in docs, does
