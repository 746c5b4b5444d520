"""Where is a job now? A small HTTP server that reads the store and nothing else, for collectors that follow a job.

    GET /jobs/NAME  {"endpoint": "10.0.0.2:9999", "address": "10.0.0.2:9999", "epoch": 7, "since": "...",
                     "running": true}
    GET /jobs       {"jobs": {NAME: {...}, ...}}
    GET /healthz    {"status": "ok"}

`endpoint` is what the job says collectors dial, else where it is bound; `address` is where it is bound. It answers
without Ray. Nothing in it is secret, and nothing can be changed through it.
"""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import unquote, urlsplit

from edgesocket.cluster.jobs_of import Jobs, JobView
from edgesocket.errors import EdgeSocketError

KEPT_S = 0.5
"""An answer is as old as this at most; however many collectors ask, the store is read no more often."""

KEPT_ANSWERS = 20_000
REQUEST_S = 5.0
"""So long may a peer take for its request, however it cuts it into pieces."""

MOST_REQUESTS = 64
"""At a time; further ones wait in the kernel's backlog."""

MOST_NAME = 512


def describe(view: JobView) -> dict[str, Any]:
    """A job as the lookup answers."""
    since_ms = 0 if view.attempt is None else view.attempt.time_ms
    return {
        "endpoint": view.endpoint,
        "address": view.address,
        "epoch": view.epoch,
        "since": datetime.fromtimestamp(since_ms / 1000, UTC).isoformat(timespec="seconds") if since_ms else "",
        "running": view.state == "RUNNING",
    }


class Directory:
    """Answers from the store, kept for a moment. Thread-safe.

    Args:
        jobs: of the cluster.
        now: Unix seconds.
    """

    def __init__(self, jobs: Jobs, now: Callable[[], float] = time.time) -> None:
        self._jobs = jobs
        self._now = now
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, dict[str, Any] | None]] = OrderedDict()
        self._names: tuple[float, frozenset[str]] = (0.0, frozenset())

    def job(self, name: str) -> dict[str, Any] | None:
        """One job; None: there is no job of this name that has run. Raises StoreError."""
        now = self._now()
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None and 0 <= now - kept[0] < KEPT_S:
                return kept[1]
            if name not in self._known(now):
                return None
            view = self._jobs.view(name, now)
            found = describe(view) if view.attempt is not None else None
            self._kept[name] = (now, found)
            self._kept.move_to_end(name)
            while len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)
            return found

    def all(self) -> dict[str, Any]:
        """Every job that has run. Raises StoreError."""
        with self._lock:
            names = self._known(self._now())
        found = {name: self.job(name) for name in sorted(names)}
        return {name: job for name, job in found.items() if job is not None}

    def _known(self, now: float) -> frozenset[str]:
        since, names = self._names
        if not 0 <= now - since < KEPT_S:
            names = frozenset(self._jobs.registry.jobs())
            self._names = (now, names)
        return names


class LookupServer(ThreadingMixIn, HTTPServer):
    """The server. `serve_forever` and `shutdown` as of the standard library.

    Args:
        address: host and port; port 0 takes a free one.
        directory: what is answered.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], directory: Directory) -> None:
        self.directory = directory
        self._room = threading.Semaphore(MOST_REQUESTS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve on a thread; wait while there are too many."""
        self._room.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As in the standard library."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that leaves in the middle is nothing to tell."""


class _Request(io.RawIOBase):
    """Reads a request by a deadline."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock = sock
        self._deadline = time.monotonic() + REQUEST_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request took too long")
        self._sock.settimeout(left_s)
        return self._sock.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: LookupServer
    timeout = REQUEST_S
    server_version = "edgesocket"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Request(self.connection))

    def do_GET(self) -> None:
        try:
            status, answer = self._answer(urlsplit(self.path).path)
        except EdgeSocketError as error:
            status, answer = HTTPStatus.SERVICE_UNAVAILABLE, {"status": "fail", "message": str(error)}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, path: str) -> tuple[HTTPStatus, dict[str, Any]]:
        if path == "/healthz":
            return HTTPStatus.OK, {"status": "ok"}
        if path.rstrip("/") == "/jobs":
            return HTTPStatus.OK, {"jobs": self.server.directory.all()}
        if path.startswith("/jobs/"):
            name = unquote(path.removeprefix("/jobs/"))
            found = self.server.directory.job(name) if 0 < len(name) <= MOST_NAME else None
            if found is not None:
                return HTTPStatus.OK, found
            return HTTPStatus.NOT_FOUND, {"status": "fail", "message": "there is no such job, or it has never run"}
        return HTTPStatus.NOT_FOUND, {"status": "fail", "message": "ask for /jobs/NAME"}

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: collectors ask all the time."""
