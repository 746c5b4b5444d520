"""Peers that have not authenticated yet, served side by side, and the election of the collector.

Whoever failed may have to wait for its AUTH_FAILED (`backoff`). It has no place here meanwhile: it keeps nobody out.

The first peer whose complete first line is right becomes the collector. Until then nobody counts as "the active
collector": a silent peer, a dripping one, a health check and a thousand wrong tokens stand beside the real one and
never in front of it.

A dead peer is never elected. One whose connection was reset is dead. One whose FIN is here is dead too, unless requests
lie behind its first line: that is a collector which wrote everything at once and closed its writing side
(`printf ... | nc`), and it gets its answers.

With TLS the handshake is part of what a peer has its time for, and goes on whenever bytes of it come. Whoever speaks
TLS where none is, or none where it is, is told so as far as it can understand, and the log says it too.
"""

from __future__ import annotations

import enum
import errno
import select
import socket
import time
from collections.abc import Callable

from edgesocket.net import socket_options
from edgesocket.net.channel import Channel, TlsRefusedError
from edgesocket.net.control import Control
from edgesocket.net.counters import Counters
from edgesocket.net.departures import Departures
from edgesocket.net.events import (
    AddressSlowedDown,
    AuthenticationFailed,
    ClientNameRefused,
    NetEvent,
    PeerDropped,
    PeerNotAllowed,
    PeerRejected,
    PeerTimedOut,
    PlainPeerOnTlsPort,
    TlsHandshakeFailed,
    TlsPeerOnPlainPort,
)
from edgesocket.net.options import ListenOptions
from edgesocket.net.security import Security
from edgesocket.net.waiting_peers import WaitingPeers
from edgesocket.protocol.replies import AUTH_FAILED, REJECTED
from edgesocket.protocol.session import Authenticated, AuthRefused, ServerEvent, ServerSession

TLS_ALERT = bytes((21, 3, 3, 0, 2, 2, 70))
"""For a TLS client on a plain port: a fatal alert, `protocol version`, which is how its library words it."""

AUTHENTICATED = Authenticated()
AUTH_REFUSED = AuthRefused()

_HELLO = bytes((22, 3))
_ACCEPTS_A_ROUND = 64
_SWEEP_MS = 50
_LISTENER_BROKEN = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Standing(enum.Enum):
    """Where a peer stands after it was heard."""

    WAITING = enum.auto()
    ELECTED = enum.auto()
    GONE = enum.auto()


class Peer:
    """A connection in the lobby. Compared and hashed by identity; its text never shows what it sent.

    Attributes:
        refused_at: when it is told that it is refused, where its address failed often; 0.0: it is not refused.
        spoke: whether anything came from it.
    """

    __slots__ = ("address", "channel", "name", "refused_at", "session", "sock", "spoke")

    def __init__(self, channel: Channel, address: tuple[str, int], session: ServerSession) -> None:
        self.channel = channel
        self.sock = channel.sock
        self.address = address[0]
        self.name = f"{address[0]}:{address[1]}"
        self.session = session
        self.refused_at = 0.0
        self.spoke = False


class Lobby:
    """Holds the waiting peers of one opening of the port. Used by the receiver thread only."""

    def __init__(
        self,
        options: ListenOptions,
        new_session: Callable[[], ServerSession],
        control: Control,
        departures: Departures,
        counters: Counters,
        emit: Callable[[NetEvent], None],
        security: Security | None = None,
    ) -> None:
        self._options = options
        self._new_session = new_session
        self._control = control
        self._departures = departures
        self._counters = counters
        self._emit = emit
        self._security = security or Security(options, control, departures, emit)
        self._poller = select.poll()
        self._by_fd: dict[int, Peer] = {}
        most = (options.max_waiting_peers, options.max_waiting_peers_per_address)
        self._waiting: WaitingPeers[Peer] = WaitingPeers(*most, options.auth_timeout_ms / 1000)
        self._refused: WaitingPeers[Peer] = WaitingPeers(*most, 0.0)
        """Those who are told so later. They are not polled: what they send would only wake us."""

    def __len__(self) -> int:
        return len(self._waiting)

    def elect(self, listener: socket.socket, housekeeping: Callable[[float], None]) -> Peer | None:
        """Serve newcomers and waiting peers until one has authenticated.

        Args:
            listener: the open port, non-blocking.
            housekeeping: called with the time about every `tick_ms`, or more often.

        Returns:
            The elected peer, taken out of the lobby, its session holding back what follows the first line. None when a
            stop was asked for.

        Raises:
            SilencedError: this incarnation may not answer any more.
            OSError: the listener is broken.
        """
        self._poller.register(listener, select.POLLIN)
        self._poller.register(self._control.wake, select.POLLIN)
        while True:
            ready = self._poller.poll(self._poll_ms())
            if self._control.stopping:
                return None
            elected = self._serve(ready, listener)
            if elected is not None:
                return elected
            now = time.monotonic()
            self._tell_the_refused(now)
            self._let_go_of_the_overdue(now)
            self._departures.sweep(now)
            housekeeping(now)

    def reject_all(self, listener: socket.socket) -> None:
        """Answer REJECTED to everyone who waits here or in the kernel's backlog. Close the listener right after.

        Who is refused is told that instead.
        """
        for peer in list(self._refused):
            self._say_goodbye(peer, AUTH_FAILED.encode())
        for peer in list(self._waiting):
            self._reject(peer)
        # Bounded, because new ones may keep coming; those left over are reset when the listener closes.
        for _ in range(4 * self._options.backlog):
            accepted = self._accept(listener)
            if accepted is None:
                break
            self._reject(accepted)

    def close_all(self) -> None:
        """Close every waiting peer without a word."""
        for peer in (*self._waiting, *self._refused):
            self._close(peer)

    def _poll_ms(self) -> int:
        wait_ms = self._options.tick_ms
        if self._departures:
            wait_ms = min(wait_ms, _SWEEP_MS)
        deadline = self._waiting.next_deadline
        for due in (deadline, *(peer.refused_at for peer in self._refused)):
            if due is not None:
                wait_ms = min(wait_ms, max(0, int((due - time.monotonic()) * 1000) + 1))
        return wait_ms

    def _serve(self, ready: list[tuple[int, int]], listener: socket.socket) -> Peer | None:
        accepting = False
        for fd, _ in ready:
            if fd == listener.fileno():
                accepting = True
            elif (peer := self._by_fd.get(fd)) is not None and (self._hear(peer) is Standing.ELECTED):
                return peer
        return self._welcome(listener) if accepting else None

    def _welcome(self, listener: socket.socket) -> Peer | None:
        """Accept newcomers. Each is heard before it may push out another, and a peer once more before it is."""
        for _ in range(_ACCEPTS_A_ROUND):
            peer = self._accept(listener)
            if peer is None:
                return None
            self._admit(peer)
            standing = self._hear(peer)
            if standing is Standing.ELECTED:
                return peer
            if standing is Standing.WAITING:
                elected = self._thin_out(peer.address)
                if elected is not None:
                    return elected
        return None

    def _thin_out(self, address: str) -> Peer | None:
        """Drop whoever is too many now, unless that one turns out to be the collector."""
        while (oldest := self._waiting.too_many(address)) is not None:
            standing = self._hear(oldest)
            if standing is Standing.ELECTED:
                return oldest
            if standing is Standing.WAITING:
                self._drop(oldest)
        return None

    def _admit(self, peer: Peer) -> None:
        self._waiting.add(peer, peer.address, time.monotonic())
        self._by_fd[peer.sock.fileno()] = peer
        self._poller.register(peer.sock, select.POLLIN)

    def _refuse_later(self, peer: Peer, wait_s: float) -> None:
        """Where there is no room for that, the one that is refused longest is closed without a word."""
        now = time.monotonic()
        self._forget(peer)
        peer.refused_at = now + wait_s
        self._refused.add(peer, peer.address, now)
        while (oldest := self._refused.too_many(peer.address)) is not None:
            self._close(oldest)

    def _tell_the_refused(self, now: float) -> None:
        for peer in [peer for peer in self._refused if peer.refused_at <= now]:
            self._say_goodbye(peer, AUTH_FAILED.encode())

    def _accept(self, listener: socket.socket) -> Peer | None:
        """The next connection, or None when there is none (or no descriptor left for it)."""
        for _ in range(_ACCEPTS_A_ROUND):
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return None
            except ConnectionAbortedError:
                continue  # it left while it was in the backlog
            except OSError as error:
                if error.errno in _LISTENER_BROKEN:
                    raise
                if error.errno in _OUT_OF_DESCRIPTORS:
                    self._make_room()
                return None  # the rest is about that one connection
            self._counters.connections += 1
            if self._security.allow_list.allows(address[0]):
                return Peer(self._security.channel(sock), address, self._new_session())
            sock.close()
            self._counters.peers_not_allowed += 1
            self._emit(PeerNotAllowed(f"{address[0]}:{address[1]}"))
        return None

    def _make_room(self) -> None:
        """Out of descriptors: let the longest waiting peer go, or pause, as the backlog stays readable meanwhile."""
        self._departures.close_all()
        for peer in self._refused:
            self._close(peer)
            return
        for peer in self._waiting:
            self._drop(peer)
            return
        self._control.wake.wait(_SWEEP_MS / 1000)

    def _hear(self, peer: Peer) -> Standing:
        """Take what a peer has sent and act on it: refuse it, let it go, or take it out of the lobby as elected."""
        room = peer.session.writable()
        while True:
            try:
                count = peer.channel.receive_now(room)
            except BlockingIOError:
                self._poll_for(peer)
                return Standing.WAITING
            except TlsRefusedError as refused:
                self._refuse_handshake(peer, refused)
                return Standing.GONE
            except OSError:
                count = 0
            if not peer.spoke and not peer.channel.encrypted and _is_tls(room[:count]):
                self._refuse_tls(peer)
                return Standing.GONE
            peer.spoke = True
            verdict = peer.session.received(count) if count else []
            if verdict or not count:
                break
            if not peer.channel.has_buffered:
                return Standing.WAITING
        return self._judge(peer, verdict, bytes(room[:count]))

    def _judge(self, peer: Peer, verdict: list[ServerEvent], data: bytes) -> Standing:
        """Act on a first line that is complete, or on the end of a peer. `data` is what came last, b"" at the end."""
        if AUTH_REFUSED in verdict:
            self._refuse(peer)
            return Standing.GONE
        if not data or self._is_dead(peer, data):
            self._counters.peers_left += 1
            self._close(peer)
            return Standing.GONE
        assert AUTHENTICATED in verdict
        names = self._security.unwanted_names(peer.channel)
        if names is not None:
            self._emit(ClientNameRefused(peer.name, names))
            self._refuse(peer)
            return Standing.GONE
        self._forget(peer)
        self._security.backoff.succeeded(peer.address)
        return Standing.ELECTED

    def _poll_for(self, peer: Peer) -> None:
        """Wait for room too, where a handshake needs it."""
        interest = select.POLLIN | select.POLLOUT if peer.channel.wants_to_write else select.POLLIN
        self._poller.modify(peer.sock, interest)

    def _is_dead(self, peer: Peer, data: bytes) -> bool:
        """Whether nobody would get the answers. `data` is what came last, the end of the first line in it."""
        if socket_options.has_reset(peer.sock):
            return True
        return data.endswith(b"\n") and data.count(b"\n") == 1 and peer.channel.is_spent()

    def _refuse(self, peer: Peer) -> None:
        self._counters.auth_failed += 1
        wait_s = self._security.backoff.failed(peer.address, time.monotonic())
        if wait_s:
            self._refuse_later(peer, wait_s)
        else:
            self._say_goodbye(peer, AUTH_FAILED.encode())
        self._emit(AuthenticationFailed(peer.name))
        self._tell_slowed_down(peer, wait_s)

    def _tell_slowed_down(self, peer: Peer, wait_s: float) -> None:
        if wait_s:
            self._emit(AddressSlowedDown(peer.address, round(wait_s * 1000)))

    def _refuse_tls(self, peer: Peer) -> None:
        """A TLS client here, where is none."""
        self._counters.tls_mismatches += 1
        self._say_goodbye(peer, TLS_ALERT)
        self._emit(TlsPeerOnPlainPort(peer.name))

    def _refuse_handshake(self, peer: Peer, refused: TlsRefusedError) -> None:
        """A plain client on a TLS port, which can read a plain answer; or a handshake that OpenSSL gave up."""
        if refused.plain:
            self._counters.tls_mismatches += 1
            self._say_goodbye(peer, AUTH_FAILED.encode(), plain=True)
            self._emit(PlainPeerOnTlsPort(peer.name))
            return
        self._counters.tls_failed += 1
        self._forget(peer)
        self._departures.add(peer.sock, time.monotonic())
        self._emit(TlsHandshakeFailed(peer.name, refused.cause))
        self._tell_slowed_down(peer, self._security.backoff.failed(peer.address, time.monotonic()))

    def _reject(self, peer: Peer) -> None:
        self._counters.peers_rejected += 1
        if peer.channel.established:
            self._say_goodbye(peer, REJECTED.encode())
        else:
            self._forget(peer)
            self._security.farewells.add(peer.channel, time.monotonic())
        self._emit(PeerRejected(peer.name))

    def _drop(self, peer: Peer) -> None:
        self._counters.peers_dropped += 1
        self._close(peer)
        self._emit(PeerDropped(peer.name))

    def _let_go_of_the_overdue(self, now: float) -> None:
        for peer in self._waiting.overdue(now):
            self._counters.auth_timed_out += 1
            self._close(peer)
            self._emit(PeerTimedOut(peer.name))

    def _say_goodbye(self, peer: Peer, word: bytes, *, plain: bool = False) -> None:
        """Send the last word, around TLS where it is to be `plain`, and let the peer go."""
        self._forget(peer)
        try:
            if plain or not peer.channel.encrypted:
                self._control.send(peer.sock, word)
            else:
                peer.channel.send(word)
                peer.channel.say_end()
        except OSError:
            peer.sock.close()
        except BaseException:
            peer.sock.close()
            raise
        else:
            self._departures.add(peer.sock, time.monotonic())

    def _close(self, peer: Peer) -> None:
        self._forget(peer)
        peer.sock.close()

    def _forget(self, peer: Peer) -> None:
        if self._by_fd.pop(peer.sock.fileno(), None) is not None:
            self._poller.unregister(peer.sock)
        self._waiting.remove(peer)
        self._refused.remove(peer)


def _is_tls(first: memoryview) -> bool:
    """Whether a conversation that begins so is a TLS handshake: its first record, of a version 3 protocol."""
    return len(first) >= len(_HELLO) and bytes(first[: len(_HELLO)]) == _HELLO
