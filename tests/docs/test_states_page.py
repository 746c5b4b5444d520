"""The state machines on their page are those of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesocket.ingress import batch_states
from edgesocket.testing import state_pages
from edgesocket.testing.state_pages import MACHINES, fill_page

PAGE = Path(__file__).parents[2] / "docs/states.md"


def test_the_page_is_made_from_the_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == fill_page(text), "write it anew: python -m edgesocket.testing.state_pages"


def test_every_machine_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- states: {name} -->" in text for name in MACHINES)


def test_a_changed_table_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = dict(batch_states.TRANSITIONS)
    changed.popitem()
    monkeypatch.setattr(state_pages.batch_states, "TRANSITIONS", changed)
    text = PAGE.read_text(encoding="utf-8")
    assert text != fill_page(text)
