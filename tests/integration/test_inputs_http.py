"""Records over HTTP, with a real client: answered when they are stored, refused when they are not."""

from __future__ import annotations

import gzip
import http.client
import json
import queue
import socket
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from edgesocket.collector.intake import http_server
from edgesocket.collector.intake.enveloping import Envelope
from edgesocket.collector.intake.http_post import HttpPostInput
from tests.support.input_kit import Driver


def http_input(**options: Any) -> HttpPostInput:
    return HttpPostInput("hooks", "127.0.0.1", 0, options.pop("envelope", None), **options)


class Client:
    """Sends requests from another thread, so that the test can drive the server."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        self.answers: queue.Queue[Any] = queue.Queue()
        self.thread: threading.Thread | None = None

    def send(self, body: Any, path: str = "/", method: str = "POST", **headers: str) -> None:
        def work() -> None:
            try:
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                self.connection.request(method, path, body, named, encode_chunked=not isinstance(body, bytes))
                answer = self.connection.getresponse()
                self.answers.put((answer.status, dict(answer.getheaders()), answer.read()))
            except OSError as problem:
                self.answers.put(problem)

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()

    def close(self) -> None:
        if self.thread is not None:
            self.thread.join(10)
        self.connection.close()


@contextmanager
def serving(**options: Any) -> Iterator[tuple[Driver, Client]]:
    subject = http_input(**options)
    with Driver(subject) as driver:
        client = Client(subject.port)
        try:
            yield driver, client
        finally:
            driver.close()
            client.close()


def ask(driver: Driver, client: Client, body: Any, **how: Any) -> tuple[int, dict[str, str], bytes]:
    client.send(body, **how)
    driver.until(lambda: not client.answers.empty())
    answer: tuple[int, dict[str, str], bytes] = client.answers.get()
    return answer


def test_each_line_is_a_record_and_the_answer_says_how_many() -> None:
    with serving() as (driver, client):
        status, headers, body = ask(driver, client, b"one\r\n\ntwo")
        assert (status, json.loads(body)) == (200, {"records": 3})
        assert headers["Content-Type"] == "application/json"
        assert driver.records == [b"one", b"", b"two"]
        assert ask(driver, client, b"three\n")[0] == 200, "on the same connection"
        assert driver.records[3:] == [b"three"]


def test_empty_records_can_be_left_out_and_an_empty_body_holds_none() -> None:
    with serving(skip_empty=True) as (driver, client):
        assert json.loads(ask(driver, client, b"a\n\n\nb\n")[2]) == {"records": 2}
        assert json.loads(ask(driver, client, b"")[2]) == {"records": 0}


def test_the_answer_comes_only_when_the_records_are_stored() -> None:
    with serving() as (driver, client):
        client.send(b"one\ntwo\n")
        driver.until(lambda: driver.records, store=False)
        for _ in range(5):
            driver.round(store=False)
        assert client.answers.empty()
        driver.store()
        assert client.answers.get(timeout=10)[0] == 200


def test_while_the_spool_is_full_it_is_503_with_a_time_and_nothing_is_kept() -> None:
    with serving(busy_after_s=0.5, retry_after_s=7) as (driver, client):
        client.send(b"one\n")
        subject = driver.input
        driver.until(lambda: subject.next_time(driver.now) == driver.now + 0.5, full=True)
        assert client.answers.empty()
        driver.tick(0.5)
        driver.round(full=True)
        status, headers, _ = client.answers.get(timeout=10)
        assert (status, headers["Retry-After"]) == (503, "7")
        assert not driver.round()
        assert ask(driver, client, b"again\n")[0] == 200
        assert driver.records == [b"again"]
        assert subject.counts["requests_busy"] == 1


def test_a_whole_body_is_a_record() -> None:
    with serving(whole_body=True) as (driver, client):
        assert ask(driver, client, b'{"a": 1,\r\n "b": 2\n}\n', Content_Type="application/json")[0] == 200
        assert driver.records == [b'{"a": 1,  "b": 2 }']
        status, _, why = ask(driver, client, b"two\nlines", Content_Type="text/plain")
        assert status == 400
        assert b"line feed" in why


@pytest.mark.parametrize(
    ("coding", "packed"), [("gzip", gzip.compress(b"a\nb\n", mtime=0)), ("deflate", zlib.compress(b"a\nb\n"))]
)
def test_compressed_bodies(coding: str, packed: bytes) -> None:
    with serving() as (driver, client):
        assert ask(driver, client, packed, Content_Encoding=coding)[0] == 200
        assert driver.records == [b"a", b"b"]


def test_chunked_bodies() -> None:
    with serving() as (driver, client):
        assert ask(driver, client, iter([b"a\nb", b"c\n"]))[0] == 200
        assert driver.records == [b"a", b"bc"]


def test_a_sender_that_waits_for_100_continue_gets_it() -> None:
    with serving() as (driver, _), socket.create_connection(("127.0.0.1", driver.input.port)) as raw:
        raw.settimeout(10)
        raw.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        raw.setblocking(False)
        got = b""

        def more() -> bool:
            nonlocal got
            try:
                got += raw.recv(4096)
            except BlockingIOError:
                pass
            return got.endswith(b"\r\n\r\n")

        driver.until(more)
        assert got == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.sendall(b"ab")
        driver.until(lambda: driver.records)


def test_requests_in_a_row_are_all_answered_in_order() -> None:
    with serving() as (driver, _), socket.create_connection(("127.0.0.1", driver.input.port)) as raw:
        raw.settimeout(10)
        raw.sendall(b"".join(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n%d" % number for number in range(5)))
        driver.until(lambda: len(driver.records) == 5)
        assert driver.records == [b"0", b"1", b"2", b"3", b"4"]
        got = b""
        while got.count(b"200 OK") < 5:
            got += raw.recv(4096)


@pytest.mark.parametrize(
    ("body", "how", "status"),
    [
        (b"x" * 101, {}, 413),
        (gzip.compress(b"x" * 101, mtime=0), {"Content_Encoding": "gzip"}, 413),
        (b"no gzip", {"Content_Encoding": "gzip"}, 400),
        (b"x", {"Content_Encoding": "br"}, 415),
        (b"\xff\xfe", {}, 400),
        (b"x", {"path": "/other"}, 404),
        (b"", {"method": "GET"}, 405),
    ],
)
def test_what_cannot_be_stored_is_refused_and_the_input_goes_on(body: bytes, how: dict[str, str], status: int) -> None:
    with serving(max_body_bytes=100) as (driver, client):
        assert ask(driver, client, body, **how)[0] == status
        assert driver.records == []
        client.close()
        client.connection = http.client.HTTPConnection("127.0.0.1", driver.input.port, timeout=10)
        assert ask(driver, client, b"fine")[0] == 200
        assert driver.input.counts["requests_refused"] == 1


def test_a_token_is_asked_for_before_the_body_is_read() -> None:
    with serving(token=b"s3cret") as (driver, client):
        status, headers, body = ask(driver, client, b"x")
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert b"s3cret" not in body
        assert ask(driver, client, b"x", Authorization="Bearer wrong")[0] == 401
        assert driver.records == []
        assert ask(driver, client, b"x", Authorization="Bearer s3cret")[0] == 200


def test_a_sender_that_has_gone_is_not_stored_for() -> None:
    subject = http_input()
    with Driver(subject) as driver:
        with socket.create_connection(("127.0.0.1", subject.port)) as raw:
            raw.sendall(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf")
            driver.until(lambda: subject._server.held_bytes)
        driver.until(lambda: not subject._server._connections)
        assert driver.records == []


def test_connections_beyond_the_limit_are_answered_503() -> None:
    with serving(max_connections=1) as (driver, client):
        assert ask(driver, client, b"x")[0] == 200
        second = Client(driver.input.port)
        try:
            assert ask(driver, second, b"y")[0] == 503
        finally:
            second.close()
        assert driver.input.counts["connections_refused"] == 1


def test_what_is_sent_at_a_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = http_input(max_body_bytes=1000)
    subject._server._most_held_bytes = 1500
    with Driver(subject) as driver:
        raws = [socket.create_connection(("127.0.0.1", subject.port)) for _ in range(2)]
        try:
            for raw in raws:
                raw.settimeout(10)
                raw.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + b"x" * 900)
            driver.until(lambda: subject._server.held_bytes == 900)
            driver.until(lambda: any(one.lingering for one in subject._server._connections))
            assert subject._server.held_bytes == 900
        finally:
            for raw in raws:
                raw.close()


def test_a_request_that_does_not_arrive_is_given_up() -> None:
    with serving() as (driver, _), socket.create_connection(("127.0.0.1", driver.input.port)) as raw:
        raw.settimeout(10)
        raw.sendall(b"POST / HTTP/1.1\r\nContent-Len")
        driver.until(lambda: driver.input._server.held_bytes)
        driver.tick(http_server.REQUEST_TIMEOUT_S)
        driver.round()
        assert raw.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_a_connection_without_requests_is_closed_in_time() -> None:
    with serving() as (driver, _), socket.create_connection(("127.0.0.1", driver.input.port)) as raw:
        raw.settimeout(10)
        driver.until(lambda: driver.input._server._connections)
        driver.tick(http_server.IDLE_TIMEOUT_S)
        driver.round()
        assert raw.recv(1) == b""


def test_what_waits_at_the_end_is_told_that_it_was_not_stored() -> None:
    with serving() as (driver, client):
        client.send(b"late\n")
        driver.until(lambda: driver.input._waiting, full=True)
        assert driver.close() == []
        assert client.answers.get(timeout=10)[0] == 503


def test_records_in_envelopes_say_who_sent_them() -> None:
    with serving(envelope=Envelope("hooks", "pump-7", lambda: 0.0)) as (driver, client):
        ask(driver, client, b"hello")
        record = json.loads(driver.records[0])
        assert (record["message"], record["peer"], record["input"]) == ("hello", "127.0.0.1", "hooks")
