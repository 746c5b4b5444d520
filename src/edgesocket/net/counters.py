"""What the network side counts, since the server was made."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Counters:
    """Written by the receiver thread only; any thread may read.

    Attributes:
        connections: accepted TCP connections.
        sessions: conversations with an elected collector.
        auth_failed: complete first lines that were wrong.
        auth_timed_out: peers that did not finish their first line in time.
        peers_dropped: peers that had to make room for a newer one.
        peers_left: peers that hung up before they were elected.
        peers_rejected: peers answered REJECTED.
        peers_not_allowed: connections from addresses that may not connect.
        tls_failed: TLS handshakes that came to nothing.
        tls_mismatches: peers that spoke TLS where none is, or none where it is.
        received_bytes: from elected collectors, since their election.
        sent_bytes: to elected collectors.
    """

    connections: int = 0
    sessions: int = 0
    auth_failed: int = 0
    auth_timed_out: int = 0
    peers_dropped: int = 0
    peers_left: int = 0
    peers_rejected: int = 0
    peers_not_allowed: int = 0
    tls_failed: int = 0
    tls_mismatches: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0

    def as_json(self) -> dict[str, int]:
        """All of them, by name."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(field.name for field in fields(Counters))
