"""The server: one thread with an event loop of its own, for as long as the process has jobs.

The port is bound at once, by whoever starts the jobs, so that one that is taken is said at once. Starlette and uvicorn
are imported on the server's thread, when the jobs run or after `PATIENCE_S`: a job's start does not wait for them, and
who asks meanwhile waits in the port's backlog.
"""

from __future__ import annotations

import importlib.util
import socket
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from edgesocket.errors import ListenerError, UsageError
from edgesocket.web.options import WebOptions

if TYPE_CHECKING:
    import ssl

    from edgesocket.web.board import Board
    from edgesocket.web.serving import Serving

LIBRARIES = ("starlette", "uvicorn")
BACKLOG = 128
MAX_OPEN = 256
"""Connections at a time; more are closed at once."""

PATIENCE_S = 3.0
"""The server starts after this time also where jobs are not running yet: their restore may take long."""

BEGIN_LOOK_S = 0.05

STOP_S = 2.0
"""How long the end waits for answers under way."""


class BoundedListener(socket.socket):
    """A listening socket that closes what it accepts while there are `MAX_OPEN` connections.

    They are counted here because a peer that never ends its TLS handshake is known to nobody else, and files that are
    open are what jobs need too.
    """

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._open: WeakSet[socket.socket] = WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """See socket. Raises BlockingIOError for a connection too many, as if nobody had come."""
        connection, peer = super().accept()
        if sum(one.fileno() >= 0 for one in self._open) >= MAX_OPEN:
            connection.close()
            raise BlockingIOError
        self._open.add(connection)
        return connection, peer


def missing_library() -> str:
    """A library that the server needs and that is not installed; empty: all are."""
    return next((name for name in LIBRARIES if importlib.util.find_spec(name) is None), "")


def bind(options: WebOptions) -> socket.socket:
    """A listening socket on the first port that is free.

    Raises:
        ListenerError: none is; or the address is not of this host.
    """
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    problem: OSError | None = None
    for port in options.ports:
        # With the protocol named, asyncio switches off Nagle's algorithm: head and body are two writes, and the second
        # would wait 40 ms for a peer that acknowledges late.
        listener = BoundedListener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((options.host, port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            problem = error
            continue
        return listener
    ports = f"{options.ports[0]}" + (f" to {options.ports[-1]}" if len(options.ports) > 1 else "")
    reason = problem.strerror if problem is not None else "no port is named"
    raise ListenerError(
        f"the HTTP server cannot have port {ports} of {options.host}: {reason}; name another one with --http "
        f"ADDRESS:PORT, or use --http off"
    )


class WebServer:
    """Serves a board until it is stopped. Made on any thread; started once.

    Args:
        board: makes the board, on the server's thread, once everything is imported.
        options: where, and for whom.
        report: takes log lines.
        begin: whether jobs run, so that it may start; None: it may at once.

    Raises:
        ListenerError: the port cannot be had.
        UsageError: certificate or key cannot be read.

    Attributes:
        port: where it listens.
        url: where this host reaches it.
    """

    def __init__(
        self,
        board: Callable[[], Board],
        options: WebOptions,
        report: Callable[[object], None],
        begin: Callable[[], bool] = lambda: True,
    ) -> None:
        self._board = board
        self._options = options
        self._report = report
        self._begin = begin
        self._tls = _tls_context(options)
        self._socket = bind(options)
        self._ended = threading.Event()
        self._serving: Serving | None = None
        self._lock = threading.Lock()
        self.port = int(self._socket.getsockname()[1])
        self.url = options.url(self.port)
        self._thread = threading.Thread(target=self._run, name="edgesocket-web", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End it; waits a moment for answers under way. May be called again, and before the start."""
        with self._lock:
            self._ended.set()
            serving = self._serving
        if serving is not None:
            serving.end()
        if self._thread.is_alive():
            self._thread.join(STOP_S + 1.0)
        self._socket.close()

    def _run(self) -> None:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not self._begin() and time.monotonic() < deadline:
                if self._ended.wait(BEGIN_LOOK_S):
                    return
            from edgesocket.web.serving import Serving

            serving = Serving(self._board(), self._options, self._socket, self._tls, self._report)
            with self._lock:
                if self._ended.is_set():
                    return
                self._serving = serving
            serving.run()
        except BaseException:  # jobs go on without it
            self._report(f"the HTTP server has ended by a bug:\n{traceback.format_exc()}")
        finally:
            self._socket.close()


def _tls_context(options: WebOptions) -> ssl.SSLContext | None:
    """What answers over TLS 1.2 and newer; None: plain HTTP."""
    if options.certificate is None:
        return None
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.certificate, options.key, _no_password)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"--http-cert {options.certificate}{f' --http-key {options.key}' if options.key else ''}: {reason}; both "
            f"are PEM files, and the key has no password"
        ) from error
    return context


def _no_password() -> str:
    """Instead of a question on the terminal."""
    raise ValueError("the key has a password")
