"""The sending side at work: one connection after the other, phases, waits, and what ends it.

The shell around `Delivery` (which batches) and `Link` (one conversation). It knows the time; it keeps no batch.
"""

from __future__ import annotations

import enum
import math
import random
import select
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from edgesocket.collector.delivery import Delivery, RefusedCallback
from edgesocket.collector.link import Link, LinkLostError, shown, strange_answer
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.pacing import PollPace, ReconnectPace
from edgesocket.collector.progress import ProgressWatch
from edgesocket.collector.reactions import Reaction, reaction_to_poll
from edgesocket.errors import CollectorError, ConnectionLostError, ExitCode, RejectedError
from edgesocket.protocol.collector_session import Answer, Asked, Request
from edgesocket.protocol.replies import Reply

HALF_OPEN_S = 35.0
"""So long after a connection of our own ended the ingress may still take it for the one collector: REJECTED may then be
because of ourselves. (It notices a dead peer within 30 s.)"""

_LONGEST_STEP_S = 3600.0
_NOT_TRIED = "not tried yet"


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


class Sender:
    """See the module's text. Not thread-safe."""

    def __init__(
        self,
        address: tuple[str, int],
        token: bytes | Callable[[], bytes],
        options: ClientOptions,
        delivery: Delivery,
        *,
        always: bool,
        on_refused: RefusedCallback,
        on_notice: Callable[[str], object],
        connect: Callable[[str, int, bytes], Link] = Link,
        find: Callable[[], tuple[str, int]] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Get ready.

        Args: as for `CollectorClient`, and
            always: be connected also while there is nothing to send.
            token: or what gives it, asked for every connection; may raise CollectorError, and is asked again later.
            find: gives the address instead, asked for every connection; may raise OSError, and is asked again later.
            connect: makes the links; raises LinkLostError where that fails at once.
            jitter: numbers in 0..1 for the waits between connections.
        """
        self._address = address
        self._find = find
        self._shown_address = "{}:{}".format(*address) if find is None else "the job"
        self._token = token
        self._options = options
        self._delivery = delivery
        self._retention = delivery.retention
        self._always = always
        self._on_refused = on_refused
        self._on_notice = on_notice
        self._polls = PollPace(options.poll_least_s, options.poll_most_s)
        self._connect = connect
        self._reconnects = ReconnectPace(options.reconnect_least_s, options.reconnect_most_s, jitter)
        self.progress = ProgressWatch(options.progress_timeout_s, time.monotonic())
        self._link: Link | None = None
        self._next_try = 0.0
        self._try_ends = 0.0
        self._asked_at = 0.0
        self._own_connection_ended = -math.inf
        self._rejection_forgiven = False
        self._strange_reply_told = False
        self.phase = Phase.OFFLINE
        self.wanted = False
        """Whether somebody waits for a connection although there is nothing to send."""
        self.ended: CollectorError | None = None
        self.last_problem = _NOT_TRIED
        self.round_trip_s: float | None = None
        self.watermark = 0

    @property
    def connected(self) -> bool:
        """Whether the ingress has taken the token."""
        return self.phase in (Phase.CATCHING_UP, Phase.STREAMING)

    @property
    def why_not_connected(self) -> str:
        """What a user is told: of the try under way, and of the one before, which may say more."""
        if self.phase is Phase.OFFLINE:
            return self.last_problem
        return "no answer" if self.last_problem == _NOT_TRIED else f"no answer; before that: {self.last_problem}"

    def step(self, timeout_s: float, wake_on: Sequence[int]) -> set[int]:
        """Send, receive and react once; see `CollectorClient.step`."""
        if self.ended is not None:
            raise self.ended
        now = time.monotonic()
        self.advance(now)
        poller = select.poll()
        for descriptor in wake_on:
            poller.register(descriptor, select.POLLIN)
        own = -1
        if self._link is not None:
            own = self._link.fileno()
            poller.register(own, self._link.wanted_events)
        wait_s = max(0.0, min(timeout_s, self.next_event(now) - now, _LONGEST_STEP_S))
        # Rounded up: a wait that ends a fraction of a millisecond early would only come round again.
        ready = {descriptor for descriptor, _ in poller.poll(math.ceil(wait_s * 1000))}
        if own in ready:
            self.ready(time.monotonic())
        self.progress.watch(
            time.monotonic(), self._retention.counts, self._link.bytes_under_way if self._link else None
        )
        return ready.intersection(wake_on)

    def advance(self, now: float) -> None:
        """Do what the time and the window ask for."""
        if not self._retention.left:
            self.progress.idle(now)
        elif self.progress.stalls_at <= now:
            self._give_up()
        if self.phase is Phase.OFFLINE:
            if self._wants_connection and now >= self._next_try:
                self._begin(now)
        elif self.phase is not Phase.STREAMING and now >= self._try_ends:
            self._lost(LinkLostError(f"no answer within {self._options.connect_timeout_s:g} s"), now)
        elif self.phase is Phase.STREAMING:
            try:
                self._fill(now)
            except CollectorError as error:
                self.end(error)

    @property
    def _wants_connection(self) -> bool:
        return self.wanted or self._always or self._retention.left > 0

    def next_event(self, now: float) -> float:
        """When `advance` has something to do next if nothing comes from outside."""
        times = [self.progress.stalls_at] if self._retention.left else []
        if self.phase is Phase.OFFLINE:
            if self._wants_connection:
                times.append(self._next_try)
        elif self.phase is Phase.STREAMING:
            times += [at for at in (self._polls.due, self._retention.next_time(now)) if at is not None]
        else:
            times.append(self._try_ends)
        return min(times, default=math.inf)

    def _give_up(self) -> NoReturn:
        """Nothing moved for too long."""
        state = "confirmed" if self._options.commit and not self._retention.unanswered else "received"
        why = "" if self.phase is Phase.STREAMING else f" ({self.last_problem})"
        self.end(
            ConnectionLostError(
                f"no progress for {self._options.progress_timeout_s:g} s: "
                f"{self._retention.left} batches are not {state}{why}"
            )
        )

    def _begin(self, now: float) -> None:
        self._try_ends = now + self._options.connect_timeout_s
        try:
            self._link = self._connect(*self._current_address(), self._current_token())
        except LinkLostError as loss:
            self._lost(loss, now)
        except CollectorError as error:
            self.end(error)
        else:
            self.phase = Phase.CONNECTING

    def _current_address(self) -> tuple[str, int]:
        if self._find is None:
            return self._address
        try:
            address = self._find()
            self._shown_address = f"{address[0]}:{address[1]}"
            return address
        except OSError as problem:
            raise LinkLostError(problem.strerror or str(problem)) from None

    def _current_token(self) -> bytes:
        if isinstance(self._token, bytes):
            return self._token
        try:
            return self._token()
        except CollectorError as error:
            raise LinkLostError(str(error)) from None

    def ready(self, now: float) -> None:
        """The link's descriptor is ready: take what came."""
        link = self._link
        assert link is not None
        try:
            answers = link.ready()
            if self.phase is Phase.CONNECTING and link.authenticated:
                self._catch_up(link, now)
            for answer in answers:
                self._take(answer, now)
        except LinkLostError as loss:
            self._lost(loss, now)
        except RejectedError as error:
            if self._rejection_forgiven or now - self._own_connection_ended > HALF_OPEN_S:
                self.end(error)
            self._rejection_forgiven = True
            self._lost(LinkLostError("another collector is connected, which may be this one's last connection"), now)
        except CollectorError as error:
            self.end(error)
        self._delivery.tell_done()

    def _take(self, answer: Answer, now: float) -> None:
        request, reply = answer
        if request.asked is Asked.RECEIPT:
            self._take_batch_reply(request, reply, now)
        elif request.asked is Asked.CONFIRMATION:
            self._take_poll_reply(request, reply, now)

    def _catch_up(self, link: Link, now: float) -> None:
        """Ask what was confirmed meanwhile, where there is something to ask for."""
        self.wanted = False
        self._rejection_forgiven = False
        lowest = self._delivery.first_to_ask if self._options.commit else None
        if lowest is None:
            self._stream()
            return
        self.phase = Phase.CATCHING_UP
        self._try_ends = now + self._options.connect_timeout_s
        link.write_poll(lowest)
        self._asked_at = now
        link.push()

    def _stream(self) -> None:
        self._delivery.begin()
        self.phase = Phase.STREAMING

    def _fill(self, now: float) -> None:
        """Hand the link what may go out now."""
        link = self._link
        assert link is not None
        full = True
        while full:
            self._delivery.fill(link, now)
            full = not link.has_room
            link.push()
            full = full and link.has_room  # what was just sent made room, and nobody would tell us later
        if self._options.commit:
            self._polls.waiting(self._retention.unconfirmed > 0, now)
            if self._polls.due is not None and self._polls.due <= now:
                lowest = self._retention.lowest_unconfirmed if self._polls.ask_lowest else None
                target = lowest or self._retention.poll_target()
                assert target is not None
                link.write_poll(target)
                self._asked_at = now
                self._polls.sent()
        link.push()

    def _take_batch_reply(self, request: Request, reply: Reply | None, now: float) -> None:
        reaction = self._delivery.answered(request, reply, now, self._on_refused)
        if reaction is Reaction.RECEIVED or reaction is Reaction.REFUSED:
            self._progressed(now)
        elif reaction is Reaction.STOP:
            raise DecryptFailedError("the ingress cannot decrypt: check that both sides have the same secret key")
        elif reaction is Reaction.DISTRUST:
            raise strange_answer(request, reply)

    def _take_poll_reply(self, request: Request, reply: Reply | None, now: float) -> None:
        reaction = reaction_to_poll(reply)
        news = False
        if reply is None or reaction is Reaction.DISTRUST:
            raise strange_answer(request, reply)
        if reaction is Reaction.STOP:
            raise CollectorError(f"the ingress takes no commit polls: it answered {shown(reply)}")
        self.round_trip_s = now - self._asked_at
        if reaction is Reaction.SEND_AGAIN:
            news = self._retention.send_again(request.first_id)
        elif reaction is Reaction.EVICT:
            self.watermark = max(self.watermark, reply.number)
            news = self._retention.evict(reply.number) > 0
            if news:
                self._progressed(now)
        if self.phase is Phase.CATCHING_UP:
            self._stream()
        else:
            self._polls.answered(now, news=news)

    def _progressed(self, now: float) -> None:
        self.progress.made(now, self._retention.counts)
        self._reconnects.progressed()

    def _lost(self, loss: LinkLostError, now: float) -> None:
        """The link is gone, or could not be made."""
        had_one = self.connected
        if self._link is not None and self._link.connected:
            self._own_connection_ended = now
        self._drop_link()
        self._retention.connection_lost()
        self._polls.connection_lost()
        self._next_try = now + self._reconnects.next_wait_s()
        if loss.strange and not self._strange_reply_told:
            self._strange_reply_told = True
            self._on_notice(f"{loss.strange}; it counts as not received (told once)")
        changed, self.last_problem = str(loss) != self.last_problem, str(loss)
        if self._wants_connection and (had_one or changed):
            verb = "lost the connection to" if had_one else "cannot connect to"
            self._on_notice(f"{verb} {self._shown_address}: {loss}; trying again")

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
        self.phase = Phase.OFFLINE

    def close(self) -> None:
        """Close the connection, for good."""
        self._drop_link()
        if self.ended is None:
            self.ended = ConnectionLostError("the client is closed")
        self._delivery.close()

    def end(self, error: CollectorError) -> NoReturn:
        """No more: close, and raise `error` now and at every later call."""
        self.ended = error
        self.close()
        raise error
