"""The ingress end of a conversation, without any I/O: bytes in, events out.

The shell receives into `writable()`, says how much arrived, and acts on the events, which come in line order. Replies
are not the session's business: what a batch is answered depends on the queue and the ledger.

Before authentication a session has a few kilobytes of its own; receive buffers are for the one connection that got in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgesocket.protocol.blocks import BlockParser
from edgesocket.protocol.chunks import BufferPool, LineReceiver
from edgesocket.protocol.commands import NOT_A_REQUEST
from edgesocket.protocol.exact import LineEvent, LineRules, is_utf8
from edgesocket.protocol.grammar import AUTH_PREFIX, DEFAULT_MAX_LINE_BYTES, MAX_AUTH_LINE_BYTES
from edgesocket.protocol.lines import Overlong, exceeds
from edgesocket.protocol.states import TRANSITIONS, SessionAction, SessionInput, SessionState, transition


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The first line was right: answer ACK if this connection is elected, then call `resume()`."""


@dataclass(frozen=True, slots=True)
class AuthRefused:
    """The first line was wrong: answer AUTH_FAILED and close. Comes at most once, and nothing comes after it."""


ServerEvent = Authenticated | AuthRefused | LineEvent


class ServerSession:
    """One conversation as the ingress sees it. Not thread-safe.

    Guarantees: the events do not depend on how the bytes were cut into pieces; nothing a peer sends raises; memory is
    a few kilobytes before authentication and O(`max_line_bytes`) after it; a last line without LF is dropped.

    Attributes:
        state: where the conversation stands.
    """

    __slots__ = ("_accepts_token", "_first_line", "_held_back", "_pool", "_requests", "_rules", "_scratch", "state")

    def __init__(
        self,
        accepts_token: Callable[[bytes], bool],
        pool: BufferPool,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        check_utf8: bool = True,
    ) -> None:
        """Start in AWAITING_AUTH.

        Args:
            accepts_token: told the exact bytes after `__AUTH__:`; compares them in constant time.
            pool: where receive buffers come from, shared by the sessions of one receiver thread.
            max_line_bytes: a longer request is answered BAD_REQUEST.
            check_utf8: whether blocks hold only UTF-8 payloads; a line that is not comes as a `Batch` then.
        """
        self._accepts_token = accepts_token
        self._pool = pool
        self._rules = LineRules(max_line_bytes, check_utf8)
        self._scratch = memoryview(bytearray(MAX_AUTH_LINE_BYTES))
        self._first_line = bytearray()
        self._held_back = bytearray()
        self._requests: _Requests | None = None
        self.state = SessionState.AWAITING_AUTH

    def writable(self) -> memoryview:
        """Memory to receive the next bytes into, never empty. Valid until the next call of any method."""
        if self._requests is not None:
            return self._requests.receiver.writable()
        return self._scratch

    def received(self, byte_count: int) -> list[ServerEvent]:
        """`byte_count` bytes have arrived in `writable()`; returns what they completed, in line order.

        Between `Authenticated` and `resume()` bytes are only kept: the shell should not receive then.
        """
        if self._requests is not None:  # STREAMING stays STREAMING, thousands of times a second
            return self._requests.received(byte_count)
        if not byte_count:
            return []
        action = self._next(SessionInput.BYTES)
        data = bytes(self._scratch[:byte_count])
        if action is SessionAction.HOLD_BACK:
            self._held_back += data
        elif action is SessionAction.READ_FIRST_LINE:
            return self._read_first_line(data)
        return []

    @property
    def held_back_bytes(self) -> int:
        """How much has arrived behind the first line and waits for `resume`."""
        return len(self._held_back)

    def resume(self) -> list[ServerEvent]:
        """Go on after `Authenticated`; returns what had arrived behind the first line.

        Raises:
            LocalProtocolError: there was no `Authenticated`, or it was resumed already.
        """
        self._next(SessionInput.RESUMED)
        self._requests = _Requests(self._pool, self._rules)
        events: list[ServerEvent] = []
        while self._held_back:
            room = self._requests.receiver.writable()
            count = min(len(room), len(self._held_back))
            room[:count] = self._held_back[:count]
            del self._held_back[:count]
            events += self._requests.received(count)
        return events

    def received_eof(self) -> None:
        """The peer has sent its last byte, or the connection is given up: CLOSED, memory is given back."""
        self._next(SessionInput.ENDED)
        self._held_back.clear()
        if self._requests is not None:
            self._requests.receiver.close()
            self._requests = None

    def _read_first_line(self, data: bytes) -> list[ServerEvent]:
        piece, line_feed, rest = data.partition(b"\n")
        self._first_line += piece
        if not line_feed and not exceeds(len(self._first_line), self._first_line[-1], MAX_AUTH_LINE_BYTES):
            return []
        line = bytes(self._first_line).removesuffix(b"\r")
        self._first_line.clear()
        if not self._is_accepted(line):
            self._next(SessionInput.TOKEN_REFUSED)
            return [AuthRefused()]
        self._next(SessionInput.TOKEN_ACCEPTED)
        self._held_back += rest
        return [Authenticated()]

    def _is_accepted(self, line: bytes) -> bool:
        if len(line) > MAX_AUTH_LINE_BYTES or not line.startswith(AUTH_PREFIX) or not is_utf8(line):
            return False
        return self._accepts_token(line[len(AUTH_PREFIX) :])

    def _next(self, event: SessionInput) -> SessionAction:
        self.state, action = transition(TRANSITIONS, self.state, event)
        return action


class _Requests:
    """Reads everything after the first line."""

    __slots__ = ("_parser", "receiver")

    def __init__(self, pool: BufferPool, rules: LineRules) -> None:
        self.receiver = LineReceiver(pool, rules.max_line_bytes)
        self._parser = BlockParser(rules)

    def received(self, byte_count: int) -> list[ServerEvent]:
        events: list[ServerEvent] = []
        for piece in self.receiver.received(byte_count):
            if isinstance(piece, Overlong):
                events.append(NOT_A_REQUEST)
            else:
                events += self._parser.parse(piece)
        return events
