"""A job travels with everything it is made of, but not with the environment."""

from __future__ import annotations

import json

import pytest

from edgesocket.cli.plugged import InstalledPlugins
from edgesocket.cluster.job_text import JobText
from edgesocket.config.document import SourceFile
from edgesocket.errors import ConfigError

TEXT = """
include "common.conf"
source { EdgeSocket { port = ${PORT}
 token = ${TOKEN} } }
sink { Null { } }
"""
PLUGINS = InstalledPlugins()


def read(name: str, including: str, /) -> SourceFile | None:
    if name == "common.conf":
        return SourceFile(f"/etc/{name}", 'env { job.name = shared\n include "in.conf" }')
    return SourceFile("/etc/in.conf", "checkpoint.interval = 4000") if name == "in.conf" else None


def test_included_files_travel_along_and_are_read_again_elsewhere() -> None:
    text, spec = JobText(file="/home/me/edge.conf", text=TEXT, variables={"PORT": "9999"}).with_included(
        read, {"TOKEN": "here"}, PLUGINS
    )
    assert (spec.name, spec.env.checkpoint_interval_ms) == ("shared", 4000)
    there = JobText.from_json(json.loads(json.dumps(text.as_json())))
    assert there == text
    again = there.load({"TOKEN": "there"}, PLUGINS)
    assert (again.name, again.env.checkpoint_interval_ms) == ("shared", 4000)
    assert again.sources[0].options.port == 9999


def test_the_environment_is_that_of_the_place_where_the_job_runs() -> None:
    text = JobText(file="edge.conf", text=TEXT.replace('include "common.conf"', ""), variables={"PORT": "9999"})
    text, _ = text.with_included(read, {"TOKEN": "s3cr3t-here"}, PLUGINS)
    assert "s3cr3t" not in json.dumps(text.as_json())
    with pytest.raises(ConfigError, match="TOKEN"):
        text.load({}, PLUGINS)


def test_engine_defaults_and_the_name_of_the_command_line_travel_along() -> None:
    engine = "seatunnel:\n  engine:\n    checkpoint:\n      interval: 7000\n"
    text = JobText(
        file="edge.conf", text='source { EdgeSocket { port = 1\n token = "t" } }\nsink { Null { } }',
        name="renamed", engine_file="seatunnel.yaml", engine_text=engine,
    )  # fmt: skip
    spec = text.load({}, PLUGINS)
    assert (spec.name, spec.env.checkpoint_interval_ms) == ("renamed", 7000)
