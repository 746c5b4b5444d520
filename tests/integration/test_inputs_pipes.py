"""The standard input and commands: lines out of pipes, with real processes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgesocket.collector.intake.exec_command import ExecInput
from edgesocket.collector.intake.framing import FramingOptions
from edgesocket.collector.intake.stdin import StdinInput
from tests.support.input_kit import Driver
from tests.support.jobs import wait_until


@pytest.fixture
def pipe() -> Iterator[tuple[int, Any]]:
    read_end, write_end = os.pipe()
    writer = os.fdopen(write_end, "wb", buffering=0)
    yield read_end, writer
    writer.close()
    os.close(read_end)


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


class TestStdin:
    def test_lines_are_records_and_the_end_is_one(self, pipe: tuple[int, Any]) -> None:
        descriptor, writer = pipe
        with Driver(StdinInput("stdin", FramingOptions(), None, descriptor)) as driver:
            writer.write(b"one\ntwo\r\nthr")
            driver.until(lambda: len(driver.records) == 2)
            writer.write(b"ee")
            assert not driver.input.ended
            writer.close()
            driver.until(lambda: driver.input.ended)
            assert driver.records == [b"one", b"two", b"three"]
            assert driver.input.descriptors() == []

    def test_a_line_without_an_end_is_a_record_after_a_while(self, pipe: tuple[int, Any]) -> None:
        descriptor, writer = pipe
        with Driver(StdinInput("stdin", FramingOptions(idle_flush_s=5.0), None, descriptor)) as driver:
            writer.write(b"prompt> ")
            driver.until(lambda: driver.input.next_time(driver.now) == driver.now + 5.0)
            driver.round()
            assert driver.records == []
            driver.tick(5.0)
            driver.round()
            assert driver.records == [b"prompt> "]
            assert driver.input.next_time(driver.now) is None

    def test_nothing_is_read_beyond_the_budget(self, pipe: tuple[int, Any]) -> None:
        descriptor, writer = pipe
        with Driver(StdinInput("stdin", FramingOptions(), None, descriptor)) as driver:
            writer.write(b"x\n" * 10_000)
            driver.round(budget=100)
            assert len(driver.records) == 50

    def test_what_had_begun_is_handed_out_when_it_closes(self, pipe: tuple[int, Any]) -> None:
        descriptor, writer = pipe
        driver = Driver(StdinInput("stdin", FramingOptions(), None, descriptor))
        writer.write(b"one\nbegun")
        driver.until(lambda: driver.records)
        assert driver.close() == [b"begun"]


class TestExec:
    def make(self, command: list[str], **options: Any) -> ExecInput:
        self.said: list[str] = []
        return ExecInput("df", command, FramingOptions(), None, self.said.append, **options)

    def test_it_runs_once_and_ends(self) -> None:
        with Driver(self.make(python("print('one'); print('two', end='')"))) as driver:
            driver.until(lambda: driver.input.ended)
            assert driver.records == [b"one", b"two"]
            assert self.said == []
            assert driver.input.counts["runs"] == 1

    def test_it_runs_again_when_its_time_has_come(self) -> None:
        with Driver(self.make(python("print('tick')"), every_s=60)) as driver:
            driver.until(lambda: driver.records and driver.input.pid is None)
            assert driver.input.next_time(driver.now) == 1060.0
            assert not driver.input.ended
            driver.tick(59.0)
            driver.round()
            assert driver.input.pid is None
            driver.tick(1.0)
            driver.until(lambda: len(driver.records) == 2)

    def test_what_it_complains_of_is_logged_with_a_limit(self) -> None:
        code = "import sys\nfor n in range(10): print('bad', n, file=sys.stderr)\nsys.exit(3)"
        with Driver(self.make(python(code), stderr_lines_a_minute=2)) as driver:
            driver.until(lambda: driver.input.ended)
            assert self.said[:2] == ["input df: bad 0", "input df: bad 1"]
            assert "left out" in self.said[2]
            assert self.said[3:] == ["input df: the command ended with exit code 3"]
            assert driver.input.counts["stderr_lines_left_out"] == 8
            assert driver.input.counts["runs_failed"] == 1

    def test_a_program_that_is_not_there_is_said_and_tried_again(self) -> None:
        with Driver(self.make(["/no/such/program"], every_s=10)) as driver:
            driver.round()
            assert "cannot run /no/such/program" in self.said[0]
            assert not driver.input.ended
            driver.tick(10.0)
            driver.round()
            assert len(self.said) == 2

    def test_a_run_that_takes_too_long_is_stopped(self) -> None:
        with Driver(self.make(python("import time; print('on', flush=True); time.sleep(60)"), timeout_s=5)) as driver:
            driver.until(lambda: driver.records)
            driver.tick(5.0)
            driver.until(lambda: driver.input.ended)
            assert "more than 5 s" in self.said[0]

    def test_one_that_does_not_want_to_stop_is_killed(self) -> None:
        code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('on', flush=True)\ntime.sleep(60)"
        with Driver(self.make(python(code), timeout_s=5)) as driver:
            driver.until(lambda: driver.records)
            driver.tick(5.0)
            driver.round()
            driver.tick(2.0)
            driver.until(lambda: driver.input.ended)
            assert self.said[-1].endswith("signal 9")

    def test_closing_ends_the_whole_group_and_keeps_what_was_printed(self) -> None:
        code = (
            "import os, subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\n"
            "os.write(1, b'%d\\nmore' % child.pid)\ntime.sleep(60)"
        )
        driver = Driver(self.make(python(code)))
        driver.until(lambda: driver.records)
        child, parent = int(driver.records[0]), driver.input.pid
        began = time.monotonic()
        assert driver.close() == [b"more"]
        assert time.monotonic() - began < 2.0, "asked is enough"
        for pid in (child, parent):
            assert pid is not None
            wait_until(lambda pid=pid: not alive(pid), 10.0, f"the end of {pid}")

    def test_while_nothing_is_read_the_command_waits(self, tmp_path: Path) -> None:
        done = tmp_path / "done"
        code = f"print('x' * 300_000, flush=True); open({str(done)!r}, 'w').close()"
        with Driver(self.make(python(code))) as driver:
            driver.round(full=True)
            wait_until(lambda: state(driver.input.pid) == "S", 10.0)
            for _ in range(20):
                driver.round(full=True)
            assert not done.exists()
            driver.until(lambda: driver.input.ended)
            assert done.exists()
            assert len(driver.records[0]) == 300_000

    def test_a_child_that_keeps_the_pipe_open_does_not_hold_the_run(self) -> None:
        code = (
            "import subprocess, sys\n"
            "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)'])\nprint(child.pid)"
        )
        with Driver(self.make(python(code))) as driver:
            driver.until(lambda: driver.records)
            try:
                driver.until(lambda: driver.input._run is None or driver.input._run.exited)
                driver.tick(1.0)
                driver.until(lambda: driver.input.ended)
            finally:
                os.kill(int(driver.records[0]), signal.SIGKILL)


def alive(pid: int) -> bool:
    return state(pid) not in ("", "Z")


def state(pid: int | None) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
