"""HTTP requests out of bytes."""

from __future__ import annotations

import pytest

from edgesocket.collector.intake.http_requests import (
    MAX_HEAD_BYTES,
    Refusal,
    Request,
    RequestReader,
    build_answer,
)

LIMIT = 100


def read(*pieces: bytes, limit: int = LIMIT) -> list[Request]:
    reader = RequestReader(limit)
    found = []
    for piece in pieces:
        request = reader.feed(piece)
        while request is not None:
            found.append(request)
            request = reader.feed(b"")
    return found


def refused(data: bytes, limit: int = LIMIT) -> int:
    with pytest.raises(Refusal) as caught:
        read(data, limit=limit)
    return caught.value.status


PLAIN = b"POST /logs?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n"


@pytest.mark.parametrize(("data", "body"), [(PLAIN, b"hello"), (CHUNKED, b"abcde")])
def test_a_body_by_length_or_in_chunks_whatever_the_pieces(data: bytes, body: bytes) -> None:
    assert [one.body for one in read(data)] == [body]
    assert [one.body for one in read(*(bytes([byte]) for byte in data))] == [body]
    for cut in range(len(data)):
        assert [one.body for one in read(data[:cut], data[cut:])] == [body]


def test_requests_follow_each_other() -> None:
    first, second, third = read(PLAIN + CHUNKED + b"\r\n" + PLAIN)
    assert (first.method, first.path, first.keep_alive) == ("POST", "/logs", True)
    assert (second.method, second.path) == ("PUT", "/")
    assert third.body == b"hello"


def test_when_a_connection_ends() -> None:
    assert not read(b"GET / HTTP/1.0\r\n\r\n")[0].keep_alive
    assert read(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")[0].keep_alive
    assert not read(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")[0].keep_alive


def test_a_sender_that_waits_is_told_from_one_that_does_not() -> None:
    reader = RequestReader(LIMIT)
    assert reader.feed(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n") is None
    assert reader.wants_continue
    request = reader.feed(b"ab")
    assert request is not None
    assert request.body == b"ab"
    assert not reader.wants_continue


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"POST / HTTP/2.0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nContent-Length: 101\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + b"x: y\r\n" * 101 + b"\r\n", 431),
        (b"x" * (MAX_HEAD_BYTES + 1), 431),
    ],
)
def test_what_is_refused(data: bytes, status: int) -> None:
    assert refused(data) == status


def test_a_body_is_refused_before_it_is_kept() -> None:
    reader = RequestReader(10)
    reader.feed(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n")
    with pytest.raises(Refusal):
        reader.feed(b"ffffffffffff\r\n")
    assert reader.held_bytes < 100


def test_an_answer_says_how_long_it_is() -> None:
    answer = build_answer(503, b"busy", keep_alive=False, headers={"Retry-After": "5"})
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"Content-Length: 4\r\nConnection: close\r\nRetry-After: 5" in head
    assert body == b"busy"
