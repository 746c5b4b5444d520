"""A handler that cannot record what it was given: the conversation ends unanswered, the server does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from net_harness import CountingSource, running

from edgesocket.errors import FencedError, StoreError
from edgesocket.net.events import CollectorDisconnected, DisconnectReason, ServerFailed


def _fail_once(source: CountingSource, error: Exception) -> None:
    def fail(events: list[Any]) -> None:
        source.before_handle = lambda events: None
        raise error

    source.before_handle = fail


def test_the_conversation_is_closed_without_an_answer_and_the_port_opens_again(tmp_path: Path) -> None:
    with running(tmp_path) as it:
        with it.collector() as collector:
            _fail_once(it.source, StoreError("disk full"))
            collector.send(b"__BATCH__:1:a\n")
            assert collector.rest() == b""
        it.wait_for(lambda: it.state() == "listening")
        (ending,) = it.told(CollectorDisconnected)
        assert ending.reason is DisconnectReason.NOT_RECORDED
        assert ending.detail == "disk full"
        assert not it.told(ServerFailed)
        with it.collector() as again:
            again.send(b"__BATCH__:1:a\n")
            assert again.line() == "RECEIVED"


@pytest.mark.parametrize("error", [FencedError("another owner"), KeyError("a bug")])
def test_any_other_error_ends_the_server(tmp_path: Path, error: Exception) -> None:
    with running(tmp_path) as it, it.collector() as collector:
        _fail_once(it.source, error)
        collector.send(b"__BATCH__:1:a\n")
        assert collector.rest() == b""
        it.wait_for(lambda: it.state() == "failed")
        assert it.server.failure is error
