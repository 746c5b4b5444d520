"""A collector in a class: connect, send batches, read every reply, do what the protocol says about it.

::

    with CollectorClient("edge.example", 9999, token, ClientOptions(commit=True)) as client:
        for batch_id, payload in batches:
            client.send(batch_id, payload)
    # here everything is confirmed by a completed checkpoint

One thread, one connection, no background work: bytes move only inside `connect`, `send`, `step` and `flush`. The shell
around three pure parts: `SendWindow` (which batch goes when), `reactions` (what a reply means), `pacing` (waits).
Standard library only.
"""

from __future__ import annotations

import enum
import logging
import math
import random
import select
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from edgesocket.collector.link import Link, LinkLostError, shown, strange_answer
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.pacing import PollPace, ReconnectPace
from edgesocket.collector.reactions import POLL_REACTIONS, Reaction
from edgesocket.collector.window import SendWindow, WindowCounts
from edgesocket.errors import CollectorError, ConnectionLostError, ExitCode
from edgesocket.protocol.commands import Batch, Commit
from edgesocket.protocol.grammar import AUTH_PREFIX, MAX_AUTH_LINE_BYTES
from edgesocket.protocol.replies import Reply

RefusedCallback = Callable[[int, bytes, Reply], object]
"""Called with id, payload and reply of a batch that was refused for good."""

_LONGEST_STEP_S = 3600.0


class DecryptFailedError(CollectorError):
    """The ingress answered DECRYPT_FAILED: the two sides do not have the same secret key. Nothing more is sent."""

    exit_code = ExitCode.AUTH


class Phase(enum.Enum):
    """Where the connection is. Batches go out only while STREAMING."""

    OFFLINE = "offline"
    CONNECTING = "connecting"
    """Authentication is part of it."""
    CATCHING_UP = "catching up"
    """A poll asks what was confirmed meanwhile, before everything else is sent again."""
    STREAMING = "streaming"


class CollectorClient:
    """Sends batches to one ingress. Not thread-safe.

    Guarantees: at least once. A batch counts as received only by its own reply; a connection that ends, or answers what
    is no reply, leaves everything unanswered to be sent again, lowest id first. With `commit` a batch is kept until a
    completed checkpoint covers it. Memory: `limits.retain_bytes` and under a MiB of buffers.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: bytes | str,
        options: ClientOptions | None = None,
        *,
        on_refused: RefusedCallback | None = None,
        on_notice: Callable[[str], object] | None = None,
    ) -> None:
        """Get ready; nothing is sent before `connect` or the `with` statement.

        Args:
            host: name or address of the ingress.
            port: its TCP port.
            token: the shared token; it is in no text this class gives.
            options: see `ClientOptions`.
            on_refused: gets every batch that was refused for good. Without it they are only counted and logged.
            on_notice: gets one line about each lost connection and the like; by default it is logged as a warning.

        Raises:
            ValueError: the token holds a line feed or is too long to be one.
        """
        self._host = host
        self._port = port
        self._token = token.encode() if isinstance(token, str) else token
        if b"\n" in self._token or len(AUTH_PREFIX) + len(self._token) > MAX_AUTH_LINE_BYTES:
            raise ValueError("the token holds a line feed or is too long")
        self._options = options or ClientOptions()
        self._on_refused = on_refused
        self._on_notice = on_notice or logging.getLogger(__name__).warning
        self._window = SendWindow(self._options.limits, commit=self._options.commit)
        self._polls = PollPace(self._options.poll_least_s, self._options.poll_most_s)
        self._reconnects = ReconnectPace(
            self._options.reconnect_least_s, self._options.reconnect_most_s, random.SystemRandom().random
        )
        self._phase = Phase.OFFLINE
        self._link: Link | None = None
        self._wanted = False
        self._next_try = 0.0
        self._try_ends = 0.0
        self._progress_at = time.monotonic()
        self._sent_seen = 0
        self._resent_at_progress = 0
        self._written_bytes: int | None = None
        self._last_problem = "not tried yet"
        self._strange_reply_told = False
        self._ended: CollectorError | None = None
        self.watermark = 0
        """The highest watermark an ACK brought; 0 before the first."""

    @property
    def counts(self) -> WindowCounts:
        """Totals so far."""
        return self._window.counts

    @property
    def left(self) -> int:
        """Batches not done: not received, or with `commit` not confirmed."""
        return self._window.left

    @property
    def unanswered(self) -> int:
        """Batches not received."""
        return self._window.unanswered

    @property
    def phase(self) -> Phase:
        """Where the connection is."""
        return self._phase

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
        self._wanted = True
        deadline = time.monotonic() + self._options.connect_timeout_s
        while self._phase not in (Phase.CATCHING_UP, Phase.STREAMING):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                problem = self._last_problem if self._phase is Phase.OFFLINE else "no answer"
                self._end(ConnectionLostError(f"cannot connect to {self._host}:{self._port}: {problem}"))
            if self.step(left_s, wake_on):
                return False
        return True

    def room_for(self, payload_bytes: int) -> bool:
        """Whether `try_send` would take a payload of that size now."""
        return self._window.room_for(payload_bytes)

    def try_send(self, batch_id: int, payload: bytes) -> bool:
        """Take on a batch if there is room, without moving any byte; `step` sends it.

        Raises:
            ValueError: the id is not above the one before, or the payload holds a line feed.
        """
        if b"\n" in payload:
            raise ValueError(f"the payload of batch {batch_id} holds a line feed")
        if not self._window.room_for(len(payload)):
            return False
        if not self._window.left:
            self._progress_at = time.monotonic()
        self._window.offer(batch_id, payload)
        return True

    def send(self, batch_id: int, payload: bytes) -> None:
        """Take on a batch, waiting for room, and send what can be sent.

        Args:
            batch_id: above every id sent before, over all runs of this collector.
            payload: the record (or packet), without a line feed.

        Raises:
            ValueError: as `try_send`.
            CollectorError: the client has ended; what is not done is lost with it, see `left`.
        """
        while not self.try_send(batch_id, payload):
            self.step(_LONGEST_STEP_S)
        self.step(0.0)

    def flush(self, timeout_s: float | None = None, *, received_only: bool = False) -> bool:
        """Wait until everything taken on is done.

        Args:
            timeout_s: wait no longer than that.
            received_only: with `commit`, do not wait for confirmation.

        Returns:
            Whether all is done.

        Raises:
            CollectorError: the client has ended.
        """
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while self.unanswered if received_only else self.left:
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
        """
        if self._ended is not None:
            raise self._ended
        now = time.monotonic()
        self._advance(now)
        poller = select.poll()
        for descriptor in wake_on:
            poller.register(descriptor, select.POLLIN)
        own = -1
        if self._link is not None:
            own = self._link.fileno()
            poller.register(own, self._link.wanted_events)
        wait_s = max(0.0, min(timeout_s, self._next_event(now) - now, _LONGEST_STEP_S))
        # Rounded up: a wait that ends a fraction of a millisecond early would only come round again.
        ready = {descriptor for descriptor, _ in poller.poll(math.ceil(wait_s * 1000))}
        if own in ready:
            self._ready(time.monotonic())
        self._watch_bytes()
        return ready.intersection(wake_on)

    def close(self) -> None:
        """Close the connection. What is not done stays undone; see `left`."""
        self._drop_link()
        if self._ended is None:
            self._ended = ConnectionLostError("the client is closed")

    def _advance(self, now: float) -> None:
        """Do what the time and the window ask for."""
        if not self._window.left:
            self._progress_at = now
        elif self._stalls_at() <= now:
            state = "confirmed" if self._options.commit and not self.unanswered else "received"
            why = "" if self._phase is Phase.STREAMING else f" ({self._last_problem})"
            self._end(
                ConnectionLostError(
                    f"no progress for {self._options.progress_timeout_s:g} s: {self.left} batches are not {state}{why}"
                )
            )
        if self._phase is Phase.OFFLINE:
            if (self._wanted or self._window.left) and now >= self._next_try:
                self._begin(now)
        elif self._phase is not Phase.STREAMING and now >= self._try_ends:
            self._lost(LinkLostError(f"no answer within {self._options.connect_timeout_s:g} s"), now)
        elif self._phase is Phase.STREAMING:
            self._fill(now)

    def _next_event(self, now: float) -> float:
        """When `_advance` has something to do next if nothing comes from outside."""
        times = [self._stalls_at()] if self._window.left else []
        if self._phase is Phase.OFFLINE:
            if self._wanted or self._window.left:
                times.append(self._next_try)
        elif self._phase is Phase.STREAMING:
            times += [at for at in (self._polls.due, self._window.next_time(now)) if at is not None]
        else:
            times.append(self._try_ends)
        return min(times, default=math.inf)

    def _stalls_at(self) -> float:
        limit_s = self._options.progress_timeout_s
        return math.inf if limit_s is None else self._progress_at + limit_s

    def _begin(self, now: float) -> None:
        self._try_ends = now + self._options.connect_timeout_s
        try:
            self._link = Link(self._host, self._port, self._token)
        except LinkLostError as loss:
            self._lost(loss, now)
        else:
            self._phase = Phase.CONNECTING

    def _ready(self, now: float) -> None:
        """The link's descriptor is ready: take what came."""
        link = self._link
        assert link is not None
        try:
            answers = link.ready()
            if self._phase is Phase.CONNECTING and link.authenticated:
                self._catch_up(link, now)
            for answer in answers:
                if isinstance(answer.request, Batch):
                    self._take_batch_reply(answer.request, answer.reply, now)
                elif isinstance(answer.request, Commit):
                    self._take_poll_reply(answer.request, answer.reply, now)
        except LinkLostError as loss:
            self._lost(loss, now)
        except CollectorError as error:
            self._end(error)

    def _catch_up(self, link: Link, now: float) -> None:
        """Ask what was confirmed meanwhile, where there is something to ask for."""
        self._wanted = False
        lowest = self._window.lowest_unconfirmed()
        if lowest is None:
            self._stream()
            return
        self._phase = Phase.CATCHING_UP
        self._try_ends = now + self._options.connect_timeout_s
        link.write_poll(lowest)
        link.push()

    def _stream(self) -> None:
        self._window.send_all_again()
        self._phase = Phase.STREAMING

    def _fill(self, now: float) -> None:
        """Hand the link what may go out now."""
        link = self._link
        assert link is not None
        while link.has_room:
            batch = self._window.next_batch(now)
            if batch is None:
                break
            link.write_batch(*batch)
        if self._options.commit:
            self._polls.waiting(self._window.unconfirmed > 0, now)
            if self._polls.due is not None and self._polls.due <= now:
                lowest = self._window.lowest_unconfirmed() if self._polls.ask_lowest else None
                target = lowest or self._window.poll_target()
                assert target is not None
                link.write_poll(target)
                self._polls.sent()
        link.push()

    def _take_batch_reply(self, request: Batch, reply: Reply | None, now: float) -> None:
        reaction = self._window.answered(request.batch_id, reply, now)
        if reaction is Reaction.RECEIVED:
            self._progressed(now)
        elif reaction is Reaction.REFUSED:
            assert reply is not None
            self._progressed(now)
            if self._on_refused is not None:
                self._on_refused(request.batch_id, request.payload, reply)
            else:
                self._on_notice(f"batch {request.batch_id} was refused for good: {reply}")
        elif reaction is Reaction.STOP:
            raise DecryptFailedError("the ingress cannot decrypt: check that both sides have the same secret key")
        elif reaction is Reaction.DISTRUST:
            raise strange_answer(request, reply)

    def _take_poll_reply(self, request: Commit, reply: Reply | None, now: float) -> None:
        reaction = Reaction.DISTRUST if reply is None else POLL_REACTIONS.get(reply.kind, Reaction.DISTRUST)
        news = False
        if reply is None or reaction is Reaction.DISTRUST:
            raise strange_answer(request, reply)
        if reaction is Reaction.STOP:
            raise CollectorError(f"the ingress takes no commit polls: it answered {shown(reply)}")
        if reaction is Reaction.SEND_AGAIN:
            news = self._window.send_again(request.batch_id)
        elif reaction is Reaction.EVICT:
            self.watermark = max(self.watermark, reply.number)
            news = self._window.evict(reply.number) > 0
            if news:
                self._progressed(now)
        if self._phase is Phase.CATCHING_UP:
            self._stream()
        else:
            self._polls.answered(now, news=news)

    def _watch_bytes(self) -> None:
        """Count what goes out for the first time as progress: on a slow line one large batch may take minutes.

        Repeats do not count: a batch that is refused, or lost, again and again must not keep a client going for ever.
        """
        counts = self.counts
        written = None if self._link is None else self._link.bytes_under_way
        going_on = written is not None and written != self._written_bytes
        if counts.sent != self._sent_seen or (going_on and counts.resent == self._resent_at_progress):
            self._progress_at = time.monotonic()
        self._sent_seen = counts.sent
        self._written_bytes = written

    def _progressed(self, now: float) -> None:
        self._progress_at = now
        self._resent_at_progress = self.counts.resent
        self._reconnects.progressed()

    def _lost(self, loss: LinkLostError, now: float) -> None:
        """The link is gone, or could not be made."""
        had_one = self._phase in (Phase.CATCHING_UP, Phase.STREAMING)
        self._drop_link()
        self._window.connection_lost()
        self._polls.connection_lost()
        self._next_try = now + self._reconnects.next_wait_s()
        if loss.strange and not self._strange_reply_told:
            self._strange_reply_told = True
            self._on_notice(f"{loss.strange}; it counts as not received (told once)")
        changed, self._last_problem = str(loss) != self._last_problem, str(loss)
        if (self._wanted or self._window.left) and (had_one or changed):
            verb = "lost the connection to" if had_one else "cannot connect to"
            self._on_notice(f"{verb} {self._host}:{self._port}: {loss}; trying again")

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self._phase = Phase.OFFLINE

    def _end(self, error: CollectorError) -> None:
        """No more: close, and raise `error` now and at every later call."""
        self._ended = error
        self.close()
        raise error
