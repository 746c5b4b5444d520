"""The HTTP server over played jobs, asked through real sockets."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")

from edgesocket.errors import ConfigError, ConfigProblem, ListenerError, NotOwnerError, UsageError
from edgesocket.web import call, serving
from edgesocket.web.app import ENDPOINTS
from edgesocket.web.endpoint import Access, Endpoint
from edgesocket.web.hosted import Outcome
from edgesocket.web.options import WebOptions
from edgesocket.web.server import WebServer, bind
from tests.support.jobs import wait_until
from tests.support.web import TOKEN, PlayedHost, PlayedJob, ask, job_spec, status_of
from tests.support.web import serving as serving_jobs

ANYWHERE = WebOptions("0.0.0.0", (0,), asked_for=True, token=TOKEN)


@pytest.fixture(scope="module")
def host() -> PlayedHost:
    return PlayedHost(
        [
            PlayedJob().say(status_of()),
            PlayedJob(name="late", spec=job_spec("late")).say(status_of("starting")),
            PlayedJob(name="over", spec=job_spec("over"), outcome=Outcome(0, "", 1_700_000_000_000)),
        ]
    )


@pytest.fixture(scope="module")
def server(host: PlayedHost) -> Iterator[WebServer]:
    with serving_jobs(host) as running:
        yield running


@pytest.fixture(scope="module")
def public(host: PlayedHost) -> Iterator[WebServer]:
    """One that other hosts can reach."""
    with serving_jobs(host, ANYWHERE) as running:
        yield running


def path_of(endpoint: Endpoint) -> str:
    filled = endpoint.path.replace("{name}", "edge").replace("{job_id}", "edge").replace("{state}", "FAILED")
    return f"{filled}?count=1" if endpoint.name == "stream" else filled


# ---- who may ask -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["localhost", "localhost:9", "127.0.0.1", "127.8.8.8:80", "[::1]", "[::1]:80", "LOCALHOST"]
)
def test_on_loopback_its_own_names_are_answered(server: WebServer, name: str) -> None:
    assert ask(server, "/healthz", headers={"Host": name}).status == 200


@pytest.mark.parametrize(
    "name",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "::1.x",
        "[::1]x",
        "127.0.0.1:80@x",
        "127.0.0.1:x",
        "0.0.0.0:80",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/api/jobs", "/", "/healthz", "/nothing"])
def test_on_loopback_another_name_is_refused_so_no_page_can_rebind_its_own(
    server: WebServer, name: str, path: str
) -> None:
    reply = ask(server, path, headers={"Host": name})
    assert reply.status == 403
    assert "localhost" in reply.json["message"]


def test_where_others_reach_it_any_name_will_do_with_the_token(public: WebServer) -> None:
    assert ask(public, "/api/jobs", headers={"Host": "edge.example"}, token=TOKEN).status == 200


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.name)
def test_where_others_reach_it_everything_but_probes_needs_the_token(public: WebServer, endpoint: Endpoint) -> None:
    body = b"" if endpoint.method == "POST" else None
    for token in (None, "wrong-token-of-some-length"):
        reply = ask(public, path_of(endpoint), body, token=token)
        if endpoint.access is Access.OPEN:
            assert reply.status in (200, 503)
        else:
            assert reply.status == 401
            assert reply.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("endpoint", [one for one in ENDPOINTS if one.method == "POST"], ids=lambda one: one.name)
def test_on_loopback_only_changes_need_the_token(server: WebServer, endpoint: Endpoint) -> None:
    assert endpoint.access is Access.WRITE
    assert ask(server, path_of(endpoint), b"{}").status == 401
    with_token = ask(server, path_of(endpoint), b"][", token=TOKEN)
    assert with_token.status in (200, 400), "the token is right, the body may not be"


def test_without_a_token_nothing_can_be_changed_and_the_answer_says_how(host: PlayedHost) -> None:
    with serving_jobs(host, WebOptions(ports=(0,))) as running:
        for token in (None, "", "anything-that-is-a-token"):
            reply = ask(running, "/api/jobs/edge/stop", {}, token=token)
            assert reply.status == 403
            assert "--http-token-file" in reply.json["message"]
        assert ask(running, "/api/jobs").status == 200


def test_strangers_learn_that_a_job_is_not_ready_but_not_what_went_wrong() -> None:
    job = PlayedJob().say(status_of(checkpoints__last_completed_ago_s=900.0, checkpoints__last_failure="s3://secret"))
    with serving_jobs(PlayedHost([job]), ANYWHERE) as running:
        stranger, friend = ask(running, "/readyz"), ask(running, "/readyz", token=TOKEN)
    assert (stranger.status, friend.status) == (503, 503)
    assert "no checkpoint" in stranger.json["message"]
    assert "s3" not in stranger.body.decode()
    assert "s3://secret" in friend.json["message"]


def test_a_wrong_token_is_told_to_the_log_once_a_minute_and_never_shown(host: PlayedHost) -> None:
    lines: list[str] = []
    with serving_jobs(host, report=lines) as running:
        for _ in range(5):
            assert ask(running, "/stop-job", {}, token="guess-guess-guess").status == 401
    assert len(lines) == 1
    assert "127.0.0.1" in lines[0]
    assert "guess" not in lines[0]


def test_a_token_that_is_replaced_in_its_file_is_what_counts(
    host: PlayedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LOOKS", 1)
    file = tmp_path / "token"
    file.write_text("short")  # what it holds when it is looked at, half written
    lines: list[str] = []
    with serving_jobs(host, WebOptions("0.0.0.0", (0,), token=TOKEN, token_file=file), lines) as running:
        wait_until(lambda: any("stays as it is" in line for line in lines), 10, "the look at the file")
        assert ask(running, "/api/jobs", token=TOKEN).status == 200
        file.write_text("another-token-of-some-length")
        wait_until(lambda: any("new token is in use" in line for line in lines), 10, "the new token")
        assert ask(running, "/api/jobs", token="another-token-of-some-length").status == 200
        assert ask(running, "/api/jobs", token=TOKEN).status == 401
    assert sum("stays as it is" in line for line in lines) == 1
    assert "another-token" not in str(lines)


# ---- health ----------------------------------------------------------------------------------------------------------


def test_health_is_about_all_jobs_or_one(server: WebServer) -> None:
    assert ask(server, "/healthz").json["status"] == "ok"
    ready = ask(server, "/readyz")
    assert ready.status == 503
    assert ready.json["message"] == "late: it is starting"
    assert ask(server, "/readyz/edge").json == {
        "status": "ok",
        "message": "",
        "jobs": [{"name": "edge", "ok": True, "reasons": []}],
    }
    assert ask(server, "/healthz/late").status == 200
    assert ask(server, "/readyz/late").status == 503
    assert ask(server, "/healthz/over").json["message"] == "over: it has ended"
    assert ask(server, "/readyz/none").status == 404


def test_a_job_that_hangs_makes_the_process_not_live_and_one_that_failed_does_not() -> None:
    hangs = PlayedJob(name="hangs").say(status_of(), time.monotonic() - 100)
    failed = PlayedJob(name="failed", outcome=Outcome(65, "a bad record", 1)).say(status_of("failed"))
    with serving_jobs(PlayedHost([failed])) as running:
        assert ask(running, "/healthz").status == 200
        assert ask(running, "/readyz").json["message"] == "failed: it has failed: a bad record"
    with serving_jobs(PlayedHost([failed, hangs])) as running:
        reply = ask(running, "/healthz")
        assert reply.status == 503
        assert "hangs: it has said nothing for 100 s" in reply.json["message"]


def test_a_process_without_jobs_is_ready_only_if_it_takes_some() -> None:
    with serving_jobs(PlayedHost()) as running:
        assert ask(running, "/readyz").status == 200
    with serving_jobs(PlayedHost(why_no_submit="no token")) as running:
        assert ask(running, "/readyz").json["message"] == "no job runs in this process"
        assert ask(running, "/healthz").status == 200


# ---- requests that are odd -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/jobs/none", 404),
        ("GET", "/api/jobs/" + "x" * 2000, 404),
        ("GET", "/api/jobs/%2e%2e%2fetc", 404),
        ("GET", "/static/../board.py", 404),
        ("GET", "/static/%2e%2e/board.py", 404),
        ("GET", "/static/", 404),
        ("POST", "/api/jobs", 405),
        ("DELETE", "/api/jobs/edge", 405),
        ("TRACE", "/", 405),
        ("GET", "/stop-job", 405),
        ("GET", "/api/jobs/edge/log?limit=0", 400),
        ("GET", "/api/jobs/edge/log?limit=501", 400),
        ("GET", "/api/jobs/edge/log?limit=1&limit=2", 400),
        ("GET", "/api/jobs/edge/log?after=-1", 400),
        ("GET", "/api/jobs/edge/log?after=1e3", 400),
        ("GET", "/api/jobs/edge/log?after=%D9%A1", 400),
        ("GET", "/api/jobs/edge/log?after=" + "9" * 40, 400),
        ("GET", "/api/stream?count=x", 400),
        ("GET", "/finished-jobs/SOME", 400),
        ("GET", "/jobs/checkpoints/none", 404),
    ],
)
def test_an_odd_request_is_answered_in_one_form(server: WebServer, method: str, path: str, status: int) -> None:
    reply = ask(server, path, method=method)
    assert reply.status == status
    if method != "HEAD":
        assert reply.json["status"] == "fail"
        assert reply.json["message"]
    assert reply.headers["content-type"] == "application/json"


def test_head_is_answered_without_a_body(server: WebServer) -> None:
    reply = ask(server, "/api/jobs", method="HEAD")
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"savepoint": 1}', b'{"sevapoint": true}', b"\xff", b"[" * 100_000]
)
def test_a_body_that_is_none_is_refused(server: WebServer, body: bytes) -> None:
    reply = ask(server, "/api/jobs/edge/stop", body, token=TOKEN)
    assert reply.status == 400
    assert "body" in reply.json["message"]


def test_a_body_that_is_too_long_is_refused_before_it_has_come(server: WebServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
        peer.sendall(
            f"POST /submit-job HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Length: {call.MAX_BODY_BYTES + 1}\r\n\r\n".encode()
        )
        assert peer.recv(100).startswith(b"HTTP/1.1 413")
    chunked = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
        peer.sendall(
            f"POST /submit-job HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        try:
            for _ in range(40):
                peer.sendall(chunked)
        except OSError:
            pass  # it has answered and hung up already
        else:
            assert peer.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "text", [b"nonsense\r\n\r\n", b"GET / HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"]
)
def test_what_is_no_http_is_answered_400_and_hung_up_on(server: WebServer, text: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
        peer.sendall(text)
        found = b""
        while chunk := peer.recv(1000):
            found += chunk
    assert found.startswith(b"HTTP/1.1 400")


def test_a_bug_is_answered_500_told_to_the_log_and_is_not_the_end(
    host: PlayedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    with serving_jobs(host, report=lines) as running:
        monkeypatch.setattr("edgesocket.web.board.Board.snapshot", lambda _: 1 / 0)
        reply = ask(running, "/api/jobs")
        assert reply.status == 500
        assert "division" not in reply.body.decode()
        assert ask(running, "/healthz").status == 200
    assert any("ZeroDivisionError" in line for line in lines)


# ---- peers that are slow or many -------------------------------------------------------------------------------------


def test_a_peer_that_does_not_ask_or_asks_by_the_byte_is_hung_up_on(
    host: PlayedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_TIMEOUT_S", 0.2)
    with (
        serving_jobs(host) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=10) as silent,
        socket.create_connection(("127.0.0.1", running.port), timeout=10) as slow,
    ):
        begun = time.monotonic()
        with pytest.raises(OSError, match=r"reset|pipe"):
            for byte in b"GET /healthz HTTP/1.1\r\nX-Slow: " + b"x" * 2000:
                slow.sendall(bytes([byte]))
                time.sleep(0.01)
        assert time.monotonic() - begun < 5
        with pytest.raises(ConnectionResetError):
            assert silent.recv(1) == b""
            raise ConnectionResetError
        assert ask(running, "/healthz").status == 200


def test_a_connection_is_kept_for_the_next_request_also_when_its_head_comes_in_parts(
    host: PlayedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_TIMEOUT_S", 0.8)
    with serving_jobs(host) as running, socket.create_connection(("127.0.0.1", running.port), timeout=10) as peer:
        for _ in range(2):
            peer.sendall(b"GET /healthz HT")
            time.sleep(0.05)
            peer.sendall(b"TP/1.1\r\nHost: localhost\r\n\r\n")
            answer = peer.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")
            while not answer.endswith(b"]}"):
                answer += peer.recv(4096)
            time.sleep(1.0)  # longer than a head may take: the wait between two requests is another one


def test_a_body_that_does_not_come_is_not_waited_for(host: PlayedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "BODY_TIMEOUT_S", 0.1)
    with serving_jobs(host) as running, socket.create_connection(("127.0.0.1", running.port), timeout=10) as peer:
        peer.sendall(
            f"POST /stop-job HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Length: 10\r\n\r\n{".encode()
        )
        assert peer.recv(100).startswith(b"HTTP/1.1 408")


def test_whoever_does_not_read_its_stream_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SEND_TIMEOUT_S", 0.2)
    monkeypatch.setattr("edgesocket.web.api.LOOK_S", 0.001)
    jobs = [PlayedJob(name=f"job-{n}").say(status_of()) for n in range(300)]
    with serving_jobs(PlayedHost(jobs)) as running, socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(10)
        peer.connect(("127.0.0.1", running.port))
        peer.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1.0)  # it is not read, which is what this is about
        assert ask(running, "/healthz").status == 200, "others are served meanwhile"
        total = 0
        try:
            while chunk := peer.recv(1 << 20):
                total += len(chunk)
                assert total < 64 * 1024 * 1024, "the server goes on sending"
        except ConnectionResetError:
            pass


def test_whoever_asks_and_does_not_read_takes_nobody_s_place_for_long(
    host: PlayedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is gone at the server's end too: it does not wait until its buffer has been read."""
    monkeypatch.setattr(serving, "SEND_TIMEOUT_S", 1.0)
    lines: list[str] = []
    text = "GET /static/picture.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(serving_jobs(host, report=lines))
        assert ask(running, "/healthz").status == 200
        for _ in range(4):
            peer = stack.enter_context(socket.socket())
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            peer.connect(("127.0.0.1", running.port))
            peer.setblocking(False)
            peer.send(text.encode())  # what the kernel takes of it is enough
        serving_now = running._serving
        assert serving_now is not None
        state = serving_now._server.server_state
        wait_until(lambda: len(state.connections) == 4, 5, "all of them")
        wait_until(lambda: not state.connections, 5, "the end of those that do not read")
        assert ask(running, "/healthz").status == 200
    assert not [line for line in lines if "bug" in line]


def test_streams_are_bounded_and_there_is_room_for_health_beside_them(
    host: PlayedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgesocket.web.streams.MAX_STREAMS", 3)
    with serving_jobs(host) as running:
        peers = [socket.create_connection(("127.0.0.1", running.port), timeout=10) for _ in range(3)]
        try:
            for peer in peers:
                peer.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert peer.recv(4096).startswith(b"HTTP/1.1 200")
            full = ask(running, "/api/stream")
            assert (full.status, full.headers["retry-after"]) == (503, "5")
            assert ask(running, "/healthz").status == 200
        finally:
            for peer in peers:
                peer.close()
        wait_until(lambda: ask(running, "/api/stream?count=1").status == 200, 10, "room for a stream")


def test_connections_are_bounded(host: PlayedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr("edgesocket.web.server.MAX_OPEN", 8)
    with serving_jobs(host) as running:
        peers = [socket.create_connection(("127.0.0.1", running.port), timeout=10) for _ in range(12)]
        try:
            closed = 0
            for peer in peers[8:]:
                try:
                    closed += peer.recv(1) == b""
                except ConnectionResetError:
                    closed += 1
            assert closed == 4
            peers[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert peers[0].recv(100).startswith(b"HTTP/1.1 503")
        finally:
            for peer in peers:
                peer.close()
        wait_until(lambda: ask(running, "/healthz").status == 200, 10, "room for a connection")


def test_the_server_ends_while_somebody_listens(host: PlayedHost) -> None:
    with serving_jobs(host) as running, socket.create_connection(("127.0.0.1", running.port), timeout=10) as peer:
        peer.sendall(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert peer.recv(4096).startswith(b"HTTP/1.1 200")
        begun = time.monotonic()
        running.stop()
        assert time.monotonic() - begun < 3.0
        rest = b""
        while chunk := peer.recv(1 << 16):
            rest += chunk
        assert rest.endswith(b"0\r\n\r\n"), "the stream ends, it is not cut"
    with pytest.raises(ConnectionRefusedError):
        ask(running, "/healthz")
    assert not running._thread.is_alive()


# ---- what is answered ------------------------------------------------------------------------------------------------


def test_every_answer_forbids_what_a_page_should_not_do(server: WebServer) -> None:
    for path in ("/", "/api/jobs", "/nothing", "/healthz"):
        headers = ask(server, path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
    assert ask(server, "/api/jobs").headers["cache-control"] == "no-store"


def test_the_page_and_its_files_come_with_an_etag_and_only_once(server: WebServer) -> None:
    page = ask(server, "/")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    again = ask(server, "/", headers={"If-None-Match": f'"other", W/{page.headers["etag"]}'})
    assert (again.status, again.body) == (304, b"")
    script = next(part for part in page.body.decode().split('"') if part.startswith("static/") and part.endswith(".js"))
    found = ask(server, f"/{script}")
    assert (found.status, found.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert ask(server, "/static/index.html").body == page.body


def test_the_stream_sends_all_jobs_at_once_and_ends_after_as_many_events_as_asked(server: WebServer) -> None:
    begun = time.monotonic()
    reply = ask(server, "/api/stream?count=2")
    assert 0.5 < time.monotonic() - begun < 5
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [part for part in reply.body.decode().split("\n\n") if "data:" in part]
    assert len(events) == 2
    name, data = events[0].split("\n")
    assert name == "event: jobs"
    assert [job["name"] for job in json.loads(data.removeprefix("data: "))["jobs"]] == ["edge", "late", "over"]


def test_the_log_is_read_from_where_the_last_read_ended() -> None:
    job = PlayedJob().say(status_of())
    with serving_jobs(PlayedHost([job])) as running:
        assert ask(running, "/api/jobs/edge/log").json == {"lines": [], "next": 0}
        for number in range(5):
            job.journal(f"line {number}")
        first = ask(running, "/api/jobs/edge/log?limit=3").json
        assert [line["text"] for line in first["lines"]] == ["line 0", "line 1", "line 2"]
        rest = ask(running, f"/api/jobs/edge/log?after={first['next']}").json
        assert [line["text"] for line in rest["lines"]] == ["line 3", "line 4"]
        assert ask(running, f"/api/jobs/edge/log?after={rest['next']}").json == {"lines": [], "next": rest["next"]}
        job.journal = PlayedJob().journal
        job.journal("begun anew")
        anew = ask(running, f"/api/jobs/edge/log?after={rest['next']}").json
        assert ([line["text"] for line in anew["lines"]], anew["next"]) == (["begun anew"], 1)
        text = ask(running, "/logs/edge")
        assert text.headers["content-type"].startswith("text/plain")
        assert text.body.decode().splitlines()[0].endswith("begun anew")
        assert ask(running, "/logs/job-edge.log").body == text.body
        (entry,) = ask(running, "/logs?format=json").json
        assert entry["logLink"] == f"{running.url}/logs/edge"


def test_a_stop_is_passed_on_with_the_name_of_who_asks() -> None:
    job = PlayedJob().say(status_of())
    over = PlayedJob(name="over", outcome=Outcome(0, "", 1))
    with serving_jobs(PlayedHost([job, over])) as running:
        assert ask(running, "/api/jobs/edge/stop", {"savepoint": True}, token=TOKEN).json == {
            "job": "edge",
            "state": "stopping",
        }
        assert ask(running, "/api/jobs/over/stop", {}, token=TOKEN).json == {"job": "over", "state": "ended"}
        assert ask(running, "/stop-job", {"jobId": "edge", "isStopWithSavePoint": True}, token=TOKEN).json == {
            "jobId": "edge"
        }
        assert ask(running, "/stop-jobs", [{"jobId": "edge"}, {"jobId": "over"}], token=TOKEN).json == [
            {"jobId": "edge"},
            {"jobId": "over"},
        ]
        assert job.stopped_by == ["127.0.0.1, over HTTP"] * 3
        assert ask(running, "/stop-jobs", [{"jobId": "edge"}, {"jobId": "none"}], token=TOKEN).status == 404
        assert len(job.stopped_by) == 3, "none is stopped where one is not there"


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("", ("json", None, False)),
        ("?format=hocon&jobName=clicks", ("hocon", "clicks", False)),
        ("?jobId=clicks&isStartWithSavePoint=true", ("json", "clicks", True)),
        ("?jobId=clicks&jobName=clicks", ("json", "clicks", False)),
    ],
)
def test_a_job_is_handed_to_the_process(query: str, answer: tuple[str, str | None, bool]) -> None:
    host = PlayedHost()
    with serving_jobs(host) as running:
        reply = ask(running, f"/submit-job{query}", b"{}", token=TOKEN)
    assert reply.status == 200
    assert host.submitted == [("{}", *answer)]
    assert reply.json["jobName"] == reply.json["jobId"] == (answer[1] or "submitted")


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ConfigError([ConfigProblem("sink.X", "there is no such sink", "", "job:3")]), 400, "no such sink"),
        (UsageError("no state"), 400, "no state"),
        (NotOwnerError("runs already"), 409, "runs already"),
        (ModuleNotFoundError("no duckdb", name="duckdb"), 500, "duckdb"),
    ],
)
def test_a_job_that_cannot_run_is_refused_with_the_reason(error: Exception, status: int, text: str) -> None:
    with serving_jobs(PlayedHost(fail_with=error)) as running:
        reply = ask(running, "/submit-job", b"{}", token=TOKEN)
    assert reply.status == status
    assert text in reply.json["message"]


def test_a_process_that_takes_no_jobs_says_why() -> None:
    with serving_jobs(PlayedHost(why_no_submit="this process takes none")) as running:
        reply = ask(running, "/submit-job", b"{}", token=TOKEN)
    assert (reply.status, reply.json["message"]) == (403, "this process takes none")
    with serving_jobs(PlayedHost()) as running:
        assert ask(running, "/submit-job?jobId=a&jobName=b", b"{}", token=TOKEN).status == 400
        assert ask(running, "/submit-job", b" ", token=TOKEN).json["message"] == "Request body is empty."


# ---- port and certificate --------------------------------------------------------------------------------------------


def test_the_first_free_port_is_taken() -> None:
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        free.close()
        found = bind(WebOptions(ports=(int(taken.getsockname()[1]), port)))
        with found:
            assert found.getsockname()[1] == port
        with pytest.raises(ListenerError, match="--http"):
            bind(WebOptions(ports=(int(taken.getsockname()[1]),)))


def test_it_listens_on_an_ipv6_address_too(host: PlayedHost) -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this host has no IPv6 loopback address")
    with serving_jobs(host, WebOptions("::1", (0,))) as running:
        assert running.url.startswith("http://[::1]:")
        assert ask(running, "/healthz", headers={"Host": "[::1]"}).status == 200
        assert ask(running, "/healthz", headers={"Host": "[fd00::1]"}).status == 403


def test_nothing_is_imported_or_served_before_the_jobs_run(host: PlayedHost) -> None:
    from edgesocket.web.board import Board

    runs = threading.Event()
    server = WebServer(lambda: Board(host), WebOptions(ports=(0,)), lambda _: None, runs.is_set)
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            peer.settimeout(0.3)
            with pytest.raises(TimeoutError):
                peer.recv(1)
            runs.set()
            peer.settimeout(10)
            assert peer.recv(100).startswith(b"HTTP/1.1 200"), "who asked meanwhile is answered"
    finally:
        server.stop()


_OPENSSL = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -addext subjectAltName=IP:127.0.0.1"
)


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(
        [*_OPENSSL.split(), "-subj", f"/CN={name}", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    return cert, key


def test_with_a_certificate_it_is_https_and_a_renewed_one_is_used(
    host: PlayedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LOOKS", 1)
    cert, key = certificate(tmp_path, "first")
    options = WebOptions(ports=(0,), token=TOKEN, certificate=cert, key=key)
    lines: list[str] = []
    with serving_jobs(host, options, lines) as running:
        assert running.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(cert))
        assert ask(running, "/healthz", tls=trusting).status == 200
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                assert not peer.recv(100).startswith(b"HTTP/1.1 200")
                raise ConnectionResetError
        certificate(tmp_path, "second")
        wait_until(lambda: any("new certificate is in use" in line for line in lines), 10, "the new certificate")
        renewed = ssl.create_default_context(cafile=str(cert))
        assert ask(running, "/healthz", tls=renewed).status == 200


def test_peers_that_never_end_their_handshake_are_bounded_and_hung_up_on(
    host: PlayedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HANDSHAKE_TIMEOUT_S", 0.5)
    monkeypatch.setattr("edgesocket.web.server.MAX_OPEN", 4)
    cert, key = certificate(tmp_path, "edge")
    with serving_jobs(host, WebOptions(ports=(0,), certificate=cert, key=key)) as running:
        peers = [socket.create_connection(("127.0.0.1", running.port), timeout=10) for _ in range(6)]
        try:
            ends = []
            for peer in peers:
                try:
                    ends.append(peer.recv(100))
                except ConnectionResetError:
                    ends.append(b"")
            assert ends == [b""] * 6, "two at once, the others after the deadline"
        finally:
            for peer in peers:
                peer.close()
        trusting = ssl.create_default_context(cafile=str(cert))
        assert ask(running, "/healthz", tls=trusting).status == 200


@pytest.mark.parametrize("broken", ["missing", "nonsense"])
def test_a_certificate_that_cannot_be_read_is_said_at_once(host: PlayedHost, tmp_path: Path, broken: str) -> None:
    cert = tmp_path / "cert.pem"
    if broken == "nonsense":
        cert.write_text("nonsense")
    with pytest.raises(UsageError, match="--http-cert"), serving_jobs(host, WebOptions(ports=(0,), certificate=cert)):
        raise AssertionError("it started")


def test_the_document_is_open_and_knows_every_path(public: WebServer) -> None:
    document: Any = ask(public, "/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert {(path, method) for path, methods in document["paths"].items() for method in methods} == {
        (one.path, one.method.lower()) for one in ENDPOINTS
    }
