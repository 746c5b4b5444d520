"""Which dead letters have been replayed: what a replay writes into its checkpoints, and goes on from.

A letter is known by its position. Files of letters never change, but a directory may be emptied and filled anew by a
job that begins from nothing, so a file is known by its size too: one of another size is another file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from edgesocket.sources.letter_files import FileKey, LetterFile, Position

FILES_KEPT = 20_000
"""So many files are remembered; beyond that the oldest of those that are gone are forgotten."""

FAILED_KEPT = 1_000
"""So many reasons of letters that failed again are kept: they are for people."""

REASON_CHARACTERS = 200


@dataclass(slots=True)
class _File:
    """What was replayed of one file: its size, and line ranges, first and last inclusive, rising and apart."""

    bytes: int
    lines: list[list[int]] = field(default_factory=list)

    def has(self, line: int) -> bool:
        place = bisect_right(self.lines, [line, 1 << 63]) - 1
        return place >= 0 and self.lines[place][1] >= line

    def add(self, line: int) -> None:
        place = bisect_right(self.lines, [line, 1 << 63])
        before = self.lines[place - 1] if place else None
        after = self.lines[place] if place < len(self.lines) else None
        if before is not None and line <= before[1]:
            return
        if before is not None and before[1] == line - 1:
            before[1] = line
            if after is not None and after[0] == line + 1:
                before[1] = after[1]
                del self.lines[place]
        elif after is not None and after[0] == line + 1:
            after[0] = line
        else:
            self.lines.insert(place, [line, line])

    def remove(self, line: int) -> None:
        place = bisect_right(self.lines, [line, 1 << 63]) - 1
        first, last = self.lines[place]
        self.lines[place : place + 1] = [run for run in ([first, line - 1], [line + 1, last]) if run[0] <= run[1]]


@dataclass(frozen=True, slots=True)
class Failed:
    """A letter that was refused again.

    Attributes:
        reason: what is wrong with it.
        sinks: the sinks that refused its row, where the others have taken it: only these may get it again. None: it
            never became a row.
    """

    reason: str
    sinks: frozenset[str] | None = None

    def to_json(self) -> dict[str, Any]:
        """As it stands in commit records."""
        return {"reason": self.reason, "sinks": None if self.sinks is None else sorted(self.sinks)}

    @classmethod
    def of_json(cls, shown: dict[str, Any]) -> Failed:
        """The inverse of `to_json`."""
        return cls(shown["reason"], None if shown["sinks"] is None else frozenset(shown["sinks"]))


class ReplayMemory:
    """What was replayed, and what failed again. Used by one thread.

    Args:
        state: what `to_json` gave; None for nothing.

    Attributes:
        replayed: how many letters were replayed, of all times.
        failed: the letters that were refused again, by position.
    """

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self._files = {
            _key(name): _File(one["bytes"], [list(run) for run in one["lines"]])
            for name, one in state.get("files", {}).items()
        }
        self.replayed: int = state.get("replayed", 0)
        self.failed = {Position.parse(place): Failed.of_json(one) for place, one in state.get("failed", {}).items()}

    def to_json(self) -> dict[str, Any]:
        """Everything, for a commit record."""
        return {
            "files": {
                str(key): {"bytes": file.bytes, "lines": [list(run) for run in file.lines]}
                for key, file in sorted(self._files.items())
            },
            "replayed": self.replayed,
            "failed": {str(place): one.to_json() for place, one in self.failed.items()},
        }

    def copy(self) -> ReplayMemory:
        """The same, apart from this one."""
        return ReplayMemory(self.to_json())

    def is_done(self, position: Position) -> bool:
        """Whether a letter was replayed."""
        file = self._files.get(position.file)
        return file is not None and file.has(position.line)

    def add(self, position: Position, file_bytes: int) -> None:
        """A letter was replayed. `file_bytes`: the size of its file."""
        self._files.setdefault(position.file, _File(file_bytes)).add(position.line)
        self.failed.pop(position, None)
        self.replayed += 1

    def fail(self, position: Position, failed: Failed) -> None:
        """A letter was refused again, also one that counted as replayed."""
        if self.is_done(position):
            self._files[position.file].remove(position.line)
            self.replayed -= 1
        self.failed.pop(position, None)
        self.failed[position] = Failed(failed.reason[:REASON_CHARACTERS], failed.sinks)
        if len(self.failed) > FAILED_KEPT:
            oldest = next((place for place, one in self.failed.items() if one.sinks is None), None)
            if oldest is not None:
                del self.failed[oldest]

    def look_at(self, files: Iterable[LetterFile]) -> None:
        """Forget what was known of files that are other ones now, and, if too many are known, of some that are gone."""
        there = {file.key: file.bytes for file in files}
        for key, size in there.items():
            if key in self._files and self._files[key].bytes != size:
                self._forget(key)
        for key in [key for key in sorted(self._files) if key not in there][: max(0, len(self._files) - FILES_KEPT)]:
            self._forget(key)

    def _forget(self, key: FileKey) -> None:
        del self._files[key]
        for place in [place for place in self.failed if place.file == key]:
            del self.failed[place]


def _key(name: str) -> FileKey:
    return Position.parse(f"{name}:1").file
