"""What the pages show can be done: commands parse, job files read, programs run and are understood."""

from __future__ import annotations

import base64
import contextlib
import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgesocket.cli.main import VERBS, _parser
from edgesocket.errors import ExitCode
from tests.support.jobs import TOKEN, Job, free_port, rows, wait_until, write_job

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKETS = ROOT / "docs/howto/packets.md"
_FENCE = re.compile(r"^ *```(\w+)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_STOPS = {"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", ")"}


def fences(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, as they stand there."""
    return [text for name, text in _FENCE.findall(page.read_text(encoding="utf-8")) if name == language]


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    return list(lexer)


def commands(text: str) -> Iterator[list[str]]:
    """The calls of `edgesocket` in a shell script, as argument lists without redirections and what follows."""
    for line in re.sub(r"\\\n *", " ", text).splitlines():
        found = re.search(r"(?:^|[\s|;(&])edgesocket (?!\d)(.*)", f" {line.removeprefix('$ ')}")
        if found is None or line.lstrip().startswith("#"):
            continue
        call = re.split(r"[|)]", found[1])[0] if f"(edgesocket {found[1]}" in line else found[1]
        arguments = []
        for word in _words(call):
            if word in _STOPS or word.startswith("#"):
                break
            arguments.append(word)
        yield arguments


def _all_commands() -> list[tuple[str, str]]:
    return [
        (str(page.relative_to(ROOT)), shlex.join(arguments))
        for page in PAGES
        for language in ("sh", "bash", "console")
        for text in fences(page, language)
        for arguments in commands(text)
    ]


@pytest.mark.parametrize(("page", "command"), sorted(set(_all_commands())))
def test_every_command_line_is_understood(page: str, command: str) -> None:
    arguments = shlex.split(command)
    if arguments[:1] and arguments[0].startswith("-"):
        return  # SeaTunnel's form, or --version
    assert arguments[0] in VERBS, f"{page}: there is no verb {arguments[0]}"
    if "..." in arguments or "VERB" in arguments:
        return
    said = io.StringIO()
    parser, _ = _parser(arguments[0])
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(arguments)
    except SystemExit as end:
        assert not end.code, f"{page}: edgesocket {command}: {said.getvalue()}"


def test_a_flag_that_does_not_exist_is_noticed() -> None:
    ((arguments),) = commands("tail x | edgesocket send localhost:1 --no-such-flag --commit  # why not\n")
    parser, _ = _parser("send")
    with contextlib.redirect_stderr(io.StringIO()), pytest.raises(SystemExit):
        parser.parse_args(arguments)


class Packets:
    """A job that takes packets, and what it made of them."""

    def __init__(self, directory: Path) -> None:
        (self.make_key,) = [text for text in fences(PACKETS, "sh") if "openssl" in text]
        subprocess.run(["sh", "-ec", self.make_key], cwd=directory, check=True)
        self.directory = directory
        self.key = (directory / "key.txt").read_text().strip()
        self.port = free_port()
        source = f'packet_mode = PACKET\n secret_key = "{self.key}"'
        self.job = Job(write_job(directory, self.port, source=source))

    def shell(self, script: str) -> str:
        """Run a script of the page; returns what it printed."""
        script = script.replace("9999", str(self.port)).replace("my-edge-token", TOKEN)
        done = subprocess.run(
            ["sh", "-ec", script], cwd=self.directory, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self) -> list[str]:
        """Stop the job; the rows it wrote."""
        assert self.job.stop() == ExitCode.OK
        return rows(self.directory / "out")


@pytest.fixture
def packets(tmp_path: Path) -> Iterator[Packets]:
    one = Packets(tmp_path)
    with one.job:
        assert one.job.wait_until_listening(), one.job.log_text()
        yield one


def _send(port: int, *requests: bytes) -> list[bytes]:
    """What a source answers to a token and these requests."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"".join(line + b"\n" for line in (b"__AUTH__:" + TOKEN.encode(), *requests)))
        replies = connection.makefile("rb")
        return [replies.readline().strip() for _ in range(len(requests) + 1)]


@pytest.mark.skipif(shutil.which("nc") is None, reason="the shell's collector needs nc (netcat-openbsd)")
def test_the_shell_packets_are_taken(packets: Packets) -> None:
    (script,) = [text for text in fences(PACKETS, "sh") if "packet()" in text]
    assert packets.shell(script).split() == ["ACK", "RECEIVED", "RECEIVED"]
    assert packets.rows() == ["first line", "second line"]


def test_the_python_packets_are_taken(packets: Packets) -> None:
    (program,) = fences(PACKETS, "python")
    names: dict[str, Any] = {}
    exec(program, names)
    made = names["packet"](b"a line", base64.b64decode(packets.key))
    assert _send(packets.port, b"__BATCH__:1:" + made) == [b"ACK", b"RECEIVED"]
    assert packets.rows() == ["a line"]


@pytest.mark.skipif(shutil.which("javac") is None, reason="running Java from its source needs a JDK")
@pytest.mark.slow
def test_the_java_packets_are_taken(packets: Packets) -> None:
    (program,) = fences(PACKETS, "java")
    (packets.directory / "Packet.java").write_text(program)
    command = ["java", "Packet.java", packets.key, "1", "a line"]
    made = subprocess.run(command, cwd=packets.directory, capture_output=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    assert _send(packets.port, made.stdout.strip()) == [b"ACK", b"RECEIVED"]
    assert packets.rows() == ["a line"]


TUTORIAL = ROOT / "docs/tutorial.md"


@pytest.mark.slow
def test_the_tutorial_ends_as_it_says(tmp_path: Path) -> None:
    """Its blocks in their order: what it keeps running in another terminal runs in the background here."""
    page = TUTORIAL.read_text(encoding="utf-8")
    port, http = free_port(), free_port()

    def here(text: str) -> str:
        text = text.replace("9999", str(port)).replace("8080", str(http)).replace("venv/bin", f"{tmp_path}/bin")
        return text.replace("edgesocket run job.conf", f"edgesocket run {tmp_path}/job.conf")

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/activate").write_text("")
    (tmp_path / "bin/edgesocket").write_text(f'#!/bin/sh\nexec {sys.executable} -m edgesocket "$@"\n')
    (tmp_path / "bin/edgesocket").chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    def start(script: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(["sh", "-ec", here(script)], cwd=tmp_path, env=environ, text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    def finish(process: subprocess.Popen[str]) -> str:
        said, _ = process.communicate(timeout=100)
        assert process.returncode == 0, said
        return said

    (conf,) = fences(TUTORIAL, "hocon")
    (tmp_path / "job.conf").write_text(here(conf))
    install, check, run, send, count, status, slow, meanwhile, compare, stop = fences(TUTORIAL, "sh")
    assert "pip install" in install
    finish(start(check))
    jobs = [start(f"exec {run.splitlines()[1]}")]
    try:
        wait_until(lambda: _listens(port), 30, "the job listens")
        finish(start(send))
        said = finish(start(count))
        assert "watermark" in finish(start(status))
        with urllib.request.urlopen(f"http://127.0.0.1:{http}/", timeout=10) as answer:
            assert b"EdgeSocket" in answer.read()
        slow_one = start(slow)
        time.sleep(4)
        kill, again = [line for line in meanwhile.splitlines() if not line.startswith("#")]
        finish(start(kill))
        jobs.append(start(f"exec {again}"))
        finish(slow_one)
        said += finish(start(compare))
        assert said.split() == re.findall(r"^\d+$", page, re.MULTILINE) == ["100000", "100600", "0"]
        finish(start(stop))
        for job in jobs:
            job.wait(30)
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
