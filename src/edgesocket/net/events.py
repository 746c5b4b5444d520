"""What happened on the network side, as typed facts.

The server hands each to its `events` callback, on the receiver thread unless said otherwise; the callback turns them
into log lines and metrics and must not block. Peers come as `address:port`. No event ever carries a byte that a peer
sent, as a first line may hold a token; only the names in a certificate may be in one, made harmless, and only when a
trusted authority has signed it. Some can come as fast as strangers can connect, so logs should limit their rate.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from edgesocket.telemetry.event import Level, event


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


@event(Level.INFO)
@dataclass(frozen=True, slots=True)
class ListenerOpened:
    """The port is open for a collector, at start (on the starter's thread) or again after one has left."""

    port: int
    tries: int


@event(Level.WARNING, what_to_do="see which process has the port, or give the job another one")
@dataclass(frozen=True, slots=True)
class BindRetried:
    """A try to bind failed and another one follows in `wait_ms` (at start: on the starter's thread)."""

    port: int
    tries: int
    cause: str
    wait_ms: int


@event(Level.WARNING)
@dataclass(frozen=True, slots=True)
class PortLockUnavailable:
    """The lock file cannot be used here, so another job could take the port while a collector is connected."""

    port: int
    cause: str


@event(Level.INFO)
@dataclass(frozen=True, slots=True)
class CollectorConnected:
    """A peer authenticated and is the collector now; the listener is closed."""

    peer: str


@event(Level.INFO)
@dataclass(frozen=True, slots=True)
class CollectorDisconnected:
    """The conversation with the collector ended."""

    peer: str
    reason: DisconnectReason
    detail: str
    received_bytes: int
    sent_bytes: int


@event(
    Level.WARNING,
    what_to_do="if it is your collector, give it the token of this source; else see who can reach the port",
)
@dataclass(frozen=True, slots=True)
class AuthenticationFailed:
    """A peer's complete first line was wrong; it was answered AUTH_FAILED."""

    peer: str


@event(Level.INFO)
@dataclass(frozen=True, slots=True)
class PeerTimedOut:
    """A peer did not finish its first line in time; it was closed without a reply."""

    peer: str


@event(Level.WARNING, what_to_do="see who opens so many connections to the port")
@dataclass(frozen=True, slots=True)
class PeerDropped:
    """Too many peers were authenticating; this one had waited longest and was closed without a reply."""

    peer: str


@event(Level.INFO)
@dataclass(frozen=True, slots=True)
class PeerRejected:
    """Another peer had just become the collector; this one was answered REJECTED."""

    peer: str


@event(Level.WARNING, what_to_do="if it is your collector, add its network to `allow`")
@dataclass(frozen=True, slots=True)
class PeerNotAllowed:
    """A peer connected from an address that is in none of the networks of `allow`; it was closed at once."""

    peer: str


@event(Level.WARNING, what_to_do="see who tries tokens from there")
@dataclass(frozen=True, slots=True)
class AddressSlowedDown:
    """An address failed to authenticate again and again: its last failure is answered after `wait_ms`."""

    address: str
    wait_ms: int


@event(Level.WARNING)
@dataclass(frozen=True, slots=True)
class TlsHandshakeFailed:
    """A TLS handshake came to nothing; the peer got the alert that says why. Closed."""

    peer: str
    cause: str


@event(
    Level.WARNING,
    what_to_do="give the collector the TLS option; if it sent its token in the clear, change the token",
)
@dataclass(frozen=True, slots=True)
class PlainPeerOnTlsPort:
    """A peer spoke no TLS on a port that wants it; what it sent, a token perhaps, went over the network in the clear.

    It was answered AUTH_FAILED, which it can read, and closed.
    """

    peer: str


@event(Level.WARNING, what_to_do="switch TLS on here, or off at the collector")
@dataclass(frozen=True, slots=True)
class TlsPeerOnPlainPort:
    """A peer wanted TLS on a port without it; it was answered a TLS alert and closed."""

    peer: str


@event(Level.WARNING, what_to_do="if it is your collector, add its name to `client_names`")
@dataclass(frozen=True, slots=True)
class ClientNameRefused:
    """A client's certificate is good and has none of the names of `client_names`; it is answered AUTH_FAILED."""

    peer: str
    names: str


@event(Level.INFO)
@dataclass(frozen=True, slots=True)
class TlsFilesReloaded:
    """A certificate, its key or the clients' authorities have changed; new connections get the new ones."""

    cert_file: str


@event(Level.WARNING, what_to_do="write a new certificate over the old one; no restart is needed")
@dataclass(frozen=True, slots=True)
class TlsCertificateExpires:
    """The certificate in use has expired, or will soon; collectors refuse it from then on. Said once a day."""

    cert_file: str
    at: str


@event(Level.ERROR, what_to_do="mend the files before the certificate in use expires")
@dataclass(frozen=True, slots=True)
class TlsFilesRefused:
    """They have changed and cannot be used; the last good ones stay."""

    cause: str


@event(Level.INFO)
@dataclass(frozen=True, slots=True)
class SecretsReloaded:
    """A file of tokens or keys (`what`) has changed; `count` of them are good now. Nobody is disconnected for that."""

    what: str
    file: str
    count: int


@event(Level.ERROR, what_to_do="mend the file; what was removed from it is still good until then")
@dataclass(frozen=True, slots=True)
class SecretsRefused:
    """A file of tokens or keys has changed and cannot be used; those that were read last stay good."""

    what: str
    cause: str


@event(Level.ERROR)
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
    | PeerNotAllowed
    | AddressSlowedDown
    | TlsHandshakeFailed
    | PlainPeerOnTlsPort
    | TlsPeerOnPlainPort
    | ClientNameRefused
    | TlsFilesReloaded
    | TlsCertificateExpires
    | TlsFilesRefused
    | SecretsReloaded
    | SecretsRefused
    | ServerFailed
)
