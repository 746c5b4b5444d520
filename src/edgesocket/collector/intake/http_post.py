"""Input http: records in the bodies of POST requests, at least once.

A request is answered 200 only when its records are in the spool, durably. While the spool takes none it is answered 503
with `Retry-After` after a moment; then nothing of it was kept. A sender that sees its connection end without an answer
must send again, and the records may be there twice.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Mapping, Sequence

from edgesocket.collector.intake.contract import Intake
from edgesocket.collector.intake.enveloping import Envelope
from edgesocket.collector.intake.http_requests import Refusal, Request
from edgesocket.collector.intake.http_server import HttpConnection, HttpServer
from edgesocket.collector.intake.listening import Listener
from edgesocket.compression import Compression
from edgesocket.errors import DecodeError
from edgesocket.packet.compression import inflate

_CODINGS = {
    "": Compression.NONE,
    "identity": Compression.NONE,
    "gzip": Compression.GZIP,
    "x-gzip": Compression.GZIP,
    "deflate": Compression.ZLIB,
}


class _Waiting:
    """A request whose records have not been taken."""

    __slots__ = ("connection", "records", "since", "size")

    def __init__(self, connection: HttpConnection, records: list[bytes], since: float) -> None:
        self.connection = connection
        self.records = records
        self.size = sum(map(len, records))
        self.since = since


class HttpPostInput:
    """See the module's text. An `Input`."""

    def __init__(
        self,
        name: str,
        address: str,
        port: int,
        envelope: Envelope | None,
        *,
        path: str = "/",
        whole_body: bool = False,
        skip_empty: bool = False,
        token: bytes | None = None,
        max_body_bytes: int = 1024 * 1024,
        max_connections: int = 128,
        busy_after_s: float = 0.5,
        retry_after_s: int = 5,
    ) -> None:
        """Args: the options of the input; `token`: what requests must send, None where they need none."""
        self._name = name
        self._listener = Listener(name, address, port, max_connections)
        self._server = HttpServer(self._listener, max_body_bytes, self._check_head)
        self._envelope = envelope
        self._path = path
        self._whole_body = whole_body
        self._skip_empty = skip_empty
        self._authorization = None if token is None else b"Bearer " + token
        self._max_body_bytes = max_body_bytes
        self._busy_after_s = busy_after_s
        self._retry_after = {"Retry-After": str(retry_after_s)}
        self._waiting: deque[_Waiting] = deque()
        self._counts = {"requests_stored": 0, "requests_refused": 0, "requests_busy": 0}

    @property
    def name(self) -> str:
        return self._name

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._listener.port

    @property
    def counts(self) -> Mapping[str, int]:
        refused = self._counts["requests_refused"] + self._server.refused
        return {**self._counts, "requests_refused": refused, "connections_refused": self._listener.refused}

    def open(self, marks: Mapping[str, str], now: float) -> None:  # noqa: ARG002
        self._server.open()

    def descriptors(self) -> Sequence[int]:
        return self._server.descriptors()

    def next_time(self, now: float) -> float | None:  # noqa: ARG002
        times = [self._server.next_time, self._waiting[0].since + self._busy_after_s if self._waiting else None]
        return min((time for time in times if time is not None), default=None)

    def discover(self, now: float) -> None:
        """Read requests, and answer those that cannot be stored: wrong ones, and old ones where nobody takes them."""
        for connection, request in self._server.serve(now):
            try:
                records = self._records_of(request)
            except Refusal as refusal:
                self._counts["requests_refused"] += 1
                body = f"{refusal.why}\n".encode()
                self._server.answer(connection, refusal.status, body, now, headers=refusal.headers)
                continue
            if records:
                if self._envelope is not None:
                    records = self._envelope.wrap(records, peer=connection.peer)
                self._waiting.append(_Waiting(connection, records, now))
            else:
                self._answer_stored(connection, 0, now)
        while self._waiting and now - self._waiting[0].since >= self._busy_after_s:
            self._answer_busy(self._waiting.popleft().connection, now)

    def read(self, budget_bytes: int, now: float) -> Intake | None:  # noqa: ARG002
        lines: list[bytes] = []
        taken: list[tuple[HttpConnection, int]] = []
        while self._waiting and (not taken or self._waiting[0].size <= budget_bytes):
            one = self._waiting.popleft()
            budget_bytes -= one.size
            if one.connection.closed:
                continue  # the sender did not wait for an answer: it will send again
            lines += one.records
            taken.append((one.connection, len(one.records)))
        return Intake(lines, token=taken) if taken else None

    def stored(self, intake: Intake, now: float) -> None:
        assert isinstance(intake.token, list)
        for connection, records in intake.token:
            self._answer_stored(connection, records, now)

    @property
    def ended(self) -> bool:
        return False

    def close(self, now: float) -> Intake | None:
        while self._waiting:
            self._answer_busy(self._waiting.popleft().connection, now)
        self._server.close()
        return None

    def _check_head(self, request: Request) -> None:
        """Refuse before the body is read what would be refused anyway."""
        if self._authorization is not None:
            given = request.headers.get("authorization", "").encode("latin-1")
            if not hmac.compare_digest(given, self._authorization):
                raise Refusal(401, "the bearer token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        if request.path != self._path:
            raise Refusal(404, f"records are taken at {self._path}")
        if request.method not in ("POST", "PUT"):
            raise Refusal(405, "send records with POST", {"Allow": "POST, PUT"})

    def _records_of(self, request: Request) -> list[bytes]:
        body = self._plain_body(request)
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refusal(400, f"the body is not UTF-8 (byte {error.start})") from None
        if self._whole_body:
            records = [_one_line(body.removesuffix(b"\n").removesuffix(b"\r"), request)] if body else []
        else:
            records = body.split(b"\n")
            if not records[-1]:
                records.pop()
            if b"\r" in body:
                records = [record.removesuffix(b"\r") for record in records]
        return [record for record in records if record] if self._skip_empty else records

    def _plain_body(self, request: Request) -> bytes:
        coding = request.headers.get("content-encoding", "").strip().lower()
        if coding not in _CODINGS:
            raise Refusal(415, "Content-Encoding may be gzip or deflate", {"Accept-Encoding": "gzip, deflate"})
        if not request.body or _CODINGS[coding] is Compression.NONE:
            return request.body
        try:
            return inflate(request.body, _CODINGS[coding], self._max_body_bytes)
        except DecodeError as error:
            large = f"more than {self._max_body_bytes} bytes" in str(error)
            raise Refusal(413 if large else 400, str(error)) from None

    def _answer_stored(self, connection: HttpConnection, records: int, now: float) -> None:
        self._counts["requests_stored"] += 1
        self._server.answer(connection, 200, b'{"records":%d}\n' % records, now, content_type="application/json")

    def _answer_busy(self, connection: HttpConnection, now: float) -> None:
        self._counts["requests_busy"] += 1
        body = b"nothing was stored: the spool takes no records now\n"
        self._server.answer(connection, 503, body, now, headers=self._retry_after)


def _one_line(body: bytes, request: Request) -> bytes:
    """A whole body as one record. In JSON a line end is only a blank; in other text it may matter."""
    if b"\n" not in body:
        return body
    if "json" not in request.headers.get("content-type", "").lower():
        raise Refusal(400, "the body holds a line feed, which one record cannot (JSON may: say so in Content-Type)")
    return body.replace(b"\r\n", b" ").replace(b"\n", b" ")
