"""`metadata_fields` of the source: which metadata becomes a column, and under which name."""

from __future__ import annotations

import pytest
from config_helpers import edge_socket, fixes, job, problems

BASE = "port = 1, token = t\n"


def _fields(lines: str) -> tuple[tuple[str, str], ...]:
    return job(edge_socket(BASE + lines)).sources[0].options.metadata_fields


def test_there_is_none_unless_asked_for() -> None:
    assert _fields("") == ()


@pytest.mark.parametrize(
    "lines",
    [
        "metadata_fields { peer = who, batch_id = id }",
        "metadata_fields { Peer = who, BatchId = id }",
        "metadata_fields.peer = who\nmetadata_fields.batch_id = id",
    ],
)
def test_columns_stand_in_the_order_of_the_file(lines: str) -> None:
    assert _fields(lines) == (("peer", "who"), ("batch_id", "id"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("metadata_fields { sender = x }", "metadata_fields: there is no metadata field sender"),
        ('metadata_fields { peer = "" }', "metadata_fields: the column of peer has no name"),
        ("metadata_fields { peer = x, batch_id = x }", "metadata_fields: two columns are called x"),
        ("metadata_fields { peer = x, Peer = y }", "metadata_fields: peer is asked for twice"),
        ("metadata_fields { peer = value }", "metadata_fields.peer: the rows have a column value already"),
        (
            "schema { fields { peer = string } }, metadata_fields { peer = peer }",
            "metadata_fields.peer: the rows have a column peer already",
        ),
    ],
)
def test_what_cannot_be_is_refused(lines: str, message: str) -> None:
    assert problems(edge_socket(BASE + lines)) == [f"job.conf:4: source.EdgeSocket.{message}"]


def test_a_name_that_is_taken_is_answered_with_one_that_is_free() -> None:
    text = edge_socket(BASE + "schema { fields { peer = string } }, metadata_fields { peer = peer }")
    assert fixes(text) == ['peer = "peer_of_batch"']
    assert problems(text.replace("peer = peer", "peer = peer_of_batch")) == []


def test_value_is_free_where_there_is_a_schema() -> None:
    assert _fields("schema { fields { a = int } }, metadata_fields { peer = value }") == (("peer", "value"),)
