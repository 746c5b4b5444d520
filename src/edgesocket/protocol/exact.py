"""The exact reading of request lines: one line after another. It defines what the columnar reading must come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.commands import NOT_A_REQUEST, Batch, Commit, Invalid, parse_line, split_batch
from edgesocket.protocol.grammar import BATCH_PREFIX
from edgesocket.records import RecordBlock

LineEvent = RecordBlock | Batch | Commit | Invalid
"""What request lines came to: records that passed every check of a line, or one line that needs a look of its own.

A `Batch` is a record whose payload was to be UTF-8 and is not.
"""


@dataclass(frozen=True, slots=True)
class LineRules:
    """What a session demands of a line beyond its form.

    Attributes:
        max_line_bytes: a longer line is BAD_REQUEST; its line end does not count.
        check_utf8: whether a record must have a UTF-8 payload to become part of a block.
    """

    max_line_bytes: int
    check_utf8: bool


def is_utf8(raw: bytes) -> bool:
    """Whether `raw` is valid UTF-8 (no surrogates, no overlong forms)."""
    if raw.isascii():
        return True
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def split_lines(raw: bytes) -> list[bytes]:
    """Whole lines, the last ending with LF, without their line ends (LF or CR LF)."""
    if b"\r\n" in raw:
        raw = raw.replace(b"\r\n", b"\n")
    lines = raw.split(b"\n")
    del lines[-1]
    return lines


def exact_events(lines: Iterable[bytes], rules: LineRules) -> list[LineEvent]:
    """Read lines (without line ends) one by one; neighbouring good records become one block."""
    events: list[LineEvent] = []
    ids: list[int] = []
    payloads: list[bytes] = []
    for line in lines:
        event = _record_or_event(line, rules)
        if isinstance(event, tuple):
            ids.append(event[0])
            payloads.append(line[event[1] :])
            continue
        if ids:
            events.append(RecordBlock.of_payloads(ids, payloads))
            ids, payloads = [], []
        events.append(event)
    if ids:
        events.append(RecordBlock.of_payloads(ids, payloads))
    return events


def _record_or_event(line: bytes, rules: LineRules) -> tuple[int, int] | Batch | Commit | Invalid:
    """The id and payload position of a record fit for a block, or an event of its own."""
    if len(line) > rules.max_line_bytes:
        return NOT_A_REQUEST
    if not line.startswith(BATCH_PREFIX):
        return parse_line(line)
    parts = split_batch(line)
    if isinstance(parts, tuple) and rules.check_utf8 and not is_utf8(line):
        return Batch(parts[0], line[parts[1] :])
    return parts


def consecutive_records(lines: list[bytes], rules: LineRules) -> RecordBlock | None:
    """The same as `exact_events`, faster, for lines that are records with consecutive ids in equally long headers.

    None where they are anything else: then `exact_events` has to decide.
    """
    first = parse_line(lines[0])
    if not isinstance(first, Batch) or len(max(lines, key=len)) > rules.max_line_bytes:
        return None
    payload_at = len(lines[0]) - len(first.payload)
    head = b"%b%%0%dd:" % (BATCH_PREFIX, payload_at - len(BATCH_PREFIX) - 1)
    ids = range(first.batch_id, first.batch_id + len(lines))
    if ids[-1] > MAX_BATCH_ID or [line[:payload_at] for line in lines] != [head % batch_id for batch_id in ids]:
        return None
    if rules.check_utf8 and not all(map(is_utf8, lines)):
        return None
    return RecordBlock.of_payloads(ids, [line[payload_at:] for line in lines])
