"""Listens to one conversation and holds every reply against the request it answers.

It reads the bytes by itself, line by line, so a mistake of the parser or of the reply queue shows here.
"""

from __future__ import annotations

from collections import deque

from edgesocket.testing.simulator.invariants import Facts, Violation

_POSSIBLE = {
    b"A": (b"ACK", b"AUTH_FAILED", b"REJECTED"),
    b"B": (
        b"RECEIVED",
        b"QUEUE_FULL:",
        b"RETRY",
        b"DECODE_FAILED",
        b"DECRYPT_FAILED",
        b"BAD_REQUEST",
        b"INVALID_PARAM",
    ),
    b"C": (b"ACK:", b"PENDING", b"RESEND", b"RETRY", b"BAD_REQUEST", b"INVALID_PARAM"),
}


class WireTap:
    """One conversation as somebody between the two ends sees it."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._requests: deque[tuple[bytes, int]] = deque()
        self._request_rest = b""
        self._reply_rest = b""

    @property
    def unanswered(self) -> int:
        """Requests whose reply has not left."""
        return len(self._requests)

    def request_bytes(self, data: bytes) -> None:
        """The ingress has received these."""
        *lines, self._request_rest = (self._request_rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"__BATCH__:"):
                self._requests.append((b"B", int(line[10:].partition(b":")[0])))
            elif line.startswith(b"__COMMIT__:"):
                self._requests.append((b"C", int(line[11:])))
            else:
                self._requests.append((b"A", 0))

    def reply_bytes(self, data: bytes) -> None:
        """The ingress has sent these."""
        *lines, self._reply_rest = (self._reply_rest + data).split(b"\n")
        for line in lines:
            if not self._requests:
                raise Violation("one-reply-a-request", f"{line!r} answers nothing")
            kind, batch_id = self._requests.popleft()
            word, colon, number = line.partition(b":")
            if word + colon not in _POSSIBLE[kind]:
                raise Violation("one-reply-a-request", f"{line!r} answers {kind!r} {batch_id}")
            if kind == b"B":
                self._batch_answered(batch_id, word)
            elif word == b"ACK" and colon:
                self._facts.ack_sent(int(number))

    def all_answered(self) -> None:
        """The ingress owes nothing: every request line must have its reply."""
        if self._requests:
            raise Violation("one-reply-a-request", f"{len(self._requests)} requests got no reply")

    def _batch_answered(self, batch_id: int, word: bytes) -> None:
        facts = self._facts
        bad = facts.payloads[batch_id].startswith(b"\xff")
        if word == b"RECEIVED":
            if bad:
                raise Violation("one-reply-a-request", f"RECEIVED for {batch_id}, which is not UTF-8")
            facts.received_sent(batch_id)
        elif word == b"DECODE_FAILED":
            if not bad:
                raise Violation("one-reply-a-request", f"DECODE_FAILED for {batch_id}, which is good")
            facts.refuse(batch_id)
        elif not bad:
            facts.owe(batch_id)
