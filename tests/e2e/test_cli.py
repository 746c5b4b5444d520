"""The command line as a user has it: every verb against real jobs, and the examples of the README."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgesocket.errors import ExitCode
from tests.support.jobs import (
    ROOT,
    TOKEN,
    Job,
    Wire,
    edgesocket,
    free_port,
    rows,
    wait_for_ack,
    wait_until,
    write_job,
)

KEY = base64.b64encode(bytes(range(32))).decode()
PATIENCE_S = 30.0


def _expect(result: subprocess.CompletedProcess[str], code: int) -> str:
    """The command ended with `code`; returns what it printed on both streams."""
    text = result.stdout + result.stderr
    assert result.returncode == code, text
    return text


@contextmanager
def _running(directory: Path, *options: str, **job: str) -> Iterator[tuple[Job, Path, int]]:
    """A running job, its file and its port."""
    port = free_port()
    conf = write_job(directory, port, **job)
    with Job(conf, *options) as running:
        assert running.wait_until_listening(), running.log_text()
        yield running, conf, port


def _status(conf: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(_expect(edgesocket("status", conf, "--format", "json"), ExitCode.OK))
    return report


class TestRun:
    def test_it_greets_with_what_it_does_and_where(self, tmp_path: Path) -> None:
        with _running(tmp_path, source='endpoint = "edge.example.com:9999"') as (job, _, port):
            greeting = job.log_text()
            assert f"job job: EdgeSocket 0.0.0.0:{port}, collectors dial edge.example.com:9999 -> LocalFile" in greeting
            assert str(tmp_path / ".edgesocket" / "job") in greeting

    def test_what_a_file_leaves_out_is_filled_in_and_said(self, tmp_path: Path) -> None:
        port = free_port()
        conf = tmp_path / "bare.conf"
        conf.write_text(f'source {{ EdgeSocket {{ port = {port}, token = "{TOKEN}" }} }}\n')
        with Job(conf, stdout=subprocess.PIPE) as job:
            assert job.wait_until_listening(), job.log_text()
            notes = [line for line in job.log_text().splitlines() if "filled in" in line]
            assert len(notes) == 2, "one line each"
            assert "STREAMING" in notes[0]
            assert "Console" in notes[1]
            with Wire(port) as wire:
                assert wire.ask("__BATCH__:1:hello") == "RECEIVED"
            assert job.process.stdout is not None
            assert job.process.stdout.readline() == b"hello\n"
            assert job.stop() == ExitCode.OK, job.log_text()
            job.process.stdout.close()

        text = _expect(edgesocket("run", conf, "--strict"), ExitCode.CONFIG)
        assert "2 problems" in text
        assert "env: is missing" in text
        assert "sink: is missing" in text

    def test_check_reads_the_file_and_does_nothing(self, tmp_path: Path) -> None:
        with socket.create_server(("0.0.0.0", 0)) as taken:
            conf = write_job(tmp_path, taken.getsockname()[1])
            assert "can run" in _expect(edgesocket("run", conf, "--check"), ExitCode.OK)
        assert list(tmp_path.iterdir()) == [conf], "no state, no output"

    def test_every_problem_is_listed_before_the_port_is_bound(self, tmp_path: Path) -> None:
        with socket.create_server(("0.0.0.0", 0)) as taken:  # a bind would fail with another code
            source = "local_queue_capacty = 5\n queue_backpressure_watermark_ratio = 0\n max_retries = -2"
            conf = write_job(tmp_path, taken.getsockname()[1], source=source, env="checkpoint.interval = never")
            text = _expect(edgesocket("run", conf), ExitCode.CONFIG)
        assert "4 problems in the job file" in text
        for word in ("local_queue_capacty", "queue_backpressure_watermark_ratio", "max_retries", "checkpoint.interval"):
            assert word in text
        assert TOKEN not in text
        assert list(tmp_path.iterdir()) == [conf], "nothing was made"

    @pytest.mark.parametrize("conf", ["", "# nothing\n"], ids=["empty", "only a comment"])
    def test_a_file_without_a_source_is_refused(self, tmp_path: Path, conf: str) -> None:
        path = tmp_path / "empty.conf"
        path.write_text(conf)
        assert "no source" in _expect(edgesocket("run", path), ExitCode.CONFIG)

    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["frobnicate"],
            ["run"],
            ["run", "/nowhere/at/all.conf"],
            ["run", "--no-such-option", "job.conf"],
            ["settle", "job.conf", "5"],
            ["settle", "job.conf", "0", "--reason", "x"],
            ["settle", "job.conf", "9-3", "--reason", "x"],
            ["restore", "job.conf", "--accept", "newest"],
            ["status", "job.conf", "--format", "yaml"],
            ["send", "nowhere", "--token", "x"],
            ["send", "127.0.0.1:9"],
        ],
        ids=" ".join,
    )
    def test_bad_usage_is_64_with_a_message(self, arguments: list[str]) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EDGESOCKET_")}
        result = edgesocket(*arguments, env=environment)
        assert _expect(result, ExitCode.USAGE)
        assert "Traceback" not in result.stderr

    def test_a_taken_port_is_69_and_named_with_the_tries(self, tmp_path: Path) -> None:
        with socket.create_server(("0.0.0.0", 0)) as taken:
            port = taken.getsockname()[1]
            conf = write_job(tmp_path, port, source="max_retries = 2\n reconnect_interval_ms = 50")
            text = _expect(edgesocket("run", conf), ExitCode.UNAVAILABLE)
        assert f"cannot listen on port {port}" in text
        assert "tried 3 times" in text
        assert text.count("bind retried") == 2

    def test_waiting_for_a_port_ends_at_once_with_sigterm(self, tmp_path: Path) -> None:
        with socket.create_server(("0.0.0.0", 0)) as taken:
            source = "max_retries = -1\n reconnect_interval_ms = 100000"
            with Job(write_job(tmp_path, taken.getsockname()[1], source=source)) as job:
                wait_until(lambda: "bind retried" in job.log_text(), PATIENCE_S)
                assert job.stop() == ExitCode.OK, job.log_text()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_ends_it_with_everything_confirmed(self, tmp_path: Path, number: int) -> None:
        env = "checkpoint.interval = 600000"
        with _running(tmp_path, env=env) as (job, conf, port), Wire(port) as wire:
            assert wire.ask(*(f"__BATCH__:{n}:p{n}" for n in range(1, 101))) == " ".join(["RECEIVED"] * 100)
            assert wire.ask("__COMMIT__:100") == "PENDING"
            job.process.send_signal(number)
            assert job.wait() == ExitCode.OK, job.log_text()
            assert "every batch received is confirmed (watermark 100)" in job.log_text()
        assert rows(tmp_path / "out") == [f"p{n}" for n in range(1, 101)]

        with Job(conf) as again:
            assert again.wait_until_listening()
            with Wire(port) as wire:
                assert wire.ask("__COMMIT__:100") == "ACK:100"

    def test_a_second_sigterm_ends_it_at_once(self, tmp_path: Path) -> None:
        port = free_port()
        conf = write_job(tmp_path, port, sink="Console {}")
        with Job(conf, stdout=subprocess.PIPE) as job:  # nobody reads: the sink is stuck, and so is the first stop
            assert job.wait_until_listening()
            with Wire(port) as wire:
                assert wire.ask(f"__BATCH__:1:{'x' * 1_000_000}") == "RECEIVED"
                job.process.send_signal(signal.SIGTERM)
                assert wire.read() == "", "the conversation ends with the first one"
            assert job.process.poll() is None
            asked = time.monotonic()
            assert job.stop() == ExitCode.TRY_LATER
            assert time.monotonic() - asked < 3
            assert job.process.stdout is not None
            job.process.stdout.close()


class TestStatus:
    def test_a_job_that_never_ran(self, tmp_path: Path) -> None:
        conf = write_job(tmp_path, free_port())
        text = _expect(edgesocket("status", conf), ExitCode.USAGE)
        assert "has not run yet" in text
        assert str(tmp_path) in text

    def test_a_running_and_a_stopped_job(self, tmp_path: Path) -> None:
        with _running(tmp_path) as (job, conf, port):
            with Wire(port) as wire:
                assert wire.ask("__BATCH__:5:a", "__BATCH__:6:b") == "RECEIVED RECEIVED"
                assert wait_for_ack(wire, 6) == "ACK:6"
                wait_until(lambda: _status(conf)["live"]["source"]["watermark"] == 6, PATIENCE_S, "a fresh status")
                report = _status(conf)
                assert report["running"]
                assert report["job"] == "job"
                assert report["claimed_by"]["pid"] == report["live"]["pid"] == job.pid
                assert report["checkpoint"]["watermark"] == 6
                source = report["live"]["source"]
                assert source["port"] == source["listener"]["port"] == port
                assert source["collector"].startswith("127.0.0.1:")
                assert source["replies"]["RECEIVED"] == 2
                assert source["queue"]["records"] == 0

                text = _expect(edgesocket("status", conf), ExitCode.OK)
                assert "job job: running" in text
                assert f"port {port}, collector 127.0.0.1:" in text
                assert "confirmed up to batch 6" in text
                assert "RECEIVED 2" in text
            assert job.stop() == ExitCode.OK

            report = _status(conf)
            assert not report["running"]
            assert report["live"] is None
            assert report["ended"]["reason"] == ""
            assert report["checkpoint"]["watermark"] == 6
            text = _expect(edgesocket("status", conf), ExitCode.OK)
            assert "not running" in text
            assert "cleanly" in text

    def test_a_killed_job_shows_as_not_running_soon(self, tmp_path: Path) -> None:
        with _running(tmp_path) as (job, conf, _):
            wait_until(lambda: _status(conf)["running"], PATIENCE_S, "a first status")
            job.kill()
            wait_until(lambda: not _status(conf)["running"], PATIENCE_S, "noticing")
            assert "ended" not in _status(conf)


def _hold_two_and_three(wire: Wire) -> None:
    """Batches 2 and 3 are refused with QUEUE_FULL, and the collector goes on above them, which it should not."""
    assert wire.ask("__BATCH__:1:a", "__BATCH__:2:b", "__BATCH__:3:c") == "RECEIVED QUEUE_FULL:500 QUEUE_FULL:500"
    wait_until(lambda: wire.ask("__BATCH__:4:d") == "RECEIVED", PATIENCE_S, "room in the queue")
    assert wait_for_ack(wire, 1) == "ACK:1"
    assert wire.ask("__COMMIT__:4") == "PENDING"


class TestSettle:
    TINY = "local_queue_capacity = 1\n queue_full_wait_ms = 0"

    def test_a_running_job_lets_the_watermark_go(self, tmp_path: Path) -> None:
        with _running(tmp_path, source=self.TINY) as (job, conf, port), Wire(port) as wire:
            _hold_two_and_three(wire)
            holds = "batch 2 (held) holds the watermark"
            wait_until(lambda: holds in edgesocket("status", conf).stdout, PATIENCE_S, "the holder in the status")

            text = _expect(edgesocket("settle", conf, "2-3", "--reason", "scrapped"), ExitCode.OK)
            assert "settled 2-3" in text
            settled = time.monotonic()
            assert wait_for_ack(wire, 4) == "ACK:4"
            assert time.monotonic() - settled < 5, "a look a second, and a checkpoint"
            assert "operator settled 2-3" in job.log_text()
            assert job.stop() == ExitCode.OK

    def test_a_stopped_job_knows_it_at_its_next_start(self, tmp_path: Path) -> None:
        with _running(tmp_path, source=self.TINY) as (job, conf, port):
            with Wire(port) as wire:
                _hold_two_and_three(wire)
            assert job.stop() == ExitCode.OK
        _expect(edgesocket("settle", conf, "2", "3", "--reason", "scrapped"), ExitCode.OK)
        with Job(conf) as again:
            assert again.wait_until_listening(), again.log_text()
            with Wire(port) as wire:
                assert wait_for_ack(wire, 4) == "ACK:4"

    def test_a_job_that_never_ran_has_nothing_to_settle(self, tmp_path: Path) -> None:
        conf = write_job(tmp_path, free_port())
        assert "has not run yet" in _expect(edgesocket("settle", conf, "2", "--reason", "x"), ExitCode.USAGE)


class TestRestore:
    def test_after_damage_the_way_on_is_shown_and_works(self, tmp_path: Path) -> None:
        with _running(tmp_path) as (job, conf, port):
            with Wire(port) as wire:
                for n in range(1, 4):
                    assert wire.ask(f"__BATCH__:{n}:p{n}") == "RECEIVED"
                    assert wait_for_ack(wire, n) == f"ACK:{n}"
            job.kill()
        newest = max((tmp_path / ".edgesocket" / "job" / "log").glob("*.json"))
        assert '"commit"' in newest.read_text()
        newest.write_bytes(newest.read_bytes()[:-40])

        text = _expect(edgesocket("run", conf), ExitCode.CONFIG)
        assert newest.name in text
        way_on = re.search(r"edgesocket restore JOB --accept (\d+)", text)
        assert way_on, text
        assert f"DAMAGED log/{newest.name}" in _expect(edgesocket("status", conf), ExitCode.OK)
        listed = _expect(edgesocket("restore", conf), ExitCode.OK)
        assert f"damaged: log/{newest.name}" in listed
        assert f"checkpoint {way_on[1]} of " in listed
        assert "watermark 3" in listed, "the record is also in the blob, so nothing is lost"
        wrong = _expect(edgesocket("restore", conf, "--accept", "99999"), ExitCode.USAGE)
        assert way_on[1] in wrong, "the ones that can be accepted are named"

        text = _expect(edgesocket("restore", conf, "--accept", way_on[1]), ExitCode.OK)
        assert f"checkpoint {way_on[1]} of " in text
        with Job(conf) as again:
            assert again.wait_until_listening(), again.log_text()
            with Wire(port) as wire:
                assert wire.ask("__COMMIT__:3") == "ACK:3"
                assert wire.ask("__BATCH__:4:p4") == "RECEIVED"
                assert wait_for_ack(wire, 4) == "ACK:4"
            assert again.stop() == ExitCode.OK
        assert set(rows(tmp_path / "out")) == {"p1", "p2", "p3", "p4"}

    def test_a_running_job_is_left_alone(self, tmp_path: Path) -> None:
        with _running(tmp_path) as (job, conf, port), Wire(port) as wire:
            assert wire.ask("__BATCH__:1:a") == "RECEIVED"
            assert wait_for_ack(wire, 1) == "ACK:1"
            number = _status(conf)["checkpoint"]["number"]
            text = _expect(edgesocket("restore", conf, "--accept", str(number)), ExitCode.TRY_LATER)
            assert f"pid {job.pid}" in text
            assert wire.ask("__BATCH__:2:b") == "RECEIVED"


def _send(port: int, *options: str | Path, lines: bytes | None = None, **keywords: Any) -> Any:
    command = [sys.executable, "-m", "edgesocket", "send", f"127.0.0.1:{port}", *map(str, options), "--format", "json"]
    environment = {**os.environ, "EDGESOCKET_TOKEN": TOKEN, **keywords.pop("env", {})}
    return subprocess.run(
        command, input=lines, capture_output=True, cwd=ROOT, env=environment, timeout=90, check=False, **keywords
    )


class TestSend:
    def test_0_every_line_is_confirmed(self, tmp_path: Path) -> None:
        log = tmp_path / "app.log"
        log.write_text("".join(f"line {n}\n" for n in range(5000)))
        with _running(tmp_path) as (job, _, port):
            sent = _send(port, log, "--commit")
            assert sent.returncode == ExitCode.OK, sent.stderr
            summary = json.loads(sent.stdout)
            assert (summary["received"], summary["confirmed"], summary["left"]) == (5000, 5000, 0)
            assert rows(tmp_path / "out") == log.read_text().splitlines(), "confirmed means: already in the files"
            assert job.stop() == ExitCode.OK
        assert rows(tmp_path / "out") == log.read_text().splitlines(), "once, in order"

    @pytest.mark.parametrize("compression", ["gzip", "zlib", "deflate"])
    def test_0_with_packets_compressed_and_encrypted(self, tmp_path: Path, compression: str) -> None:
        key_file = tmp_path / "key"
        key_file.write_text(f"{KEY}\n")
        source = f'packet_mode = PACKET\n secret_key = "{KEY}"\n require_encryption = true'
        with _running(tmp_path, source=source) as (job, _, port):
            text = "".join(f"Zeile {n} äöü\n" for n in range(500))
            options = ("--packet", "--compress", compression, "--key-file", key_file, "--commit")
            sent = _send(port, *options, lines=text.encode())
            assert sent.returncode == ExitCode.OK, sent.stderr
            assert rows(tmp_path / "out") == text.splitlines()

            sent = _send(port, "--packet", lines=b"plain\n")
            assert sent.returncode == ExitCode.AUTH, "the source asks for encryption, and there is no key"
            assert job.stop() == ExitCode.OK

    def test_65_some_lines_are_refused_for_good_and_the_others_arrive(self, tmp_path: Path) -> None:
        with _running(tmp_path) as (_, _, port):
            sent = _send(port, "--commit", lines=b"good\nbad \xff\nalso good\n")
            assert sent.returncode == ExitCode.BAD_DATA, sent.stderr
            assert json.loads(sent.stdout)["refused"] == 1
            assert b"DECODE_FAILED" in sent.stderr
            assert rows(tmp_path / "out") == ["good", "also good"]

    def test_65_plain_lines_to_a_source_of_packets(self, tmp_path: Path) -> None:
        with _running(tmp_path, source="packet_mode = PACKET") as (_, _, port):
            sent = _send(port, lines=b"not a packet\n")
            assert sent.returncode == ExitCode.BAD_DATA, sent.stderr
            assert b"DECODE_FAILED" in sent.stderr

    def test_69_nobody_listens(self) -> None:
        sent = _send(free_port(), "--connect-timeout", "0.5", lines=b"a\n")
        assert sent.returncode == ExitCode.UNAVAILABLE, sent.stderr

    def test_77_wrong_token(self, tmp_path: Path) -> None:
        with _running(tmp_path) as (_, _, port):
            sent = _send(port, lines=b"a\n", env={"EDGESOCKET_TOKEN": "wrong"})
            assert sent.returncode == ExitCode.AUTH, sent.stderr
            assert b"wrong" not in sent.stderr

    def test_75_the_job_is_killed_meanwhile_and_what_is_left_is_counted(self, tmp_path: Path) -> None:
        with _running(tmp_path, env="checkpoint.interval = 600000") as (job, conf, port):
            command = [sys.executable, "-m", "edgesocket", "send", f"127.0.0.1:{port}", "--commit", "--format", "json"]
            sending = subprocess.Popen(
                [*command, "--timeout", "2"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                env={**os.environ, "EDGESOCKET_TOKEN": TOKEN},
            )
            assert sending.stdin is not None
            sending.stdin.write(b"a\nb\nc\n")
            sending.stdin.flush()
            wait_until(
                lambda: (_status(conf)["live"] or {}).get("source", {}).get("replies", {}).get("RECEIVED") == 3,
                PATIENCE_S,
                "RECEIVED three times",
            )
            job.kill()
            out, error = sending.communicate(timeout=PATIENCE_S)
            assert sending.returncode == ExitCode.TRY_LATER, error
            summary = json.loads(out)
            assert (summary["received"], summary["confirmed"], summary["left"]) == (3, 0, 3)

    def test_it_goes_on_over_a_restart_of_the_job(self, tmp_path: Path) -> None:
        log = tmp_path / "app.log"
        log.write_text("".join(f"line {n}\n" for n in range(20_000)))
        with _running(tmp_path) as (job, conf, port):
            command = [sys.executable, "-m", "edgesocket", "send", f"127.0.0.1:{port}", str(log), "--commit"]
            sending = subprocess.Popen(
                command, stderr=subprocess.PIPE, cwd=ROOT, env={**os.environ, "EDGESOCKET_TOKEN": TOKEN}
            )
            wait_until(lambda: rows(tmp_path / "out"), PATIENCE_S, "a first file")
            job.kill()
            with Job(conf) as again:
                _, error = sending.communicate(timeout=60)
                assert sending.returncode == ExitCode.OK, error
                assert again.stop() == ExitCode.OK
        assert set(rows(tmp_path / "out")) == set(log.read_text().splitlines())


def _fenced_blocks(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


class TestReadme:
    def test_the_job_file_can_run(self, tmp_path: Path) -> None:
        (block,) = _fenced_blocks("hocon")
        conf = tmp_path / "job.conf"
        conf.write_text(block)
        _expect(edgesocket("run", conf, "--check", "--strict"), ExitCode.OK)

    @pytest.mark.skipif(shutil.which("nc") is None, reason="the shell's collector needs nc (netcat-openbsd)")
    def test_a_shell_is_a_collector(self, tmp_path: Path) -> None:
        (block,) = [block for block in _fenced_blocks("sh") if "| nc " in block]
        lines = tmp_path / "syslog"
        lines.write_text("".join(f'line {n}: it\'s a "log" \\ line\n' for n in range(150)))
        with _running(tmp_path, source='token = "my-edge-token"') as (job, _, port):
            for there, here in {
                "/var/log/syslog": str(lines),
                "9999": str(port),
                "sleep 12": "sleep 2",  # checkpoints come every 50 ms here
            }.items():
                assert there in block, f"the README does not say {there} any more"
                block = block.replace(there, here)
            shell = subprocess.run(["sh", "-c", block], capture_output=True, text=True, timeout=60, check=False)
            assert shell.returncode == 0, shell.stderr
            answers = [line.split() for line in shell.stdout.splitlines()]
            assert answers == [["1", "ACK"], ["100", "RECEIVED"], ["1", "ACK:100"]], shell.stdout
            (shown,) = [block for block in _fenced_blocks("text") if "RECEIVED" in block]
            assert [line.split()[:2] for line in shown.splitlines()] == answers, "what the README promises"
            assert job.stop() == ExitCode.OK
        assert rows(tmp_path / "out") == lines.read_text().splitlines()[-100:]

    def test_the_quick_start_shows_something_and_ends_within_a_minute(self, tmp_path: Path) -> None:
        shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns(".edgesocket"))
        started = time.monotonic()
        result = subprocess.run(
            [sys.executable, "examples/quickstart.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert time.monotonic() - started < 60
        out = tmp_path / "out" / "quickstart"
        sent = (out / "sent-lines.txt").read_text(encoding="utf-8").split("\n")[:-1]
        files = [path.read_text(encoding="utf-8") for path in sorted(out.glob("part-*.json"))]
        found = [json.loads(line)["value"] for file in files for line in file.split("\n")[:-1]]
        assert found == sent, "every line, once, in order"
        for word in ("lines sent", "confirmed by checkpoints", str(out)):
            assert word in result.stdout
