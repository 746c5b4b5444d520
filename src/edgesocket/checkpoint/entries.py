"""Entries of the commit log, and how one is written: a checksum, a space, one line of JSON.

::

    8fb3c2a1 {"format":1,"index":7,"after":"03ce9d10","kind":"commit","epoch":2,...}\\n

The checksum is the CRC-32 of the JSON, in lower case hex. `index` repeats the number in the file's name, so an entry
under a wrong name is noticed. `after` repeats the checksum of the entry before it: it says which history its writer
had read (see commit_log.py for why that matters).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any
from zlib import crc32

from edgesocket.errors import DamagedStateError
from edgesocket.ids import MAX_BATCH_ID, IdRange

LOG_DIRECTORY = "log"
FORMAT = 1

FIRST = "00000000"
"""`after` of the entry with index 1."""
AFTER_DAMAGED = "--------"
"""`after` of an entry whose writer found the one before it damaged."""


@dataclass(frozen=True, slots=True)
class Claim:
    """An incarnation takes the job. From here on nothing of an earlier one counts.

    Attributes:
        epoch: number of the incarnation; `claim` fills it in.
        time_ms: Unix time in ms, as in every entry.
        token: something no other claim has (a random text), so that a claimant knows its own entry again.
        host, boot, pid: who claims; `boot` identifies the running kernel.
        job, source_id, sink_ids, schema_hash: what the state belongs to.
        endpoint: where collectors reach it, `host:port`.
    """

    epoch: int
    time_ms: int
    token: str
    host: str
    boot: str
    pid: int
    job: str
    source_id: str
    sink_ids: tuple[str, ...]
    schema_hash: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class Started:
    """The restore of an incarnation is done: from here on it decides how its own end looked.

    Attributes:
        k: highest id known for certain after an unclean end, or None where nothing was left open.
        arrival_sync_ms: how often this incarnation syncs its arrival log; 0 is before every reply.
        host, boot: where its unsynced arrival log can be trusted.
        scratch: the mark that it left in the directory of its arrival log, where that lies apart from the state;
            empty: the arrival log is part of the state.
    """

    epoch: int
    time_ms: int
    k: int | None
    arrival_sync_ms: int
    host: str
    boot: str
    scratch: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """Checkpoint n happened. `record` is everything a restore needs to know of it, as a JSON object."""

    epoch: int
    time_ms: int
    n: int
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settle:
    """An operator gives up ids for good, so that they no longer hold the watermark."""

    epoch: int
    time_ms: int
    ids: tuple[IdRange, ...]
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class Accept:
    """An operator accepts checkpoint n as the newest, although something after it is damaged."""

    epoch: int
    time_ms: int
    n: int
    by: str


@dataclass(frozen=True, slots=True)
class Ended:
    """An incarnation ended and said so.

    Attributes:
        clean: its arrival log is complete and synced.
        reason: why it ended, empty for a plain stop.
        batch_id: the batch that could not be turned into a row, 0 for none.
        covered: its last checkpoint covers everything that it answered, so nobody needs its arrival log.
    """

    epoch: int
    time_ms: int
    clean: bool
    reason: str = ""
    batch_id: int = 0
    covered: bool = False


Entry = Claim | Started | Commit | Settle | Accept | Ended
OperatorEntry = Settle | Accept


@dataclass(frozen=True, slots=True)
class Placed:
    """An entry at its place in the log, with its checksum and that of the entry its writer had read before it."""

    index: int
    entry: Entry
    crc: str
    after: str


@dataclass(frozen=True, slots=True)
class Damage:
    """A place in the log whose entry cannot be read. Nothing is known of it, not even its epoch."""

    index: int
    name: str
    reason: str


def entry_name(index: int) -> str:
    """Name of the file that holds entry `index`, inside the state directory."""
    return f"{LOG_DIRECTORY}/{index:020d}.json"


_NAME = re.compile(rf"{LOG_DIRECTORY}/(\d{{20}})\.json", re.ASCII)


def index_of(name: str) -> int | None:
    """The index in an entry's name, or None for any other name."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode_entry(entry: Entry, index: int, after: str) -> bytes:
    """The line for `entry` at `index`, following the entry whose checksum is `after`.

    The same arguments give the same bytes: that is how a writer knows its own entry again.
    """
    document: dict[str, Any] = {"format": FORMAT, "index": index, "after": after, "kind": _KINDS_OF[type(entry)]}
    document.update((field.name, getattr(entry, field.name)) for field in fields(entry))
    body = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    return b"%08x %s\n" % (crc32(body), body)


def decode_entry(name: str, data: bytes) -> Placed:
    """Read the line of the file `name` (`log/<20 digits>.json`).

    Raises:
        DamagedStateError: it names the file; the checksum is wrong, a newer EdgeSocket wrote it, or it is not what
            its name says.
    """
    crc = data[:8]
    body = data[9:-1]
    if crc != b"%08x" % crc32(body) or data[8:9] != b" " or data[-1:] != b"\n":
        raise DamagedStateError(name, "checksum does not match" if data.strip(b"\0") else "is empty or all zeros")
    try:
        return _place(name, crc.decode("ascii"), json.loads(body))
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedStateError(name, f"is not a log entry: {error}") from error


def _place(name: str, crc: str, document: Any) -> Placed:
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    if document.get("format") != FORMAT:
        raise ValueError(f"format {document.get('format')!r}, but this EdgeSocket knows format {FORMAT} only")
    index = _count(document["index"])
    if entry_name(index) != name:
        raise ValueError(f"it was written as {entry_name(index)}")
    kind = document["kind"]
    if kind not in _KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    make, readers = _KINDS[kind]
    return Placed(
        index,
        make(**{key: read(_value(document, key)) for key, read in readers.items()}),
        crc,
        _text(document["after"]),
    )


def _value(document: dict[str, Any], key: str) -> Any:
    """A field of an entry; those that came later have a value for the entries before them."""
    return document.get(key, _LATER_FIELDS[key]) if key in _LATER_FIELDS else document[key]


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a number from 0 up")
    return value


def _count_or_none(value: Any) -> int | None:
    return None if value is None else _count(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not true or false")
    return value


def _json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a JSON object")
    return value


def _id_ranges(value: Any) -> tuple[IdRange, ...]:
    ranges = tuple((_count(first), _count(last)) for first, last in value)
    if any(not 1 <= first <= last <= MAX_BATCH_ID for first, last in ranges):
        raise ValueError("not a list of id ranges")
    return ranges


_LATER_FIELDS = {"scratch": "", "covered": False}
_EVERY = {"epoch": _count, "time_ms": _count}
_KINDS: dict[str, tuple[Callable[..., Entry], dict[str, Callable[[Any], Any]]]] = {
    "claim": (
        Claim,
        _EVERY
        | {"token": _text, "host": _text, "boot": _text, "pid": _count, "job": _text, "source_id": _text}
        | {"sink_ids": _texts, "schema_hash": _text, "endpoint": _text},
    ),
    "started": (
        Started,
        _EVERY | {"k": _count_or_none, "arrival_sync_ms": _count, "host": _text, "boot": _text, "scratch": _text},
    ),
    "commit": (Commit, _EVERY | {"n": _count, "record": _json_object}),
    "settle": (Settle, _EVERY | {"ids": _id_ranges, "reason": _text, "by": _text}),
    "accept": (Accept, _EVERY | {"n": _count, "by": _text}),
    "ended": (Ended, _EVERY | {"clean": _flag, "reason": _text, "batch_id": _count, "covered": _flag}),
}
_KINDS_OF: dict[type[Entry], str] = {
    Claim: "claim",
    Started: "started",
    Commit: "commit",
    Settle: "settle",
    Accept: "accept",
    Ended: "ended",
}
