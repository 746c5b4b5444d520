"""Input stdin: the lines of the standard input, at most once on the way here, at least once from here on.

A pipe cannot be read again: what was read and is not yet in the spool is lost if the agent dies in that moment, and
what the writer has put into the pipe if it stops. While the spool is full nothing is read, and the writer waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgesocket.collector.intake.contract import Intake
from edgesocket.collector.intake.enveloping import Envelope
from edgesocket.collector.intake.framing import FramingCounts, FramingOptions
from edgesocket.collector.intake.pipe import PipeLines

STDIN = 0


class StdinInput:
    """See the module's text. An `Input`."""

    def __init__(self, name: str, framing: FramingOptions, envelope: Envelope | None, descriptor: int = STDIN) -> None:
        """Args: its name, how bytes become records, what wraps them, and what is read."""
        self._name = name
        self._envelope = envelope
        self._counts = FramingCounts()
        self._lines = PipeLines(descriptor, framing, self._counts)

    @property
    def name(self) -> str:
        return self._name

    @property
    def counts(self) -> Mapping[str, int]:
        return self._counts.as_dict()

    def open(self, marks: Mapping[str, str], now: float) -> None:
        """There is nothing to open."""

    def descriptors(self) -> Sequence[int]:
        return [] if self._lines.ended else [self._lines.descriptor]

    def next_time(self, now: float) -> float | None:  # noqa: ARG002
        return self._lines.next_time

    def discover(self, now: float) -> None:
        """There is nothing to find."""

    def read(self, budget_bytes: int, now: float) -> Intake | None:
        return self._intake(self._lines.read_all(budget_bytes, now))

    def stored(self, intake: Intake, now: float) -> None:
        """Nobody waits for an answer."""

    @property
    def ended(self) -> bool:
        return self._lines.ended

    def close(self, now: float) -> Intake | None:  # noqa: ARG002
        return self._intake(self._lines.finish())

    def _intake(self, records: list[bytes]) -> Intake | None:
        if not records:
            return None
        return Intake(records if self._envelope is None else self._envelope.wrap(records))
