"""What simulated collectors do with replies: the machine of the real client, and two written from the protocol alone.

The scripted ones share no code with the real one. They keep the rules of section 10 of the protocol and nothing more: a
batch whose reply was not read goes out again before any higher id, an ACK evicts only what was received last, RESEND
(and RETRY for a batch that was sent) means to send it again, and nothing goes above a batch that was refused for now.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from edgesocket.collector.delivery import Delivery
from edgesocket.collector.pacing import PollPace
from edgesocket.collector.reactions import Reaction, reaction_to_poll
from edgesocket.collector.retention import Retention
from edgesocket.collector.window import WindowLimits
from edgesocket.protocol.collector_session import Answer, Asked
from edgesocket.protocol.replies import DECODE_FAILED, ReplyKind
from edgesocket.testing.simulator.invariants import Violation
from edgesocket.testing.simulator.link import SimulatedLink
from edgesocket.testing.simulator.settings import Settings
from edgesocket.testing.simulator.spool import SimulatedSpool


class Sender(Protocol):
    """Decides what goes out on a connection and what a reply means. One a collector's process."""

    def connected(self, link: SimulatedLink, now: float) -> None:
        """A new connection is authenticated."""

    def fill(self, link: SimulatedLink, now: float) -> None:
        """Send what may go out now."""

    def answered(self, answer: Answer, now: float) -> None:
        """Replies to requests of one kind."""

    def lost(self) -> None:
        """The connection is over."""

    def next_time(self, now: float) -> float | None:
        """When time alone lets something go out."""

    @property
    def outstanding(self) -> int:
        """Batches on their way."""


class ClientSender:
    """The real client's delivery, retention, doubts and pacing, joined as `collector.client` joins them."""

    def __init__(self, spool: SimulatedSpool, settings: Settings) -> None:
        self._retention = Retention(WindowLimits(batches=settings.window), commit=True)
        self._delivery = Delivery(spool, self._retention, None)
        self._delivery.resume()
        self._polls = PollPace(settings.poll_ms / 1000, 5 * settings.poll_ms / 1000)
        self._catching_up = False

    @property
    def outstanding(self) -> int:
        """See Sender."""
        return self._retention.in_flight

    def connected(self, link: SimulatedLink, now: float) -> None:  # noqa: ARG002 - Sender's
        """See Sender: a poll asks what was confirmed meanwhile."""
        lowest = self._delivery.first_to_ask
        self._catching_up = lowest is not None
        if lowest is None:
            self._delivery.begin()
        else:
            link.write_poll(lowest)

    def fill(self, link: SimulatedLink, now: float) -> None:
        """See Sender."""
        if self._catching_up:
            return
        self._delivery.fill(link, now)
        self._polls.waiting(self._retention.unconfirmed > 0, now)
        if self._polls.due is not None and self._polls.due <= now:
            lowest = self._retention.lowest_unconfirmed if self._polls.ask_lowest else None
            target = lowest or self._retention.poll_target()
            assert target is not None
            link.write_poll(target)
            self._polls.sent()

    def answered(self, answer: Answer, now: float) -> None:
        """See Sender."""
        request, reply = answer
        if request.asked is Asked.RECEIPT:
            reaction = self._delivery.answered(request, reply, now, lambda *_: None)
            if reaction in (Reaction.STOP, Reaction.DISTRUST):
                raise Violation("one-reply-a-request", f"{request} was answered by {reply}")
        elif request.asked is Asked.CONFIRMATION:
            self._poll_answered(answer, now)
        self._delivery.tell_done()

    def _poll_answered(self, answer: Answer, now: float) -> None:
        request, reply = answer
        reaction = reaction_to_poll(reply)
        news = False
        if reply is None or reaction in (Reaction.STOP, Reaction.DISTRUST):
            raise Violation("one-reply-a-request", f"{request} was answered by {reply}")
        if reaction is Reaction.SEND_AGAIN:
            news = self._retention.send_again(request.first_id)
        elif reaction is Reaction.EVICT:
            news = self._retention.evict(reply.number) > 0
        if self._catching_up:
            self._catching_up = False
            self._delivery.begin()
        else:
            self._polls.answered(now, news=news)

    def lost(self) -> None:
        """See Sender."""
        self._retention.connection_lost()
        self._polls.connection_lost()

    def next_time(self, now: float) -> float | None:
        """See Sender."""
        times = [at for at in (self._polls.due, self._retention.next_time(now)) if at is not None]
        return min(times, default=None)


class ScriptedSender:
    """Section 10 of the protocol in the plainest way there is: sets, and a look at all of them each time."""

    def __init__(self, spool: SimulatedSpool, settings: Settings, random: Random, *, eager: bool) -> None:
        """Args: `eager`: send everything that is kept again on a new connection."""
        self._spool = spool
        self._settings = settings
        self._random = random
        self._eager = eager
        self._received: set[int] = set()
        self._in_flight: set[int] = set()
        self._refused: dict[int, float] = {}
        self._poll_at = 0.0
        self._polling = False

    @property
    def outstanding(self) -> int:
        """See Sender."""
        return len(self._in_flight)

    def connected(self, link: SimulatedLink, now: float) -> None:  # noqa: ARG002 - Sender's
        """See Sender."""
        if self._eager:
            self._received.clear()
        self._poll_at = now + self._settings.poll_ms / 1000

    def fill(self, link: SimulatedLink, now: float) -> None:
        """See Sender."""
        barrier = min(self._refused, default=None)
        for batch_id, payload in self._spool.kept.items():
            if len(self._in_flight) >= self._settings.window or not link.has_room:
                break
            if batch_id in self._received or batch_id in self._in_flight:
                continue
            if barrier is not None and (batch_id > barrier or (batch_id == barrier and now < self._refused[barrier])):
                break
            self._in_flight.add(batch_id)
            link.write_batches(batch_id, [payload])
        if self._received and not self._polling and now >= self._poll_at:
            link.write_poll(self._random.choice((min(self._received), max(self._received))))
            self._polling = True

    def answered(self, answer: Answer, now: float) -> None:
        """See Sender."""
        request, reply = answer
        if reply is None:
            raise Violation("one-reply-a-request", f"{request} was answered by what is no reply to it")
        if request.asked is Asked.RECEIPT:
            for batch_id in range(request.first_id, request.first_id + request.lines):
                self._batch_answered(batch_id, reply.kind, now + reply.number / 1000)
        elif request.asked is Asked.CONFIRMATION:
            self._polling = False
            self._poll_at = now + self._settings.poll_ms / 1000
            if reply.kind is ReplyKind.ACK:
                for batch_id in sorted(id_ for id_ in self._received if id_ <= reply.number):
                    self._received.discard(batch_id)
                    self._spool.confirmed(batch_id)
            elif reply.kind in (ReplyKind.RESEND, ReplyKind.RETRY):
                self._received.discard(request.first_id)

    def _batch_answered(self, batch_id: int, kind: ReplyKind, until: float) -> None:
        self._in_flight.discard(batch_id)
        if kind is ReplyKind.RECEIVED:
            self._received.add(batch_id)
            self._refused.pop(batch_id, None)
        elif kind is ReplyKind.DECODE_FAILED:
            self._refused.pop(batch_id, None)
            self._spool.refused(batch_id, self._spool.kept[batch_id], DECODE_FAILED)
        else:
            self._refused[batch_id] = until

    def lost(self) -> None:
        """See Sender."""
        self._in_flight.clear()
        self._polling = False

    def next_time(self, now: float) -> float | None:
        """See Sender."""
        times = [until for until in self._refused.values() if until > now]
        if self._received and not self._polling:
            times.append(self._poll_at)
        return min(times, default=None)
