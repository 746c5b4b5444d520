"""docs/http.md says what the server does: every path, every limit."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette")

from edgesocket.web import board, call, health, server, serving
from edgesocket.web.app import ENDPOINTS
from edgesocket.web.endpoint import Access, Endpoint

PAGE = (Path(__file__).parents[2] / "docs/http.md").read_text("utf-8")

TABLE_ROWS = [line for line in PAGE.splitlines() if line.startswith("|")]


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.name)
def test_every_path_is_on_the_page(endpoint: Endpoint) -> None:
    path = endpoint.path.replace("{name}", "NAME").replace("{job_id}", "ID").replace("{state}", "STATE")
    assert f"`{path}`" in PAGE or f"{endpoint.method} {path}" in PAGE


@pytest.mark.parametrize("endpoint", [one for one in ENDPOINTS if one.parameters], ids=lambda one: one.name)
def test_every_parameter_is_on_the_page(endpoint: Endpoint) -> None:
    for one in endpoint.parameters:
        assert one.where == "path" or one.name in PAGE, one.name


def test_what_needs_no_token_is_said() -> None:
    row = next(line for line in TABLE_ROWS if "everybody | everybody" in line)
    for endpoint in ENDPOINTS:
        if endpoint.access is Access.OPEN:
            assert endpoint.path.partition("/{")[0] in row


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("connections", f"{serving.MAX_CONNECTIONS} are served, up to {server.MAX_OPEN} "),
        ("event streams", f"{call.MAX_STREAMS} "),
        ("head of a request", f"{serving.MAX_HEAD_BYTES // 1024} KiB, within {serving.HEAD_TIMEOUT_S:g} s "),
        ("body", f"{call.MAX_BODY_BYTES // 2**20} MiB, within {call.BODY_TIMEOUT_S:g} s "),
        ("a connection between two requests", f"{serving.KEEP_ALIVE_S} s "),
        ("a peer that does not read its answer", f"is hung up on after {serving.SEND_TIMEOUT_S:g} s "),
        ("jobs that ended and are still shown", f"{board.MAX_ENDED} "),
    ],
)
def test_limits_are_those_of_the_program(what: str, said: str) -> None:
    (row,) = [line for line in TABLE_ROWS if line.startswith(f"| {what} |")]
    assert row.startswith(f"| {what} | {said}")


def test_the_times_of_health_are_those_of_the_program() -> None:
    assert f"said nothing for {health.LIVE_WITHIN_S:g} s hangs" in PAGE
    assert health.CHECKPOINTS_LATE == 3
    assert "within three intervals and one timeout" in PAGE
