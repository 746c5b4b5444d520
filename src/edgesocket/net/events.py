"""What happened on the network side, as typed facts.

The server hands each to its `events` callback, on the receiver thread unless said otherwise; the callback turns them
into log lines and metrics and must not block. Peers come as `address:port`. No event ever carries a byte that a peer
sent: a first line may hold a token. Some can come as fast as strangers can connect, so logs should limit their rate.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class DisconnectReason(enum.StrEnum):
    """Why a conversation ended."""

    PEER_CLOSED = "the collector closed the connection"
    PEER_RESET = "the collector reset the connection"
    NO_SIGN_OF_LIFE = "the collector's host no longer answers"
    REPLIES_NOT_READ = "the collector neither read its replies nor sent anything"
    STOPPED = "the source stopped"
    ABORTED = "the source was told to end at once"
    FENCED = "this incarnation may not answer any more"
    NOT_RECORDED = "what it sent could not be recorded, so it was not answered"
    FAILED = "the source failed"


@dataclass(frozen=True, slots=True)
class ListenerOpened:
    """The port is open for a collector, at start (on the starter's thread) or again after one has left."""

    port: int
    tries: int


@dataclass(frozen=True, slots=True)
class BindRetried:
    """A try to bind failed and another one follows in `wait_ms` (at start: on the starter's thread)."""

    port: int
    tries: int
    cause: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class PortLockUnavailable:
    """The lock file cannot be used here, so another job could take the port while a collector is connected."""

    port: int
    cause: str


@dataclass(frozen=True, slots=True)
class CollectorConnected:
    """A peer authenticated and is the collector now; the listener is closed."""

    peer: str


@dataclass(frozen=True, slots=True)
class CollectorDisconnected:
    """The conversation with the collector ended."""

    peer: str
    reason: DisconnectReason
    detail: str
    received_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class AuthenticationFailed:
    """A peer's complete first line was wrong; it was answered AUTH_FAILED."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerTimedOut:
    """A peer did not finish its first line in time; it was closed without a reply."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerDropped:
    """Too many peers were authenticating; this one had waited longest and was closed without a reply."""

    peer: str


@dataclass(frozen=True, slots=True)
class PeerRejected:
    """Another peer had just become the collector; this one was answered REJECTED."""

    peer: str


@dataclass(frozen=True, slots=True)
class ServerFailed:
    """The receiver ended because of an error: of the port, of the handler, or a bug. See `IngressServer.failure`."""

    error: BaseException


NetEvent = (
    ListenerOpened
    | BindRetried
    | PortLockUnavailable
    | CollectorConnected
    | CollectorDisconnected
    | AuthenticationFailed
    | PeerTimedOut
    | PeerDropped
    | PeerRejected
    | ServerFailed
)
