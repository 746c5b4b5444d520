"""The sender thread: what ends a client does not end the agent."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from edgesocket.collector.agent_sender import DISK_RETRY_S, RETRY_S, SenderLoop
from edgesocket.collector.client import Phase
from edgesocket.collector.window import WindowCounts
from edgesocket.errors import AuthFailedError, CollectorError, ExitCode


class FakeClient:
    """A client that does what it was told to at each step."""

    def __init__(self, *steps: Callable[[FakeClient], object]) -> None:
        self.steps = list(steps)
        self.phase = Phase.CONNECTING
        self.counts = WindowCounts()
        self.watermark = 0
        self.left = 0
        self.last_problem = "not tried yet"
        self.closed = False

    def step(self, timeout_s: float, wake_on: Sequence[int]) -> set[int]:
        self.steps.pop(0)(self)
        return set(wake_on)

    def close(self) -> None:
        self.closed = True


class Kit:
    """A loop whose waits are noted and do not happen."""

    def __init__(self, *clients: Any) -> None:
        self.clients = list(clients)
        self.said: list[str] = []
        self.waits: list[float] = []
        self.loop = SenderLoop(self._next, report=self.said.append, jitter=lambda: 1.0)
        self.loop._interrupt = SimpleNamespace(  # type: ignore[assignment]
            wait=self.waits.append, set=lambda: None, clear=lambda: None
        )

    def _next(self) -> Any:
        client = self.clients.pop(0)
        if isinstance(client, Exception):
            raise client
        return client

    def stop(self, _client: FakeClient) -> None:
        self.loop.stop()


@pytest.fixture
def kit() -> Iterator[Kit]:
    made = Kit()
    yield made
    made.loop.close()


def fail(problem: Exception) -> Callable[[FakeClient], object]:
    def step(_client: FakeClient) -> None:
        raise problem

    return step


def stream(client: FakeClient) -> None:
    client.phase = Phase.STREAMING


REFUSED = AuthFailedError("the ingress refused the token")


def test_a_refusal_is_said_once_and_tried_again_slowly(kit: Kit) -> None:
    first, second, third = FakeClient(fail(REFUSED)), FakeClient(fail(REFUSED)), FakeClient(stream, kit.stop)
    kit.clients = [first, second, third]
    kit.loop.run()
    assert kit.waits == [RETRY_S, RETRY_S]
    assert ["refused the token" in kit.said[0], kit.said[1:]] == [True, ["records are delivered again"]]
    assert all(client.closed for client in (first, second, third))
    assert kit.loop.view.problem == ""
    assert kit.loop.refused_with == 0


def test_what_is_wrong_is_seen_meanwhile(kit: Kit) -> None:
    kit.clients = [FakeClient(fail(REFUSED)), FakeClient(kit.stop)]
    kit.loop.run()
    view = kit.loop.view
    assert (view.phase, view.problem) == (Phase.OFFLINE, str(REFUSED))
    assert kit.loop.refused_with == ExitCode.AUTH


@pytest.mark.parametrize("problem", [CollectorError("the token: cannot read /t"), ValueError("the token is too long")])
def test_a_client_that_cannot_be_made_is_tried_again(kit: Kit, problem: Exception) -> None:
    kit.clients = [problem, FakeClient(stream, kit.stop)]
    kit.loop.run()
    assert kit.waits == [RETRY_S]
    assert str(problem) in kit.said[0]


def test_trouble_with_the_disk_is_tried_again_sooner(kit: Kit) -> None:
    kit.clients = [FakeClient(fail(OSError(errno.ENOSPC, "No space left on device"))), FakeClient(stream, kit.stop)]
    kit.loop.run()
    assert kit.waits == [DISK_RETRY_S]
    assert "No space left" in kit.said[0]


def test_totals_go_on_over_clients(kit: Kit) -> None:
    def confirm(client: FakeClient) -> None:
        client.counts.confirmed, client.watermark = 5, 77

    kit.clients = [FakeClient(confirm, fail(REFUSED)), FakeClient(confirm, kit.stop)]
    kit.loop.run()
    assert kit.loop.view.counts.confirmed == 10
    assert kit.loop.view.watermark == 77
    assert kit.loop.view.connects == 2


def test_another_ingress_needs_no_wait(kit: Kit) -> None:
    new = FakeClient(stream, kit.stop)
    old = FakeClient(lambda _: kit.loop.renew(lambda: new))  # type: ignore[arg-type, return-value]
    kit.clients = [old]
    kit.loop.run()
    assert kit.waits == []
    assert old.closed


def test_a_bug_is_not_hidden(kit: Kit) -> None:
    client = FakeClient(fail(ZeroDivisionError()))
    kit.clients = [client]
    with pytest.raises(ZeroDivisionError):
        kit.loop.run()
    assert client.closed


def test_a_stop_ends_a_long_wait() -> None:
    waiting = threading.Event()

    def make() -> Any:
        waiting.set()
        raise REFUSED

    loop = SenderLoop(make, report=lambda _: None)
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    assert waiting.wait(10)
    loop.stop()
    thread.join(10)
    assert not thread.is_alive()
    loop.close()
