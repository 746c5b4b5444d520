"""`edgesocket top` and `tail` on real processes: one with an HTTP server, one without; on a real pseudo terminal."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.jobs import ROOT, Job, Wire, edgesocket, free_port, wait_until, write_job
from tests.support.letter_kit import write_letters

pytest.importorskip("rich")
pytest.importorskip("starlette")

SCHEMA = "on_bad_record = dead_letter\n schema { fields { id = int, name = string } }"
_CODES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|\x1b[=>]")


@dataclass
class Running:
    """Two jobs that run below one root: `clicks` can be asked over HTTP, `quiet` cannot."""

    root: Path
    conf: Path
    port: int
    quiet_port: int
    url: str


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Both jobs, with three records and a dead letter in each."""
    directory = tmp_path_factory.mktemp("terminal")
    ports = free_port(), free_port()
    confs = []
    for name, port in zip(("clicks", "quiet"), ports, strict=True):
        sink = f'LocalFile {{ path = "{directory / name}", file_format_type = json }}'
        conf = write_job(directory, port, source=SCHEMA, sink=sink, name=name)
        with conf.open("a") as stream:
            stream.write(f'dead_letter {{ DeadLetter {{ path = "{directory / name}-dead" }} }}\n')
        confs.append(conf)
    with Job(confs[0], "--http", "127.0.0.1:0") as first, Job(confs[1], "--http", "off") as second:
        assert first.wait_until_listening()
        assert second.wait_until_listening()
        root = directory / ".edgesocket"
        for port in ports:
            wire = Wire(port)
            wire.ask(*(f'__BATCH__:{n}:{{"id": {n}, "name": "n{n}"}}' for n in (1, 2, 3)), "__BATCH__:4:{")
            wire.close()
        shown = [_status(root, name) for name in ("clicks", "quiet")]
        yield Running(root, confs[0], ports[0], ports[1], shown[0]["http"])


def _status(root: Path, name: str) -> dict[str, str]:
    """The status of a job, once it tells of its four records (and of its HTTP server)."""

    def fresh() -> dict[str, str] | None:
        path = root / name / "status.json"
        status = json.loads(path.read_bytes()) if path.exists() else {}
        told = status.get("source", {}).get("replies", {}).get("RECEIVED") == 4 and status["sinks"]["dead_letters"]
        return status if told and (name == "quiet" or status.get("http")) else None

    found: dict[str, str] = wait_until(fresh, what=f"the status of {name}")
    return found


class Terminal:
    """A command on a pseudo terminal of 110 columns and 40 lines. `screen` is what was drawn last."""

    def __init__(self, *arguments: str | Path, **env: str) -> None:
        self._seen = b""
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
            os.chdir(ROOT)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the tests run in the background of a shell
            # Given whole: a library that asks for lines has set COLUMNS behind the back of os.environ.
            kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
            command = [sys.executable, "-m", "edgesocket", *map(str, arguments)]
            os.execve(sys.executable, command, {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", **env})

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str, timeout_s: float = 30.0) -> str:
        """The screen, once it holds a text."""
        deadline = time.monotonic() + timeout_s
        while text not in self.screen:
            assert time.monotonic() < deadline, f"{text!r} is not on the screen:\n{self.screen}"
            if not self._read(0.2) and self._ended():
                raise AssertionError(f"it has ended without {text!r}:\n{self.screen}")
        return self.screen

    @property
    def screen(self) -> str:
        """What was drawn since the cursor was home for the last whole picture."""
        pictures = self._seen.decode(errors="replace").split("\x1b[H")
        whole = [one for one in pictures if "edgesocket" in one]
        return _CODES.sub("", whole[-1] if whole else pictures[-1])

    @property
    def all_bytes(self) -> bytes:
        """Everything that was written."""
        return self._seen

    def end(self) -> int:
        """The exit code, once it has ended by itself."""
        deadline = time.monotonic() + 20.0
        while time.monotonic() < deadline:
            self._read(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self._descriptor)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._descriptor)
        raise AssertionError(f"it has not ended:\n{self.screen}")

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._descriptor], [], [], timeout_s)[0]:
            return False
        try:
            found = os.read(self._descriptor, 65536)
        except OSError:
            return False
        self._seen += found
        return bool(found)

    def _ended(self) -> bool:
        return not os.path.exists(f"/proc/{self.pid}")  # noqa: PTH110


# ---- top -------------------------------------------------------------------------------------------------------------


def test_once_prints_every_job_without_colour(running: Running) -> None:
    done = edgesocket("top", "--once", "--state-dir", running.root)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines()[2:]}
    assert set(lines) == {"clicks", "quiet"}
    assert all(line[1] == "running" for line in lines.values())
    assert "0/922" in lines["clicks"]


def test_named_jobs_are_printed_whole(running: Running) -> None:
    done = edgesocket("top", "--once", running.conf, "--state-dir", running.root, env={**os.environ, "COLUMNS": "140"})
    assert done.returncode == 0, done.stderr
    assert "quiet" not in done.stdout
    assert f"collector → EdgeSocket :{running.port} → queue → LocalFile" in done.stdout
    assert "1 record was refused since its start" in done.stdout


def test_json_is_what_the_process_says_and_a_state_says_the_same_without_it(running: Running) -> None:
    done = edgesocket("top", "--state-dir", running.root, "--format", "json")
    jobs = {job["name"]: job for job in json.loads(done.stdout)["jobs"]}
    assert jobs["clicks"]["origin"] == running.url
    assert jobs["quiet"]["origin"] == ""
    for name in ("clicks", "quiet"):
        assert jobs[name]["state"] == "running"
        assert jobs[name]["status"]["source"]["replies"] == {"RECEIVED": 4}
        assert set(jobs[name]["rates"]) >= {"received_records_per_s", "written_rows_per_s"}
    assert set(jobs["quiet"]) <= {*jobs["clicks"], "origin"}


def test_a_terminal_is_drawn_on_and_keys_work(running: Running) -> None:
    terminal = Terminal("top", "--state-dir", running.root, "--interval", "0.3")
    terminal.wait_for("2 jobs: 2 running")
    terminal.wait_for("collector → EdgeSocket")
    terminal.press("j")
    terminal.wait_for(f"none on port {running.quiet_port}")
    terminal.press("/clic")
    terminal.wait_for("/ clic_")
    terminal.press("\r")
    assert "quiet" not in terminal.wait_for("/ clic ")
    terminal.press("l")
    terminal.wait_for("listener opened")
    terminal.press("\x1b")
    terminal.wait_for("quiet")
    terminal.press("?")
    terminal.wait_for("for how long the oldest of them has waited")
    terminal.press("?s")
    terminal.wait_for("by STATE")
    terminal.press("p")
    terminal.wait_for("PAUSED")
    terminal.press("q")
    assert terminal.end() == 0
    assert b"\x1b[?1049h" in terminal.all_bytes, "it draws on a screen of its own"
    assert terminal.all_bytes.endswith(b"\x1b[?25h\x1b[?1049l"), "and gives the cursor and the old one back"


def test_ctrl_c_ends_and_no_colour_is_honoured(running: Running) -> None:
    terminal = Terminal("top", "--state-dir", running.root, NO_COLOR="1")
    terminal.wait_for("2 jobs")
    terminal.press("\x03")
    assert terminal.end() == 0
    assert not re.search(rb"\x1b\[(3[0-7]|9[0-7]|38;)[0-9;]*m", terminal.all_bytes)


def test_a_job_that_has_ended_and_one_that_died_are_shown_as_such(tmp_path: Path) -> None:
    for name in ("stopped", "killed"):
        conf = write_job(tmp_path, free_port(), name=name)
        with Job(conf) as job:
            assert job.wait_until_listening()
            if name == "stopped":
                assert job.stop() == 0
    done = edgesocket("top", "--once", "--state-dir", tmp_path / ".edgesocket")
    states = {line.split()[-6 if line.startswith("!") else 0]: line for line in done.stdout.splitlines()[2:]}
    assert any("stopped" in line and "ended" in line for line in states.values())
    assert any(line.startswith("! killed") and "unknown" in line for line in states.values())


def test_a_process_that_does_not_answer_is_said_and_its_jobs_are_shown_all_the_same(running: Running) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = edgesocket("top", "--once", "--state-dir", running.root, "--url", url)
    assert f"! {url} does not answer" in done.stdout
    assert "clicks" in done.stdout


def test_what_is_not_there_is_refused_with_the_way_on(tmp_path: Path) -> None:
    done = edgesocket("top", "--once", "nothing", "--state-dir", tmp_path)
    assert done.returncode == 64
    assert "edgesocket jobs" in done.stderr
    assert edgesocket("top", "--sort", "NOTHING").returncode == 64


# ---- tail ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def traffic(running: Running) -> Iterator[None]:
    """A collector that sends to `clicks` until the test ends."""
    ended = threading.Event()

    def send() -> None:
        wire = Wire(running.port)
        number = 1000
        while not ended.wait(0.05):
            wire.ask(*(f'__BATCH__:{number + n}:{{"id": {n}, "name": "n{n}"}}' for n in range(20)))
            number += 20
        wire.close()

    sender = threading.Thread(target=send)
    sender.start()
    yield
    ended.set()
    sender.join()


@pytest.mark.usefixtures("traffic")
def test_rows_in_flight_are_sampled_and_filtered(running: Running) -> None:
    done = edgesocket("tail", running.conf, "-n", "3", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == 3
    assert all(set(one["row"]) == {"id", "name"} and one["batch_id"] >= 1000 for one in found)
    done = edgesocket("tail", "clicks", "--state-dir", running.root, "-n", "2", "--where", "name=n7")
    assert [line.split("  ", 1)[1] for line in done.stdout.splitlines()] == ['{"id": 7, "name": "n7"}'] * 2


def test_tail_says_what_it_needs(running: Running, tmp_path: Path) -> None:
    done = edgesocket("tail", "quiet", "--state-dir", running.root)
    assert done.returncode == 69
    assert "--http" in done.stderr
    done = edgesocket("tail", "clicks", "--state-dir", running.root, "--where", "nothing")
    assert done.returncode == 64
    assert "FIELD=VALUE" in done.stderr
    done = edgesocket("tail", write_job(tmp_path, 1))
    assert done.returncode == 64


# ---- the same over HTTP ----------------------------------------------------------------------------------------------


def test_dead_letters_over_http(running: Running) -> None:
    from edgesocket.cli.asking import Asking, RefusedError

    page = Asking(running.url).get("/api/jobs/clicks/dead-letters?limit=1")
    (one,) = page["letters"]
    assert (one["batch_id"], one["stage"], one["payload"], one["replayed"]) == (4, "EdgeSocket", "{", False)
    after = Asking(running.url).get(f"/api/jobs/clicks/dead-letters?after={one['position']}")
    assert after == {"letters": [], "next": None}
    with pytest.raises(RefusedError, match="position"):
        Asking(running.url).get("/api/jobs/clicks/dead-letters?after=nine")


def test_a_replay_over_http_needs_the_token_and_tells_what_it_did(running: Running, tmp_path: Path) -> None:
    assert _post(running.url, "clicks", '{"all": true}')[0] == 403, "without a token the server is read-only"
    token = "a-token-that-is-long-enough"
    port = free_port()
    sink = f'LocalFile {{ path = "{tmp_path / "out"}", file_format_type = json }}'
    conf = write_job(tmp_path, port, source=SCHEMA, sink=sink)
    with conf.open("a") as stream:
        stream.write(f'dead_letter {{ DeadLetter {{ path = "{tmp_path / "dead"}" }} }}\n')
    write_letters(tmp_path / "dead", [{"batch_id": 1, "payload": '{"id": 1}'}, {"batch_id": 2, "payload": "{"}])
    with Job(conf, "--http", "127.0.0.1:0", env={"EDGESOCKET_HTTP_TOKEN": token}) as job:
        assert job.wait_until_listening()
        path = tmp_path / ".edgesocket" / "job" / "status.json"
        url = wait_until(lambda: path.exists() and json.loads(path.read_bytes()).get("http"), what="the server")
        assert _post(url, "job", '{"all": true}', "wrong" * 5)[0] == 401
        assert _post(url, "job", '{"all": true, "positions": ["1-1-0:1"]}', token)[0] == 400
        assert _post(url, "job", '{"positions": ["nine"]}', token)[0] == 400
        status, end = _post(url, "job", '{"all": true}', token)
        assert (status, end["replayed"], end["failed"], end["complete"]) == (200, 1, 1, True)
        assert [one["position"] for one in end["failures"]] == ["1-1-0:2"]
        status, end = _post(url, "job", '{"positions": ["1-1-0:1"]}', token)
        assert (end["replayed"], end["replayed_before"]) == (0, 1)
        assert job.stop() == 0
    (written,) = (tmp_path / "out").glob("part-*")
    assert json.loads(written.read_text())["id"] == 1


def _post(url: str, name: str, body: str, token: str = "") -> tuple[int, dict[str, Any]]:
    """Ask for a replay. Returns the status and the answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    connection.request("POST", f"/api/jobs/{name}/dead-letters/replay", body, headers)
    answer = connection.getresponse()
    found: dict[str, Any] = json.loads(answer.read())
    connection.close()
    return answer.status, found
