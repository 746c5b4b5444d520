"""Peers that have not authenticated yet, served side by side, and the election of the collector.

The first peer whose complete first line is right becomes the collector. Until then nobody counts as "the active
collector": a silent peer, a dripping one, a health check and a thousand wrong tokens stand beside the real one and
never in front of it.

A dead peer is never elected. One whose connection was reset is dead. One whose FIN is here is dead too, unless requests
lie behind its first line: that is a collector which wrote everything at once and closed its writing side
(`printf ... | nc`), and it gets its answers.
"""

from __future__ import annotations

import enum
import errno
import select
import socket
import time
from collections.abc import Callable

from edgesocket.net import socket_options
from edgesocket.net.control import Control
from edgesocket.net.counters import Counters
from edgesocket.net.departures import Departures
from edgesocket.net.events import AuthenticationFailed, NetEvent, PeerDropped, PeerRejected, PeerTimedOut
from edgesocket.net.options import ListenOptions
from edgesocket.net.waiting_peers import WaitingPeers
from edgesocket.protocol.replies import AUTH_FAILED, REJECTED, Reply
from edgesocket.protocol.session import Authenticated, AuthRefused, ServerSession

AUTHENTICATED = Authenticated()
AUTH_REFUSED = AuthRefused()

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
    """A connection in the lobby. Compared and hashed by identity; its text never shows what it sent."""

    __slots__ = ("address", "name", "session", "sock")

    def __init__(self, sock: socket.socket, address: tuple[str, int], session: ServerSession) -> None:
        self.sock = sock
        self.address = address[0]
        self.name = f"{address[0]}:{address[1]}"
        self.session = session


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
    ) -> None:
        self._options = options
        self._new_session = new_session
        self._control = control
        self._departures = departures
        self._counters = counters
        self._emit = emit
        self._poller = select.poll()
        self._by_fd: dict[int, Peer] = {}
        self._waiting: WaitingPeers[Peer] = WaitingPeers(
            options.max_waiting_peers, options.max_waiting_peers_per_address, options.auth_timeout_ms / 1000
        )

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
            self._let_go_of_the_overdue(now)
            self._departures.sweep(now)
            housekeeping(now)

    def reject_all(self, listener: socket.socket) -> None:
        """Answer REJECTED to everyone who waits here or in the kernel's backlog. Close the listener right after."""
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
        for peer in list(self._waiting):
            self._close(peer)

    def _poll_ms(self) -> int:
        wait_ms = self._options.tick_ms
        if self._departures:
            wait_ms = min(wait_ms, _SWEEP_MS)
        deadline = self._waiting.next_deadline
        if deadline is not None:
            wait_ms = min(wait_ms, max(0, int((deadline - time.monotonic()) * 1000) + 1))
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

    def _accept(self, listener: socket.socket) -> Peer | None:
        """The next connection, or None when there is none (or no descriptor left for it)."""
        while True:
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
            return Peer(sock, address, self._new_session())

    def _make_room(self) -> None:
        """Out of descriptors: let the longest waiting peer go, or pause, as the backlog stays readable meanwhile."""
        self._departures.close_all()
        for peer in self._waiting:
            self._drop(peer)
            return
        self._control.wake.wait(_SWEEP_MS / 1000)

    def _hear(self, peer: Peer) -> Standing:
        """Take what a peer has sent and act on it: refuse it, let it go, or take it out of the lobby as elected."""
        room = peer.session.writable()
        try:
            count = peer.sock.recv_into(room, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return Standing.WAITING
        except OSError:
            count = 0
        verdict = peer.session.received(count) if count else []
        if count and not verdict:
            return Standing.WAITING
        if AUTH_REFUSED in verdict:
            self._refuse(peer)
            return Standing.GONE
        if not count or self._is_dead(peer, bytes(room[:count])):
            self._counters.peers_left += 1
            self._close(peer)
            return Standing.GONE
        assert AUTHENTICATED in verdict
        self._forget(peer)
        return Standing.ELECTED

    def _is_dead(self, peer: Peer, data: bytes) -> bool:
        """Whether nobody would get the answers. `data` is what came last, the end of the first line in it."""
        if socket_options.has_reset(peer.sock):
            return True
        if not socket_options.has_hung_up(peer.sock):
            return False
        return data.endswith(b"\n") and data.count(b"\n") == 1 and not socket_options.unread(peer.sock)

    def _refuse(self, peer: Peer) -> None:
        self._counters.auth_failed += 1
        self._say_goodbye(peer, AUTH_FAILED)
        self._emit(AuthenticationFailed(peer.name))

    def _reject(self, peer: Peer) -> None:
        self._counters.peers_rejected += 1
        self._say_goodbye(peer, REJECTED)
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

    def _say_goodbye(self, peer: Peer, reply: Reply) -> None:
        self._forget(peer)
        try:
            self._control.send(peer.sock, reply.encode())
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
