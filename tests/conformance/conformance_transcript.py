"""Transcripts of conversations, as text that people read and three players perform.

A file holds any number of transcripts::

    == what must happen, as a sentence
    row: QUEUE_FULL <- __BATCH__
    options: local_queue_capacity = 2; queue_full_retry_after_ms = 20
    client: commit
    not core: why this level cannot play it

    C: __BATCH__:1:a
    S: RECEIVED
    * take

- `row`: the row of the reference's response table that is shown, several divided by commas.
- `options`: options of the source, as a job file has them.
- `client`: `commit`, or `plays 2` (the client level is the second collector).
- `not LEVEL`: the level (core, listener, client) that cannot play it, and why.
- `C:` a request line (`C:` alone is an empty one); neighbouring ones go out in one write. `C-` bytes without a line
  end. `C2:` and `C2-` are another collector's. A conversation that begins with a batch or a poll begins behind a
  successful first line.
- `S:` the next reply, exactly. `S2:` is to the other collector.
- `*` an action, see the players.
- `#` a comment. `<<3 x A>>` stands for AAA, `<<0d ff>>` for these bytes.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

TRANSCRIPTS = Path(__file__).parent / "transcripts"
LEVELS = ("core", "listener", "client")
TOKEN = "my-edge-token"


@dataclass(frozen=True)
class Send:
    """Collector `who` writes `data` at once."""

    who: int
    data: bytes

    @property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")[:-1]


@dataclass(frozen=True)
class Expect:
    """The next replies to collector `who`."""

    who: int
    replies: tuple[str, ...]


@dataclass(frozen=True)
class Act:
    """Something else happens."""

    words: str


Event = Send | Expect | Act
AUTHENTICATED = (Send(1, b"__AUTH__:%b\n" % TOKEN.encode()), Expect(1, ("ACK",)))


@dataclass
class Transcript:
    """One conversation. `not_on`: level -> why it cannot be played there."""

    file: str
    title: str
    rows: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    client: frozenset[str] = frozenset()
    not_on: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


def load() -> list[Transcript]:
    """Every transcript there is."""
    return [transcript for path in sorted(TRANSCRIPTS.glob("*.txt")) for transcript in read(path)]


def read(path: Path) -> list[Transcript]:
    """The transcripts of one file."""
    found: list[Transcript] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        place = f"{path.name}:{number}"
        if line.startswith("== "):
            found.append(Transcript(path.name, line[3:]))
        elif not line.strip() or line.startswith("#"):
            continue
        elif re.match(r"(row|options|client|not \w+): ", line):
            assert not found[-1].events, f"{place}: belongs above the conversation"
            _read_header(found[-1], line, place)
        else:
            _read_event(found[-1].events, line, place)
    for transcript in found:
        _begin(transcript)
    return found


def _read_header(transcript: Transcript, line: str, place: str) -> None:
    key, _, value = line.partition(": ")
    if key == "row":
        transcript.rows = tuple(row.strip() for row in value.split(","))
    elif key == "options":
        transcript.options = dict(map(_option, value.split(";")))
    elif key == "client":
        transcript.client = frozenset(word.strip() for word in value.split(","))
    else:
        level = key.removeprefix("not ")
        assert level in LEVELS, f"{place}: there is no level {level}"
        assert value.strip(), f"{place}: say why"
        transcript.not_on[level] = value


def _option(text: str) -> tuple[str, Any]:
    name, _, value = (part.strip() for part in text.partition("="))
    if name == "secret_key":
        return name, base64.b64decode(value)
    if value in ("true", "false"):
        return name, value == "true"
    if re.fullmatch(r"-?\d+", value):
        return name, int(value)
    if re.fullmatch(r"\d+\.\d+", value):
        return name, Decimal(value)
    return name, value


def _read_event(events: list[Event], line: str, place: str) -> None:
    match = re.fullmatch(r"(C|S)(2?)([:-])(?: (.*))?|\* (.+)", line)
    assert match, f"{place}: cannot be read: {line}"
    kind, second, mark, text, action = match.groups()
    who = 2 if second else 1
    if action is not None:
        events.append(Act(action))
    elif kind == "C":
        data = encode(text or "") + (b"\n" if mark == ":" else b"")
        last = events[-1] if events else None
        if isinstance(last, Send) and last.who == who:
            events[-1] = Send(who, last.data + data)
        else:
            events.append(Send(who, data))
    else:
        last = events[-1] if events else None
        if isinstance(last, Expect) and last.who == who:
            events[-1] = Expect(who, (*last.replies, text))
        else:
            events.append(Expect(who, (text,)))


def rows_of(action: str) -> list[bytes]:
    """The rows that the action `rows 1:a | 2:b` names."""
    names = action.removeprefix("rows").removeprefix(" ")
    return [encode(row) for row in names.split(" | ")] if names else []


def encode(text: str) -> bytes:
    """The bytes that a transcript means."""
    pieces = re.split(r"<<(.*?)>>", text)
    data = pieces[0].encode()
    for code, plain in zip(pieces[1::2], pieces[2::2], strict=True):
        count, times, what = code.partition(" x ")
        data += what.encode() * int(count) if times else bytes.fromhex(code)
        data += plain.encode()
    return data


def _begin(transcript: Transcript) -> None:
    """Most conversations begin behind the first line; it is put in here."""
    assert transcript.events, f"{transcript}: nothing happens"
    first = transcript.events[0]
    if isinstance(first, Expect) or (isinstance(first, Send) and re.match(rb"__(BATCH|COMMIT)__", first.data)):
        transcript.events[:0] = AUTHENTICATED
