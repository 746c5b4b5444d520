"""Input syslog over TCP: at most once on the way here, at least once from here on.

Syslog has no replies, so what a sender has written and this host not yet read is lost if either dies. From the moment a
message is in the spool it is delivered. A connection is read only as fast as the spool takes: while it is full nothing
is read, and the sender's own buffer fills.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Mapping, Sequence

from edgesocket.collector.intake.contract import Intake
from edgesocket.collector.intake.listening import Listener
from edgesocket.collector.intake.syslog_framing import SyslogFraming
from edgesocket.collector.intake.syslog_records import SyslogRecords

READ_BYTES = 64 * 1024


class _Sender:
    """One connection."""

    __slots__ = ("framing", "peer", "socket")

    def __init__(self, connection: socket.socket, peer: str, max_message_bytes: int) -> None:
        self.socket = connection
        self.peer = peer
        self.framing = SyslogFraming(max_message_bytes)


class SyslogTcpInput:
    """See the module's text. An `Input`."""

    def __init__(
        self,
        name: str,
        address: str,
        port: int,
        records: SyslogRecords,
        *,
        max_message_bytes: int,
        max_connections: int,
    ) -> None:
        """Args: the options of the input, and what makes records of messages."""
        self._name = name
        self._listener = Listener(name, address, port, max_connections)
        self._records = records
        self._max_message_bytes = max_message_bytes
        self._senders: set[_Sender] = set()
        self._ended_cut = 0
        self._accepted = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._listener.port

    @property
    def counts(self) -> Mapping[str, int]:
        return {
            "connections_accepted": self._accepted,
            "connections_refused": self._listener.refused,
            "messages_cut": self._ended_cut + sum(sender.framing.cut for sender in self._senders),
        }

    @property
    def connections(self) -> int:
        """Connections there are."""
        return len(self._senders)

    def open(self, marks: Mapping[str, str], now: float) -> None:  # noqa: ARG002
        self._listener.open()

    def descriptors(self) -> Sequence[int]:
        return self._listener.descriptors()

    def next_time(self, now: float) -> float | None:  # noqa: ARG002
        return None

    def discover(self, now: float) -> None:  # noqa: ARG002
        """Accept connections. Nothing is read from them."""
        for connection, peer in self._listener.accept(len(self._senders)):
            sender = _Sender(connection, peer, self._max_message_bytes)
            self._senders.add(sender)
            self._accepted += 1
            self._listener.selector.register(connection, selectors.EVENT_READ, sender)

    def read(self, budget_bytes: int, now: float) -> Intake | None:  # noqa: ARG002
        lines: list[bytes] = []
        for sender in self._listener.ready():
            if budget_bytes <= 0:
                break
            try:
                data = sender.socket.recv(READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            budget_bytes -= len(data)
            messages = sender.framing.feed(data) if data else self._end(sender)
            if messages:
                lines += self._records.make(messages, sender.peer)
        return Intake(lines) if lines else None

    def stored(self, intake: Intake, now: float) -> None:
        """Nobody waits for an answer."""

    @property
    def ended(self) -> bool:
        return False

    def close(self, now: float) -> Intake | None:  # noqa: ARG002
        lines: list[bytes] = []
        for sender in list(self._senders):
            lines += self._records.make(self._end(sender), sender.peer)
        self._listener.close()
        return Intake(lines) if lines else None

    def _end(self, sender: _Sender) -> list[bytes]:
        """Let go of a connection; returns the message that was not complete."""
        self._listener.selector.unregister(sender.socket)
        sender.socket.close()
        self._senders.discard(sender)
        self._ended_cut += sender.framing.cut
        return sender.framing.end()
