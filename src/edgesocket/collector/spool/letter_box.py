"""Writes and reads the dead letters of a spool: `dead-letters/<number>.jsonl` (see letters.py).

Each process writes files of its own, so a line that was not written to its end is never written behind. When all files
together exceed their limit the oldest goes, and what was in it is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from edgesocket.collector.spool.files import Files
from edgesocket.collector.spool.letters import DeadLetter, id_of_line, parse_letter
from edgesocket.collector.spool.names import DEAD_LETTERS, letters_name, parse_letters_name
from edgesocket.ids import IdRanges

FILES_A_LIMIT = 8
"""The limit is cut into so many files: so much of it goes at a time."""
MAX_SPENT_RANGES = 65_536
"""So many separate ids of dead letters are remembered; above that the lowest may be offered again."""


class LetterBox:
    """The dead letters of one spool. `put` is called by one thread at a time.

    Attributes:
        spent: ids that are in the dead letters.
        kept: how many dead letters there are.
        dropped: how many went because of the limit, since this was opened.
    """

    def __init__(self, files: Files, spool: Path, limit_bytes: int, on_notice: Callable[[str], None]) -> None:
        """Look at what is there. Raises no OSError: what cannot be read counts as not there."""
        self._files = files
        self._directory = spool / DEAD_LETTERS
        self._limit_bytes = limit_bytes
        self._notice = on_notice
        self._fd: int | None = None
        self._number = 0
        self._size = 0
        self._counts: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self.spent = IdRanges()
        self.dropped = 0
        with suppress(OSError):
            for number in letter_files(files, self._directory):
                self._look(number)
                self._number = number

    @property
    def kept(self) -> int:
        """How many dead letters there are."""
        return sum(list(self._counts.values()))

    def put(self, letter: DeadLetter) -> None:
        """Keep a dead letter, durably. Raises OSError: it is not kept, put it again."""
        if letter.batch_id in self.spent:
            return
        line = letter.to_line()
        if self._fd is not None and self._size and self._size + len(line) > self._limit_bytes // FILES_A_LIMIT:
            self._end_file()
        self._make_room(len(line))
        if self._fd is None:
            self._begin_file()
        assert self._fd is not None
        try:
            self._files.write(self._fd, [line])
            self._files.sync(self._fd)
        except OSError:
            # Whatever of it is there is cut off if that can be done; and never written behind.
            with suppress(OSError):
                self._files.truncate(self._fd, self._size)
            self._end_file()
            raise
        self._size += len(line)
        self._sizes[self._number] = self._size
        self._counts[self._number] += 1
        self.spent.add(letter.batch_id, letter.batch_id)
        self.spent.keep_highest(MAX_SPENT_RANGES)

    def close(self) -> None:
        """Release the file."""
        if self._fd is not None:
            self._end_file()

    def remove(self, numbers: list[int]) -> None:
        """Remove whole files. Raises OSError."""
        for number in numbers:
            self._files.unlink(self._directory / letters_name(number))
            self._counts.pop(number, None)
            self._sizes.pop(number, None)
        self._files.sync_directory(self._directory)

    def _look(self, number: int) -> None:
        path = self._directory / letters_name(number)
        self._counts[number] = 0
        with suppress(OSError):
            self._sizes[number] = self._files.size(path)
            with path.open("rb") as file:
                for line in file:
                    batch_id = id_of_line(line)
                    if batch_id is not None:
                        self._counts[number] += 1
                        self.spent.add(batch_id, batch_id)
        self.spent.keep_highest(MAX_SPENT_RANGES)

    def _begin_file(self) -> None:
        self._files.make_directory(self._directory)
        number = self._number + 1
        self._fd = self._files.create(self._directory / letters_name(number))
        self._number, self._size = number, 0
        self._counts[number] = self._sizes[number] = 0
        try:
            self._files.sync_directory(self._directory)
        except OSError:
            self._end_file()
            raise

    def _end_file(self) -> None:
        assert self._fd is not None
        self._files.close(self._fd)
        self._fd = None

    def _make_room(self, length: int) -> None:
        while self._sizes and sum(self._sizes.values()) + length > self._limit_bytes:
            oldest = min(self._sizes)
            if oldest == self._number and self._fd is not None:
                self._end_file()
            self._files.unlink(self._directory / letters_name(oldest))
            lost = self._counts.pop(oldest, 0)
            del self._sizes[oldest]
            self.dropped += lost
            if lost:
                self._notice(f"the dead letters are full: the oldest {lost} were dropped")


def letter_files(files: Files, directory: Path) -> list[int]:
    """The numbers of the files there, rising."""
    numbers = (parse_letters_name(name) for name in files.names(directory))
    return sorted(number for number in numbers if number is not None)


def read_letters(path: Path) -> Iterator[DeadLetter]:
    """The dead letters in one file, without lines that are none. Raises OSError."""
    with path.open("rb") as file:
        for line in file:
            letter = parse_letter(line)
            if letter is not None and line.endswith(b"\n"):
                yield letter
