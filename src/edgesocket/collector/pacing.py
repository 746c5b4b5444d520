"""How long a collector waits: between connections, before a repeat, between commit polls. Pure: time is an argument."""

from __future__ import annotations

from collections.abc import Callable


class ReconnectPace:
    """Full jitter: the wait before try n is anywhere in 0..min(most, least * 2^n), so collectors do not come in step.

    Only progress makes the waits short again: an ingress that accepts connections and then drops them is not flooded.
    """

    def __init__(self, least_s: float, most_s: float, random: Callable[[], float]) -> None:
        """Args: the first and the longest wait (seconds), and a source of numbers in 0..1."""
        self._least_s = least_s
        self._most_s = most_s
        self._random = random
        self._tries = 0

    def next_wait_s(self) -> float:
        """Seconds to wait before the next try."""
        ceiling = min(self._most_s, self._least_s * 2.0 ** min(self._tries, 60))
        self._tries += 1
        return ceiling * self._random()

    def progressed(self) -> None:
        """Something was received or confirmed: the next wait is short again."""
        self._tries = 0


def retry_wait_s(repeats: int, least_s: float = 0.1, most_s: float = 10.0) -> float:
    """Seconds before a batch that was answered RETRY `repeats` times in a row goes out again."""
    return float(min(most_s, least_s * 2.0 ** min(max(repeats - 1, 0), 60)))


class PollPace:
    """When to send the next commit poll. One is on its way at most; without news the interval grows.

    While nothing waits to be confirmed there is no next poll.
    """

    STALE_POLLS = 5
    """After so many polls without news about the highest id, every other one asks for the lowest instead: that one
    tells whether a batch in the middle was lost."""

    def __init__(self, least_s: float, most_s: float) -> None:
        """Args: shortest and longest interval, seconds."""
        self._least_s = least_s
        self._most_s = most_s
        self._interval_s = least_s
        self._stale = 0
        self._due: float | None = None
        self._asked = False

    @property
    def due(self) -> float | None:
        """When the next poll goes out, None while there is none to send."""
        return None if self._asked else self._due

    @property
    def ask_lowest(self) -> bool:
        """Whether the next poll is for the lowest received batch instead of the highest."""
        return self._stale >= self.STALE_POLLS and self._stale % 2 == 1

    def waiting(self, unconfirmed: bool, now: float) -> None:
        """Say whether there is anything to confirm; starts or stops the polls."""
        if not unconfirmed:
            self._due = None
            self._interval_s = self._least_s
            self._stale = 0
        elif self._due is None:
            self._due = now + self._interval_s

    def sent(self) -> None:
        """A poll is on its way."""
        self._asked = True

    def answered(self, now: float, *, news: bool) -> None:
        """It was answered; `news`: the watermark moved or a batch has to be sent again."""
        self._asked = False
        if news:
            self._interval_s = self._least_s
            self._stale = 0
        else:
            self._interval_s = min(self._most_s, self._interval_s * 1.5)
            self._stale += 1
        self._due = now + self._interval_s

    def connection_lost(self) -> None:
        """Whatever was asked will not be answered."""
        self._asked = False
        self._due = None
        self._interval_s = self._least_s
        self._stale = 0
