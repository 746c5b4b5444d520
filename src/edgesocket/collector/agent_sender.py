"""The sender thread: a client on the spool, for ever.

A lost connection is the client's matter. What ends a client (a refused token, another collector on the port, a key that
does not fit, a spool that cannot be read or written) does not end the agent: it is said, and after a while a new client
tries, with the secrets read anew, so that a corrected file is enough.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields

from edgesocket.collector.agent_wake import Wake
from edgesocket.collector.client import CollectorClient, Phase
from edgesocket.collector.window import WindowCounts
from edgesocket.errors import CollectorError, EdgeSocketError, ExitCode

RETRY_S = 30.0
"""About how long after a refusal that somebody has to heal the next try comes: between half of it and all of it."""

DISK_RETRY_S = 5.0
"""The same after the spool's disk failed."""

_STEP_S = 5.0
_JITTER = random.SystemRandom().random


@dataclass(frozen=True, slots=True)
class SenderView:
    """What the sender is doing, for status and metrics.

    Attributes:
        phase: of the connection.
        problem: what keeps records from being delivered, "" if nothing does.
        counts: totals over all clients of this process.
        watermark: the highest confirmed id.
        taken: records taken from the spool that are not confirmed.
        connects: clients that were made.
    """

    phase: Phase
    problem: str
    counts: WindowCounts
    watermark: int
    taken: int
    connects: int


class SenderLoop:
    """See the module's text. `run` is the thread; the other methods may be called by any."""

    def __init__(
        self,
        make_client: Callable[[], CollectorClient],
        *,
        report: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = _JITTER,
    ) -> None:
        """Get ready.

        Args:
            make_client: makes a client on the spool; may raise EdgeSocketError, OSError or ValueError.
            report: takes a line for the log.
            clock: seconds of a steady clock.
            jitter: a number in 0..1.
        """
        self._make_client = make_client
        self._report = report
        self._clock = clock
        self._jitter = jitter
        self._wake = Wake()
        self._interrupt = threading.Event()
        self._stopping = False
        self._renew = False
        self._client: CollectorClient | None = None
        self._counts = WindowCounts()
        self._watermark = 0
        self._problem = ""
        self._connects = 0
        self.refused_with = 0
        """Exit code of what ended the last client; 0 since records can be delivered again."""

    def records_are_there(self) -> None:
        """There are new durable records in the spool."""
        self._wake.set()

    def renew(self, make_client: Callable[[], CollectorClient]) -> None:
        """Go on with other clients: to another ingress, with another token."""
        self._make_client = make_client
        self._renew = True
        self._interrupt.set()
        self._wake.set()

    def stop(self) -> None:
        """Ask the thread to end. What is not confirmed stays in the spool."""
        self._stopping = True
        self._interrupt.set()
        self._wake.set()

    @property
    def view(self) -> SenderView:
        """What it is doing now."""
        client = self._client
        if client is None:
            return SenderView(Phase.OFFLINE, self._problem, self._counts, self._watermark, 0, self._connects)
        problem = self._problem or ("" if client.phase is Phase.STREAMING else client.last_problem)
        counts = _sum(self._counts, client.counts)
        watermark = max(self._watermark, client.watermark)
        return SenderView(client.phase, problem, counts, watermark, client.left, self._connects)

    def run(self) -> None:
        """Send until stopped."""
        while not self._stopping:
            self._interrupt.clear()
            self._renew = False
            if self._stopping:
                break
            wait_s = self._send()
            if wait_s:
                self._interrupt.wait(wait_s)

    def close(self) -> None:
        """Let go of what waking needs. After the thread has ended."""
        self._wake.close()

    def _send(self) -> float:
        """Send with one client, until it ends. Returns the seconds to wait before the next one."""
        try:
            client = self._make_client()
        except (EdgeSocketError, OSError, ValueError) as problem:
            return self._failed(problem)
        self._connects += 1
        self._client = client
        try:
            while not (self._stopping or self._renew):
                if self._wake.fileno() in client.step(_STEP_S, [self._wake.fileno()]):
                    self._wake.clear()
                if self._problem and client.phase is Phase.STREAMING:
                    self._report("records are delivered again")
                    self._problem = ""
                    self.refused_with = 0
        except (CollectorError, OSError) as problem:
            return self._failed(problem)
        finally:
            self._client = None
            self._counts = _sum(self._counts, client.counts)
            self._watermark = max(self._watermark, client.watermark)
            self._close(client)
        return 0.0

    def _close(self, client: CollectorClient) -> None:
        try:
            client.close()
        except OSError as problem:
            self._report(f"the spool: {problem.strerror or problem}")

    def _failed(self, problem: Exception) -> float:
        """Say what is wrong, once a kind; returns the seconds until the next try."""
        on_disk = isinstance(problem, OSError)
        self.refused_with = problem.exit_code if isinstance(problem, EdgeSocketError) else ExitCode.TRY_LATER
        text = f"the spool: {problem.strerror or problem}" if isinstance(problem, OSError) else str(problem)
        wait_s = (DISK_RETRY_S if on_disk else RETRY_S) * (0.5 + self._jitter() / 2)
        if text != self._problem:
            self._problem = text
            self._report(f"nothing is delivered: {text}; trying again every {DISK_RETRY_S if on_disk else RETRY_S:g} s")
        return wait_s


def _sum(one: WindowCounts, other: WindowCounts) -> WindowCounts:
    return WindowCounts(**{each.name: getattr(one, each.name) + getattr(other, each.name) for each in fields(one)})
