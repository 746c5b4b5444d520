"""Requests: what one line asks for, and how a collector writes it.

The checks on a line stand in the order in which the protocol wants them, the first failure answers:

1. no known prefix, or no second `:` in a batch line -> BAD_REQUEST;
2. the id is not ASCII digits with a value of 1..9223372036854775807 (leading zeros are fine) -> INVALID_PARAM.

`parse_line` is the definition of the line format; the columnar block parser is measured against it.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.errors import LocalProtocolError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.grammar import AUTH_PREFIX, BATCH_PREFIX, COMMIT_PREFIX, MAX_ID_DIGITS
from edgesocket.protocol.replies import BAD_REQUEST, INVALID_PARAM, Reply


@dataclass(frozen=True, slots=True)
class Batch:
    """`__BATCH__:<id>:<payload>`; nothing is known about the payload yet, not even that it is text."""

    batch_id: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """`__COMMIT__:<id>`: the collector polls for confirmation."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class Invalid:
    """A line that is no request; `reply` answers it and the conversation goes on."""

    reply: Reply


Command = Batch | Commit | Invalid

NOT_A_REQUEST = Invalid(BAD_REQUEST)
NOT_AN_ID = Invalid(INVALID_PARAM)

BATCH_WORD = BATCH_PREFIX.removesuffix(b":")


def parse_batch_id(digits: bytes) -> int | None:
    """Read a batch id, or None for anything but ASCII digits with a value of 1..9223372036854775807.

    `int()` alone would also take signs, blanks, underscores and foreign digits, and refuses 5,000 digits late.
    """
    if not digits.isdigit():
        return None
    if len(digits) > MAX_ID_DIGITS:
        digits = digits.lstrip(b"0")
        if not 0 < len(digits) <= MAX_ID_DIGITS:
            return None
    value = int(digits)
    return value if 0 < value <= MAX_BATCH_ID else None


def parse_line(line: bytes) -> Command:
    """Read one request line, without its line end, as it stands after authentication.

    A second `__AUTH__` is no request any more: BAD_REQUEST.
    """
    parts = line.split(b":", 2)
    if parts[0] == BATCH_WORD and len(parts) == 3:
        batch_id = parse_batch_id(parts[1])
        return NOT_AN_ID if batch_id is None else Batch(batch_id, parts[2])
    if line.startswith(COMMIT_PREFIX):
        batch_id = parse_batch_id(line[len(COMMIT_PREFIX) :])
        return NOT_AN_ID if batch_id is None else Commit(batch_id)
    return NOT_A_REQUEST


def encode_batch(batch_id: int, payload: bytes) -> bytes:
    """Write a batch line, line end included, so that the ingress reads exactly `payload`.

    Raises:
        LocalProtocolError: the id is out of range, or the payload holds an LF.
    """
    return b"%b%d:%b%b" % (BATCH_PREFIX, _checked_id(batch_id), payload, _line_end(payload, "payload"))


def encode_commit(batch_id: int) -> bytes:
    """Write a commit poll, line end included. Raises LocalProtocolError for an id out of range."""
    return b"%b%d\n" % (COMMIT_PREFIX, _checked_id(batch_id))


def encode_auth(token: bytes) -> bytes:
    """Write the first line of a conversation. Raises LocalProtocolError where the token holds an LF."""
    return b"%b%b%b" % (AUTH_PREFIX, token, _line_end(token, "token"))


def _checked_id(batch_id: int) -> int:
    if not 0 < batch_id <= MAX_BATCH_ID:
        raise LocalProtocolError(f"batch id {batch_id} is not in 1..{MAX_BATCH_ID}")
    return batch_id


def _line_end(content: bytes, what: str) -> bytes:
    """The line end that keeps `content` whole: one CR before an LF is dropped, so a last CR needs another one."""
    if b"\n" in content:
        raise LocalProtocolError(f"a {what} cannot hold a line feed")
    return b"\r\n" if content.endswith(b"\r") else b"\n"
