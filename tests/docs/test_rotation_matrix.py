"""Every row of the rotation matrix names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_row_names_tests_that_exist() -> None:
    page = (ROOT / "docs/inputs/file.md").read_text("utf-8")
    tests = (ROOT / "tests/integration/test_file_tail.py").read_text("utf-8")
    section = page.split("## The rotation matrix")[1].split("\n#")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        for name in named:
            assert f"def {name}(" in tests, name
