"""The receiver: one thread that opens the port, elects a collector, converses with it, and starts again.

    open the port -> wait in the lobby -> elect -> reject everyone else, close the port -> converse -> open the port

The port is closed while a collector is connected, so a second one is refused by the kernel. It is opened again by the
same retry rule as at start; until that has worked `describe` says that the source is binding, and why it cannot.
"""

from __future__ import annotations

import dataclasses
import enum
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from edgesocket.net import listener as binding
from edgesocket.net import socket_options
from edgesocket.net.connection import Connection, Ending
from edgesocket.net.control import Control, SilencedError
from edgesocket.net.counters import Counters
from edgesocket.net.departures import Departures
from edgesocket.net.events import (
    BindRetried,
    CollectorConnected,
    CollectorDisconnected,
    DisconnectReason,
    ListenerOpened,
    NetEvent,
    PortLockUnavailable,
    ServerFailed,
)
from edgesocket.net.handler import ConversationHandler
from edgesocket.net.lobby import Lobby, Peer
from edgesocket.net.options import ListenOptions
from edgesocket.net.port_lock import LockUnusableError, PortLock
from edgesocket.net.security import Security
from edgesocket.protocol.chunks import BufferPool
from edgesocket.protocol.session import ServerSession

DEFAULT_GRACE_S = 5.0
_HANDLER_MARGIN_S = 1.0
_LOCK_REFRESH_S = 3600.0
_LOST = frozenset({DisconnectReason.REPLIES_NOT_READ, DisconnectReason.NO_SIGN_OF_LIFE})


class ServerState(enum.StrEnum):
    """Where the receiver is in its round."""

    NEW = "new"
    BINDING = "binding"
    LISTENING = "listening"
    CONNECTED = "connected"
    STOPPED = "stopped"
    FENCED = "fenced"
    FAILED = "failed"


class IngressServer:
    """Serves one collector at a time on one port. Started once, stopped once.

    Args:
        options: see `ListenOptions`.
        handler: decides about tokens and requests.
        events: told what happened, see `edgesocket.net.events`.
        port_lock: the job's own lock, where it shall outlive this server; else the server holds one while it lives.

    Raises:
        ConfigError: the certificates of `options.tls` cannot be used.

    Thread safety: `stop`, `abort`, `join` and `describe` may be called from any thread, the first two also from a
    signal handler.
    """

    def __init__(
        self,
        options: ListenOptions,
        handler: ConversationHandler,
        events: Callable[[NetEvent], None] | None = None,
        *,
        port_lock: PortLock | None = None,
    ) -> None:
        self.port = options.port
        self.failure: BaseException | None = None
        self.counters = Counters()
        self._options = options
        self._handler = handler
        self._emit: Callable[[NetEvent], None] = events or (lambda _: None)
        self._owns_lock = port_lock is None
        self._lock = port_lock or PortLock(options.lock_directory, options.job)
        self._lock_refresh_due = 0.0
        self._lock_complaint_made = False
        self._rule = binding.RetryRule(options.max_retries, options.reconnect_interval_ms)
        self._control = Control(handler.may_send)
        self._departures = Departures()
        self._security = Security(options, self._control, self._departures, self._emit)
        self._pool = BufferPool()
        self._lobby: Lobby | None = None
        self._connection: Connection | None = None
        self._collector = ""
        self._bind_problem = ""
        self._bind_tries = 0
        self._thread: threading.Thread | None = None
        self._set_state(ServerState.NEW)

    # -- for the job ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Bind the port, by the retry rule, then run the receiver thread. Returns when the port is open.

        Raises:
            ListenerError: the port cannot be had, or a stop came first. Nothing runs then and nothing is held.
        """
        try:
            listener = self._open()
        except BaseException as error:
            self.failure = None if isinstance(error, binding.BindCancelledError) else error
            self._release(ServerState.STOPPED if self.failure is None else ServerState.FAILED)
            raise
        self._thread = threading.Thread(target=self._run, args=(listener,), name="edgesocket-receiver", daemon=True)
        self._thread.start()

    def stop(self, grace_s: float = DEFAULT_GRACE_S) -> bool:
        """End gracefully and wait for it: close the port, read no more, send what is owed for at most `grace_s`.

        Whole lines already received are answered; a line that has not ended is dropped unanswered. A handler that does
        not come back in time, or a receiver that does not end, is aborted. Called by the handler it only asks.

        Returns:
            Whether the receiver has ended.
        """
        self._control.stop(grace_s)
        if self._thread is threading.current_thread():
            return False
        if self.join(grace_s + _HANDLER_MARGIN_S):
            return True
        self._control.abort()
        return self.join(_HANDLER_MARGIN_S)

    def abort(self) -> None:
        """End at once, without waiting: when this returns no further byte can be sent, whatever the receiver does.

        The connections are reset as soon as the receiver, which is woken, gets to it.
        """
        self._control.abort()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the receiver. Returns whether it has ended (or never ran)."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return thread is None
        thread.join(timeout_s)
        return not thread.is_alive()

    def describe(self) -> dict[str, Any]:
        """What the status shows: state, port, collector, why the port cannot be had, counters. No secrets."""
        lobby, connection = self._lobby, self._connection
        return {
            "state": str(self._state),
            "state_since_s": round(time.monotonic() - self._state_since, 3),
            "port": self.port,
            "collector": self._collector,
            "bind_problem": self._bind_problem,
            "bind_tries": self._bind_tries,
            "waiting_peers": len(lobby) if lobby is not None else 0,
            "owed_reply_runs": connection.owed_runs if connection is not None else 0,
            "failure": "" if self.failure is None else f"{type(self.failure).__name__}: {self.failure}",
            "tls_certificate_expires": self._security.certificate_expires,
            **self.counters.as_json(),
        }

    # -- the receiver thread -------------------------------------------------------------------------------------

    def _run(self, listener: socket.socket) -> None:
        state = ServerState.STOPPED
        try:
            while self._serve_one(listener):
                listener = self._open()
        except binding.BindCancelledError:
            pass
        except SilencedError:
            state = ServerState.FENCED if self._control.fenced else ServerState.STOPPED
        except BaseException as error:
            self.failure = error
            state = ServerState.FAILED
        finally:
            listener.close()
            self._release(state)
        if self.failure is not None:
            self._emit(ServerFailed(self.failure))

    def _serve_one(self, listener: socket.socket) -> bool:
        """From an open port to the end of one conversation. Returns False when a stop was asked for."""
        lobby = Lobby(
            self._options,
            self._new_session,
            self._control,
            self._departures,
            self.counters,
            self._emit,
            self._security,
        )
        self._lobby = lobby
        peer: Peer | None = None
        try:
            peer = lobby.elect(listener, self._keep_house)
            if peer is not None:
                lobby.reject_all(listener)
        except BaseException:
            if peer is not None:
                peer.sock.close()
            raise
        finally:
            self._lobby = None
            lobby.close_all()
            listener.close()
        if peer is None:
            return False
        self._converse(peer)
        return not self._control.stopping

    def _converse(self, peer: Peer) -> None:
        self._control.attach(peer.sock)
        before = dataclasses.replace(self.counters)
        ending = Ending(DisconnectReason.FAILED)
        started = False
        try:
            connection = self._connect(peer)
            self.counters.sessions += 1
            self._collector = peer.name
            self._set_state(ServerState.CONNECTED)
            self._emit(CollectorConnected(peer.name))
            started = True
            self._handler.session_started(peer.name)
            self._connection = connection
            ending = connection.run()
        except SilencedError:
            ending = Ending(DisconnectReason.FENCED if self._control.fenced else DisconnectReason.ABORTED)
            raise
        finally:
            self._connection = None
            self._collector = ""
            # Nobody will ever read what the kernel holds for such a peer.
            self._control.detach_and_close(reset=ending.reason in _LOST)
            if started:
                self._say_ended(peer.name, ending, before)

    def _connect(self, peer: Peer) -> Connection:
        try:
            socket_options.tune(peer.sock, self._options)
        except OSError:
            pass  # reset in this very moment: the first receive says so
        return Connection(
            peer.channel, peer.session, self._handler, self._options, self._control, self.counters, self._keep_house
        )

    def _say_ended(self, peer: str, ending: Ending, before: Counters) -> None:
        self._handler.session_ended(ending.reason)
        received = self.counters.received_bytes - before.received_bytes
        sent = self.counters.sent_bytes - before.sent_bytes
        self._emit(CollectorDisconnected(peer, ending.reason, ending.detail, received, sent))

    def _new_session(self) -> ServerSession:
        return ServerSession(
            self._handler.accepts_token, self._pool, self._options.max_line_bytes, self._options.check_utf8
        )

    def _keep_house(self, now: float) -> None:
        self._control.check_may_send()
        if self._security.farewells:
            self._security.farewells.sweep(now)
        if self._departures:
            self._departures.sweep(now)
        if now >= self._lock_refresh_due:
            self._lock_refresh_due = now + _LOCK_REFRESH_S
            self._lock.refresh()

    # -- the port ------------------------------------------------------------------------------------------------

    def _open(self) -> socket.socket:
        self._set_state(ServerState.BINDING)
        listener, self._bind_tries = binding.open_by_rule(
            self._open_once, self._rule, self._control.wake.wait, self._note_retry, self.port
        )
        self._bind_problem = ""
        self._set_state(ServerState.LISTENING)
        try:
            self._emit(ListenerOpened(self.port, self._bind_tries))
        except BaseException:
            listener.close()
            raise
        return listener

    def _open_once(self) -> socket.socket:
        """One try: the lock first, so that a job never binds the port of another one that has suspended it."""
        if self._control.stopping:
            raise binding.BindCancelledError(f"stopped before port {self.port} was open")
        if self.port:
            self._take_lock(self.port)
            return binding.listen(self._options.host, self.port, self._options.backlog)
        listener = binding.listen(self._options.host, 0, self._options.backlog)
        try:
            port = listener.getsockname()[1]
            self._take_lock(port)
        except BaseException:
            listener.close()
            raise
        self.port = port
        return listener

    def _take_lock(self, port: int) -> None:
        try:
            self._lock.acquire(port)
        except LockUnusableError as error:
            if not self._lock_complaint_made:
                self._lock_complaint_made = True
                self._emit(PortLockUnavailable(port, binding.describe_cause(error)))

    def _note_retry(self, tries: int, cause: str) -> None:
        self._bind_tries, self._bind_problem = tries, cause
        self._emit(BindRetried(self.port, tries, cause, self._options.reconnect_interval_ms))

    def _set_state(self, state: ServerState) -> None:
        self._state, self._state_since = state, time.monotonic()

    def _release(self, state: ServerState) -> None:
        self._security.farewells.close_all()
        self._departures.close_all()
        if self._owns_lock:
            self._lock.release()
        self._control.wake.close()
        self._set_state(state)
