"""HTTP/1.1 requests out of bytes, as much of it as receiving records and answering a probe needs. Pure.

One request at a time: what follows it is kept until the next `feed`. A request that is not understood, or too large,
raises `Refusal`, whose answer is the connection's last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_HEAD_BYTES = 16 * 1024
MAX_HEADERS = 100
_MAX_CHUNK_LINE_BYTES = 256

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) (\S{1,4096}) HTTP/1\.([01])\Z")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*\Z", re.DOTALL)
_LENGTH = re.compile(rb"[0-9]{1,15}\Z")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;.*)?\Z", re.DOTALL)

REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    503: "Service Unavailable",
}


class Refusal(Exception):  # noqa: N818 - becomes an answer
    """A request that is answered with an error, after which the connection ends."""

    def __init__(self, status: int, why: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.why = why
        self.headers = headers or {}
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        method: in capitals.
        path: without the query.
        headers: by name in small letters; of a repeated one the last.
        keep_alive: whether the connection goes on after the answer.
        body: as sent, chunks put together.
    """

    method: str
    path: str
    headers: dict[str, str]
    keep_alive: bool
    body: bytes = b""


class RequestReader:
    """Reads the requests of one connection.

    Guarantees: holds at most a head, the largest body and one piece. The requests do not depend on how the bytes were
    cut.
    """

    def __init__(self, max_body_bytes: int) -> None:
        """Args: the largest body; a larger one is refused with 413, before it is read where its length is said."""
        self._max_body_bytes = max_body_bytes
        self._data = bytearray()
        self._head: Request | None = None
        self._length: int | None = None
        self._chunks: bytearray | None = None
        self._chunk_left = 0
        self._in_trailer = False
        self.wants_continue = False
        """The sender waits for `100 Continue` before it sends the body; whoever sends it sets this back."""

    @property
    def held_bytes(self) -> int:
        """Bytes that are kept now."""
        return len(self._data) + (len(self._chunks) if self._chunks is not None else 0)

    @property
    def head(self) -> Request | None:
        """The request whose body is being read, without it."""
        return self._head

    @property
    def inside(self) -> bool:
        """Whether a request has begun and is not complete."""
        return self._head is not None or bool(self._data)

    def feed(self, data: bytes) -> Request | None:
        """Take the next bytes (none: go on with what is kept). Returns a request when one is complete.

        Raises:
            Refusal: the bytes are no request, or one that is too large.
        """
        self._data += data
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        body = self._read_chunks() if self._chunks is not None else self._read_length()
        if body is None:
            return None
        head = self._head
        self._head = self._length = self._chunks = None
        self.wants_continue = False
        return Request(head.method, head.path, head.headers, head.keep_alive, body)

    def _read_head(self) -> bool:
        while self._data[:2] == b"\r\n":
            del self._data[:2]  # some senders put one behind a body
        end = self._data.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES + 4)
        if end < 0:
            if len(self._data) > MAX_HEAD_BYTES:
                raise Refusal(431, f"the head is longer than {MAX_HEAD_BYTES} bytes")
            return False
        lines = bytes(self._data[:end]).split(b"\r\n")
        del self._data[: end + 4]
        found = _REQUEST_LINE.match(lines[0])
        if found is None:
            raise Refusal(400, "this is no HTTP/1.1 request")
        headers = _headers(lines[1:])
        connection = headers.get("connection", "").lower()
        keep_alive = "close" not in connection if found[3] == b"1" else "keep-alive" in connection
        path = found[2].partition(b"?")[0].decode("latin-1")
        self._head = Request(found[1].decode("ascii"), path, headers, keep_alive)
        self._begin_body(headers)
        return True

    def _begin_body(self, headers: dict[str, str]) -> None:
        coding = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        if coding and (coding != "chunked" or length is not None):
            raise Refusal(501 if length is None else 400, "only a plain or a chunked body is read")
        if coding:
            self._chunks = bytearray()
        elif length is not None and not _LENGTH.match(length.encode("latin-1")):
            raise Refusal(400, "Content-Length is not a number")
        else:
            self._length = int(length or 0)
            if self._length > self._max_body_bytes:
                raise Refusal(413, f"the body is larger than {self._max_body_bytes} bytes")
        self.wants_continue = headers.get("expect", "").lower() == "100-continue"

    def _read_length(self) -> bytes | None:
        assert self._length is not None
        if len(self._data) < self._length:
            return None
        body = bytes(self._data[: self._length])
        del self._data[: self._length]
        return body

    def _read_chunks(self) -> bytes | None:
        assert self._chunks is not None
        while True:
            if self._chunk_left:
                taken = min(self._chunk_left, len(self._data))
                self._chunks += self._data[:taken]
                del self._data[:taken]
                self._chunk_left -= taken
                if self._chunk_left:
                    return None
            end = self._data.find(b"\r\n", 0, _MAX_CHUNK_LINE_BYTES)
            if end < 0:
                if len(self._data) >= _MAX_CHUNK_LINE_BYTES:
                    raise Refusal(400, "a chunk has no size")
                return None
            line = bytes(self._data[:end])
            del self._data[: end + 2]
            if self._in_trailer:
                if not line:
                    self._in_trailer = False
                    return bytes(self._chunks)
                continue
            if not line:
                continue  # the end of the chunk before
            size = _CHUNK.match(line)
            if size is None:
                raise Refusal(400, "a chunk has no size")
            self._chunk_left = int(size[1], 16)
            if len(self._chunks) + self._chunk_left > self._max_body_bytes:
                raise Refusal(413, f"the body is larger than {self._max_body_bytes} bytes")
            self._in_trailer = self._chunk_left == 0


def _headers(lines: list[bytes]) -> dict[str, str]:
    if len(lines) > MAX_HEADERS:
        raise Refusal(431, f"more than {MAX_HEADERS} headers")
    headers: dict[str, str] = {}
    for line in lines:
        found = _HEADER.match(line)
        if found is None:
            raise Refusal(400, "a header is not of the form name: value")
        name = found[1].decode("ascii").lower()
        if name in headers and name in ("content-length", "transfer-encoding"):
            raise Refusal(400, f"there are two headers {name}")
        headers[name] = found[2].decode("latin-1")
    return headers


def build_answer(
    status: int,
    body: bytes = b"",
    *,
    keep_alive: bool,
    content_type: str = "text/plain; charset=utf-8",
    headers: dict[str, str] | None = None,
) -> bytes:
    """One answer as bytes. `headers`: further ones."""
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
