"""uvicorn, made small: no signals, no log of its own, a deadline for slow peers, one tick a second.

This module imports uvicorn and Starlette, so only the server's thread imports it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from edgesocket.errors import UsageError
from edgesocket.web.app import Application
from edgesocket.web.board import LOOK_S, Board
from edgesocket.web.call import Shared
from edgesocket.web.options import WebOptions, read_token
from edgesocket.web.server import BACKLOG, STOP_S
from edgesocket.web.streams import pause

MAX_CONNECTIONS = 128
"""Requests on more connections are answered 503, so that who asks learns why; see also `server.MAX_OPEN`."""

HANDSHAKE_TIMEOUT_S = 10.0
"""How long a TLS handshake may take."""

HEAD_TIMEOUT_S = 10.0
"""How long the head of a request may take, from the connection or from its first byte."""

KEEP_ALIVE_S = 15
"""How long a connection may wait for its next request."""

SEND_TIMEOUT_S = 20.0
"""Whoever does not read what it asked for is hung up on after this time."""

MAX_HEAD_BYTES = 16 * 1024

LOOKS = 60
"""Ticks between two looks whether the files of certificate and token have changed."""


class Serving:
    """A server that runs on the thread which calls `run`.

    Args:
        board: the jobs.
        options: for whom.
        listener: the bound socket.
        tls: answers over TLS; None: plain HTTP.
        report: takes log lines.
    """

    def __init__(
        self,
        board: Board,
        options: WebOptions,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        report: Callable[[object], None],
    ) -> None:
        _quieten()
        shared = Shared(board, options, report)
        config = uvicorn.Config(
            Application(shared).asgi,
            loop="asyncio",
            http=PatientlessProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            workers=1,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(STOP_S),
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )
        config.load()
        config.ssl = tls
        self._listener = listener
        self._server = _TickingServer(config, shared, None if tls is None else Certificate(tls, options, report))

    def run(self) -> None:
        """Serve until `end`."""
        self._server.run(sockets=[self._listener])

    def end(self) -> None:
        """End soon. Safe on any thread."""
        self._server.end()


class Certificate:
    """Sees that a certificate that was renewed in its file is used for new connections."""

    def __init__(self, tls: ssl.SSLContext, options: WebOptions, report: Callable[[object], None]) -> None:
        self._tls = tls
        self._options = options
        self._report = report
        self._seen = self._stamp()

    def look(self) -> None:
        """Read the files again if they have changed."""
        stamp = self._stamp()
        if stamp == self._seen or stamp is None:
            return
        self._seen = stamp
        assert self._options.certificate is not None
        try:
            self._tls.load_cert_chain(self._options.certificate, self._options.key, lambda: "")
        except (OSError, ValueError) as error:
            self._report(f"HTTP: the new certificate cannot be read, so the old one stays: {error}")
        else:
            self._report("HTTP: the new certificate is in use")

    def _stamp(self) -> tuple[int, ...] | None:
        files = [file for file in (self._options.certificate, self._options.key) if file is not None]
        try:
            return tuple(file.stat().st_mtime_ns for file in files)
        except OSError:
            return None


class TokenFile:
    """Sees that a token that was replaced in its file is what counts."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._told = ""

    def look(self) -> None:
        """Read the file again. One that cannot be read changes nothing."""
        file = self._shared.options.token_file
        if file is None:
            return
        try:
            token = read_token(file)
        except UsageError as error:
            if str(error) != self._told:
                self._told = str(error)
                self._shared.report(f"HTTP: the token stays as it is: {error}")
            return
        self._told = ""
        if token != self._shared.token:
            self._shared.token = token
            self._shared.report("HTTP: the new token is in use")


class _TickingServer(uvicorn.Server):
    """Looks at the board once a second, and wakes for nothing else."""

    def __init__(self, config: uvicorn.Config, shared: Shared, certificate: Certificate | None) -> None:
        super().__init__(config)
        self._shared = shared
        self._certificate = certificate
        self._token_file = TokenFile(shared)
        self._loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """End soon. Safe on any thread."""
        self.should_exit = True
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._shared.closing.set)
            except RuntimeError:
                pass  # it has ended already

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn, which has no deadline for TLS handshakes."""
        loop, config = asyncio.get_running_loop(), self.config
        timeout_s = None if config.ssl is None else HANDSHAKE_TIMEOUT_S

        def make() -> asyncio.Protocol:
            return PatientlessProtocol(config=config, server_state=self.server_state, app_state={}, _loop=loop)

        self.servers = [
            await loop.create_server(make, sock=one, ssl=config.ssl, ssl_handshake_timeout=timeout_s, backlog=BACKLOG)
            for one in sockets or ()
        ]
        self.started = True

    async def main_loop(self) -> None:
        """See uvicorn."""
        self._loop = asyncio.get_running_loop()
        ticks = 0
        while not self.should_exit:
            ticks += 1
            await self.on_tick(0)  # the Date header
            self._shared.board.look()
            for one in list(self.server_state.connections):
                if isinstance(one, PatientlessProtocol):
                    one.look()
            if ticks % LOOKS == 0:
                self._token_file.look()
                if self._certificate is not None:
                    self._certificate.look()
            if not await pause(self._shared, LOOK_S):
                return


class PatientlessProtocol(H11Protocol):
    """Closes connections of peers that do not ask, or ask too slowly, or do not read the answer."""

    _deadline: asyncio.TimerHandle | None = None
    _send_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._set_deadline(wanted=False)
        self._set_send_deadline(wanted=False)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """See uvicorn: called after each receive, and for requests that were pipelined."""
        super().handle_events()
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        between_requests = cycle is None or cycle.response_complete
        self._set_deadline(wanted=between_requests and self.timeout_keep_alive_task is None)

    def pause_writing(self) -> None:
        """See asyncio: there is no room for more of the answer."""
        super().pause_writing()
        self._set_send_deadline(wanted=True)

    def resume_writing(self) -> None:
        """See asyncio: the peer has read."""
        super().resume_writing()
        self._set_send_deadline(wanted=self.transport.is_closing())

    def look(self) -> None:
        """Called now and then: a connection that is closed waits for what was not read, and not for ever."""
        if self.transport.is_closing():
            self._set_send_deadline(wanted=True)

    def _set_send_deadline(self, *, wanted: bool) -> None:
        if not wanted and self._send_deadline is not None:
            self._send_deadline.cancel()
            self._send_deadline = None
        elif wanted and self._send_deadline is None:
            self._send_deadline = self.loop.call_later(SEND_TIMEOUT_S, self._hang_up)

    def _hang_up(self) -> None:
        self._send_deadline = None
        self.transport.abort()

    def _set_deadline(self, *, wanted: bool) -> None:
        if not wanted and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        elif wanted and self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(HEAD_TIMEOUT_S, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.abort()


def _quieten() -> None:
    """uvicorn's own log is about peers' oddities; bugs are reported by the application."""
    log = logging.getLogger("uvicorn.error")
    log.propagate = False
    log.setLevel(logging.CRITICAL + 1)
    if not log.handlers:
        log.addHandler(logging.NullHandler())
