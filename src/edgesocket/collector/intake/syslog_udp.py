"""Input syslog over UDP: at most once on the way here, at least once from here on.

A datagram is a message. While the spool is full none is read: the system keeps what fits into the receive buffer and
drops the rest, which is counted where the system tells it (`datagrams_dropped`, Linux).
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Mapping, Sequence

from edgesocket.collector.intake.contract import Intake
from edgesocket.collector.intake.listening import open_socket
from edgesocket.collector.intake.syslog_framing import clean_message
from edgesocket.collector.intake.syslog_records import SyslogRecords

MOST_DATAGRAM_BYTES = 65_536
_DATAGRAMS_A_ROUND = 4096
_SO_RXQ_OVFL = 40  # Linux; Python has no name for it
_ANCILLARY_BYTES = 64


class SyslogUdpInput:
    """See the module's text. An `Input`."""

    def __init__(
        self,
        name: str,
        address: str,
        port: int,
        records: SyslogRecords,
        *,
        max_message_bytes: int,
        receive_buffer_bytes: int,
    ) -> None:
        """Args: the options of the input, and what makes records of messages."""
        self._name = name
        self._address = address
        self._port = port
        self._records = records
        self._max_message_bytes = max_message_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._socket: socket.socket | None = None
        self._cut = 0
        self._dropped = 0

    @property
    def name(self) -> str:
        return self._name

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._port if self._socket is None else int(self._socket.getsockname()[1])

    @property
    def counts(self) -> Mapping[str, int]:
        return {"messages_cut": self._cut, "datagrams_dropped": self._dropped}

    def open(self, marks: Mapping[str, str], now: float) -> None:  # noqa: ARG002
        self._socket = open_socket(self._name, self._address, self._port, socket.SOCK_DGRAM)
        # The system grants what it likes; it counts the drops.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        if sys.platform == "linux":
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)

    def descriptors(self) -> Sequence[int]:
        return [] if self._socket is None else [self._socket.fileno()]

    def next_time(self, now: float) -> float | None:  # noqa: ARG002
        return None

    def discover(self, now: float) -> None:
        """There is nothing to find."""

    def read(self, budget_bytes: int, now: float) -> Intake | None:  # noqa: ARG002
        assert self._socket is not None
        lines: list[bytes] = []
        for _ in range(_DATAGRAMS_A_ROUND):
            if budget_bytes <= 0:
                break
            try:
                data, ancillary, _, peer = self._socket.recvmsg(MOST_DATAGRAM_BYTES, _ANCILLARY_BYTES)
            except OSError:
                break  # nothing is left; an error is about an earlier datagram
            for level, kind, value in ancillary:
                if level == socket.SOL_SOCKET and kind == _SO_RXQ_OVFL:
                    self._dropped = struct.unpack("=I", value[:4])[0]
            budget_bytes -= len(data)
            message = clean_message(data)
            if len(message) > self._max_message_bytes:
                self._cut += 1
                message = message[: self._max_message_bytes]
            if message:
                lines += self._records.make([message], str(peer[0]))
        return Intake(lines) if lines else None

    def stored(self, intake: Intake, now: float) -> None:
        """Nobody waits for an answer."""

    @property
    def ended(self) -> bool:
        return False

    def close(self, now: float) -> Intake | None:  # noqa: ARG002
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        return None
