"""Dead letters read back from the files that a job's dead_letter sink published.

Two kinds of files can be read: those of DeadLetter (`dead-<epoch>-<checkpoint>-<k>.jsonl`) and those of LocalFile with
`file_format_type = json` (`part-<epoch>-<checkpoint>-<k>.json`). Both are whole, are never changed again, and may be
taken away by anybody at any time.

A *position* names a letter for as long as its file is there: `<epoch>-<checkpoint>-<k>:<line>`, such as `1-4-0:17`.
Positions rise with time.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from edgesocket.errors import StoreError

MAX_LETTER_BYTES = 256 << 20
"""A longer line is no dead letter: the largest record, written as JSON, is below this."""

COUNT_BYTES = 1 << 20
"""How much of a file is read at once to count its lines."""

_NAMES = {
    "dead": re.compile(r"dead-(\d+)-(\d+)-(\d+)\.jsonl"),
    "part": re.compile(r"part-(\d+)-(\d+)-(\d+)\.json"),
}
_POSITION = re.compile(r"(\d{1,9})-(\d{1,18})-(\d{1,9}):(\d{1,18})", re.ASCII)


class FileKey(NamedTuple):
    """Which file: run of the job, checkpoint, number of the file in it. In the order they were published."""

    epoch: int
    checkpoint: int
    k: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.checkpoint}-{self.k}"


class Position(NamedTuple):
    """Where a letter lies: a file, and the number of its line, from 1."""

    file: FileKey
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """A position as `str` writes it. Raises ValueError, with a text for people."""
        match = _POSITION.fullmatch(text)
        if match is None or match[4].strip("0") == "":
            raise ValueError(f"{text!r} is no position of a dead letter, which look like 1-4-0:17")
        epoch, checkpoint, k, line = (int(number) for number in match.groups())
        return cls(FileKey(epoch, checkpoint, k), line)


@dataclass(frozen=True, slots=True)
class StoredLetter:
    """A dead letter as it lies in a file.

    Attributes:
        position: where.
        batch_id: the batch it came in, 0 where the line is none.
        time_ms: when it was refused, milliseconds since 1970.
        origin: the source or sink that refused it; empty where the line is no dead letter.
        reason: what is wrong with it; of a line that is no dead letter, why it is none.
        payload: the record, or the row as JSON where a sink refused a typed row.
    """

    position: Position
    batch_id: int
    time_ms: int
    origin: str
    reason: str
    payload: bytes

    def to_json(self, most_characters: int | None = None) -> dict[str, Any]:
        """For people and programs; a payload longer than `most_characters` is cut, and its length said."""
        text = self.payload.decode(errors="replace")
        shown: dict[str, Any] = {
            "position": str(self.position),
            "time_ms": self.time_ms,
            "batch_id": self.batch_id,
            "stage": self.origin,
            "reason": self.reason,
            "payload": text,
            "payload_bytes": len(self.payload),
        }
        if most_characters is not None and len(text) > most_characters:
            shown["payload"] = text[:most_characters]
            shown["cut"] = True
        elif text.encode() != self.payload:
            shown["payload_base64"] = base64.b64encode(self.payload).decode()
        return shown


@dataclass(frozen=True, slots=True)
class LetterFile:
    """One published file."""

    key: FileKey
    path: Path
    bytes: int


class LetterFiles:
    """The published files of one job's dead letters.

    Args:
        directory: where the sink publishes.
        kind: `dead`, files of DeadLetter; `part`, files of LocalFile.
    """

    def __init__(self, directory: Path, kind: str) -> None:
        self.directory = directory
        self._name = _NAMES[kind]

    def files(self) -> list[LetterFile]:
        """The files there are, oldest first. Raises StoreError."""
        found = []
        try:
            for path in self.directory.iterdir() if self.directory.is_dir() else ():
                match = self._name.fullmatch(path.name)
                size = None if match is None else _size(path)
                if match is not None and size is not None:
                    found.append(LetterFile(FileKey(*(int(number) for number in match.groups())), path, size))
        except OSError as error:
            raise StoreError(f"dead letters in {self.directory} cannot be listed: {error.strerror or error}") from error
        return sorted(found, key=lambda file: file.key)

    def letters(self, after: Position | None = None) -> Iterator[StoredLetter]:
        """Every letter behind a position, oldest first. A file that is taken away meanwhile is passed over."""
        for file in self.files():
            if after is None or file.key >= after.file:
                yield from self.letters_of(file, after.line if after is not None and file.key == after.file else 0)

    def letters_of(self, file: LetterFile, after_line: int = 0) -> Iterator[StoredLetter]:
        """The letters of one file behind a line; none where it is gone. Raises StoreError."""
        try:
            with file.path.open("rb") as stream:
                number = 0
                while line := stream.readline(MAX_LETTER_BYTES):
                    number += 1
                    if number > after_line:
                        yield _letter(Position(file.key, number), line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{file.path} cannot be read: {error.strerror or error}") from error

    def letter(self, position: Position) -> StoredLetter | None:
        """The letter at a position; None where there is none, or not any more."""
        file = next((one for one in self.files() if one.key == position.file), None)
        if file is None:
            return None
        found = next(self.letters_of(file, position.line - 1), None)
        return found if found is not None and found.position == position else None

    def count(self) -> int:
        """How many letters there are. Reads every file. Raises StoreError."""
        return sum(self.count_of(file) for file in self.files())

    def count_of(self, file: LetterFile) -> int:
        """How many letters one file holds, 0 where it is gone. Raises StoreError."""
        try:
            with file.path.open("rb") as stream:
                return sum(piece.count(b"\n") for piece in iter(lambda: stream.read(COUNT_BYTES), b""))
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise StoreError(f"{file.path} cannot be read: {error.strerror or error}") from error


def _size(path: Path) -> int | None:
    """Of a file; None where it was taken away while we looked."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _letter(position: Position, line: bytes) -> StoredLetter:
    try:
        fields = json.loads(line)
        batch_id, origin, reason = fields["batch_id"], fields["origin"], fields["reason"]
        exact = fields.get("payload_base64") or fields.get("payload_bytes")
        payload = fields["payload"].encode() if exact is None else base64.b64decode(exact, validate=True)
        if type(batch_id) is not int or not isinstance(origin, str) or not isinstance(reason, str):
            raise TypeError("a field has another type than dead letters have")
        return StoredLetter(position, batch_id, _milliseconds(fields.get("time")), origin, reason, payload)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        return StoredLetter(position, 0, 0, "", f"this line is no dead letter ({error})"[:200], line.rstrip(b"\n"))


def _milliseconds(text: object) -> int:
    """The time of a letter; 0 where none can be read."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return 0
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
