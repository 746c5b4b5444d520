"""No log, message, status or state file ever holds a token or a key, whatever goes right or wrong.

Everything that jobs and commands print or leave behind is searched for the token and the key: as text, as bytes, in
base64 and in hex, and also for pieces of them, because a message may shorten what it shows.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgesocket.errors import ExitCode
from tests.support.jobs import ROOT, Job, Wire, free_port, wait_for_ack, wait_until, write_job
from tests.support.tls import Authority

TOKEN_TEXT = "Zq7-gl\u00fchw\u00fcrmchen-Mx4t_Vorhang!"
TOKEN = TOKEN_TEXT.encode()
KEY = bytes.fromhex("c3a1b59d8e7f60412233e4d5f6a7b8c9dafbec1d2e3f4a5b6c7d8e9fa0b1c2d3")
KEY_TEXT = base64.b64encode(KEY).decode()
OTHER_KEY_TEXT = base64.b64encode(bytes(range(32))).decode()
PIECE = 9
PATIENCE_S = 30.0


def _forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield base64.b64encode(secret).rstrip(b"=")
    yield base64.urlsafe_b64encode(secret).rstrip(b"=")
    yield secret.hex().encode()
    yield secret.hex(" ").encode()
    yield repr(secret)[2:-1].encode()
    yield repr(list(secret))[1:-1].encode()


def _pieces() -> set[bytes]:
    found = set()
    for secret in (TOKEN, KEY, KEY_TEXT.encode()):
        for form in _forms(secret):
            found |= {form[start : start + PIECE] for start in range(len(form) - PIECE + 1)}
    return found


PIECES = _pieces()


def _leaks(data: bytes) -> set[bytes]:
    return {data[start : start + PIECE] for start in range(len(data) - PIECE + 1)} & PIECES


class Evidence:
    """Everything that was printed or left behind."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.printed: list[tuple[str, bytes]] = []

    def command(self, *arguments: str | Path, lines: bytes | None = None, **environment: str) -> int:
        """Run a command, keep what it prints; returns its exit code."""
        result = subprocess.run(
            [sys.executable, "-m", "edgesocket", *map(str, arguments)],
            input=lines,
            capture_output=True,
            cwd=ROOT,
            env={**os.environ, **environment},
            timeout=60,
            check=False,
        )
        self.printed.append((f"{arguments[:1]} {len(self.printed)}", result.stdout + result.stderr))
        return result.returncode

    def note(self, what: str, data: bytes) -> None:
        """Keep something else."""
        self.printed.append((what, data))

    def check(self, *job_files: Path) -> None:
        """Nothing is in it but in the job files themselves, and in files that are there to hold a secret."""
        searched = 0
        for what, data in self.printed:
            assert not _leaks(data), f"{what}: {_leaks(data)} in\n{data.decode(errors='replace')}"
        for path in self.directory.rglob("*"):
            if path.is_file() and path not in job_files and path.suffix not in (".token", ".key"):
                searched += 1
                assert not _leaks(path.read_bytes()), f"{path}: {_leaks(path.read_bytes())}"
        assert searched or self.printed


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return Evidence(tmp_path)


def _job(directory: Path, port: int, *, source: str = "", name: str = "job", **more: str) -> Path:
    return write_job(directory, port, source=f'token = "{TOKEN_TEXT}"\n {source}', name=name, **more)


def _send(evidence: Evidence, port: int, *options: str | Path, lines: bytes = b"a\nb\n", **environment: str) -> int:
    return evidence.command("send", f"127.0.0.1:{port}", *options, lines=lines, **environment)


def test_the_search_would_find_a_leak() -> None:
    assert _leaks(f"token={TOKEN_TEXT[:12]}...".encode())
    assert _leaks(b"key=" + KEY.hex().encode())
    assert _leaks(b"\0\0" + KEY[5:20])
    assert not _leaks(b"2026-11-30T02:06:37+0000 collector connected: peer=127.0.0.1:55994")


def test_a_life_with_success_and_every_refusal_of_a_collector(tmp_path: Path, evidence: Evidence) -> None:
    port = free_port()
    source = f'packet_mode = PACKET\n secret_key = "{KEY_TEXT}"\n auth_timeout_ms = 300'
    conf = _job(tmp_path, port, source=source)
    (tmp_path / "right.token").write_bytes(TOKEN + b"\n")
    (tmp_path / "right.key").write_text(KEY_TEXT)
    (tmp_path / "other.key").write_text(OTHER_KEY_TEXT)
    secrets = ("--token-file", tmp_path / "right.token", "--packet")
    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        for path in Path("/tmp").glob(f"edgesocket-port-{port}*"):
            evidence.note(str(path), path.read_bytes())
        assert _send(evidence, port, *secrets, "--key-file", tmp_path / "right.key", "--commit") == ExitCode.OK
        assert _send(evidence, port, *secrets, "--key-file", tmp_path / "other.key") == ExitCode.AUTH
        assert _send(evidence, port, EDGESOCKET_TOKEN=TOKEN_TEXT) == ExitCode.BAD_DATA
        assert _send(evidence, port, EDGESOCKET_TOKEN=TOKEN_TEXT[:-1]) == ExitCode.AUTH
        assert _send(evidence, port, "--packet", EDGESOCKET_TOKEN=TOKEN_TEXT, EDGESOCKET_SECRET_KEY=KEY_TEXT) == 0
        for first in (TOKEN, b"__AUTH__" + TOKEN, b"__AUTH__:" + TOKEN + b" ", b"__auth__:" + TOKEN, KEY, TOKEN * 200):
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
                peer.sendall(first + b"\n")
                evidence.note("reply", peer.recv(1000))
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
            peer.sendall(b"__AUTH__:" + TOKEN[:-3])  # never finished
            assert peer.recv(10) == b""
        with Wire(port, TOKEN_TEXT) as wire:
            again = (b"__AUTH__:" + TOKEN, TOKEN, KEY_TEXT.encode(), b"__BATCH__:" + TOKEN, b"__COMMIT__:" + TOKEN)
            evidence.note("replies", wire.ask(*again).encode())
            evidence.note("reply", wire.ask(b"__BATCH__:999:" + TOKEN).encode())
            for verb in ("status", "settle", "restore"):
                more = ["5", "--reason", "test"] if verb == "settle" else []
                evidence.command(verb, conf, *more)
            evidence.command("status", conf, "--format", "json")
        job.kill()
    with Job(conf) as again_job:
        assert again_job.wait_until_listening(), again_job.log_text()
        # Without --commit: what was sent with the other key was refused for now and holds the watermark.
        assert _send(evidence, port, *secrets, "--key-file", tmp_path / "right.key") == ExitCode.OK
        assert again_job.stop() == ExitCode.OK
    evidence.check(conf)


def test_the_ways_to_lose_a_job(tmp_path: Path, evidence: Evidence) -> None:
    """Two owners, a taken port, a fenced owner, damaged state, a sink that fails."""
    port, second_port = free_port(), free_port()
    env = "lease_ms = 2000"
    conf = _job(tmp_path, port, env=env, source=f'secret_key = "{KEY_TEXT}"')
    second = _job(tmp_path, second_port, env=f"{env}\n job.name = job", name="second")
    state = tmp_path / ".edgesocket" / "job"
    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(port, TOKEN_TEXT) as wire:
            assert wire.ask("__BATCH__:1:a") == "RECEIVED"
            assert wait_for_ack(wire, 1) == "ACK:1"
            assert evidence.command("run", second, "--state-dir", state) == ExitCode.TRY_LATER
            elsewhere = tmp_path / "elsewhere"
            taken = _job(tmp_path, port, source="max_retries = 0", name="taken")
            assert evidence.command("run", taken, "--state-dir", elsewhere) == ExitCode.UNAVAILABLE
            os.kill(job.pid, signal.SIGSTOP)
            with Job(second, "--take-over", "--state-dir", str(state)) as other:
                assert other.wait_until_listening(), other.log_text()
                os.kill(job.pid, signal.SIGCONT)
                assert job.wait() == ExitCode.TRY_LATER
                other.kill()
    newest = max((state / "log").glob("*.json"))
    good = newest.read_bytes()
    newest.write_bytes(b"damaged")
    assert evidence.command("run", conf) == ExitCode.CONFIG
    evidence.command("status", conf)
    evidence.command("restore", conf)
    newest.write_bytes(good)

    (tmp_path / "not-a-directory").write_text("")
    sink = f'LocalFile {{ path = "{tmp_path}/not-a-directory/out", file_format_type = text }}'
    failing = _job(tmp_path, port, env="job.retry.times = 0", sink=sink, name="failing")
    assert evidence.command("run", failing) == ExitCode.UNAVAILABLE
    evidence.check(conf, second, taken, failing)


BAD_SOURCES = {
    "blank beside": f'token = "{TOKEN_TEXT}"\n port = 0\n endpoint = "h"',
    "misspelt": f'tokn = "{TOKEN_TEXT}"\n secretkey = "{KEY_TEXT}"\n port = 1',
    "twice": f'token = "{TOKEN_TEXT}"\n auth_token = "{TOKEN_TEXT}x"\n port = 1',
    "line end": f'token = "{TOKEN_TEXT}\\n"\n port = 1',
    "too long": f'token = "{TOKEN_TEXT * 300}"\n port = 1',
    "not text": f'token = [["{TOKEN_TEXT}"]]\n port = 1',
    "one of several": f'token = ["x", "{TOKEN_TEXT}\\n"]\n port = 1',
    "no id of a key": f'token = "x"\n port = 1\n secret_key = ["{KEY_TEXT}", "{KEY_TEXT}:x"]',
    "a block": f'token {{ "{TOKEN_TEXT}" = 1 }}\n port = 1',
    "key too short": f'token = "x"\n port = 1\n secret_key = "{KEY_TEXT[:-8]}"',
    "key not base64": f'token = "x"\n port = 1\n secret_key = "{KEY_TEXT[:-1]}*"',
    "key unquoted": f'token = "x"\n port = 1\n secret_key = {KEY_TEXT}',
    "token unquoted": f"token = {TOKEN_TEXT}\n port = 1",
    "unclosed": f'port = 1\n token = "{TOKEN_TEXT}',
    "never ends": f'port = 1\n token = "{TOKEN_TEXT}" }} }} }}\n',
    "joined": f'port = 1\n token = {{}} "{TOKEN_TEXT}"',
    "raw mode": f'port = 0\n token = "{TOKEN_TEXT}"\n require_encryption = true\n secret_key = "{KEY_TEXT}"',
}


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_a_job_file_that_is_off(tmp_path: Path, evidence: Evidence, name: str) -> None:
    """The message names the option and the line, not what is written there."""
    conf = tmp_path / "off.conf"
    conf.write_text(f"env {{ }}\nsource {{ EdgeSocket {{ {BAD_SOURCES[name]} }} }}\nsink {{ Null {{}} }}\n")
    assert evidence.command("run", conf) == ExitCode.CONFIG
    evidence.check(conf)


def test_secrets_from_variables_and_the_environment(tmp_path: Path, evidence: Evidence) -> None:
    conf = tmp_path / "variables.conf"
    port = free_port()
    options = f'port = {port}\n token = ${{EDGE_TOKEN}}\n secret_key = "${{key}}"\n max_retries = -2'
    conf.write_text(f"source {{ EdgeSocket {{ {options} }} }}\n")
    variables = ("-i", f"key={KEY_TEXT}")
    assert evidence.command("run", conf, *variables, EDGE_TOKEN=TOKEN_TEXT) == ExitCode.CONFIG
    assert evidence.command("run", conf, EDGE_TOKEN=TOKEN_TEXT) == ExitCode.CONFIG
    conf.write_text(conf.read_text().replace("max_retries = -2", "max_retries = 0"))
    with Job(conf, *variables, stdout=subprocess.DEVNULL, env={"EDGE_TOKEN": TOKEN_TEXT}) as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(port, TOKEN_TEXT) as wire:
            assert wire.ask("__BATCH__:1:a") == "RECEIVED"
        wait_until(lambda: (tmp_path / ".edgesocket" / "variables" / "status.json").exists(), PATIENCE_S)
        evidence.command("status", conf, *variables, EDGE_TOKEN=TOKEN_TEXT)
        assert job.stop() == ExitCode.OK
    evidence.check(conf)


def test_secrets_from_files_that_change_while_the_job_runs(tmp_path: Path, evidence: Evidence) -> None:
    """Good ones, broken ones, a TLS key in the wrong place: what is said of them names files and lines."""
    authority = Authority(tmp_path / "pki")
    certificate, key = authority.issue("server", "localhost")
    port = free_port()
    tokens, keys = tmp_path / "all.token", tmp_path / "all.key"
    tokens.write_text(f"first\n{TOKEN_TEXT}\n")
    keys.write_text(f"2026-11:{KEY_TEXT}\n")
    source = (
        f'token_file = "{tokens}"\n packet_mode = PACKET\n secret_key_file = "{keys}"\n'
        f'tls {{ cert_file = "{certificate}"\n key_file = "{key}" }}'
    )
    conf = write_job(tmp_path, port, source=source)
    (tmp_path / "right.token").write_bytes(TOKEN + b"\n")
    (tmp_path / "right.key").write_text(KEY_TEXT)
    mine = ("--token-file", tmp_path / "right.token", "--packet", "--key-file", tmp_path / "right.key")
    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()

        def send(*options: str | Path) -> int:
            return evidence.command("send", f"localhost:{port}", *mine, *options, lines=b"a\n")

        trust = ("--tls-ca", authority.file)
        assert send(*trust, "--key-id", "2026-11") == ExitCode.OK
        assert send() == ExitCode.AUTH  # no TLS: the token went over the line in the clear
        assert send("--tls") == ExitCode.AUTH
        for broken in (f"{TOKEN_TEXT}\n{TOKEN_TEXT * 300}\n", "\n", f"{TOKEN_TEXT}\r{TOKEN_TEXT}\n"):
            tokens.write_text(broken)
            assert send(*trust) == ExitCode.OK
        keys.write_text(f"2026-11:{KEY_TEXT[:-5]}\n{KEY_TEXT}:{KEY_TEXT}\n")
        wait_until(lambda: "secrets refused: what=keys" in job.log_text(), PATIENCE_S)
        key.write_bytes(certificate.read_bytes())
        assert send(*trust) == ExitCode.OK
        evidence.command("status", conf, "--format", "json")
        assert job.stop() == ExitCode.OK
    for bad in (tokens, keys, key):
        assert evidence.command("run", conf) == ExitCode.CONFIG, bad
        bad.write_text("")
    assert b"PRIVATE KEY" not in b"".join(data for _, data in evidence.printed)
    evidence.check(conf)


def test_a_command_line_that_is_off(tmp_path: Path, evidence: Evidence) -> None:
    """What a user typed on the command line is not repeated where it may hold a secret."""
    token_file = tmp_path / "two-lines.token"
    token_file.write_bytes(TOKEN + b"\n" + TOKEN + b"\n")
    key_file = tmp_path / "bad.key"
    key_file.write_text(f"{KEY_TEXT}x")
    address = f"127.0.0.1:{free_port()}"
    for options in (
        ("--token-file", token_file),
        ("--token", TOKEN_TEXT, "--token-file", token_file),
        ("--token", "x", "--packet", "--key-file", key_file),
        ("--token", f"{TOKEN_TEXT}\n"),
        ("--token", TOKEN_TEXT, "--window", "0"),
    ):
        assert evidence.command("send", address, *options, lines=b"") == ExitCode.USAGE, options
    quick = ("--connect-timeout", "0.2", "--packet")
    unreachable = evidence.command("send", address, *quick, EDGESOCKET_TOKEN=TOKEN_TEXT, EDGESOCKET_SECRET_KEY=KEY_TEXT)
    assert unreachable == ExitCode.UNAVAILABLE
    evidence.check()
