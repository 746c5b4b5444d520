"""A bucket on a real HTTP server (moto's), behind a proxy that can be slow, fail, refuse, and lose answers.

moto's server checks a conditional write and performs it in two steps, and serves requests at the same time; a real
service does both in one. So the proxy lets one request after the other through.
"""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from edgesocket.config.s3_settings import S3Settings
from edgesocket.store.bucket import Bucket
from edgesocket.store.objects import ObjectStore
from tests.support.s3_server import s3_server

KEYS = {"AWS_ACCESS_KEY_ID": "test-access", "AWS_SECRET_ACCESS_KEY": "test-secret-never-shown"}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Request:
    """What the proxy sees: `count` numbers the requests from 1, `key` is without the bucket."""

    method: str
    key: str
    count: int


LOSE = "lose"
"""The request is performed, its answer is lost."""
DROP = "drop"
"""The connection is reset before anything happens."""
Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body."""
Fate = int | float | str | None
"""An int is a status answered instead; a float delays the request by so many seconds; None lets it pass."""

_ERRORS = {
    403: "AccessDenied",
    500: "InternalError",
    503: "SlowDown",
    507: "XMinioStorageFull",
    409: "ConditionalRequestConflict",
}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed in the middle of a request is nothing to talk about."""


class FaultyS3:
    """The proxy.

    Attributes:
        url: where clients go.
        fate: decides what becomes of each request.
        requests: what came, in order.
    """

    def __init__(self, upstream: str) -> None:
        self.fate: Callable[[Request], Fate] = lambda request: None
        self.requests: list[Request] = []
        self._upstream = urlsplit(upstream).netloc
        self._one_at_a_time = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def bucket(self) -> str:
        """The name of a new bucket."""
        name = f"states-{next(_numbers)}"
        assert self._forward("PUT", f"/{name}", {"Host": self._upstream, **_signed()}, b"")[0] == 200
        return name

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.partition("?")[0].lstrip("/").partition("/")[2]
                with proxy._one_at_a_time:
                    request = Request(self.command, path, len(proxy.requests) + 1)
                    proxy.requests.append(request)
                fate = proxy.fate(request)
                if isinstance(fate, float):
                    time.sleep(fate)
                elif isinstance(fate, int):
                    code = _ERRORS.get(fate, "Error")
                    self._answer(fate, {}, f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode())
                    return
                elif fate == DROP:
                    self.close_connection = True
                    return
                status, headers, data = proxy._forward(self.command, self.path, dict(self.headers.items()), body)
                if fate == LOSE:
                    self.close_connection = True
                    return
                self._answer(status, headers, data)

            do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = _serve

            def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
                try:
                    self.send_response_only(status)
                    for name, value in headers.items():
                        if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                            self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(data)
                except OSError:
                    self.close_connection = True  # who asked is gone

            def log_message(self, format: str, *args: object) -> None: ...

        return Handler

    def _forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with self._one_at_a_time:
            connection = http.client.HTTPConnection(self._upstream, timeout=30)
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                return answer.status, dict(answer.getheaders()), answer.read()
            finally:
                connection.close()


def _signed() -> dict[str, str]:
    """moto looks at no signature, but wants to see one."""
    return {"Authorization": "AWS4-HMAC-SHA256 Credential=test-access/20260101/us-east-1/s3/aws4_request"}


@contextmanager
def faulty_s3() -> Iterator[FaultyS3]:
    """A server behind its proxy."""
    with s3_server() as upstream:
        proxy = FaultyS3(upstream)
        try:
            yield proxy
        finally:
            proxy.close()


def settings(url: str) -> S3Settings:
    """How the proxy is reached."""
    return S3Settings(
        endpoint=url, region="us-east-1", access_key="test-access", secret_key=KEYS["AWS_SECRET_ACCESS_KEY"]
    )


def object_store(url: str, bucket: str, prefix: str = "states/job", pauses: list[float] | None = None) -> ObjectStore:
    """A store whose pauses between tries take no time; they are appended to `pauses`, and its clock counts them."""
    waited = [0.0]

    def sleep(seconds: float) -> None:
        waited[0] += seconds
        if pauses is not None:
            pauses.append(seconds)

    def clock() -> float:
        return time.monotonic() + waited[0]

    return ObjectStore(Bucket(bucket, settings(url), sleep=sleep, clock=clock), prefix)
