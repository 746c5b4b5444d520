"""A host's actor and the process of its jobs, for real, without Ray: the process is back when it ends, and ends with
the actor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edgesocket.cluster.host_link import Above
from edgesocket.cluster.orders import Order
from edgesocket.cluster.placement import Node
from edgesocket.cluster.ray_actor import HostActor
from tests.support.jobs import wait_until

HERE = "tests.integration.test_host_processes"


@dataclass
class FakeRay:
    """Ray as an actor sees it. `hangs`: it does not answer, as while its head is away."""

    ended: list[str] = field(default_factory=list)
    hangs: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def own_node(self) -> tuple[str, str]:
        return "node-1", "10.0.0.1"

    def nodes(self) -> list[Node]:
        if self.hangs.is_set():
            self.release.wait(20)
        return [Node("node-1", "10.0.0.1", {"zone": "a"})]

    def ensure_host(self, order: Order) -> None:
        raise ConnectionError("Ray is away")

    def end_host(self, host: str) -> None:
        self.ended.append(host)


class FakeHost:
    """The host in the process below. It does what it is told by way of `look`."""

    def __init__(self, root: str, name: str, above: Above) -> None:
        self.above = above
        self.said: dict[str, Any] = {"root": root, "name": name, "node": above.node, "follows": above.follows}
        self._told = threading.Event()
        self._next = ""

    def run(self) -> None:
        self.above.begun(self.above.follows + 1)
        while True:
            self._told.wait()
            self._told.clear()
            if self._next == "give way":
                self.above.replaced()
                time.sleep(20)
            try:
                if self._next == "nodes":
                    self.said["nodes"] = [node.labels["zone"] for node in self.above.nodes()]
                elif self._next == "both":
                    asking = [threading.Thread(target=self.above.nodes) for _ in range(2)]
                    for one in asking:
                        one.start()
                    for one in asking:
                        one.join()
                    self.said["both"] = True
                elif self._next == "ensure":
                    self.above.ensure_host(None)  # type: ignore[arg-type]
                elif self._next == "retire":
                    self.above.end_host("edge")
                elif self._next == "bug":
                    raise ZeroDivisionError("of this test")
            except RuntimeError as error:
                self.said["error"] = str(error)

    def look(self, job: str) -> None:
        self._next = job
        self._told.set()

    def states(self) -> dict[str, dict[str, Any]]:
        return {"edge": self.said}


def starts_a_daemon(root: str, name: str, above: Above) -> FakeHost:
    """What it starts lives on, and has every descriptor that it could inherit."""
    subprocess.Popen(["sleep", "60"], close_fds=False, start_new_session=True)
    return FakeHost(root, name, above)


def fails(root: str, name: str, above: Above) -> FakeHost:
    raise ModuleNotFoundError("a library is missing")


@dataclass
class Pair:
    """An actor and what it said."""

    ray: FakeRay
    exits: list[int]
    actor: HostActor

    def said(self, key: str) -> Any:
        return self.actor.states()["jobs"].get("edge", {}).get(key)

    def pid(self) -> int:
        """Of the process below, once it has begun."""
        wait_until(lambda: self.actor._below is not None and self.actor._below.begun)
        return int(self.actor.states()["pid"])


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield from make_pair("FakeHost")


def make_pair(factory: str) -> Iterator[Pair]:
    ray, exits = FakeRay(), []
    pair = Pair(ray, exits, HostActor("/states", "edge", f"{HERE}:{factory}", lambda root: ray, exits.append))
    yield pair
    ray.release.set()
    pair.actor.close()
    wait_until(lambda: pair.actor.states()["pid"] == 0)


def test_the_process_is_told_where_it_is_and_asks_through_the_actor(pair: Pair) -> None:
    pair.pid()
    assert (pair.said("root"), pair.said("name"), pair.said("node")) == ("/states", "edge", "node-1")
    pair.actor.look("nodes")
    wait_until(lambda: pair.said("nodes") == ["a"])
    pair.actor.look("ensure")
    wait_until(lambda: pair.said("error") == "Ray is away")
    pair.actor.look("both")
    wait_until(lambda: pair.said("both"))
    pair.actor.look("retire")
    wait_until(lambda: pair.ray.ended == ["edge"])
    with pytest.raises(RuntimeError, match="retires"):
        pair.actor.look("nodes")


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGSEGV, "a bug"])
def test_a_process_that_ends_is_back_and_goes_on_from_its_number(pair: Pair, way: Any) -> None:
    first = pair.pid()
    began = time.monotonic()
    if way == "a bug":
        pair.actor.look("bug")
    else:
        os.kill(first, way)
    wait_until(lambda: pair.said("follows") == 1)
    assert pair.pid() != first
    assert time.monotonic() - began < 10


def test_what_a_killed_process_had_started_keeps_nobody_waiting() -> None:
    pairs = make_pair("starts_a_daemon")
    pair = next(pairs)
    first = pair.pid()
    began = time.monotonic()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: pair.said("follows") == 1)
    assert time.monotonic() - began < 20
    assert next(pairs, None) is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the timer is Linux's")
def test_a_process_that_hangs_is_killed_and_is_back(pair: Pair) -> None:
    first = pair.pid()
    os.kill(first, signal.SIGSTOP)
    wait_until(lambda: _state(first) == "T")
    assert pair.actor.states()["problem"] == "the process of the jobs does not answer"
    wait_until(lambda: pair.said("follows") == 1, 30)
    assert pair.pid() != first


def test_a_process_that_was_replaced_ends_its_actor(pair: Pair) -> None:
    pair.pid()
    pair.actor.look("give way")
    wait_until(lambda: pair.exits == [75])


def test_while_ray_does_not_answer_one_question_is_out_and_the_next_is_refused(pair: Pair) -> None:
    pair.pid()
    pair.ray.hangs.set()
    pair.actor.look("nodes")
    wait_until(lambda: pair.actor._below is not None and pair.actor._below._asking.locked())
    below = pair.actor._below
    assert below is not None
    answers: list[tuple[Any, ...]] = []
    below.link.send = lambda *message: answers.append(message)  # type: ignore[method-assign]
    below.ask_ray(99, "nodes", ())
    assert answers == [("answer", 99, None, "Ray has not answered the question before yet")]


def test_a_process_that_cannot_begin_says_why() -> None:
    pairs = make_pair("fails")
    pair = next(pairs)
    wait_until(lambda: "a library is missing" in pair.actor.states()["problem"])
    assert next(pairs, None) is None


ACTOR = f"""
import sys, time
from {HERE} import FakeRay, HostActor
actor = HostActor("/states", "edge", "{HERE}:FakeHost", lambda root: FakeRay())
while not actor.states()["jobs"].get("edge"):
    time.sleep(0.02)
print(actor.states()["pid"], flush=True)
time.sleep(60)
"""


def test_the_process_ends_with_its_actor() -> None:
    """However that ended: its ports are free for whoever comes next."""
    with subprocess.Popen(
        [sys.executable, "-c", ACTOR], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as actor:
        assert actor.stdout is not None
        try:
            pid = int(actor.stdout.readline())
        finally:
            actor.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in _state(pid), 5)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
