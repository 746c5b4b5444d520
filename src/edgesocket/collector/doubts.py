"""What a collector remembers of its replies across its own crash, and why that is enough.

A batch that was sent is *in doubt* until its own reply was read and acted on. After a restart the spool still has the
batches, but nobody knows the replies. Two mistakes are possible when the first poll is answered `ACK:w`:

- To evict a batch <= w whose reply was DECODE_FAILED, unread when the process died. The ingress counts it as settled,
  so w covers it; evicted, it would be neither in a sink nor in the dead letters.
- To send a batch <= w again that is confirmed. The ingress knows a resend by its newest 65,536 records (and whatever
  is not confirmed yet); an older confirmed one would become a second row.

So the sender keeps a note in the spool: which ids may be in doubt. The rule after a restart:

    The first ACK evicts every batch <= w that is not in doubt. Everything else goes out again, lowest first: what is in
    doubt because nobody knows, the rest because the ingress does not have it confirmed.

What makes the rule safe:

1. *The note never says too little.* It is written before the first byte of a batch it does not cover goes out. A batch
   leaves it only in a note written after its RECEIVED was read, or after `refused` put it in the dead letters, durably
   (such a batch is never read from the spool again).
2. *The note never says too much.* It is `[a, ...)` and some ranges below `a`. `a` trails the newest batch by the window
   and NOTE_EVERY ids; the note on disk (written without fsync mostly, so a loss of power may take it back) trails by
   MAX_DOUBT ids at most, less than the ingress remembers. Sending waits where it would be more.
3. *Reconnecting is covered too.* A batch that was received earlier and goes out again is in doubt from then on: its
   reply may be another one now. Ranges below `a` are for those; they are added durably, NOTE_AHEAD ids at a time, and
   leave the note as soon as all of them are answered.

One double fault is left, on the side of a second row: a connection breaks while more than 65,536 batches wait for a
checkpoint, the next one breaks (or the sender dies) while they go out again, and a checkpoint covers them before the
one after that. Then those that were on their way (of a sender that died: NOTE_AHEAD more at most) are sent once more,
and the ingress may have forgotten them. To evict them would be the other mistake: their new reply was not read.

No note (a fresh spool, or a damaged file): everything is in doubt. Nothing can be lost by that; a row could be doubled
where more than 65,536 batches were waiting for their eviction.

Pure but for the `remember` it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from edgesocket.collector.retention import Retention
from edgesocket.ids import MAX_BATCH_ID, IdRanges

MAX_DOUBT = 60_000
"""No more ids than this are in doubt after a loss of power; the ingress knows the newest 65,536 records."""
NOTE_EVERY = 8_192
"""After so many new ids a new note is written."""
SYNC_EVERY = 30_000
"""After so many it is made durable."""
MAX_WINDOW = 16_384
"""The largest window of a collector with a spool: with SYNC_EVERY and one run more it stays below MAX_DOUBT."""
NOTE_AHEAD = 8_192
"""So many ids below the newest are put in doubt at once when they go out again."""
MAX_RANGES = 64
"""More ranges below the newest are joined: a note stays short. What is joined is in doubt, which is safe."""

_VERSION = "doubt1"


@dataclass(frozen=True)
class DoubtNote:
    """Which ids may have been sent without their reply having been acted on.

    Attributes:
        open_from: this id and every higher one.
        ranges: ids below.
    """

    open_from: int = 1
    ranges: IdRanges = field(default_factory=IdRanges)

    @classmethod
    def of(cls, in_doubt: IdRanges, cursor: int) -> DoubtNote:
        """A note that covers these ids and all from the cursor on, with few ranges and a low `open_from`."""
        ranges = in_doubt.copy()
        if len(ranges) > MAX_RANGES:
            highest = ranges.highest
            assert highest is not None
            ranges.add(ranges.firsts[MAX_RANGES - 1], highest)
        last_first = ranges.firsts[-1] if ranges else cursor
        if ranges and ranges.run_end(last_first) == cursor - 1:
            ranges.remove(last_first, cursor)
            cursor = last_first
        return cls(cursor, ranges)

    @classmethod
    def parse(cls, text: str) -> DoubtNote:
        """Read a note; what is none puts everything in doubt."""
        version, _, rest = text.partition(" ")
        if version != _VERSION:
            return cls()
        try:
            head, *pairs = rest.split(" ")
            bounds = [pair.split("-") for pair in pairs]
            return cls(int(head), IdRanges((int(first), int(last)) for first, last in bounds))
        except ValueError:
            return cls()

    def encode(self) -> str:
        """The note as a text of at most 2.6 KiB."""
        return " ".join([_VERSION, str(self.open_from), *(f"{first}-{last}" for first, last in self.ranges)])

    def covered_to(self, id_: int) -> int:
        """The last id up to which everything from `id_` on may be in doubt; `id_` - 1 where it is not."""
        if id_ >= self.open_from:
            return MAX_BATCH_ID
        last = self.ranges.run_end(id_)
        return id_ - 1 if last is None else last


class Doubts:
    """Keeps the note ahead of what is sent. One a client; not thread-safe."""

    def __init__(self, text: str, remember: Callable[[str, bool], None]) -> None:
        """Args: the note of the process before, and how to keep a new one (text, durable)."""
        self._remember = remember
        self.note = DoubtNote.parse(text)
        """What is written."""
        self._noted_at = self.note.open_from
        # Whether the note that was found would outlive a loss of power is not known: the first batch makes it so.
        self._durable: DoubtNote | None = None
        self._synced_at = 0

    def admit(self, first: int, last: int, retention: Retention) -> int:
        """Make sure that the note covers `first..last`, or the beginning of it, before it goes out.

        Returns:
            The last id that may go out now; less than `first` where that has to wait for replies.

        Raises:
            OSError: the note could not be written; nothing may be sent.
        """
        again = (first, min(first + NOTE_AHEAD, retention.cursor) - 1) if first < retention.cursor else None
        durable = self._durable or self.write(retention, durable=True, also=again)
        if (
            min(self.note.covered_to(first), durable.covered_to(first)) < first
            or first - self._synced_at >= SYNC_EVERY
            or last - durable.open_from >= MAX_DOUBT
        ):
            durable = self.write(retention, durable=True, also=again)
        elif first - self._noted_at >= NOTE_EVERY:
            self.write(retention, durable=False, also=again)
        last = min(last, self.note.covered_to(first), durable.covered_to(first))
        return min(last, durable.open_from + MAX_DOUBT - 1)

    def refresh(self, retention: Retention) -> None:
        """Write a new note where every batch of the ranges below the newest ids was answered since.

        The ingress may have forgotten such old ids: in doubt for longer than they must be, they could be doubled.
        """
        highest = max((note.ranges.highest or 0 for note in (self.note, self._durable) if note is not None), default=0)
        if highest and highest < (retention.in_doubt().lowest or retention.cursor):
            self.write(retention, durable=True)

    def write(self, retention: Retention, *, durable: bool, also: tuple[int, int] | None = None) -> DoubtNote:
        """Write what is in doubt now, and the range `also`; the same note is not written twice. Returns the note."""
        in_doubt = retention.in_doubt()
        if also is not None:
            in_doubt.add(*also)
        note = DoubtNote.of(in_doubt, retention.cursor)
        if note != self.note or (durable and note != self._durable):
            self._remember(note.encode(), durable)
            self.note, self._noted_at = note, retention.cursor
            if durable:
                self._durable, self._synced_at = note, retention.cursor
        return note
