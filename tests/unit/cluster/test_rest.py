"""Commands by Ray's Jobs REST API: the token is shown, the output comes back, failures say what to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from edgesocket.cluster.rest import RestError, is_rest, read_token, run_there


class FakeDashboard(HTTPServer):
    """Answers as Ray's dashboard does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = ["PENDING", "RUNNING", "SUCCEEDED"]
        self.entrypoint = ""
        self.token = "t0ken"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeDashboard

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.entrypoint = content["entrypoint"]
        self._answer({"submission_id": "raysubmit_1"})

    def do_GET(self) -> None:
        if self.path.endswith("/logs"):
            self._answer({"logs": "1 jobs are to run\n"})
        else:
            statuses = self.server.statuses
            self._answer({"status": statuses.pop(0) if len(statuses) > 1 else statuses[0]})

    def _answer(self, content: dict[str, Any]) -> None:
        good = self.headers.get("Authorization") == f"Bearer {self.server.token}"
        body = json.dumps(content if good else {}).encode()
        self.send_response(200 if good else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def dashboard() -> Iterator[FakeDashboard]:
    with FakeDashboard() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(dashboard: FakeDashboard, token: str = "t0ken", wait_s: float = 60.0) -> str:
    environ = {"RAY_AUTH_TOKEN": token}
    return run_there(dashboard.url, ["reconcile", "--job", "a b"], wait_s, environ=environ, sleep=lambda _: None)


def test_a_command_runs_there_and_its_output_comes_back(dashboard: FakeDashboard) -> None:
    assert run(dashboard) == "1 jobs are to run\n"
    assert dashboard.entrypoint == "python -m edgesocket reconcile --job 'a b'"


def test_a_wrong_token_is_refused_with_what_to_do_and_not_shown(dashboard: FakeDashboard) -> None:
    with pytest.raises(RestError, match=r"401 .*set RAY_AUTH_TOKEN") as caught:
        run(dashboard, "wr0ng-t0ken")
    assert "wr0ng" not in str(caught.value)


def test_a_command_that_failed_there_is_told_with_its_output(dashboard: FakeDashboard) -> None:
    dashboard.statuses = ["FAILED"]
    with pytest.raises(RestError, match="failed there: 1 jobs are to run"):
        run(dashboard)


def test_a_command_that_takes_too_long_is_told_with_its_number(dashboard: FakeDashboard) -> None:
    dashboard.statuses = ["RUNNING"]
    with pytest.raises(RestError, match="raysubmit_1"):
        run(dashboard, wait_s=0.0)


def test_the_token_is_looked_for_where_ray_looks(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("from-home\n")
    (tmp_path / "other").write_text("from-file\n")
    assert read_token({"HOME": str(tmp_path)}) == "from-home"
    assert read_token({"HOME": str(tmp_path), "RAY_AUTH_TOKEN_PATH": str(tmp_path / "other")}) == "from-file"
    assert read_token({"RAY_AUTH_TOKEN": "given"}) == "given"
    assert read_token({"HOME": str(tmp_path / "nowhere")}) == ""


def test_addresses_of_a_dashboard_are_told_from_those_of_ray() -> None:
    assert is_rest("http://head:8265")
    assert not is_rest("head:6379")
    assert not is_rest("auto")
