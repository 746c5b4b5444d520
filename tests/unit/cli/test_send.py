"""`edgesocket send`: arguments, what goes out, exit codes, the summary, signals, bounded reading."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edgesocket.cli import send
from edgesocket.cli.send_options import DEFAULT_MAX_PAYLOAD_BYTES, parse_address
from edgesocket.cli.send_report import RareLines, Reporter
from edgesocket.collector.inputs import LineInput
from edgesocket.errors import UsageError
from edgesocket.packet.codec import PacketDecoder
from edgesocket.packet.compression import inflate
from edgesocket.testing.scripted_ingress import (
    ScriptedIngress,
    answer,
    auth,
    expect,
    expect_batches,
    expect_eof,
    pause,
    quiet,
    reply,
)

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGESOCKET_TOKEN", raising=False)
    monkeypatch.delenv("EDGESOCKET_SECRET_KEY", raising=False)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    send.add_parser(parser.add_subparsers())
    return parser.parse_args(["send", *arguments])


def run(*arguments: str) -> int:
    return send.run(parse(arguments))


def run_to(ingress: ScriptedIngress, *arguments: str) -> int:
    return run(f"127.0.0.1:{ingress.port}", "--token", "secret", *arguments)


def start(ingress: ScriptedIngress, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """The command in a process of its own, with pipes."""
    program = (
        "import argparse, sys; from edgesocket.cli import send; p = argparse.ArgumentParser();"
        "send.add_parser(p.add_subparsers()); sys.exit(send.run(p.parse_args(sys.argv[1:])))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, "send", f"127.0.0.1:{ingress.port}", "--token", "secret", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def written(tmp_path: Path, data: bytes, name: str = "lines.txt") -> str:
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


RECEIVE_ALL = answer(lambda _: "RECEIVED")


def payloads(ingress: ScriptedIngress, talk: int = 0) -> list[bytes]:
    return [line.split(b":", 2)[2] for line in ingress.requests[talk] if line.startswith(b"__BATCH__:")]


class TestWhatGoesOut:
    def test_each_line_is_one_batch_without_its_line_end(self, tmp_path: Path) -> None:
        name = written(tmp_path, b"a\r\nb:c\n\n  d \n\xff\r\r\nlast")
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, name, "--first-id", "5") == 0
        assert ingress.requests[0][1:] == [
            b"__BATCH__:5:a",
            b"__BATCH__:6:b:c",
            b"__BATCH__:7:",
            b"__BATCH__:8:  d ",
            b"__BATCH__:9:\xff\r\r",
            b"__BATCH__:10:last",
        ]

    def test_several_files_follow_each_other_and_do_not_join(self, tmp_path: Path) -> None:
        names = [written(tmp_path, data, f"{n}") for n, data in enumerate([b"a\nb", b"", b"c\n"])]
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, *names) == 0
        assert payloads(ingress) == [b"a", b"b", b"c"]

    @pytest.mark.parametrize("arguments", [[], ["-"]])
    def test_no_file_or_a_dash_is_the_standard_input(self, arguments: list[str]) -> None:
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            process = start(ingress, *arguments)
            _, errors = process.communicate(b"one\ntwo\n", timeout=20)
            assert process.returncode == 0, errors
        assert payloads(ingress) == [b"one", b"two"]

    def test_ids_begin_at_the_time_in_microseconds(self, tmp_path: Path) -> None:
        before = time.time_ns() // 1000
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\nb\n")) == 0
        ids = [int(line.split(b":")[1]) for line in ingress.requests[0][1:]]
        assert before <= ids[0] <= time.time_ns() // 1000
        assert ids[1] == ids[0] + 1

    def test_a_line_from_a_pipe_goes_at_once(self) -> None:
        with ScriptedIngress([auth("secret"), expect_batches(1, 1), reply("RECEIVED"), RECEIVE_ALL]) as ingress:
            process = start(ingress, "--first-id", "1")
            assert process.stdin is not None
            process.stdin.write(b"early\n")
            process.stdin.flush()
            deadline = time.monotonic() + 10
            while not (ingress.requests and len(ingress.requests[0]) > 1) and time.monotonic() < deadline:
                time.sleep(0.01)
            assert payloads(ingress) == [b"early"]
            process.communicate(timeout=20)
            assert process.returncode == 0

    def test_empty_input_connects_and_is_done(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with ScriptedIngress([auth("secret"), expect_eof()]) as ingress:
            assert run_to(ingress, written(tmp_path, b"")) == 0
        assert "sent 0, received 0, confirmed 0, refused 0, resent 0, left 0" in capsys.readouterr().err


class TestPackets:
    def opened(self, ingress: ScriptedIngress) -> list[bytes]:
        decoder = PacketDecoder(bytes(range(32)), False, 1 << 20)
        packets = [decoder.open(payload) for payload in payloads(ingress)]
        return [inflate(packet.compressed_bytes, packet.compression, 1 << 20) for packet in packets]

    @pytest.mark.parametrize("compress", [None, "gzip", "zlib", "deflate"])
    def test_plain_packets(self, tmp_path: Path, compress: str | None) -> None:
        options = ["--compress", compress] if compress else []
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, written(tmp_path, "a\ngrün\n".encode()), "--packet", *options) == 0
        assert self.opened(ingress) == [b"a", "grün".encode()]
        envelope = json.loads(payloads(ingress)[0])
        assert (envelope["compression"], envelope["encryption"]) == ((compress or "none").upper(), "NONE")

    @pytest.mark.parametrize("place", ["file", "environment"])
    def test_a_key_encrypts_with_an_iv_of_its_own_each(
        self, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = ["--key-file", written(tmp_path, KEY.encode() + b"\n", "key")] if place == "file" else []
        if place == "environment":
            monkeypatch.setenv("EDGESOCKET_SECRET_KEY", KEY)
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\na\n"), "--packet", "--compress", "gzip", *options) == 0
        assert self.opened(ingress) == [b"a", b"a"]
        envelopes = [json.loads(payload) for payload in payloads(ingress)]
        assert [envelope["encryption"] for envelope in envelopes] == ["AES_GCM", "AES_GCM"]
        assert envelopes[0]["iv"] != envelopes[1]["iv"]

    def test_a_key_in_the_environment_changes_nothing_about_raw_lines(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("EDGESOCKET_SECRET_KEY", KEY)
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\n")) == 0
        assert payloads(ingress) == [b"a"]

    def test_a_packet_longer_than_a_line_may_be_is_refused_here(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            name = written(tmp_path, b"x" * 100 + b"\nok\n")
            assert run_to(ingress, name, "--packet", "--max-line-bytes", "150", "--first-id", "1") == 65
        assert self.opened(ingress) == [b"ok"]
        assert "a packet of 203 bytes is longer" in capsys.readouterr().err


class TestSecrets:
    def test_the_token_comes_from_a_file_without_its_line_end(self, tmp_path: Path) -> None:
        token_file = written(tmp_path, b"from file\r\n", "token")
        with ScriptedIngress([auth("from file"), expect_eof()]) as ingress:
            name = written(tmp_path, b"")
            assert run(f"127.0.0.1:{ingress.port}", name, "--token-file", token_file) == 0

    def test_the_token_comes_from_the_environment(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("EDGESOCKET_TOKEN", "grün")
        with ScriptedIngress([auth("grün"), expect_eof()]) as ingress:
            assert run(f"127.0.0.1:{ingress.port}", written(tmp_path, b"")) == 0

    def test_help_recommends_the_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            parse(["--help"])
        text = capsys.readouterr().out
        assert "prefer --token-file" in text
        assert "microseconds" in text

    def test_neither_token_nor_key_nor_line_is_printed(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        key_file = written(tmp_path, KEY.encode(), "key")
        script = [auth("secret-token"), expect_batches(1, 1), reply("DECODE_FAILED")]
        with ScriptedIngress(script) as ingress:
            arguments = ["--token", "secret-token", "--packet", "--key-file", key_file, "--first-id", "1"]
            assert run(f"127.0.0.1:{ingress.port}", written(tmp_path, b"private line\n"), *arguments) == 65
        shown = "".join(capfd.readouterr())
        for secret in ("secret-token", KEY, "private line"):
            assert secret not in shown


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["localhost"], "localhost is not HOST:PORT"),
            (["localhost:0"], "not HOST:PORT"),
            (["localhost:65536"], "not HOST:PORT"),
            (["localhost:99999999999"], "not HOST:PORT"),
            (["localhost:٣"], "not HOST:PORT"),
            ([":99"], "not HOST:PORT"),
            (["::1:99"], "not HOST:PORT"),
            (["localhost:9", "--window", "0"], "--window must be greater than 0"),
            (["localhost:9", "--window-bytes", "-1"], "--window-bytes must be greater than 0"),
            (["localhost:9", "--retain-bytes", "0"], "--retain-bytes must be greater than 0"),
            (["localhost:9", "--max-line-bytes", "0"], "--max-line-bytes must be greater than 0"),
            (["localhost:9", "--timeout", "-1"], "--timeout must be 0 or greater"),
            (["localhost:9", "--timeout", "nan"], "--timeout must be 0 or greater"),
            (["localhost:9", "--connect-timeout", "nan"], "--connect-timeout must be greater than 0"),
            (["localhost:9", "--first-id", "0"], "--first-id must be in 1"),
            (["localhost:9", "--first-id", "9223372036854775808"], "--first-id must be in 1"),
            (["localhost:9", "--token", "a\nb"], "the token holds a line feed"),
            (["localhost:9", "--token-file", "/none", "--token", "x"], "exclude each other"),
            (["localhost:9", "--compress", "gzip"], "--compress needs --packet"),
            (["localhost:9", "--key-file", "x"], "--key-file needs --packet"),
            (["localhost:9", "/no/such/file"], "cannot read /no/such/file"),
            (["localhost:9", "/"], "cannot read /"),
        ],
    )
    def test_what_is_off_is_said_and_is_64(
        self, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = [] if "--token" in arguments else ["--token", "secret"]
        assert run(*arguments, *options) == 64
        assert message in capsys.readouterr().err

    def test_no_token_is_off(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("localhost:9") == 64
        assert "no token: give --token-file" in capsys.readouterr().err

    @pytest.mark.parametrize("data", [None, b"", b"two\nlines\n"])
    def test_a_token_file_must_be_there_and_hold_one_line(
        self, tmp_path: Path, data: bytes | None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = str(tmp_path / "none") if data is None else written(tmp_path, data, "token")
        assert run("localhost:9", "--token-file", name) == 64
        assert name in capsys.readouterr().err

    @pytest.mark.parametrize("text", ["short", KEY[:-4]])
    def test_a_key_must_be_one_and_is_not_quoted(
        self, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ["--token", "t", "--packet", "--key-file", written(tmp_path, text.encode(), "key")]
        assert run("localhost:9", *arguments) == 64
        shown = capsys.readouterr().err
        assert "the secret key" in shown
        assert text not in shown

    def test_addresses(self) -> None:
        assert parse_address("edge.example:9999") == ("edge.example", 9999)
        assert parse_address("[::1]:1") == ("::1", 1)
        with pytest.raises(UsageError):
            parse_address("[::1]")


class TestExitCodes:
    def test_auth_failed_is_77(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with ScriptedIngress([expect("__AUTH__:secret"), reply("AUTH_FAILED")]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\n")) == 77
        assert "refused the token" in capsys.readouterr().err

    def test_decrypt_failed_is_77_and_says_what_is_left(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with ScriptedIngress([auth("secret"), expect_batches(1, 1), reply("DECRYPT_FAILED")]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\n"), "--packet", "--first-id", "1") == 77
        shown = capsys.readouterr().err
        assert "the same secret key" in shown
        assert "left 1" in shown

    def test_rejected_is_75(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with ScriptedIngress([expect("__AUTH__:secret"), reply("REJECTED")]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\n")) == 75
        assert "another collector is connected" in capsys.readouterr().err

    def test_no_connection_is_69(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        began = time.monotonic()
        name = written(tmp_path, b"a\n")
        assert run(f"127.0.0.1:{port}", "--token", "t", "--connect-timeout", "0.3", name) == 69
        assert time.monotonic() - began < 5
        assert f"cannot connect to 127.0.0.1:{port}: Connection refused" in capsys.readouterr().err

    def test_refused_lines_are_65_with_reasons(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = iter(["RECEIVED", "DECODE_FAILED", "RECEIVED"])
        with ScriptedIngress([auth("secret"), answer(lambda _: next(words))]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\nbad\nc\n"), "--first-id", "1") == 65
        shown = capsys.readouterr().err
        assert "refused: batch 2 (3 bytes): DECODE_FAILED" in shown
        assert "sent 3, received 2, confirmed 0, refused 1, resent 0, left 0" in shown

    def test_many_reasons_are_rate_limited(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with ScriptedIngress([auth("secret"), answer(lambda _: "DECODE_FAILED")]) as ingress:
            assert run_to(ingress, written(tmp_path, b"x\n" * 500)) == 65
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) < 20
        told = sum("refused: batch" in line for line in lines)
        kept = sum(int(found[1]) for line in lines if (found := re.search(r"and (\d+) more", line)))
        assert told + kept == 500

    def test_no_progress_is_75_with_the_count_left(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        script = [auth("secret"), expect_batches(1, 3), reply("RECEIVED"), expect_eof()]
        with ScriptedIngress(script) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\nb\nc\n"), "--first-id", "1", "--timeout", "0.3") == 75
        shown = capsys.readouterr().err
        assert "no progress for 0.3 s" in shown
        assert "sent 3, received 1, confirmed 0, refused 0, resent 0, left 2" in shown

    def test_a_file_that_vanishes_is_said_with_the_summary(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        second = written(tmp_path, b"b\n", "second")

        def vanish(_line: bytes) -> str:
            Path(second).unlink(missing_ok=True)
            return "RECEIVED"

        first = written(tmp_path, (b"a" * 1000 + b"\n") * 200, "first")
        with ScriptedIngress([auth("secret"), answer(vanish)]) as ingress:
            assert run_to(ingress, first, second, "--window", "2") == 64
        shown = capsys.readouterr().err
        assert f"cannot read {second}: No such file" in shown
        assert re.search(r"sent \d+, received", shown)

    def test_after_the_largest_id_it_stops_and_does_not_wrap(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        largest = 9223372036854775807
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\nb\nc\n"), "--first-id", str(largest - 1)) == 64
        assert ingress.requests[0][1:] == [b"__BATCH__:%d:a" % (largest - 1), b"__BATCH__:%d:b" % largest]
        shown = capsys.readouterr().err
        assert f"no batch id is left above {largest}" in shown
        assert "received 2" in shown
        assert "left 1" in shown


class TestCommit:
    def test_it_waits_until_everything_is_confirmed(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        script = [
            auth("secret"),
            expect_batches(1, 2),
            reply("RECEIVED", "RECEIVED"),
            expect("__COMMIT__:2"),
            reply("PENDING"),
            expect("__COMMIT__:2"),
            reply("ACK:2"),
            expect_eof(),
        ]
        with ScriptedIngress(script) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\nb\n"), "--first-id", "1", "--commit") == 0
        assert "received 2, confirmed 2" in capsys.readouterr().err

    def test_without_it_nothing_is_polled(self, tmp_path: Path) -> None:
        with ScriptedIngress(
            [auth("secret"), expect_batches(1, 1), quiet(0.3), reply("RECEIVED"), expect_eof()]
        ) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\n"), "--first-id", "1") == 0

    def test_a_broken_connection_in_between_loses_nothing(self, tmp_path: Path) -> None:
        first = [auth("secret"), expect_batches(1, 3), reply("RECEIVED", "RECEIVED")]
        second = [
            auth("secret"),
            expect("__COMMIT__:1"),
            reply("ACK:1"),
            expect_batches(2, 3),
            reply("RECEIVED", "RECEIVED"),
            expect("__COMMIT__:3"),
            reply("ACK:3"),
        ]
        with ScriptedIngress(first, second) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\nb\nc\n"), "--first-id", "1", "--commit") == 0


class TestSummary:
    def test_json_goes_to_the_standard_output(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, written(tmp_path, b"a\nb\n"), "--first-id", "7", "--format", "json") == 0
        captured = capsys.readouterr()
        facts = json.loads(captured.out)
        assert facts.pop("seconds") >= 0
        assert facts == {
            "sent": 2,
            "received": 2,
            "confirmed": 0,
            "refused": 0,
            "resent": 0,
            "left": 0,
            "first_id": 7,
            "last_id": 8,
            "exit_code": 0,
        }
        assert captured.err == ""

    def test_progress_is_shown_on_a_terminal_only(self) -> None:
        class Screen:
            def __init__(self, terminal: bool) -> None:
                self.text, self.terminal = "", terminal

            def isatty(self) -> bool:
                return self.terminal

            def write(self, text: str) -> None:
                self.text += text

            def flush(self) -> None:
                pass

        for terminal in (True, False):
            screen: Any = Screen(terminal)
            reporter = Reporter(screen, "x: ", interval_s=0.5)
            reporter.progress(lambda: "half", 100.0)
            reporter.progress(lambda: "too soon", 100.4)
            reporter.line("note")
            reporter.progress(lambda: "more", 100.5)
            shown = "\r\x1b[Khalf\r\x1b[Kx: note\n\r\x1b[Kmore" if terminal else "x: note\n"
            assert screen.text == shown

    def test_rare_lines_pass_a_few_and_count_the_rest(self) -> None:
        now = [0.0]
        lines: list[str] = []
        rare = RareLines(lines.append, first=2, interval_s=1.0, clock=lambda: now[0])
        for n in range(5):
            rare.line(f"{n}")
        assert lines == ["0", "1"]
        now[0] = 1.0
        rare.line("5")
        assert lines == ["0", "1", "... and 3 more like that", "5"]
        rare.line("6")
        rare.close()
        rare.close()
        assert lines[4:] == ["... and 1 more like that"]


class TestLongLines:
    def test_the_default_limit_fits_the_ingress_with_the_longest_id(self) -> None:
        assert len(b"__BATCH__:9223372036854775807:") + DEFAULT_MAX_PAYLOAD_BYTES == 16 * 1024 * 1024

    def test_a_line_that_is_too_long_is_skipped_counted_and_placed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        name = written(tmp_path, b"a\n" + b"x" * 11 + b"\n" + b"y" * 10 + b"\r\nb\n" + b"z" * 200_000)
        with ScriptedIngress([auth("secret"), RECEIVE_ALL]) as ingress:
            assert run_to(ingress, name, "--max-line-bytes", "10", "--first-id", "1") == 65
        assert ingress.requests[0][1:] == [b"__BATCH__:1:a", b"__BATCH__:2:" + b"y" * 10, b"__BATCH__:3:b"]
        shown = capsys.readouterr().err
        assert f"not sent: {name}:2: the line is longer than --max-line-bytes (10)" in shown
        assert f"{name}:5: the line is longer" in shown
        assert "refused 2" in shown

    def test_a_huge_line_does_not_grow_the_process(self) -> None:
        program = """
import os, resource, threading
from edgesocket.collector.inputs import LineInput
read_end, write_end = os.pipe()
os.dup2(read_end, 0)
def write():
    for _ in range(200):
        os.write(write_end, b"x" * (1 << 20))
    os.write(write_end, b"\\nok\\n")
    os.close(write_end)
threading.Thread(target=write).start()
source = LineInput(["-"], 1 << 20, 65536)
lines = []
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
while not source.ended:
    lines += source.read()
assert lines == [b"ok"], lines
assert source.skipped == ["stdin:1"], source.skipped
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < 8 * 1024  # KiB, for a line of 200 MiB


class TestBoundedReading:
    def test_a_pipe_is_read_no_further_than_the_window(self) -> None:
        """An ingress that answers nothing makes the writer of the pipe wait."""
        line = b"z" * 999 + b"\n"
        with ScriptedIngress([auth("secret"), pause(1.0), RECEIVE_ALL]) as ingress:
            process = start(ingress, "--window", "4", "--window-bytes", "8000")
            assert process.stdin is not None
            os.set_blocking(process.stdin.fileno(), False)
            taken, deadline = 0, time.monotonic() + 0.7
            while time.monotonic() < deadline:
                try:
                    taken += os.write(process.stdin.fileno(), line)
                except BlockingIOError:
                    time.sleep(0.01)
            pipe_bytes = 64 * 1024
            assert pipe_bytes / 2 < taken <= pipe_bytes + 8000 + 8000 + len(line)
            os.set_blocking(process.stdin.fileno(), True)
            process.communicate(timeout=20)
            assert process.returncode == 0
        assert sum(len(payload) + 1 for payload in payloads(ingress)) in (taken, taken + 1)

    def test_lines_are_the_same_however_they_are_read(self, tmp_path: Path) -> None:
        data = b"one\r\n\n" + b"t" * 50 + b"\nlast\r"
        for read_bytes in (1, 2, 3, 7, 1000):
            source = LineInput([written(tmp_path, data)], 40, read_bytes)
            lines: list[bytes] = []
            while not source.ended:
                lines += source.read()
            assert lines == [b"one", b"", b"last"]
            assert len(source.skipped) == 1


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_stops_reading_says_what_is_left_and_is_75(self, number: signal.Signals) -> None:
        script = [auth("secret"), expect_batches(1, 3), reply("RECEIVED"), expect_batches(4, 4), expect_eof()]
        with ScriptedIngress(script) as ingress:
            process = start(ingress, "--first-id", "1", "--window", "3")
            assert process.stdin is not None
            process.stdin.write(b"a\nb\nc\nd\ne\n")
            process.stdin.flush()
            deadline = time.monotonic() + 10
            while not (ingress.requests and len(ingress.requests[0]) == 5) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(number)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 75, errors
            assert b"sent 4, received 1, confirmed 0, refused 0, resent 0, left 4" in errors

    def test_replies_on_their_way_still_count(self) -> None:
        """What is received within a second after the signal is not reported as left."""
        script = [auth("secret"), expect_batches(1, 1), pause(0.5), reply("RECEIVED"), expect_eof()]
        with ScriptedIngress(script) as ingress:
            process = start(ingress, "--first-id", "1")
            assert process.stdin is not None
            process.stdin.write(b"a\n")
            process.stdin.flush()
            deadline = time.monotonic() + 10
            while not (ingress.requests and len(ingress.requests[0]) == 2) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 75, errors
            assert b"sent 1, received 1, confirmed 0, refused 0, resent 0, left 0" in errors

    def test_a_second_signal_ends_at_once(self) -> None:
        with ScriptedIngress([auth("secret"), expect_batches(1, 1), expect_eof()]) as ingress:
            process = start(ingress, "--first-id", "1")
            assert process.stdin is not None
            process.stdin.write(b"a\n")
            process.stdin.flush()
            deadline = time.monotonic() + 10
            while not (ingress.requests and len(ingress.requests[0]) == 2) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 75, errors
            assert b"left 1" in errors

    def test_a_signal_while_connecting_ends_it(self) -> None:
        with ScriptedIngress([expect("__AUTH__:secret"), expect_eof()]) as ingress:
            process = start(ingress)
            deadline = time.monotonic() + 10
            while not (ingress.requests and ingress.requests[0]) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=20)
            assert process.returncode == 75, errors


def test_it_runs_on_the_standard_library_alone() -> None:
    program = (
        "import sys; from edgesocket.cli import send; extras = {'numpy', 'pyarrow', 'xxhash', 'lark', 'cryptography'};"
        "bad = extras & set(sys.modules); sys.exit(repr(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
