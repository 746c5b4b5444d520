"""A simulated collector: makes batches, connects, sends, polls, and dies with or without its spool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgesocket.protocol.collector_session import Answer
from edgesocket.testing.simulator.invariants import Facts
from edgesocket.testing.simulator.link import SimulatedLink
from edgesocket.testing.simulator.loop import Actor, Loop
from edgesocket.testing.simulator.manners import Manners
from edgesocket.testing.simulator.senders import ClientSender, ScriptedSender, Sender
from edgesocket.testing.simulator.settings import Settings
from edgesocket.testing.simulator.source import TOKEN
from edgesocket.testing.simulator.spool import SimulatedSpool

LONGEST_RECONNECT_S = 0.5


class SimulatedCollector(Actor):
    """One process of a collector. Its spool may outlive it.

    Args:
        connect: asks the network for a connection; tells later whether there is one.
        spool: what an earlier process left, or a new one.
        last_id: the highest id that a spool knows to be spent.
    """

    def __init__(
        self,
        name: str,
        loop: Loop,
        settings: Settings,
        facts: Facts,
        connect: Callable[[SimulatedLink], None],
        spool: SimulatedSpool,
        last_id: int,
    ) -> None:
        super().__init__(name)
        self.spool = spool
        self.last_id = last_id
        self.link: SimulatedLink | None = None
        self.manners = Manners()
        self._loop = loop
        self._settings = settings
        self._facts = facts
        self._connect = connect
        self._sender: Sender = (
            ClientSender(spool, settings)
            if settings.collector == "sender"
            else ScriptedSender(spool, settings, loop.random, eager=settings.collector == "eager")
        )
        self._wake_at: float | None = None
        self._reconnect(0.0)

    @property
    def outstanding(self) -> int:
        """Batches on their way."""
        return self._sender.outstanding

    def make_batch(self, number: int) -> None:
        """Read another batch from wherever it comes from, and give it an id."""
        settings, random = self._settings, self._loop.random
        if settings.ids == "time":
            batch_id = max(self.last_id + 1, 1_000_000 + int(self._loop.now * 1_000_000))
        elif self.last_id == 0:
            batch_id = settings.first_id
        else:
            batch_id = self.last_id + (1 if settings.ids == "counted" else random.randint(1, 5))
        self.last_id = batch_id
        bad = settings.bad_every and number % settings.bad_every == 0
        filler = b"x" * random.choice((0, 0, 10, 100))
        self.spool.add(batch_id, b"%b%d %b" % (b"\xff" if bad else b"p", batch_id, filler))

    def advance(self) -> None:
        """Send what may go out now, and be woken when time allows more."""
        link = self.link
        if link is None or not link.authenticated:
            return
        self._sender.fill(link, self._loop.now)
        link.push()
        when = self._sender.next_time(self._loop.now)
        if when is not None and (self._wake_at is None or when < self._wake_at):
            self._wake_at = when
            self._loop.at(when + 0.001, self._wake, self)

    def _wake(self) -> None:
        self._wake_at = None
        self.advance()

    def let_in(self) -> None:
        """The ingress has accepted the token."""
        assert self.link is not None
        self._sender.connected(self.link, self._loop.now)

    def answered(self, answers: Sequence[Answer]) -> None:
        """Replies have come."""
        for answer in answers:
            self._sender.answered(answer, self._loop.now)
        self.advance()

    def link_lost(self) -> None:
        """The connection is over, or was never made."""
        self.link = None
        self.manners.lost()
        self._sender.lost()
        self._reconnect(self._loop.random.random() * LONGEST_RECONNECT_S)

    def die(self) -> None:
        """kill -9."""
        if self.link is not None:
            self.link.end()
        self.alive = False

    def _reconnect(self, delay_s: float) -> None:
        self._loop.after(delay_s, self._try, self)

    def _try(self) -> None:
        if self.link is None:
            self.link = SimulatedLink(self, TOKEN)
            self._connect(self.link)
