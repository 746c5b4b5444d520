"""A collector in a class: connect, send batches, read every reply, do what the protocol says about it.

::

    with CollectorClient("edge.example", 9999, token, ClientOptions(commit=True)) as client:
        for batch_id, payload in batches:
            client.send(batch_id, payload)
    # here everything is confirmed by a completed checkpoint

Batches are given to `send`, and are kept in memory then; or they come from a `BatchSource` (a spool), and `step` takes
them from there by itself.

One thread, one connection, no background work: bytes move only inside `connect`, `send`, `step` and `flush`. The shell
around four parts: `Retention` (which batch goes when), `reactions` (what a reply means), `pacing` (waits), `doubts`
(what outlives the process). Standard library only.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType

from edgesocket.collector.delivery import Delivery, NoIdLeftError, RefusedCallback, Seal
from edgesocket.collector.doubts import MAX_WINDOW
from edgesocket.collector.link import Link
from edgesocket.collector.memory import ENTRY_OVERHEAD_BYTES, MemorySource
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.retention import Retention
from edgesocket.collector.sender import DecryptFailedError, Phase, Sender
from edgesocket.collector.source import BatchSource
from edgesocket.collector.window import WindowCounts
from edgesocket.errors import ConnectionLostError
from edgesocket.protocol.grammar import AUTH_PREFIX, MAX_AUTH_LINE_BYTES
from edgesocket.protocol.replies import Reply

__all__ = ["CollectorClient", "DecryptFailedError", "NoIdLeftError", "Phase", "RefusedCallback", "Seal"]

_LONGEST_STEP_S = 3600.0


class CollectorClient:
    """Sends batches to one ingress. Not thread-safe.

    Guarantees: at least once. A batch counts as received only by its own reply; a connection that ends, or answers what
    is no reply, leaves everything unanswered to be sent again, lowest id first. With `commit` a batch is kept until a
    completed checkpoint covers it. Memory: `limits.retain_bytes`, or with a source what the window holds; and under a
    MiB of buffers.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: bytes | str | Callable[[], bytes],
        options: ClientOptions | None = None,
        *,
        source: BatchSource | None = None,
        seal: Seal | None = None,
        on_refused: RefusedCallback | None = None,
        on_notice: Callable[[str], object] | None = None,
        find: Callable[[], tuple[str, int]] | None = None,
    ) -> None:
        """Get ready; nothing is sent before `connect`, `step` or the `with` statement.

        Args:
            host: name or address of the ingress.
            port: its TCP port.
            token: the shared token, or what gives it: that is asked for every connection. It is in no text this class
                gives.
            options: see `ClientOptions`.
            source: where batches come from, instead of `send`. The client asks it by itself, wants to be connected all
                the time, and keeps in it what it must know after a restart.
            seal: makes packets of payloads when they go out, each time anew; what it raises ends the step.
            on_refused: gets every batch that was refused for good. Without it, and without a source, they are only
                counted and logged.
            on_notice: gets one line about each lost connection and the like; by default it is logged as a warning.
            find: gives host and port instead, asked for every connection: of a job that moves. May raise OSError, and
                is asked again later.

        Raises:
            ValueError: the token holds a line feed or is too long to be one, or the window is too large for a source.
            OSError: the source could not be read.
        """
        token = token.encode() if isinstance(token, str) else token
        if isinstance(token, bytes) and (b"\n" in token or len(AUTH_PREFIX) + len(token) > MAX_AUTH_LINE_BYTES):
            raise ValueError("the token holds a line feed or is too long")
        self._address = f"{host}:{port}"
        self._options = options or ClientOptions()
        self._on_refused = on_refused
        self._on_notice = on_notice or logging.getLogger(__name__).warning
        self._retention = Retention(self._options.limits, commit=self._options.commit)
        self._memory = MemorySource()
        self._offered_bytes = 0
        self._has_source = source is not None
        self._delivery = Delivery(self._memory if source is None else source, self._retention, seal)
        if source is not None:
            if self._options.limits.batches > MAX_WINDOW:
                raise ValueError(f"limits.batches must not be greater than {MAX_WINDOW} with a source")
            self._delivery.resume()
        self._sender = Sender(
            (host, port),
            token,
            self._options,
            self._delivery,
            always=self._has_source,
            on_refused=self._refused,
            on_notice=self._on_notice,
            connect=_connect_with(self._options),
            find=find,
        )

    @property
    def counts(self) -> WindowCounts:
        """Totals so far."""
        return self._retention.counts

    @property
    def left(self) -> int:
        """Batches not done: not received, or with `commit` not confirmed. Of a source, those taken from it."""
        return self._retention.left

    @property
    def unanswered(self) -> int:
        """Batches not received, in the same sense."""
        return self._retention.unanswered

    @property
    def phase(self) -> Phase:
        """Where the connection is."""
        return self._sender.phase

    @property
    def last_problem(self) -> str:
        """Why the last connection ended, or could not be made."""
        return self._sender.last_problem

    @property
    def round_trip_s(self) -> float | None:
        """How long the last commit poll took; None before the first."""
        return self._sender.round_trip_s

    @property
    def watermark(self) -> int:
        """The highest watermark an ACK brought; 0 before the first."""
        return self._sender.watermark

    def __enter__(self) -> CollectorClient:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush unless an error is on its way out, and close."""
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def connect(self, wake_on: Sequence[int] = ()) -> bool:
        """Connect and authenticate, trying again until `connect_timeout_s` is over.

        Args:
            wake_on: descriptors that end the wait early when they become readable.

        Returns:
            Whether the connection is there; False only when woken.

        Raises:
            AuthFailedError, RejectedError: the ingress said so.
            ConnectionLostError: it could not be reached.
        """
        sender = self._sender
        sender.wanted = True
        deadline = time.monotonic() + self._options.connect_timeout_s
        while not sender.connected:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                sender.end(ConnectionLostError(f"cannot connect to {self._address}: {sender.why_not_connected}"))
            if self.step(left_s, wake_on):
                return False
        return True

    def room_for(self, payload_bytes: int) -> bool:
        """Whether `try_send` would take a payload of that size now. An empty client takes any one batch."""
        limits, memory = self._options.limits, self._memory
        if memory.count and memory.kept_bytes + payload_bytes + ENTRY_OVERHEAD_BYTES > limits.retain_bytes:
            return False
        unanswered = self.unanswered
        waiting_bytes = self._offered_bytes - self._delivery.taken_bytes
        return not unanswered or (unanswered < limits.batches and waiting_bytes + payload_bytes <= limits.payload_bytes)

    def try_send(self, batch_id: int, payload: bytes) -> bool:
        """Take on a batch if there is room, without moving any byte; `step` sends it.

        Raises:
            ValueError: the id is not above the one before, or the payload holds a line feed.
            TypeError: the batches of this client come from a source.
        """
        if self._has_source:
            raise TypeError("the batches of this client come from its source")
        if b"\n" in payload:
            raise ValueError(f"the payload of batch {batch_id} holds a line feed")
        if not self.room_for(len(payload)):
            return False
        if not self._retention.left:
            self._sender.progress.idle(time.monotonic())
        self._memory.append(batch_id, payload)
        self._offered_bytes += len(payload)
        self._retention.counts.offered += 1
        return True

    def send(self, batch_id: int, payload: bytes) -> None:
        """Take on a batch, waiting for room, and send what can be sent.

        Args:
            batch_id: above every id sent before, over all runs of this collector.
            payload: the record (or packet), without a line feed.

        Raises:
            ValueError, TypeError: as `try_send`.
            CollectorError: the client has ended; what is not done is lost with it, see `left`.
        """
        while not self.try_send(batch_id, payload):
            self.step(_LONGEST_STEP_S)
        self.step(0.0)

    def flush(self, timeout_s: float | None = None, *, received_only: bool = False) -> bool:
        """Wait until everything taken on is done; of a source, everything that it has.

        Args:
            timeout_s: wait no longer than that.
            received_only: with `commit`, do not wait for confirmation.

        Returns:
            Whether all is done.

        Raises:
            CollectorError: the client has ended.
        """
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while (self.unanswered if received_only else self.left) or (self._has_source and not self._delivery.drained):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self.step(min(left_s, _LONGEST_STEP_S))
        return True

    def step(self, timeout_s: float, wake_on: Sequence[int] = ()) -> set[int]:
        """Send, receive and react once; waits at most `timeout_s` for something to do.

        Args:
            timeout_s: seconds; 0 only does what can be done now.
            wake_on: other descriptors to wait on.

        Returns:
            Those of `wake_on` that are readable.

        Raises:
            CollectorError: the client has ended: now, or before.
            OSError: of the source; the client has ended, another one may go on.
        """
        try:
            return self._sender.step(timeout_s, wake_on)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection. What is not done stays undone; see `left`."""
        self._sender.close()

    def _refused(self, batch_id: int, payload: bytes, reply: Reply) -> None:
        if self._on_refused is not None:
            self._on_refused(batch_id, payload, reply)
        elif not self._has_source:
            self._on_notice(f"batch {batch_id} was refused for good: {reply}")


def _connect_with(options: ClientOptions) -> Callable[[str, int, bytes], Link]:
    if options.tls is None:
        return Link
    from edgesocket.collector.tls import TlsMaker

    return partial(Link, tls=TlsMaker(options.tls))
