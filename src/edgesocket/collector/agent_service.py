"""Answers about the agent over HTTP, on a port of this host: `/health`, `/ready`, `/metrics`, `/status`.

It has no thread: the agent's main thread calls `serve`. Nothing can be changed through it.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from edgesocket.collector.agent_status import CONTENT_TYPE, AgentView, render_metrics
from edgesocket.collector.intake.http_requests import Refusal, Request
from edgesocket.collector.intake.http_server import HttpServer
from edgesocket.collector.intake.listening import Listener

MOST_CONNECTIONS = 16
_PATHS = "/health /ready /metrics /status"
_JSON = "application/json"


class AgentService:
    """See the module's text."""

    def __init__(self, address: str, port: int, look: Callable[[], AgentView]) -> None:
        """Args: where to listen, and what gives the picture of the moment."""
        self._listener = Listener("http", address, port, MOST_CONNECTIONS)
        self._server = HttpServer(self._listener, 0, _only_get)
        self._look = look

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._listener.port

    def open(self) -> None:
        """Listen. Raises CollectorError."""
        self._server.open()

    def descriptors(self) -> list[int]:
        """What to wait on before `serve`."""
        return self._server.descriptors()

    def serve(self, now: float) -> None:
        """Answer what has come."""
        for connection, request in self._server.serve(now):
            status, body, kind = self._answer(request.path)
            self._server.answer(connection, status, body, now, content_type=kind)

    def close(self) -> None:
        """Stop."""
        self._server.close()

    def _answer(self, path: str) -> tuple[int, bytes, str]:
        if path == "/metrics":
            return 200, render_metrics(self._look()), CONTENT_TYPE
        if path == "/status":
            return 200, json.dumps(self._look().as_json(), indent=2).encode() + b"\n", _JSON
        if path in ("/health", "/ready"):
            view = self._look()
            good = view.alive if path == "/health" else view.ready
            body = json.dumps({"ok": good, "problems": view.problems})
            return (200 if good else 503), body.encode() + b"\n", _JSON
        return 404, f"there is {_PATHS}\n".encode(), "text/plain; charset=utf-8"


def _only_get(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise Refusal(405, "only GET is answered", {"Allow": "GET, HEAD"})
