"""Bytes of a stream in any pieces -> records, and how far the stream is done with.

Pure: no file, no clock. What comes out depends on the bytes alone, not on where they were cut; tests cut at every byte.

Every input uses it the same way::

    framer = Framer(options)
    records = framer.feed(chunk)            complete ones, in order, in UTF-8, without line ends
    ...
    records = framer.flush()                by the caller's clock: nothing came for `options.idle_flush_s`
    records = framer.flush(final=True)      nothing more will come: the connection or the file ended

A file remembers `framer.state` with the records: `Framer(options, state)`, fed with the file from `state.offset` on,
goes on exactly there. What lies before `state.offset` is in records that were returned; what lies behind is not, and
is all that the framer holds in memory (at most one record and one chunk). So nothing of a record that is not complete
needs to be saved: it is read again.

Rules:

- A line ends with LF or CR LF; a CR elsewhere is text. VT, FF, NEL, U+2028 do not end lines.
- A byte order mark at offset 0 is dropped.
- UTF-8 is passed on byte for byte, whatever it is, unless `invalid` is "replace". Other encodings become UTF-8.
- `flush` ends a line that has no line end yet. What comes later of that line is a record of its own; if that is only
  the line end, it is none. Nothing is returned twice, and no empty record is made up. A character of which only the
  beginning has come waits for its rest, unless the flush is final.
- A line longer than `max_line_bytes` (as it is in the stream, without its end) is split, cut or skipped as `long_lines`
  says, always between characters. A record that became longer than that as UTF-8 is treated likewise.
  With multiline rules, the pieces of a long line are records of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from edgesocket.collector.intake.encodings import Encoding, encoding_name, needs_start, settled
from edgesocket.collector.intake.framing_options import (
    FramingCounts,
    FramingOptions,
    FramingState,
    InvalidBytes,
    LongLines,
)
from edgesocket.collector.intake.multiline import MultilineAssembler
from edgesocket.protocol.ended_lines import EndedLines

__all__ = ["Framer", "FramingCounts", "FramingOptions", "FramingState", "InvalidBytes", "LongLines"]

_MOST_PIECES = 256
"""Pieces of a line that are kept apart before they are joined: neither a copy a piece, nor an object a byte."""

_MOST_REREAD_BYTES = 16 * 1024
"""A longer beginning of a line is kept: to read it again and again would cost more than to put it together."""


class Framer:
    """Cuts one stream into records. Not thread-safe."""

    def __init__(
        self,
        options: FramingOptions,
        state: FramingState | None = None,
        counts: FramingCounts | None = None,
        *,
        positions: bool = False,
    ) -> None:
        """Begin, or go on.

        Args:
            options: how.
            state: where the stream is; without one, at its start.
            counts: what to count in; without one, an own one.
            positions: keep `starts`. Costs the fast path.
        """
        state = state or FramingState()
        self.counts = counts if counts is not None else FramingCounts()
        self.starts: list[int] = []
        """Of the records that `feed` or `flush` returned last: offset of the first byte of each. With `positions`."""
        self._options = options
        self._limit = options.max_line_bytes
        self._name = encoding_name(state.encoding or options.encoding)
        self._encoding: Encoding | None = None if needs_start(self._name) else settled(self._name, b"")
        self._narrow = self._encoding is not None and self._encoding.unit == 1
        self._base = state.offset
        self._pieces: list[bytes] = []
        self._size = 0
        self._in_line = state.in_line
        self._skipping = state.skipping
        self._positions = positions
        rule = options.multiline
        self._assembler = MultilineAssembler(rule, options.max_line_bytes) if rule else None
        self._capped = 0
        keeps = options.invalid is InvalidBytes.KEEP and not (options.skip_empty or rule or positions)
        self._plain = keeps and self._encoding is not None and self._encoding.is_utf8

    @property
    def state(self) -> FramingState:
        """How far the stream is done with, and how to go on from there."""
        name = self._encoding.name if self._encoding else ""
        if self._assembler and self._assembler.start is not None:
            return FramingState(self._assembler.start, name)
        return FramingState(self._base, name, self._in_line, self._skipping)

    @property
    def read_offset(self) -> int:
        """Bytes of the stream, from its start, that have been fed."""
        return self._base + self._size

    @property
    def pending_bytes(self) -> int:
        """How much has been fed that is not done with."""
        return self.read_offset - self.state.offset

    def settle(self, start: bytes) -> Encoding:
        """Settle the byte order by the first bytes of the stream, where it is to be read from the middle."""
        self._encoding = settled(self._name, start)
        return self._encoding

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of the stream and return the records they complete."""
        if self._positions:
            self.starts = []
        if not data:
            return []
        self._pieces.append(data)
        self._size += len(data)
        if self._narrow and b"\n" not in data and self._size <= self._limit and not self._skipping:
            if len(self._pieces) > _MOST_PIECES:
                self._pieces = [b"".join(self._pieces)]
            return []
        block = self._joined()
        encoding = self._settled(block)
        if encoding is None:
            self._keep(block)
            return []
        block = self._without_mark(block, encoding)
        records: list[bytes] = []
        if self._skipping:
            block = self._skipped(block, encoding)
        end = encoding.end_of_lines(block)
        if end:
            self._complete(block[:end] if end < len(block) else block, encoding, records)
            block = block[end:]
        self._keep(block)
        limit = self._limit + 2 * encoding.unit - 1
        if self._size > limit:
            self._shorten(limit, encoding, records)
        return records

    def feed_lines(self, data: bytes) -> Sequence[bytes]:
        """As `feed`. Where lines are records as they are, they are not taken apart: they come as `EndedLines`."""
        end = data.rfind(b"\n") + 1
        if not (end and self._plain and self._base) or self._in_line or self._skipping:
            return self.feed(data)
        if self._size + len(data) > self._limit:  # one of the lines may be too long
            return self.feed(data)
        pieces, rest = self._pieces, data[end:]
        if pieces:
            data = b"".join([*pieces, memoryview(data)[:end]])
            end = len(data)
        self._base += end
        self._keep(rest)
        if b"\r" in data:
            return EndedLines(data[:end].replace(b"\r\n", b"\n"))
        return EndedLines(data, end)

    @property
    def rereadable_bytes(self) -> int:
        """How much of a line has begun that could as well be read again, together with what follows: see `unread`."""
        cheap = self._plain and self._base and self._size <= _MOST_REREAD_BYTES
        return self._size if cheap and not (self._skipping or self._in_line) else 0

    def unread(self, data: bytes) -> bool:
        """Forget the line that has begun, as `data` begins with it: cheaper than to put the pieces together."""
        begun = self._joined()
        if data.startswith(begun):
            return True
        self._keep(begun)
        return False

    def flush(self, *, final: bool = False) -> list[bytes]:
        """End what is not complete: a line without its line end, a record of several lines.

        Args:
            final: nothing more will come. Even the beginning of a character is returned.
        """
        if self._positions:
            self.starts = []
        records: list[bytes] = []
        block = self._joined()
        encoding = self._settled(block) or (settled(self._name, block) if final else None)
        if encoding is None:
            self._keep(block)
            return records
        self._encoding = encoding
        block = self._without_mark(block, encoding)
        if self._skipping:
            block = self._skipped(block, encoding)
        self._keep(block)
        self._shorten(self._limit, encoding, records)
        block = self._joined()
        size = len(block) if final else encoding.whole_characters(block)
        if size:
            line = self._decoded_line(block[:size], encoding)
            self._base += size
            self._short_lines([self._base - size], [line], records)
            self._in_line = True
        self._keep(block[size:])
        self._end_record(records)
        return records

    # --- bytes that are not complete -------------------------------------------------------------

    def _joined(self) -> bytes:
        block = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        self._size = 0
        return block

    def _keep(self, block: bytes) -> None:
        self._pieces = [block] if block else []
        self._size = len(block)

    def _settled(self, block: bytes) -> Encoding | None:
        """The encoding; None: its byte order shows only when more has come."""
        if self._encoding is None and len(block) >= needs_start(self._name):
            self._encoding = settled(self._name, block)
        return self._encoding

    def _without_mark(self, block: bytes, encoding: Encoding) -> bytes:
        if self._base or not encoding.bom or not block.startswith(encoding.bom):
            return block
        self._base = len(encoding.bom)
        return block[self._base :]

    def _skipped(self, block: bytes, encoding: Encoding) -> bytes:
        """Throw the rest of the line away, as far as it has come; return what follows."""
        found = encoding.find_line_feed(block, 0)
        size = found + encoding.unit if found >= 0 else len(block) - len(block) % encoding.unit
        self._base += size
        self.counts.bytes_skipped += size
        self._skipping = found < 0
        return block[size:]

    # --- long lines ------------------------------------------------------------------------------

    def _shorten(self, limit: int, encoding: Encoding, records: list[bytes]) -> None:
        """While the line that is not complete is longer than `limit`, do with it what the policy says.

        Where more may come, `limit` is above that for lines: what is at the end may be the first half of a line end.
        """
        block = self._joined()
        while len(block) > limit:
            size = self._long_piece(block, 0, self._base, encoding, records)
            self._base += size
            block = block[size:]
            if self._options.long_lines is not LongLines.SPLIT:
                self._skipping = True
                block = self._skipped(block, encoding)
        self._keep(block)

    def _long_piece(self, block: bytes, at: int, start: int, encoding: Encoding, records: list[bytes]) -> int:
        """Begin with a line that is too long, at `at` in the block, at `start` in the stream.

        Returns:
            how much of it was made a record.
        """
        self._end_record(records)
        self._in_line = False
        policy = self._options.long_lines
        if policy is LongLines.SKIP:
            self.counts.lines_skipped += 1
            return 0
        piece = block[at : at + self._limit - self._limit % encoding.unit]
        piece = piece[: encoding.whole_characters(piece) or len(piece)]
        self._add(start, self._short_enough([self._decoded_line(piece, encoding)]), records)
        if policy is LongLines.CUT:
            self.counts.lines_cut += 1
        else:
            self.counts.lines_split += 1
        return len(piece)

    # --- complete lines --------------------------------------------------------------------------

    def _complete(self, block: bytes, encoding: Encoding, records: list[bytes]) -> None:
        """Take a block that ends with a line feed."""
        if len(block) > self._limit and self._any_long(block, encoding):
            self._complete_with_long(block, encoding, records)
            return
        self._block(block, encoding, records)

    def _any_long(self, block: bytes, encoding: Encoding) -> bool:
        if encoding.unit == 1:
            return max(map(len, block.split(b"\n"))) > self._limit
        return any(end - start > self._limit for start, end in _line_spans(block, encoding))

    def _complete_with_long(self, block: bytes, encoding: Encoding, records: list[bytes]) -> None:
        run = 0
        for start, feed in _line_spans(block, encoding):
            end, at = feed - encoding.unit, start
            if end < start or block[end:feed] != encoding.carriage_return:
                end = feed
            while end - at > self._limit:
                if run < at:
                    self._block(block[run:at], encoding, records)
                size = self._long_piece(block, at, self._base, encoding, records)
                self._base += size
                run = at = at + size
                if self._options.long_lines is not LongLines.SPLIT:
                    self.counts.bytes_skipped += feed + encoding.unit - at
                    self._base += feed + encoding.unit - at
                    run = at = feed + encoding.unit
                    break
        if run < len(block):
            self._block(block[run:], encoding, records)

    def _block(self, block: bytes, encoding: Encoding, records: list[bytes]) -> None:
        """Complete lines, none of them too long. The hot path: nothing here is done a line, in plain UTF-8."""
        lines = self._decoded(block, encoding)
        starts: list[int] = []
        if self._positions or self._assembler:
            starts = [self._base, *(self._base + end for end in _line_ends(block, encoding))]
            starts.pop()
        self._base += len(block)
        if self._in_line:
            self._in_line = False
            if not lines[0]:
                lines, starts = lines[1:], starts[1:]
        self._short_lines(starts, lines, records)

    def _short_lines(self, starts: list[int], lines: list[bytes], records: list[bytes]) -> None:
        """Complete lines and where each began (only looked at with positions or multiline rules)."""
        if not self._assembler:
            if self._positions:
                for start, line in zip(starts, lines, strict=True):
                    self._add(start, self._short_enough([line]), records)
                return
            if (self._encoding and not self._encoding.is_utf8) or self._options.invalid is InvalidBytes.REPLACE:
                lines = self._short_enough(lines)
            if self._options.skip_empty:
                lines = [line for line in lines if line]
            records += lines
            return
        for start, record in self._assembler.feed(starts, lines):
            self._add(start, self._short_enough([record]), records)
        self._count_capped()

    def _end_record(self, records: list[bytes]) -> None:
        if self._assembler:
            for start, record in self._assembler.flush():
                self._add(start, self._short_enough([record]), records)
            self._count_capped()

    def _count_capped(self) -> None:
        if self._assembler:
            self.counts.records_capped += self._assembler.capped
            self._assembler.capped = 0

    def _add(self, start: int, pieces: list[bytes], records: list[bytes]) -> None:
        if self._options.skip_empty:
            pieces = [piece for piece in pieces if piece]
        records += pieces
        if self._positions:
            self.starts += [start] * len(pieces)

    def _short_enough(self, lines: list[bytes]) -> list[bytes]:
        """Lines that grew beyond the limit when they became UTF-8, or by joining: as the policy says."""
        if not lines or max(map(len, lines)) <= self._limit:
            return lines
        return [piece for line in lines for piece in self._shortened(line)]

    def _shortened(self, line: bytes) -> list[bytes]:
        if len(line) <= self._limit:
            return [line]
        if self._options.long_lines is LongLines.SKIP:
            self.counts.lines_skipped += 1
            self.counts.bytes_skipped += len(line)
            return []
        utf8 = settled("utf-8", b"")
        pieces = []
        while len(line) > self._limit:
            piece = line[: self._limit]
            pieces.append(piece[: utf8.whole_characters(piece) or len(piece)])
            line = line[len(pieces[-1]) :]
            if self._options.long_lines is LongLines.CUT:
                self.counts.lines_cut += 1
                self.counts.bytes_skipped += len(line)
                return pieces
        self.counts.lines_split += 1
        return [*pieces, line]

    # --- text ------------------------------------------------------------------------------------

    def _decoded(self, block: bytes, encoding: Encoding) -> list[bytes]:
        """The lines of a block that ends with a line feed, as UTF-8, without line ends."""
        if not (encoding.is_utf8 and self._options.invalid is InvalidBytes.KEEP):
            try:
                block = encoding.strict(block)
            except UnicodeError:
                return self._decoded_one_by_one(block, encoding)
        feed = b"\n"
        if b"\r" in block:
            if block.count(b"\r\n") == block.count(b"\n"):
                feed = b"\r\n"  # all lines end alike: much faster than to replace it in each
            else:
                block = block.replace(b"\r\n", b"\n")
        lines = block.split(feed)
        lines.pop()
        return lines

    def _decoded_one_by_one(self, block: bytes, encoding: Encoding) -> list[bytes]:
        return [
            self._decoded_line(block[start:end].removesuffix(encoding.carriage_return), encoding)
            for start, end in _line_spans(block, encoding)
        ]

    def _decoded_line(self, line: bytes, encoding: Encoding) -> bytes:
        keep = self._options.invalid is InvalidBytes.KEEP
        if encoding.is_utf8 and keep:
            return line
        try:
            return encoding.strict(line)
        except UnicodeError:
            self.counts.lines_invalid += 1
            return encoding.kept(line) if keep else encoding.replaced(line)


def _line_spans(block: bytes, encoding: Encoding) -> Iterator[tuple[int, int]]:
    """(start, where the line feed begins) of each line in a block that ends with a line feed."""
    start = 0
    while start < len(block):
        found = encoding.find_line_feed(block, start)
        yield start, found
        start = found + encoding.unit


def _line_ends(block: bytes, encoding: Encoding) -> Iterator[int]:
    """Offset behind each line of a block that ends with a line feed."""
    if encoding.unit == 1:
        lines = block.split(b"\n")
        lines.pop()
        return accumulate(len(line) + 1 for line in lines)
    return (feed + encoding.unit for _, feed in _line_spans(block, encoding))
