"""Where the sender finds batches, and where they stay until they are confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgesocket.protocol.replies import Reply


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Batches with ids that follow each other.

    Attributes:
        first_id: id of the first.
        payloads: one a batch, without line feeds; fastest as `EndedLines`.
    """

    first_id: int
    payloads: Sequence[bytes]

    @property
    def next_id(self) -> int:
        """The id behind the last."""
        return self.first_id + len(self.payloads)


class BatchSource(Protocol):
    """A spool, as the sender sees it. Ids rise; gaps are possible. Called by the sender's thread only.

    An OSError of any of these methods ends the client that called it, and leaves nothing half done: another client on
    the same source goes on where this one stood.
    """

    def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
        """The next batches at or above an id that may be sent (their ids are durable); None: there are none, yet.

        Cheap where ids are asked for in order; a step back (batches to send again) may cost a look into a file.
        Returns at least one batch where there is one, even one larger than `most_bytes`. A batch that was given to
        `refused`, by this process or an earlier one, is never returned again: its id is a gap.
        """
        ...

    def refused(self, batch_id: int, payload: bytes, reply: Reply) -> None:
        """A batch was refused for good. When this returns it is in the dead letters, durably; its id is spent."""
        ...

    def done(self, below_id: int) -> None:
        """Every batch below this id is confirmed or in the dead letters: it may be thrown away.

        The id only rises for one client; the next client may begin lower again, which means nothing.
        """
        ...

    def recall(self) -> str:
        """The newest text that `remember` was given, by whatever process; "" where there is none that is whole."""
        ...

    def remember(self, text: str, durable: bool) -> None:
        """Keep a short text (at most 4 KiB of ASCII) in place of the one before.

        When this returns the text outlives the process; with `durable` also a loss of power. See `collector.doubts`.
        """
        ...
