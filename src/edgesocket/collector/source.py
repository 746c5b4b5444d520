"""Where the sender finds batches, and where they stay until they are confirmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgesocket.protocol.replies import Reply


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Batches with ids that follow each other.

    Attributes:
        first_id: id of the first.
        payloads: one a batch, without line feeds.
    """

    first_id: int
    payloads: list[bytes]

    @property
    def next_id(self) -> int:
        """The id behind the last."""
        return self.first_id + len(self.payloads)


class BatchSource(Protocol):
    """A spool, as the sender sees it. Ids rise; gaps are possible. Called by the sender's thread only."""

    def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
        """The next batches at or above an id that may be sent (their ids are durable); None: there are none, yet.

        Cheap where ids are asked for in order; a step back (batches to send again) may cost a look into a file.
        Returns at least one batch where there is one, even one larger than `most_bytes`.
        """
        ...

    def refused(self, batch_id: int, payload: bytes, reply: Reply) -> None:
        """A batch was refused for good. When this returns it is in the dead letters, durably; its id is spent."""
        ...

    def done(self, below_id: int) -> None:
        """Every batch below this id is confirmed or in the dead letters: it may be thrown away."""
        ...
