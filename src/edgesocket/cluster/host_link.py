"""What the actor of a host and the process of its jobs say to each other, over a pair of sockets.

Both are on one machine, and of one version: an actor that finds another one on the disk ends, and is made anew. A
message is a tuple; its first part says which:

| downwards | |
|---|---|
| `look`, job | there is a new order for this job |
| `states`, n | say what the jobs do, as answer n |
| `answer`, n, value, error | to `ask` n: a value, or why there is none ("" where there is one) |

| upwards | |
|---|---|
| `begun`, number | this process has begun as the host, under this number |
| `problem`, text | it cannot begin |
| `replaced` | another process has begun as this host |
| `states`, n, states | the answer to `states` |
| `ask`, n, what, arguments | Ray is asked for something: a method of `Asked` |
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

from edgesocket.cluster.orders import Order
from edgesocket.cluster.placement import Node

ASK_S = 30.0
"""How long Ray is waited for: it does not answer while its head is away."""


class Asked(Protocol):
    """What a host asks of Ray; `cluster.ray_cluster.RayCluster` has it. All may raise anything."""

    def nodes(self) -> list[Node]:
        """The nodes that Ray knows, dead ones included."""

    def ensure_host(self, order: Order) -> None:
        """See that the host of an order exists."""

    def end_host(self, host: str) -> None:
        """End a host for good."""


class Link:
    """One end. `send` may be called on any thread, `receive` on one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, *message: Any) -> None:
        """Say something. Nothing happens where the other end is gone: who receives notices."""
        try:
            with self._sending:
                self._connection.send(message)
        except OSError:  # also: this end was closed
            return

    def receive(self) -> tuple[Any, ...] | None:
        """The next message; None: the other end is gone."""
        try:
            message: tuple[Any, ...] = self._connection.recv()
        except (EOFError, OSError):
            return None
        return message

    def hang_up(self) -> None:
        """Let `receive` end once it has read what is there, whoever else has the other end open."""
        try:
            with socket.socket(fileno=os.dup(self._connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is over already

    def close(self) -> None:
        """The other end notices. Nobody may be in a `send` that blocks."""
        with self._sending:
            self._connection.close()


class Answers:
    """Questions that are out, and who waits for their answers. Thread-safe."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: dict[int, _Waiting] = {}

    def ask(self, kind: str, *arguments: Any, timeout_s: float) -> tuple[Any, ...]:
        """Ask and wait. Raises TimeoutError."""
        waiting = _Waiting()
        with self._lock:
            self._last += 1
            number = self._last
            self._waiting[number] = waiting
        try:
            self._link.send(kind, number, *arguments)
            if not waiting.there.wait(timeout_s):
                raise TimeoutError(f"no answer within {timeout_s:g} s")
            return waiting.answer
        finally:
            with self._lock:
                del self._waiting[number]

    def take(self, number: int, answer: tuple[Any, ...]) -> None:
        """An answer came; nobody may wait for it any more."""
        with self._lock:
            waiting = self._waiting.get(number)
        if waiting is not None:
            waiting.answer = answer
            waiting.there.set()


class _Waiting:
    def __init__(self) -> None:
        self.there = threading.Event()
        self.answer: tuple[Any, ...] = ()


class Above:
    """The actor above the process of the jobs, and Ray behind it, as that process sees them.

    Args:
        link: to the actor.
        node, address: the Ray node that both are on.
        follows: number of the start that this process goes on from; 0: there was none.
        before: pid of the process before this one; 0: there was none.
    """

    def __init__(self, link: Link, node: str, address: str, follows: int = 0, before: int = 0) -> None:
        self.node, self.address, self.follows, self.before = node, address, follows, before
        self.answers = Answers(link)
        self._link = link
        self._one_at_a_time = threading.Lock()

    def nodes(self) -> Sequence[Node]:
        """The nodes that Ray knows. Raises RuntimeError, TimeoutError."""
        found: Sequence[Node] = self._ask("nodes")
        return found

    def ensure_host(self, order: Order) -> None:
        """See that the host of an order exists. Raises RuntimeError, TimeoutError."""
        self._ask("ensure_host", order)

    def end_host(self, name: str) -> None:
        """End a host for good; it may be this one. Raises RuntimeError, TimeoutError."""
        self._ask("end_host", name)

    def begun(self, number: int) -> None:
        """This process has begun as the host."""
        self._link.send("begun", number)

    def replaced(self) -> None:
        """Another process has begun as this host: the actor is to end as well."""
        self._link.send("replaced")

    def _ask(self, what: str, *arguments: Any) -> Any:
        if not self._one_at_a_time.acquire(timeout=ASK_S):
            raise TimeoutError(f"Ray has not answered another question for {ASK_S:g} s")
        try:
            value, error = self.answers.ask("ask", what, arguments, timeout_s=ASK_S)
        finally:
            self._one_at_a_time.release()
        if error:
            raise RuntimeError(error)
        return value


def complain(text: str) -> None:
    """Say something in Ray's log of this process, which may be on a full disk."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)  # noqa: T201  that is where it goes
