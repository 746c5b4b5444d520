"""What the Makefile installs is there to be installed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_dependency_group_of_the_makefile_is_one_of_pyproject() -> None:
    wanted = re.findall(r"--group (\S+)", (ROOT / "Makefile").read_text())
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    assert {"test", "fuzz"} <= set(wanted) <= set(groups)
