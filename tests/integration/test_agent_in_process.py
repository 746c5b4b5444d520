"""The agent on a thread of the test: ends, crashes, and what another thread may ask of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgesocket.collector.agent import Agent
from edgesocket.collector.agent_status import AgentView
from edgesocket.collector.intake.exec_command import ExecInput
from edgesocket.collector.spool.spool import Spool
from edgesocket.config.agent import AgentSpec
from edgesocket.config.agent_file import load_agent
from edgesocket.errors import CollectorError, ExitCode
from tests.support.jobs import free_port, wait_until

TOKEN = {"EDGESOCKET_TOKEN": "t"}


def spec(tmp_path: Path, inputs: str, more: str = "") -> AgentSpec:
    text = f"to: 127.0.0.1:{free_port()}\nspool: {{ directory: {tmp_path}/spool }}\ninputs: [{inputs}]\n{more}"
    return load_agent(text, "agent.yaml")[0]


class Running:
    """An agent on a thread."""

    def __init__(self, agent_spec: AgentSpec, **options: Any) -> None:
        self.said: list[str] = []
        self.views: list[AgentView] = []
        self.agent = Agent(agent_spec, report=self.said.append, on_tick=self.views.append, environ=TOKEN, **options)
        self.result: int | BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.result = self.agent.run()
        except BaseException as problem:
            self.result = problem

    def end(self) -> Any:
        self.thread.join(30)
        assert not self.thread.is_alive(), self.said
        return self.result

    def stop(self) -> Any:
        self.agent.stop()
        return self.end()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    yield f"{{ type: http, port: {free_port()} }}"


def test_it_ends_when_it_is_asked_to_and_can_begin_again(tmp_path: Path, web: str) -> None:
    for _ in range(2):
        running = Running(spec(tmp_path, web))
        wait_until(lambda running=running: running.views)
        assert running.stop() == ExitCode.OK


def test_what_is_not_confirmed_is_counted_at_the_end(tmp_path: Path, web: str) -> None:
    running = Running(spec(tmp_path, f"{web}, {{ type: exec, command: seq 3 }}"))
    wait_until(lambda: running.views and running.views[-1].spool.records == 3)
    assert running.stop() == ExitCode.OK
    assert running.agent.left == 3


@pytest.mark.parametrize("method", ["read", "discover"])
def test_a_bug_in_an_input_ends_it_with_the_code_for_bugs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(ExecInput, method, lambda *_: 1 // 0)
    running = Running(spec(tmp_path, "{ type: exec, command: sleep 100 }"))
    assert running.end() == ExitCode.BUG
    assert any("ZeroDivisionError" in line for line in running.said)


def test_a_bug_in_the_sender_does_so_too_and_the_inputs_are_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, web: str
) -> None:
    monkeypatch.setattr(Spool, "read", lambda *_: 1 // 0)
    running = Running(spec(tmp_path, web))
    assert running.end() == ExitCode.BUG
    Spool.open(tmp_path / "spool").close()


def test_where_a_port_is_taken_everything_is_let_go(tmp_path: Path, web: str) -> None:
    first = Running(spec(tmp_path, web))
    wait_until(lambda: first.views)
    second = Running(spec(tmp_path / "other", web))
    assert isinstance(second.end(), CollectorError)
    Spool.open(tmp_path / "other" / "spool").close()
    assert first.stop() == ExitCode.OK
    port = free_port()
    more = f"http: {{ port: {port} }}"
    third = Running(spec(tmp_path / "third", f"{{ type: http, port: {port} }}", more))
    assert isinstance(third.end(), CollectorError)


def test_without_a_file_there_is_nothing_to_read_again(tmp_path: Path, web: str) -> None:
    running = Running(spec(tmp_path, web))
    wait_until(lambda: running.views)
    running.agent.reload()
    wait_until(lambda: any("no file to read again" in line for line in running.said))
    assert running.stop() == ExitCode.OK


def test_a_spool_that_is_changed_waits_for_the_next_start(tmp_path: Path, web: str) -> None:
    first = spec(tmp_path, web)
    running = Running(first, load=lambda: spec(tmp_path / "other", web))
    wait_until(lambda: running.views)
    running.agent.reload()
    wait_until(lambda: any("next start" in line for line in running.said))
    assert running.stop() == ExitCode.OK
    assert not (tmp_path / "other").exists()
