"""The block parser: from a chunk of whole lines to blocks of records, and single events for the lines between them.

Theory of operation. There are two readings of a chunk, and they are one function of its bytes:

- the exact one (`exact`) goes line by line. It defines what is right.
- the columnar one finds all line feeds, copies the headers of all lines side by side, and compares them in a few
  calls; a block is then three arrays over the bytes as they were received. It only ever *accepts* lines of which it
  has verified every byte that matters (see `headers`). Whatever it does not accept, for whatever reason, goes to the
  exact reading. So no guess it makes can change a result, only the time it takes.

How a chunk is read depends on its looks:

1. one or two lines in few bytes (stop-and-wait): exactly;
2. few lines in few bytes (small windows): split them, and compare their headers as lists (`consecutive_lines`); where
   that does not fit, exactly;
3. else find the line feeds, by search where lines are long, by comparison where they are short, and then
   a. verify runs of consecutive ids against constants and a table (`consecutive_count`);
   b. where that has ended too often, read every id as a number (`read_ids`) and cut the chunk at the lines that are
      no batch with an id of this many digits: a commit poll among the batches, an error, a wider id.

Lines that are too long or not UTF-8 are looked for beforehand, and taken out.

Cost: some 40 us a chunk and 20 ns a line, plus 0.1 ms a MiB for looking at every byte (see `bench/micro_parse.py`);
with the compiled `kernels`, which replace the steps 3 and 3a, about half of that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.chunks import Chunk
from edgesocket.protocol.commands import BATCH_WORD, parse_batch_id
from edgesocket.protocol.exact import LineEvent, LineRules, exact_events, is_utf8, split_lines
from edgesocket.protocol.grammar import BATCH_PREFIX, CR
from edgesocket.protocol.headers import LONGEST_HEADER, HeaderLayout, consecutive_count, layout_of, read_ids
from edgesocket.protocol.kernels import Kernels, load
from edgesocket.protocol.line_ends import LineEndFinder
from edgesocket.protocol.utf8 import Utf8Checker
from edgesocket.records import IdArray, Offsets, RecordBlock


class FewLines(NamedTuple):
    """Up to how many lines columns are not worth their fixed cost.

    Attributes:
        any: the exact reading is faster.
        consecutive: comparing lists is.
    """

    any: int
    consecutive: int


FEW_FOR_NUMPY = FewLines(any=32, consecutive=160)
FEW_FOR_KERNELS = FewLines(any=12, consecutive=48)

KERNELS = load()
"""The compiled loops; None: numpy does the same."""

SMALL_BYTES = 64 * 1024
"""A smaller chunk is copied before blocks point into it, so that it does not keep a whole receive buffer busy."""

MIN_RUN_LINES = 8
MIN_RUN_BYTES = 16 * 1024
"""A run between odd lines that has less of both is read with them: a block has a fixed cost."""

RUN_TRIES = 4
"""How often a chunk is tried as runs of consecutive ids before its ids are read as numbers."""

PATIENCE = 32
"""How many odd places of a chunk are looked at before the rest is read line by line."""

MAX_BAD_LINES = 16
"""So many lines with invalid text are taken out one by one before the rest is read line by line."""

STRETCH_LINES = 32
"""After so many odd lines in a row the next header is looked at afresh: ids may have another width from there on."""

UTF8_PIECE_BYTES = 32 * 1024
"""How much is checked in one go where there is more than ASCII: the decoded text stays in the cache."""


class BlockParser:
    """Turns chunks into events. One per conversation: it keeps working memory, and what the last chunk was like.

    Guarantees: the events of a chunk, flattened to its lines, are those of `exact_events`; there is a `Batch` event
    exactly for each batch line that should be UTF-8 and is not; blocks point into the chunk's memory or own theirs.
    """

    __slots__ = ("_checker", "_consecutive", "_few", "_finder", "_kernels", "_rules")

    def __init__(self, rules: LineRules) -> None:
        self._rules = rules
        self._kernels = None if KERNELS is None else KERNELS.another()
        self._finder = LineEndFinder(self._kernels)
        self._checker = Utf8Checker()
        self._consecutive = True
        self._few = FEW_FOR_NUMPY if KERNELS is None else FEW_FOR_KERNELS

    def parse(self, chunk: Chunk) -> list[LineEvent]:
        """The events of a chunk, in line order."""
        size = chunk.end - chunk.start
        if size <= SMALL_BYTES:
            raw = chunk.data[chunk.start : chunk.end].tobytes()
            if _may_have_few_lines(raw, self._few.consecutive):
                lines = split_lines(raw)
                if 2 < len(lines) <= self._few.consecutive:
                    block = consecutive_lines(raw, lines, self._rules)
                    if block is not None:
                        return [block]
                if len(lines) <= self._few.any:
                    return exact_events(lines, self._rules)
            chunk = Chunk.of(raw)
        columns = _Columns(chunk, self._finder, self._rules, self._checker, self._kernels)
        columns.read(RUN_TRIES if self._consecutive else 0)
        self._consecutive = columns.consecutive
        return columns.events


def _may_have_few_lines(raw: bytes, most: int) -> bool:
    """Whether there are at most `most` lines, if all are as long as the first."""
    return (raw.find(b"\n") + 1) * most >= len(raw)


_LOW_DIGITS = 4
_LOW_SPAN = 10**_LOW_DIGITS
_LOW_TAILS = [b"%04d:" % low for low in range(_LOW_SPAN)]
"""How a header ends, by the lowest digits of its id."""


def consecutive_lines(raw: bytes, lines: list[bytes], rules: LineRules) -> RecordBlock | None:
    """The `lines` of `raw` as one block, if all are batches, their ids written in one width and consecutive.

    Returns:
        None for everything else, also where the ids pass a multiple of 10,000: the caller reads it another way.
    """
    word, _, rest = lines[0][:LONGEST_HEADER].partition(b":")
    digits, colon, _ = rest.partition(b":")
    batch_id = parse_batch_id(digits) if colon and word == BATCH_WORD else None
    if batch_id is None or len(digits) < _LOW_DIGITS or len(raw) > rules.max_line_bytes:
        return None
    count, low = len(lines), batch_id % _LOW_SPAN
    if low + count > _LOW_SPAN:
        return None  # there are fewer tails than lines, and empty lines could make up for it
    size = len(BATCH_PREFIX) + len(digits) + 1
    same = lines[0][: size - _LOW_DIGITS - 1]
    expected = same + same.join(_LOW_TAILS[low : low + count])
    if b"".join([line[:size] for line in lines]) != expected or batch_id + count - 1 > MAX_BATCH_ID:
        return None
    if rules.check_utf8 and not is_utf8(raw):
        return None
    return RecordBlock.of_run(batch_id, [line[size:] for line in lines])


class _Columns:
    """One chunk while it is read: arrays with an entry a line, and the events made so far.

    Attributes:
        events: what the lines came to.
        consecutive: whether the next chunk is worth being tried as runs of consecutive ids.
    """

    __slots__ = (
        "_ascii_only",
        "_checker",
        "_data",
        "_ends",
        "_kernels",
        "_line_feeds",
        "_next",
        "_patience",
        "_rules",
        "_starts",
        "consecutive",
        "events",
    )

    def __init__(
        self, chunk: Chunk, finder: LineEndFinder, rules: LineRules, checker: Utf8Checker, kernels: Kernels | None
    ) -> None:
        line_feeds = finder.find(chunk)
        self._data = chunk.data
        self._checker = checker
        self._kernels = kernels
        self._rules = rules
        self._ascii_only = finder.ascii_only
        self._line_feeds = line_feeds
        self._starts: Offsets = np.empty_like(line_feeds)
        self._starts[0] = chunk.start
        np.add(line_feeds[:-1], 1, out=self._starts[1:])
        self._ends = line_feeds
        if finder.may_have_cr:
            carriage_returns = chunk.data.take(line_feeds - 1) == CR
            self._ends = line_feeds - carriage_returns if np.count_nonzero(carriage_returns) else line_feeds
        self._next = 0  # the first line that is in no event yet
        self._patience = PATIENCE
        self.consecutive = True
        self.events: list[LineEvent] = []

    def read(self, run_tries: int) -> None:
        """Turn all lines into events, trying at most `run_tries` runs of consecutive ids."""
        bad, stop = self._bad_lines()
        begin = 0
        for line in bad:
            run_tries = self._read_range(begin, line, run_tries)
            begin = line + 1
        self._read_range(begin, stop, run_tries)
        self._exact_until(len(self._starts))

    def _read_range(self, begin: int, stop: int, run_tries: int) -> int:
        """Make blocks of what is regular in the lines `begin..stop-1`; returns the tries left."""
        while self._patience and self._worth_a_block(begin, stop):
            header = self._header(begin)
            if header is None:
                self._patience -= 1
                begin += 1
                continue
            layout, first_id = header
            if run_tries:
                run_tries -= 1
                most = min(stop - begin, layout.highest_id - first_id + 1)
                count = self._consecutive_count(self._starts[begin : begin + most], layout, first_id)
                if self._worth_a_block(begin, begin + count):
                    self._block(begin, begin + count, layout, first_id, None)
                    begin += count
                    continue
            self._patience -= 1
            begin = self._read_any_ids(begin, stop, layout)
        return run_tries

    def _consecutive_count(self, starts: Offsets, layout: HeaderLayout, first_id: int) -> int:
        if self._kernels is None:
            return consecutive_count(self._data, starts, layout, first_id)
        return self._kernels.consecutive(self._data, starts, layout.header_of(first_id), len(BATCH_PREFIX))

    def _read_any_ids(self, begin: int, stop: int, layout: HeaderLayout) -> int:
        """Make blocks of the lines from `begin` on that fit `layout`, whatever their ids; returns where to go on."""
        ids, valid = read_ids(self._data, self._starts[begin:stop], layout)
        odd = np.flatnonzero(~valid)
        count = stop - begin
        stretch = _first_stretch(odd)
        if stretch is not None and self._header(begin + stretch) is not None:
            count = stretch
            odd = odd[: np.searchsorted(odd, stretch)]
        leaps = ids[1:count] != ids[: count - 1] + 1
        self.consecutive = len(odd) < RUN_TRIES and int(np.count_nonzero(leaps)) < 2 * RUN_TRIES
        if len(odd) * MIN_RUN_LINES <= count:
            first = 0
            for last in [*odd.tolist(), count]:
                if self._worth_a_block(begin + first, begin + last):
                    leaping = np.count_nonzero(leaps[first : last - 1])
                    run_ids = ids[first:last] if leaping else None
                    self._block(begin + first, begin + last, layout, int(ids[first]), run_ids)
                first = last + 1
        return begin + count

    def _worth_a_block(self, begin: int, stop: int) -> bool:
        if stop - begin >= MIN_RUN_LINES:
            return True
        return stop > begin and int(self._line_feeds[stop - 1] - self._starts[begin]) >= MIN_RUN_BYTES

    def _block(self, begin: int, stop: int, layout: HeaderLayout, first_id: int, ids: IdArray | None) -> None:
        """Make a block of the lines `begin..stop-1`, which are verified, after events for what lies before."""
        self._exact_until(begin)
        payload_starts = self._starts[begin:stop] + layout.size
        self.events.append(RecordBlock.of_columns(self._data, payload_starts, self._ends[begin:stop], first_id, ids))
        self._next = stop

    def _exact_until(self, stop: int) -> None:
        """Read the lines up to `stop` that are in no event yet one by one."""
        if self._next < stop:
            raw = self._data[self._starts[self._next] : self._line_feeds[stop - 1] + 1].tobytes()
            self.events += exact_events(split_lines(raw), self._rules)
            self._next = stop

    def _header(self, line: int) -> tuple[HeaderLayout, int] | None:
        """Layout and id of one line, or None where it is no batch with a valid id of at most 19 digits."""
        start = int(self._starts[line])
        head = self._data[start : start + LONGEST_HEADER].tobytes()
        digits, colon, _ = head[len(BATCH_PREFIX) :].partition(b":")
        batch_id = parse_batch_id(digits) if colon and head.startswith(BATCH_PREFIX) else None
        return None if batch_id is None else (layout_of(len(digits)), batch_id)

    def _bad_lines(self) -> tuple[list[int], int]:
        """Lines that must be read one by one, because they are too long or not UTF-8.

        Returns:
            The lines, rising, and the line from which on all must be read so.
        """
        start, end = int(self._starts[0]), int(self._line_feeds[-1]) + 1
        bad: list[int] = []
        stop = len(self._starts)
        if end - start > self._rules.max_line_bytes:
            bad += np.flatnonzero(self._ends - self._starts > self._rules.max_line_bytes).tolist()
        if self._rules.check_utf8 and not (self._ascii_only or self._checker.is_utf8(self._data, start, end)):
            bad += self._not_utf8(start, end)
        bad = sorted(set(bad))
        if len(bad) > MAX_BAD_LINES:
            stop = bad[MAX_BAD_LINES]
            del bad[MAX_BAD_LINES:]
        return bad, stop

    def _not_utf8(self, start: int, end: int) -> list[int]:
        """The first `MAX_BAD_LINES` + 1 lines in the bytes `start..end-1` that are not UTF-8."""
        bad: list[int] = []
        text = self._data.data
        while start < end and len(bad) <= MAX_BAD_LINES:
            last = min(int(self._line_feeds.searchsorted(start + UTF8_PIECE_BYTES)), len(self._line_feeds) - 1)
            stop = int(self._line_feeds[last]) + 1
            try:
                str(text[start:stop], "utf-8")
            except UnicodeDecodeError as error:
                last = int(self._line_feeds.searchsorted(start + error.start))
                bad.append(last)
                stop = int(self._line_feeds[last]) + 1
            start = stop
        return bad


def _first_stretch(odd: Offsets) -> int | None:
    """The first of `STRETCH_LINES` odd lines in a row, or None."""
    if len(odd) < STRETCH_LINES:
        return None
    found = np.flatnonzero(odd[STRETCH_LINES - 1 :] - odd[: 1 - STRETCH_LINES] == STRETCH_LINES - 1)
    return int(odd[found[0]]) if len(found) else None
