"""Every reply of the protocol, how it is written and how it is read.

| reply | answers | meaning |
|---|---|---|
| ACK | `__AUTH__` | authenticated |
| AUTH_FAILED | first line | wrong or missing token; the connection closes |
| REJECTED | connection | another collector is active; the connection closes |
| RECEIVED | `__BATCH__` | accepted and queued |
| QUEUE_FULL:<ms> | `__BATCH__` | back-pressure; wait, then send the same batch again |
| RETRY | `__BATCH__`, `__COMMIT__` | back off and send again; on a poll: no such batch received |
| DECODE_FAILED | `__BATCH__` | the payload cannot be decoded |
| DECRYPT_FAILED | `__BATCH__` | the payload cannot be decrypted |
| BAD_REQUEST | any line | not a request |
| INVALID_PARAM | `__BATCH__`, `__COMMIT__` | the batch id is not one |
| PENDING | `__COMMIT__` | received, not yet covered by a completed checkpoint |
| RESEND | `__COMMIT__` | lost or refused earlier: send the batch again |
| ACK:<watermark> | `__COMMIT__` | every batch up to the watermark is confirmed |
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.grammar import MAX_ID_DIGITS


class ReplyKind(enum.Enum):
    """A reply word; two of them carry a number on the wire."""

    AUTH_OK = "ACK"
    AUTH_FAILED = "AUTH_FAILED"
    REJECTED = "REJECTED"
    RECEIVED = "RECEIVED"
    QUEUE_FULL = "QUEUE_FULL:"
    RETRY = "RETRY"
    DECODE_FAILED = "DECODE_FAILED"
    DECRYPT_FAILED = "DECRYPT_FAILED"
    BAD_REQUEST = "BAD_REQUEST"
    INVALID_PARAM = "INVALID_PARAM"
    PENDING = "PENDING"
    RESEND = "RESEND"
    ACK = "ACK:"

    @property
    def carries_number(self) -> bool:
        """Whether the word is followed by a number: the wait in ms, or the watermark."""
        return self.value.endswith(":")


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply line.

    Attributes:
        kind: the word.
        number: milliseconds for QUEUE_FULL, a batch id for ACK, else 0.
    """

    kind: ReplyKind
    number: int = 0

    def encode(self) -> bytes:
        """The reply as it goes on the wire, LF included."""
        if self.kind.carries_number:
            return f"{self.kind.value}{self.number}\n".encode("ascii")
        return _WIRE[self.kind]

    def __str__(self) -> str:
        return self.encode().decode("ascii").rstrip("\n")


_WIRE = {kind: f"{kind.value}\n".encode("ascii") for kind in ReplyKind if not kind.carries_number}

AUTH_OK = Reply(ReplyKind.AUTH_OK)
AUTH_FAILED = Reply(ReplyKind.AUTH_FAILED)
REJECTED = Reply(ReplyKind.REJECTED)
RECEIVED = Reply(ReplyKind.RECEIVED)
RETRY = Reply(ReplyKind.RETRY)
DECODE_FAILED = Reply(ReplyKind.DECODE_FAILED)
DECRYPT_FAILED = Reply(ReplyKind.DECRYPT_FAILED)
BAD_REQUEST = Reply(ReplyKind.BAD_REQUEST)
INVALID_PARAM = Reply(ReplyKind.INVALID_PARAM)
PENDING = Reply(ReplyKind.PENDING)
RESEND = Reply(ReplyKind.RESEND)


def queue_full(retry_after_ms: int) -> Reply:
    """QUEUE_FULL with the wait in milliseconds."""
    return Reply(ReplyKind.QUEUE_FULL, retry_after_ms)


def ack(watermark: int) -> Reply:
    """ACK:<watermark>, answering a commit poll."""
    return Reply(ReplyKind.ACK, watermark)


_BARE = {kind.value.encode("ascii"): Reply(kind) for kind in ReplyKind if not kind.carries_number}
_NUMBERED = tuple((kind, kind.value.encode("ascii")) for kind in ReplyKind if kind.carries_number)


def parse_reply(line: bytes) -> Reply | None:
    """Read one reply line (without its LF; one trailing CR is dropped).

    Returns:
        The reply, or None for anything that is not exactly one: a collector treats that as "not received".
    """
    line = line.removesuffix(b"\r")
    bare = _BARE.get(line)
    if bare is not None:
        return bare
    for kind, word in _NUMBERED:
        if line.startswith(word):
            digits = line[len(word) :]
            if digits.isdigit() and len(digits) <= MAX_ID_DIGITS and int(digits) <= MAX_BATCH_ID:
                return Reply(kind, int(digits))
    return None
