"""What an input does for the agent, and when it may forget.

The agent has one intake thread. It goes round::

    for each input:    discover(now)                    always, also while the spool is full
    for each input:    read(budget) -> Intake or None   only while the spool has room
                       the lines and the marks go to the spool as one step, and are synced
                       stored(intake)                   now, and only now, they are durable

An input never holds records back in memory between two rounds, save the beginning of one that is not complete; and
where it can be read again (a file), its mark says from where. So a crash at any point reads again what was not durable,
and nothing that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Intake:
    """What one `read` brought.

    Attributes:
        lines: records in order, none of which holds a line feed; fastest as `EndedLines`.
        marks: name -> text of a position that is reached when `lines` are durable; "" forgets the name. Names begin
            with the input's own name and a slash. Marks alone, without lines, are allowed.
        token: the input's own; handed back to `stored`.
    """

    lines: Sequence[bytes]
    marks: dict[str, str] = field(default_factory=dict)
    token: object = None


class Input(Protocol):
    """One source of records. Not thread-safe: only the intake thread calls it."""

    @property
    def name(self) -> str:
        """Its name in the configuration, in marks, metrics and messages; unique in the agent, without a slash."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """Totals since the start for the metrics, by name in snake_case: lines_skipped, lines_cut, ..."""
        ...

    def open(self, marks: Mapping[str, str], now: float) -> None:
        """Begin, after everything the marks say. Called once.

        Args:
            marks: all durable marks whose name begins with this input's name and a slash.
            now: seconds on a steady clock, as in every other call.

        Raises:
            CollectorError: it cannot work as configured (a port is taken, a directory is missing).
        """
        ...

    def descriptors(self) -> Sequence[int]:
        """What to wait on: when one becomes readable, `read` has something to do."""
        ...

    def next_time(self, now: float) -> float | None:
        """When `discover` or `read` wants to be called next if no descriptor wakes; None: only a descriptor wakes."""
        ...

    def discover(self, now: float) -> None:
        """Look at the world (new files, rotations, connections to accept) without taking a record. Never blocks."""
        ...

    def read(self, budget_bytes: int, now: float) -> Intake | None:
        """Take what is there, at most about `budget_bytes` of it, without blocking. None: nothing."""
        ...

    def stored(self, intake: Intake, now: float) -> None:
        """The lines and marks of an earlier `read` are durable: answer whoever waits for that."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing will ever come again (the end of the standard input, a command that is not repeated)."""
        ...

    def close(self, now: float) -> Intake | None:
        """Stop taking records and let go of everything. Returns the beginning of a record that cannot be read again."""
        ...
