"""The picture of a job."""

from __future__ import annotations

from edgesocket.web.pipeline import picture_of
from tests.support.web import job_spec


def test_rows_go_from_the_collector_through_the_queue_to_the_sinks() -> None:
    picture = picture_of(job_spec())
    assert [(node["id"], node["kind"]) for node in picture["nodes"]] == [
        ("collector", "collector"),
        ("EdgeSocket", "source"),
        ("queue", "queue"),
        ("Copy", "transform"),
        ("Console", "sink"),
        ("Null", "sink"),
        ("dead_letter", "sink"),
    ]
    assert picture["edges"] == [
        ("collector", "EdgeSocket"),
        ("EdgeSocket", "queue"),
        ("queue", "Copy"),
        ("Copy", "Console"),
        ("queue", "Null"),
        ("queue", "dead_letter"),
    ]


def test_every_edge_ends_at_nodes_and_no_secret_is_in_the_picture() -> None:
    picture = picture_of(job_spec())
    ids = {node["id"] for node in picture["nodes"]}
    assert {end for edge in picture["edges"] for end in edge} == ids
    assert "edge-token" not in str(picture)


def test_what_a_sink_refuses_goes_to_the_dead_letters() -> None:
    text = """
    env { job.mode = STREAMING, job.name = "one" }
    source { EdgeSocket { port = 9999, token = "t" } }
    sink { Null { on_rejected_row = dead_letter } }
    dead_letter { LocalFile { path = "/nowhere", file_format_type = json } }
    """
    picture = picture_of(job_spec("one", text))
    assert ("Null", "dead_letter") in picture["edges"]
    assert ("queue", "dead_letter") not in picture["edges"]
