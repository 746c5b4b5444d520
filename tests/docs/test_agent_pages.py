"""What the pages of the edge agent show is right: examples read, metrics exist, units name what is there."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from edgesocket.cli.collect import add_parser
from edgesocket.collector.agent_inputs import further_problems
from edgesocket.config.agent_file import load_agent

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [DOCS / "collect.md", *sorted((DOCS / "inputs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE), 1
    )
]
BASE = "to: edge:9999\nspool: { directory: /s }\n"


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_of_a_configuration_is_right(block: str) -> None:
    spec, notes = load_agent(block if "to:" in block.split("\n")[0] else BASE + block, "example.yaml")
    assert further_problems(spec) == []
    assert notes == ()


def test_the_example_file_is_right() -> None:
    spec, _ = load_agent((ROOT / "examples/agent.yaml").read_text("utf-8"), "agent.yaml")
    assert further_problems(spec) == []
    assert {one.type for one in spec.inputs} == {"file", "syslog", "http", "exec"}


def test_metrics_that_the_pages_name_exist() -> None:
    source = (ROOT / "src/edgesocket/collector/agent_status.py").read_text("utf-8")
    named = {name for page in PAGES for name in re.findall(r"edgesocket_agent_([a-z_]+)", page.read_text("utf-8"))}
    assert named
    for name in named:
        assert f'"{name}"' in source or f'"{name.removesuffix("_records_total")}"' in source, name


def test_every_flag_is_on_the_page() -> None:
    subparsers = argparse.ArgumentParser().add_subparsers()
    parser = add_parser(subparsers)
    page = (DOCS / "collect.md").read_text("utf-8")
    for action in parser._actions:
        for flag in action.option_strings:
            if flag not in ("-h", "--help") and action.help != argparse.SUPPRESS:
                assert f"`{flag}" in page, flag


def test_the_unit_and_the_container_run_the_verb() -> None:
    unit = (ROOT / "deploy/edgesocket-collect.service").read_text("utf-8")
    assert re.search(r"^ExecStart=\S+/edgesocket collect /\S+\.yaml$", unit, re.MULTILINE)
    assert re.search(r"^ExecReload=/bin/kill -HUP \$MAINPID$", unit, re.MULTILINE)
    assert "RestartPreventExitStatus=64 78" in unit
    assert '"collect"]' in (ROOT / "deploy/Containerfile.agent").read_text("utf-8")
