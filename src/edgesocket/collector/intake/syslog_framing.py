"""Where one syslog message ends and the next begins on a TCP connection: RFC 6587, both ways, told apart per message.

::

    83 <34>1 2026-11-30T08:00:00Z host ...      octet counting: the length, a blank, so many bytes
    <34>Nov 30 08:00:00 host app: text LF       or up to a line feed

A message that begins with a digit other than 0 is counted, as a message itself begins with `<`. Pure.
"""

from __future__ import annotations

MOST_DIGITS = 9
"""A longer length is no length; the message is taken up to its line feed."""

_COUNT_STARTS = frozenset(b"123456789")
ESCAPED_LINE_FEED = b"#012"
"""Stands for a line feed inside a message, which a record cannot hold; as other syslog servers write it."""


class SyslogFraming:
    """Splits the bytes of one connection into messages.

    Guarantees: the messages do not depend on how the stream was cut into pieces; holds at most `max_message_bytes` and
    a few bytes between calls. What is longer is cut there, and its rest is skipped. Empty messages are left out.
    """

    __slots__ = ("_held", "_max_message_bytes", "_skip_bytes", "_skip_line", "cut")

    def __init__(self, max_message_bytes: int) -> None:
        """Args: the most bytes of a message that are kept."""
        self._max_message_bytes = max_message_bytes
        self._held = b""
        self._skip_bytes = 0  # of a counted message, behind what was kept
        self._skip_line = False
        self.cut = 0
        """Messages that were longer."""

    @property
    def held_bytes(self) -> int:
        """Bytes of a message that is not complete."""
        return len(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; returns the messages they complete."""
        if not self._held and not self._skip_bytes and not self._skip_line and data.startswith(b"<"):
            messages = self._plain(data)
            if messages is not None:
                return messages
        return self._exact(self._held + data)

    def end(self) -> list[bytes]:
        """The connection has ended: what is there of a last message."""
        held, self._held = self._held, b""
        return _clean([held])

    def _plain(self, data: bytes) -> list[bytes] | None:
        """The messages where all of them are lines of usual length; None where some are not."""
        lines = data.split(b"\n")
        begun = len(lines) if lines[-1] else len(lines) - 1
        if data.count(b"\n<") != begun - 1 or max(map(len, lines)) > self._max_message_bytes:
            return None
        last = lines.pop()
        self._held = last
        return _clean(lines)

    def _exact(self, data: bytes) -> list[bytes]:
        messages: list[bytes] = []
        at = 0
        while at < len(data):
            if self._skip_bytes:
                step = min(self._skip_bytes, len(data) - at)
                self._skip_bytes -= step
                at += step
                continue
            after = self._counted(data, at, messages) if data[at] in _COUNT_STARTS else None
            if after is None:
                after = self._line(data, at, messages)
            if after < 0:
                break
            at = after
        self._held = data[at:]
        return messages

    def _counted(self, data: bytes, at: int, messages: list[bytes]) -> int | None:
        """Where the counted message ends; -1: more bytes are needed; None: it is none."""
        if self._skip_line:
            return None
        blank = data.find(b" ", at, at + MOST_DIGITS + 1)
        digits = data[at : blank if blank >= 0 else at + MOST_DIGITS + 1]
        if not digits.isdigit() or len(digits) > MOST_DIGITS:
            return None
        if blank < 0:
            return -1
        length, begin = int(digits), blank + 1
        kept = min(length, self._max_message_bytes)
        if len(data) < begin + kept:
            return -1
        messages += _clean([data[begin : begin + kept]])
        if kept < length:
            self.cut += 1
            self._skip_bytes = length - kept
        return begin + kept

    def _line(self, data: bytes, at: int, messages: list[bytes]) -> int:
        """Where the line ends; -1: more bytes are needed."""
        end = data.find(b"\n", at)
        if self._skip_line:
            self._skip_line = end < 0
            return len(data) if end < 0 else end + 1
        if (len(data) if end < 0 else end) - at > self._max_message_bytes:
            self.cut += 1
            messages += _clean([data[at : at + self._max_message_bytes]])
            self._skip_line = end < 0
            return len(data) if end < 0 else end + 1
        if end < 0:
            return -1
        messages += _clean([data[at:end]])
        return end + 1


def clean_message(message: bytes) -> bytes:
    """A message without line ends and NULs around it, and with what stands for line feeds inside it."""
    message = message.rstrip(b"\r\n\0").lstrip(b"\n\0")
    return message.replace(b"\n", ESCAPED_LINE_FEED) if b"\n" in message else message


def _clean(messages: list[bytes]) -> list[bytes]:
    return [clean for message in messages if (clean := clean_message(message))]
