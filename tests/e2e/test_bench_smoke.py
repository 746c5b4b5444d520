"""The benchmarks run, and their load generator does what it claims: what nobody runs rots."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.harness.build import Program, build_tools

ROOT = Path(__file__).parents[2]
LINE = re.compile(rb"__BATCH__:([0-9]{16}):([^\n]*)")


@dataclass
class Recorder:
    """A server that keeps every line and answers the n-th with `answers[n % len(answers)]`, in small pieces."""

    answers: list[bytes]
    lines: list[bytes] = field(default_factory=list)
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def port(self) -> str:
        return str(self.listener.getsockname()[1])

    def serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection, self.listener:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            carry = b""
            while data := connection.recv(65536):
                *lines, carry = (carry + data).split(b"\n")
                replies = b""
                for line in lines:
                    replies += self.answers[(len(self.lines) - 1) % len(self.answers)] if self.lines else b"ACK\n"
                    self.lines.append(line)
                half = len(replies) // 2
                connection.sendall(replies[:half])
                connection.sendall(replies[half:])


@pytest.fixture(params=["C", "Python"])
def generator(request: pytest.FixtureRequest) -> Program:
    """Both load generators."""
    tools = build_tools(python_only=request.param == "Python")
    if tools.generator.language != request.param:
        pytest.skip(f"no C program: {tools.complaint}")
    return tools.generator


@pytest.fixture
def recorder(request: pytest.FixtureRequest) -> Iterator[Recorder]:
    """A recorder that serves one connection."""
    recorder = Recorder(getattr(request, "param", [b"RECEIVED\n"]))
    thread = threading.Thread(target=recorder.serve)
    thread.start()
    yield recorder
    thread.join(10)
    assert not thread.is_alive()


def generate(generator: Program, port: str, *options: str) -> dict[str, int]:
    """Run a generator; its JSON."""
    command = [*generator.command, "--port", port, "--token", "smoke", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("mode", ["full", "window", "stop"])
def test_ids_rise_by_one_over_every_pass_of_the_prebuilt_lines(
    generator: Program, recorder: Recorder, mode: str
) -> None:
    # 1,000 lines of this length are prebuilt, and the ids carry over into every digit
    found = generate(
        generator,
        recorder.port,
        "--mode",
        mode,
        "--payload",
        "700",
        "--records",
        "3500",
        "--first-id",
        "1999999999998001",
    )
    auth, *lines = recorder.lines
    assert auth == b"__AUTH__:smoke"
    matches = [LINE.fullmatch(line) for line in lines]
    ids = [int(match[1]) for match in matches if match]
    assert ids == list(range(1999999999999000, 1999999999999000 + 3500))
    assert {len(match[2]) for match in matches if match} == {700}
    assert (found["sent"], found["received"]) == (3500, 3500)
    assert found["next_id"] > ids[-1]


@pytest.mark.parametrize(
    "recorder", [[b"RECEIVED\n", b"QUEUE_FULL:500\n", b"RECEIVED\n", b"RECEIVED\n", b"BAD_REQUEST\n"]], indirect=True
)
@pytest.mark.parametrize("mode", ["full", "window"])
def test_every_reply_is_counted_for_what_it_is(generator: Program, recorder: Recorder, mode: str) -> None:
    found = generate(generator, recorder.port, "--mode", mode, "--payload", "64", "--records", "5000")
    assert (found["received"], found["queue_full"], found["other"]) == (3000, 1000, 1000)
    assert found["other_sample"] == "BAD_REQUEST"
    assert len(recorder.lines) == 5001, "nothing may be sent twice"


def test_the_two_generators_send_the_same_bytes() -> None:
    sent = []
    for python_only in (False, True):
        recorder = Recorder([b"RECEIVED\n"])
        thread = threading.Thread(target=recorder.serve)
        thread.start()
        generate(build_tools(python_only=python_only).generator, recorder.port, "--records", "2500", "--first-id", "7")
        thread.join(10)
        sent.append(recorder.lines)
    assert sent[0] == sent[1]


@pytest.mark.alone
def test_the_harness_measures_the_comparison_servers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "--quick", "--no-product", "--seconds", "0.1", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "latest.md").read_text()
    rows = [line.split("|")[1].strip() for line in page.splitlines() if re.match(r"\| (raw|blind|line)", line)]
    assert [row.split()[0] for row in rows] == ["raw", *["blind", "line", "line"] * 3]
    assert page.count("| not measured |") == 6
    (raw,) = tmp_path.glob("*.json")
    figures = json.loads(raw.read_text())["parts"]["throughput"]
    assert all(rate > 1000 for cell in figures for rate in cell["rates"])


@pytest.mark.slow
def test_the_edge_part_measures_the_agent(tmp_path: Path) -> None:
    if find_spec("numpy") is None:
        pytest.skip("`edgesocket run` needs numpy")
    command = [sys.executable, "-m", "bench", "--part", "edge", "--windows", "1", "--edge-megabytes", "2"]
    command += ["--edge-idle-seconds", "0.2", "--edge-stop-seconds", "0.5", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (raw,) = tmp_path.glob("*.json")
    idle, near, far = json.loads(raw.read_text())["parts"]["edge"]
    assert 10 < idle["idle"]["resident_mb"] < 200
    assert 0 <= idle["idle"]["cpu_percent"] < 100
    assert set(near) == {"near", "bare", "blocks"}
    assert all(rate > 500 for rates in near.values() for rate in rates)
    assert 1 < far["stop"][0] < 20, "a round trip takes 50 ms"
    assert far["far"][0] > far["stop"][0]
