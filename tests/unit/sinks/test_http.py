"""HttpSink: what each answer means, how often it asks, and that no row is lost or skipped. Time is not real here."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import pyarrow as pa
import pytest

from edgesocket.components.sink import RejectedRow, SinkContext
from edgesocket.errors import BadRecordError, ComponentError
from edgesocket.rows import Rows, text_schema
from edgesocket.sinks import http
from edgesocket.sinks.http import PATIENCE_S, HttpSink
from edgesocket.sinks.http_post import MAX_ANSWER_BYTES, MAX_RETRY_AFTER_S, Poster, parse_retry_after, shown_url
from edgesocket.testing.sink_story import listed_block
from tests.support.http_server import ScriptedServer, answer, cut_off, hang_up, reset

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.close()


@pytest.fixture
def time() -> Time:
    return Time()


Make = Callable[..., HttpSink]


@pytest.fixture
def make(server: ScriptedServer, time: Time) -> Iterator[Make]:
    sinks: list[HttpSink] = []

    def make(*, schema: pa.Schema = SCHEMA, reject: Any = None, **options: Any) -> HttpSink:
        settings = {"url": server.url, "sleep": time.sleep, "clock": time, "draw": lambda: 1.0, **options}
        sink = HttpSink(**settings)
        context = {"schema": schema, **({"reject": reject} if reject else {})}
        sink.open(SinkContext(job="job", epoch=1, sink_id="Http", **context))
        sinks.append(sink)
        return sink

    yield make
    for sink in sinks:
        sink.close()


def rows(*names: str | None, first_id: int = 1) -> Rows:
    columns = [pa.array(range(first_id, first_id + len(names)), pa.int64()), pa.array(names, pa.string())]
    return Rows.of_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA), first_id)


def sent(server: ScriptedServer) -> list[Any]:
    """The names in every request."""
    bodies = [json.loads(body) for body in server.bodies]
    return [[row["name"] for row in body] if isinstance(body, list) else body["name"] for body in bodies]


# Requests


def test_each_row_is_one_post_of_a_json_object(server: ScriptedServer, make: Make) -> None:
    make().write(rows("a", None))
    assert [json.loads(body) for body in server.bodies] == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert {request.line for request in server.requests} == {"POST /rows HTTP/1.1"}
    assert server.requests[0].headers["content-type"] == "application/json"


def test_a_row_without_a_schema_is_an_object_with_its_payload(server: ScriptedServer, make: Make) -> None:
    make(schema=text_schema()).write(Rows.of_records(listed_block(["Zürich".encode()])))
    assert json.loads(server.bodies[0]) == {"value": "Zürich"}


def test_the_connection_is_kept(server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(200, b"ok"), answer(204), answer(201, b"x" * 5000)]
    make().write(rows("a", "b", "c", "d"))
    assert {request.connection for request in server.requests} == {1}


def test_headers_are_sent_and_replace_the_content_type(server: ScriptedServer, make: Make) -> None:
    make(headers={"content-TYPE": "application/x-ndjson", "X-Key": "s3cr3t"}).write(rows("a"))
    headers = server.requests[0].headers
    assert (headers["content-type"], headers["x-key"]) == ("application/x-ndjson", "s3cr3t")


def test_the_query_of_the_url_is_sent(server: ScriptedServer, make: Make) -> None:
    make(url=server.url + "?key=1&k=2").write(rows("a"))
    assert server.requests[0].line == "POST /rows?key=1&k=2 HTTP/1.1"


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_accepted(status: int, server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(status)]
    sink = make()
    sink.write(rows("a"))
    assert sink.prepare(1) == {}
    assert sent(server) == ["a"]


def test_there_is_a_pause_after_each_answered_request(server: ScriptedServer, make: Make, time: Time) -> None:
    make(request_interval_ms=250).write(rows("a", "b"))
    assert time.slept == [0.25, 0.25]


def test_a_long_interval_is_no_failure(server: ScriptedServer, make: Make, time: Time) -> None:
    make(request_interval_ms=60_000).write(rows(*"abcdef"))
    assert sent(server) == list("abcdef")


# Failures that may heal


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_status_that_may_heal_is_repeated(status: int, server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(status), answer(status)]
    make(retry=2).write(rows("a", "b"))
    assert sent(server) == ["a", "a", "a", "b"]


@pytest.mark.parametrize(
    "reaction",
    [
        reset,
        hang_up,
        cut_off(b"HTTP/1.1 20"),
        cut_off(b"HTTP/1.1 200 OK\r\nContent-Le"),
        cut_off(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
        cut_off(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal"),
        b"220 mail.example.com ESMTP\r\n\r\n",
    ],
    ids=["reset", "silence", "half a status", "half a header", "half a body", "half a chunk", "not http"],
)
def test_no_answer_or_half_of_one_is_repeated(reaction: Any, server: ScriptedServer, make: Make) -> None:
    server.reactions = [reaction]
    make(retry=1).write(rows("a"))
    assert sent(server) == ["a", "a"]


def test_a_server_that_does_not_answer_in_time_is_asked_again(server: ScriptedServer, make: Make) -> None:
    server.reactions = [server.wait]
    make(retry=1, socket_timeout_ms=50).write(rows("a"))
    assert sent(server) == ["a", "a"]


def test_pauses_double_up_to_the_limit(server: ScriptedServer, make: Make, time: Time) -> None:
    server.reactions = [answer(500)] * 6
    make(retry=6, retry_backoff_multiplier_ms=100, retry_backoff_max_ms=1000).write(rows("a"))
    assert time.slept == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_pauses_are_drawn_between_nothing_and_the_limit(server: ScriptedServer, make: Make, time: Time) -> None:
    server.reactions = [answer(500)] * 2
    make(retry=2, draw=iter([0.5, 0.25]).__next__).write(rows("a"))
    assert time.slept == pytest.approx([0.05, 0.05])


def test_retry_after_replaces_the_pause(server: ScriptedServer, make: Make, time: Time) -> None:
    server.reactions = [answer(429, Retry_After="7")]
    make(retry=1).write(rows("a"))
    assert time.slept == pytest.approx([7])


def test_after_the_last_repetition_the_rows_wait(server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(503, b"closed for lunch")] * 3
    with pytest.raises(ComponentError, match=r"503: closed for lunch \(3 attempts\)") as caught:
        make(retry=2).write(rows("a"))
    assert caught.value.retryable
    assert not caught.value.reopen
    assert len(server.bodies) == 3


def test_the_pause_of_the_last_failure_is_kept_over_the_end_of_the_write(
    server: ScriptedServer, make: Make, time: Time
) -> None:
    server.reactions = [answer(503)] * 2
    sink, block = make(retry=0, retry_backoff_multiplier_ms=4000), rows("a")
    for _ in range(2):
        with pytest.raises(ComponentError):
            sink.write(block)
    assert time.slept == pytest.approx([4])
    sink.write(block)
    assert time.slept == pytest.approx([4, 8]), "failures in a row go on counting"
    assert len(server.bodies) == 3


def test_a_long_retry_after_is_kept_without_holding_up_the_pump(server: ScriptedServer, make: Make, time: Time) -> None:
    server.reactions = [answer(429, Retry_After="120")]
    sink, block = make(), rows("a")
    began = time.now
    with pytest.raises(ComponentError, match=r"due in 120\.0 s"):
        sink.write(block)
    while len(server.bodies) < 2:
        time.now += 1
        try:
            sink.write(block)
        except ComponentError:
            continue
    assert time.now - began == pytest.approx(120)
    assert max(time.slept) <= PATIENCE_S


def test_no_call_goes_on_longer_than_its_patience(server: ScriptedServer, make: Make, time: Time) -> None:
    server.rule = lambda body: answer(500)
    sink, began = make(retry=1000, retry_backoff_multiplier_ms=1000), time.now
    with pytest.raises(ComponentError):
        sink.write(rows("a"))
    assert time.now - began <= PATIENCE_S
    began = time.now
    with pytest.raises(ComponentError):
        sink.prepare(1)
    assert time.now - began <= PATIENCE_S


def test_a_request_that_is_accepted_renews_the_patience(server: ScriptedServer, make: Make, time: Time) -> None:
    server.reactions = [answer(429, Retry_After="9"), answer(200)] * 4
    make().write(rows(*"abcd"))
    assert time.slept == pytest.approx([9] * 4)
    assert sent(server) == list("aabbccdd")


def test_a_server_that_is_not_there_lets_rows_wait(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ComponentError, match="refused"):
        make(url=f"http://127.0.0.1:{port}/", retry=1).write(rows("a"))


# Going on after a failure


def test_the_same_rows_go_on_where_they_stopped(server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(200), answer(200), answer(503)]
    sink, block = make(retry=0), rows("a", "b", "c", "d")
    with pytest.raises(ComponentError):
        sink.write(block)
    sink.write(block)
    sink.write(rows("e"))
    assert sent(server) == ["a", "b", "c", "c", "d", "e"]


def test_a_block_written_twice_on_purpose_is_sent_twice(server: ScriptedServer, make: Make) -> None:
    sink, block = make(), rows("a")
    sink.write(block)
    sink.write(block)
    assert sent(server) == ["a", "a"]


def test_other_rows_after_a_failure_are_sent_whole(server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(200), answer(503)]
    sink = make(retry=0)
    with pytest.raises(ComponentError):
        sink.write(rows("a", "b"))
    sink.write(rows("a", "b"))
    assert sent(server) == ["a", "b", "b", "a", "b"]


# Refused rows


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 403, 404, 410, 422])
def test_any_other_status_refuses_the_row_for_good(status: int, server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(200), answer(status, b"no such thing", Location="/elsewhere")]
    with pytest.raises(BadRecordError, match=f"answered {status}.*no such thing") as caught:
        make().write(rows("a", "b", first_id=7))
    assert caught.value.batch_id == 8
    assert len(server.bodies) == 2


def test_after_a_rejection_the_other_rows_go_on(server: ScriptedServer, make: Make) -> None:
    rejected: list[RejectedRow] = []
    server.reactions = [answer(400, b"x" * 1000)]
    make(reject=rejected.append).write(rows("a", "b"))
    assert sent(server) == ["a", "b"]
    assert [(row.batch_id, json.loads(row.row)) for row in rejected] == [(1, {"id": 1, "name": "a"})]
    assert rejected[0].reason.count("x") == 200


def test_a_rejected_payload_is_given_back_as_it_came(server: ScriptedServer, make: Make) -> None:
    rejected: list[RejectedRow] = []
    server.reactions = [answer(400)]
    sink = make(schema=text_schema(), reject=rejected.append)
    sink.write(Rows.of_records(listed_block([b'{"a": "\\u00e9"}'], first_id=3)))
    assert [(row.batch_id, row.row) for row in rejected] == [(3, b'{"a": "\\u00e9"}')]


def test_a_rejection_that_fails_is_repeated_without_asking_again(server: ScriptedServer, make: Make) -> None:
    taken: list[int] = []

    def reject(row: RejectedRow) -> None:
        if not taken:
            taken.append(0)
            raise ComponentError("the dead letter file is full")
        taken.append(row.batch_id)

    server.reactions = [answer(400)]
    sink, block = make(reject=reject), rows("a", "b")
    with pytest.raises(ComponentError, match="dead letter"):
        sink.write(block)
    sink.write(block)
    assert taken == [0, 1]
    assert sent(server) == ["a", "b"]


# Arrays


def test_arrays_hold_batch_size_rows_over_many_writes(server: ScriptedServer, make: Make) -> None:
    sink = make(array_mode=True, batch_size=3)
    for name in "abcd":
        sink.write(rows(name))
    sink.write(rows(*"efgh"))
    assert sent(server) == [["a", "b", "c"], ["d", "e", "f"]]
    sink.prepare(1)
    assert sent(server) == [["a", "b", "c"], ["d", "e", "f"], ["g", "h"]]
    sink.prepare(2)
    assert len(server.bodies) == 3


def test_an_array_of_one_row_is_an_array(server: ScriptedServer, make: Make) -> None:
    make(array_mode=True).write(rows("a"))
    assert sent(server) == [["a"]]


def test_an_array_does_not_grow_without_end(server: ScriptedServer, make: Make, monkeypatch: Any) -> None:
    monkeypatch.setattr(http, "MAX_ARRAY_BYTES", 1000)
    make(array_mode=True, batch_size=100_000).write(rows("x" * 600, "y" * 600, "z" * 600))
    assert [len(names) for names in sent(server)] == [2]


def test_a_failed_array_is_sent_again_with_the_same_rows(server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(200), answer(503)]
    sink, block = make(array_mode=True, batch_size=2, retry=0), rows(*"abcde")
    with pytest.raises(ComponentError):
        sink.write(block)
    sink.write(block)
    sink.prepare(1)
    assert sent(server) == [["a", "b"], ["c", "d"], ["c", "d"], ["e"]]


def test_what_a_failed_prepare_could_not_send_goes_with_the_next(server: ScriptedServer, make: Make) -> None:
    server.reactions = [answer(503)]
    sink = make(array_mode=True, batch_size=10, retry=0)
    sink.write(rows(*"ab"))
    with pytest.raises(ComponentError):
        sink.prepare(1)
    sink.write(rows(*"c"))
    sink.prepare(2)
    assert sent(server) == [["a", "b"], ["a", "b"], ["c"]]


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_refused_array_is_halved_until_the_guilty_rows_are_found(
    status: int, server: ScriptedServer, make: Make
) -> None:
    rejected: list[RejectedRow] = []
    server.rule = lambda body: answer(status, b"bad row") if b"BAD" in body else None
    sink = make(array_mode=True, batch_size=8, reject=rejected.append)
    sink.write(rows("a", "BAD", "c", "d", "e", "f", "g", "BAD"))
    assert [row.batch_id for row in rejected] == [2, 8]
    accepted = [names for names in sent(server) if "BAD" not in names]
    assert [name for names in accepted for name in names] == list("acdefg"), "in order, each once"
    assert len(server.bodies) <= 15


def test_halving_goes_on_after_a_failure(server: ScriptedServer, make: Make) -> None:
    rejected: list[RejectedRow] = []
    server.reactions = [answer(400), answer(200), answer(503)]
    server.rule = lambda body: answer(400) if b"BAD" in body else None
    sink, block = make(array_mode=True, batch_size=4, retry=0, reject=rejected.append), rows("a", "b", "c", "BAD")
    with pytest.raises(ComponentError):
        sink.write(block)
    sink.write(block)
    assert sent(server) == [["a", "b", "c", "BAD"], ["a", "b"], ["c", "BAD"], ["c", "BAD"], ["c"], ["BAD"]]
    assert [row.batch_id for row in rejected] == [4]


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405])
def test_an_array_is_not_halved_where_no_row_can_be_guilty(status: int, server: ScriptedServer, make: Make) -> None:
    rejected: list[RejectedRow] = []
    server.reactions = [answer(status)]
    make(array_mode=True, batch_size=3, reject=rejected.append).write(rows(*"abc"))
    assert [row.batch_id for row in rejected] == [1, 2, 3]
    assert len(server.bodies) == 1


# Answers


def test_a_long_answer_is_not_read_to_its_end(server: ScriptedServer, make: Make) -> None:
    server.reactions = [b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MAX_ANSWER_BYTES + 1)]
    make(retry=0).write(rows("a", "b"))
    assert [request.connection for request in server.requests] == [1, 2]


def test_an_answer_that_drips_is_given_up(server: ScriptedServer) -> None:
    ticks = iter(range(0, 1000, 4))

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        server.released.wait(20)
        connection.close()

    server.reactions = [drip]
    poster = Poster(server.url, {}, 5, 3, clock=lambda: float(next(ticks)))
    with pytest.raises(Exception, match="was not whole after 3 s"):
        poster.post(b"{}")
    poster.close()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("12", 12),
        (" 12 ", 12),
        ("100000", MAX_RETRY_AFTER_S),
        ("9" * 5000, MAX_RETRY_AFTER_S),
        (formatdate(1060, usegmt=True), 60),
        (formatdate(10, usegmt=True), 0),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str | None, seconds: float | None) -> None:
    assert parse_retry_after(text, 1000.0) == seconds


# Secrets


def test_no_message_shows_a_header_or_the_query(server: ScriptedServer, make: Make) -> None:
    server.rule = lambda body: answer(
        503, b"you sent Bearer s3cr3t-T0ken and key=hush-hush; s3cr3t-T0ken is old, hush-hush"
    )
    sink = make(url=server.url + "?key=hush-hush", headers={"Authorization": "Bearer s3cr3t-T0ken"}, retry=0)
    with pytest.raises(ComponentError) as caught:
        sink.write(rows("a"))
    assert "you sent *** and ***; *** is old, ***" in str(caught.value)
    assert server.url in str(caught.value)


def test_no_connection_error_shows_the_query(make: Make) -> None:
    with pytest.raises(ComponentError) as caught:
        make(url="http://127.0.0.1:1/x?key=hush-hush", retry=0).write(rows("a"))
    assert "hush" not in str(caught.value)


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown_url("https://u:p@h.example:8/a/b?k=1#f") == "https://h.example:8/a/b"


def test_a_flush_sends_an_array_that_is_not_full(server: ScriptedServer, make: Make) -> None:
    sink = make(array_mode=True, batch_size=10)
    sink.write(rows("a", "b"))
    assert sent(server) == []
    sink.flush()
    assert sent(server) == [["a", "b"]]
    sink.flush()
    assert len(sent(server)) == 1, "nothing waits any more"
