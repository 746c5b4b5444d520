"""What other threads may do to the receiver thread: ask it to stop, or silence it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from edgesocket.net import socket_options
from edgesocket.net.wake import Wake


class SilencedError(Exception):
    """This incarnation must not send another byte. Never leaves this package."""


class Control:
    """The receiver's reins, and the one way by which bytes leave.

    A blocked receiver is woken in two ways: in poll() by `wake`, in recv() by shutting down the reading side of the
    connection it has attached. After `abort` has returned no send can begin any more, whatever the receiver is doing.
    """

    def __init__(self, may_send: Callable[[], bool]) -> None:
        self.wake = Wake()
        self.stopping = False
        self.aborted = False
        self.fenced = False
        self.stop_deadline = 0.0
        self._may_send = may_send
        self._attached: socket.socket | None = None
        # Guards the attached socket against being closed while another thread shuts it down, and sends against abort.
        # Re-entrant, because stop and abort may be called in a signal handler.
        self._lock = threading.RLock()

    def stop(self, grace_s: float) -> None:
        """Ask the receiver to end: no more reading, owed replies within `grace_s`. Returns at once."""
        with self._lock:
            if not self.stopping:
                self.stop_deadline = time.monotonic() + grace_s
                self.stopping = True
            self._shut_down(socket.SHUT_RD)
        self.wake.set()

    def abort(self) -> None:
        """Silence the receiver for ever and ask it to end. Returns at once."""
        with self._lock:
            self.aborted = True
            self.stopping = True
            self.stop_deadline = 0.0
            self._shut_down(socket.SHUT_RDWR)
        self.wake.set()

    def attach(self, sock: socket.socket) -> None:
        """From now on stop and abort wake a recv() on this connection."""
        with self._lock:
            self._attached = sock
            if self.stopping:
                self._shut_down(socket.SHUT_RDWR if self.aborted else socket.SHUT_RD)

    def detach_and_close(self, reset: bool) -> None:
        """Close the attached connection.

        Args:
            reset: throw away what the kernel still holds for the peer. Always so when silenced.
        """
        with self._lock:
            sock, self._attached = self._attached, None
            if sock is not None:
                if reset or self.aborted:
                    socket_options.reset_on_close(sock)
                sock.close()

    def send(self, sock: socket.socket, data: bytes | memoryview) -> int:
        """Send without waiting. Returns how many bytes the kernel took.

        Raises:
            SilencedError: aborted, or the source says it may not answer any more.
            BlockingIOError: no room.
            OSError: the connection is gone.
        """
        if not self._may_send():  # asked outside the lock: what it does is not ours to know
            self._fence()
        with self._lock:
            if self.aborted:
                raise SilencedError
            return sock.send(data, socket.MSG_DONTWAIT)

    def check_may_send(self) -> None:
        """Notice while nothing is sent that nothing may be.

        Raises:
            SilencedError: see `send`.
        """
        if not self._may_send():
            self._fence()
        if self.aborted:
            raise SilencedError

    def _fence(self) -> None:
        self.fenced = True
        self.abort()

    def _shut_down(self, how: int) -> None:
        if self._attached is not None:
            try:
                self._attached.shutdown(how)
            except OSError:
                pass  # gone already
