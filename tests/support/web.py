"""A web server over jobs that are played, and a client that asks it."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from edgesocket.config.job import load_job
from edgesocket.config.specs import JobSpec
from edgesocket.engine.tap import Tap
from edgesocket.hosting.replay import Replay
from edgesocket.store.directory import DirectoryPlace
from edgesocket.telemetry.journal import Journal
from edgesocket.web.board import Board
from edgesocket.web.hosted import Outcome, Published
from edgesocket.web.options import WebOptions
from edgesocket.web.server import WebServer

TOKEN = "0123456789abcdef-test"

JOB_TEXT = """
env { job.mode = STREAMING, job.name = "%s", checkpoint.interval = 1000, checkpoint.timeout = 10000 }
source { EdgeSocket { port = 9999, token = "edge-token", plugin_output = in, on_bad_record = dead_letter } }
transform { Copy { plugin_input = in, plugin_output = copied, fields { again = payload } } }
sink {
  Console { plugin_input = copied }
  Null { plugin_input = in }
}
dead_letter { DeadLetter { path = "/nowhere/letters" } }
"""


def job_spec(name: str = "edge", text: str = JOB_TEXT) -> JobSpec:
    """A job with a transform, two sinks and dead letters."""
    return load_job(text % name if "%s" in text else text, "job.conf")


def status_of(state: str = "running", **changes: Any) -> dict[str, Any]:
    """What a healthy job says of itself. `changes` replace parts by their path, with two underscores between names."""
    status: dict[str, Any] = {
        "state": state,
        "epoch": 2,
        "rows_written": 100,
        "restarts": 0,
        "last_error": "",
        "sinks": {"failing_for_s": None, "last_failure": "", "dead_letters": 3},
        "checkpoints": {"completed": 5, "failed": 1, "last_completed_ago_s": 0.5, "last_failure": ""},
        "source": {
            "watermark": 90,
            "replies": {"RECEIVED": 100, "QUEUE_FULL": 5, "ACK": 7},
            "queue": {"records": 10},
            "holder": None,
            "listener": {"state": "connected", "state_since_s": 60.0, "received_bytes": 5000, "bind_problem": ""},
        },
    }
    for path, value in changes.items():
        part = status
        *way, last = path.split("__")
        for name in way:
            part = part[name]
        part[last] = value
    return status


@dataclass
class PlayedJob:
    """A job that does nothing. See `web.hosted.HostedJob`."""

    name: str = "edge"
    spec: JobSpec = field(default_factory=job_spec)
    created_ms: int = 1_700_000_000_000
    restored: bool = True
    published: Published | None = None
    outcome: Outcome | None = None
    journal: Journal = field(default_factory=lambda: Journal(threading.Lock(), lambda: int(time.time() * 1000)))
    tap: Tap = field(default_factory=Tap)
    state: DirectoryPlace = field(default_factory=lambda: DirectoryPlace(Path("/nowhere")))
    stopped_by: list[str] = field(default_factory=list)

    def say(self, status: Mapping[str, Any], at: float | None = None) -> PlayedJob:
        """Publish a status."""
        self.published = Published(dict(status), time.monotonic() if at is None else at)
        return self

    def stop(self, by: str) -> None:
        """Note who asks."""
        self.stopped_by.append(by)

    def replay(self, wanted: object) -> Replay:
        """Not played."""
        raise NotImplementedError


@dataclass
class PlayedHost:
    """A process with played jobs. What is submitted is noted."""

    played: Sequence[PlayedJob] = ()
    why_no_submit: str = ""
    submitted: list[tuple[str, str, str | None, bool]] = field(default_factory=list)
    fail_with: Exception | None = None

    def jobs(self) -> Sequence[PlayedJob]:
        """See Host."""
        return self.played

    def submit(self, text: str, file_format: Literal["json", "hocon"], name: str | None, *, restored: bool) -> str:
        """See Host."""
        if self.fail_with is not None:
            raise self.fail_with
        self.submitted.append((text, file_format, name, restored))
        return name or "submitted"


@contextmanager
def serving(host: Any, options: WebOptions | None = None, report: list[str] | None = None) -> Iterator[WebServer]:
    """A server on a free loopback port."""
    lines = [] if report is None else report
    server = WebServer(
        lambda: Board(host),
        options or WebOptions(ports=(0,), token=TOKEN),
        lambda line: lines.append(str(line)),
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


def ask(
    server: WebServer | str,
    path: str,
    body: Any = None,
    *,
    method: str = "",
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """One request. A `body` that is not bytes is sent as JSON, and makes it a POST."""
    where = urlsplit(server if isinstance(server, str) else server.url)
    connection: http.client.HTTPConnection
    if where.scheme == "https":
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, timeout=20, context=tls)
    else:
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=20)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    sent = dict(headers or {})
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, content, sent)
        answer = connection.getresponse()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()
