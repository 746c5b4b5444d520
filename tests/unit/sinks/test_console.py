"""ConsoleSink: what is printed, in how many writes, and what a broken output means."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from edgesocket.components.sink import SinkContext
from edgesocket.errors import ComponentError, ConfigError
from edgesocket.rows import Rows
from edgesocket.sinks import console
from edgesocket.sinks.console import ConsoleSink
from edgesocket.testing.sink_story import listed_block, received_block

CONTEXT = SinkContext(job="job", epoch=1, sink_id="Console")


class Terminal(io.RawIOBase):
    """Takes at most `room` bytes a write."""

    def __init__(self, room: int = 1 << 30) -> None:
        self.writes: list[bytes] = []
        self.room = room

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        self.writes.append(bytes(data[: self.room]))
        return len(self.writes[-1])


def opened(**options) -> ConsoleSink:
    sink = ConsoleSink(**options)
    sink.open(CONTEXT)
    return sink


def run_with_console(code: str) -> subprocess.CompletedProcess[bytes]:
    """Run code in a process whose standard output is a pipe."""
    head = """
from edgesocket.components.sink import SinkContext
from edgesocket.rows import Rows
from edgesocket.sinks.console import ConsoleSink
from edgesocket.testing.sink_story import listed_block
def opened():
    sink = ConsoleSink()
    sink.open(SinkContext(job="job", epoch=1, sink_id="Console"))
    return sink
"""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run([sys.executable, "-c", head + code], capture_output=True, timeout=60, env=buffered)


@pytest.mark.parametrize("make", [received_block, listed_block])
def test_a_block_is_one_write(make) -> None:
    terminal = Terminal()
    opened(stream=terminal).write(Rows.of_records(make([b"row"] * 5000)))
    assert terminal.writes == [b"row\n" * 5000]


def test_rows_show_before_any_checkpoint(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    opened().write(Rows.of_records(listed_block([b"a", b"b"])))
    assert capfdbinary.readouterr().out == b"a\nb\n"


def test_rows_follow_what_was_printed_before() -> None:
    done = run_with_console('print("first"); opened().write(Rows.of_records(listed_block([b"row"]))); print("last")')
    assert done.stdout == b"first\nrow\nlast\n"


def test_format_json_escapes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    opened(format="JSON").write(Rows.of_records(listed_block([b'say "hi"\x1b[2J'])))
    assert capfdbinary.readouterr().out == b'{"value": "say \\"hi\\"\\u001b[2J"}\n'


def test_without_log_print_data_nothing_is_printed() -> None:
    terminal = Terminal()
    sink = opened(stream=terminal, log_print_data=False)
    sink.write(Rows.of_records(listed_block([b"a"])))
    assert sink.prepare(1) == {}
    assert terminal.writes == []


def test_the_delay_comes_once_a_block() -> None:
    pauses: list[float] = []
    sink = opened(stream=Terminal(), log_print_delay_ms=250, sleep=pauses.append)
    sink.write(Rows.of_records(listed_block([b"a"] * 100)))
    sink.write(Rows.of_records(listed_block([b"a"])))
    assert pauses == [0.25, 0.25]


def test_an_output_that_takes_part_of_a_write_gets_the_rest() -> None:
    terminal = Terminal(room=3)
    opened(stream=terminal).write(Rows.of_records(listed_block([b"abcdefg"])))
    assert terminal.writes == [b"abc", b"def", b"g\n"]


def test_a_full_non_blocking_pipe_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who shares our output made it non-blocking: that loses nothing, and nobody spins until there is room."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    taken = bytearray()

    class Reader:
        """Reads when the sink waits for it."""

        def register(self, stream, events: int) -> None:
            pass

        def poll(self, timeout: int | None = None) -> list[tuple[int, int]]:
            taken.extend(os.read(reading, 1 << 20))
            return []

    monkeypatch.setattr(console.select, "poll", Reader)
    with os.fdopen(writing, "wb") as stream:
        sink = opened(stream=stream)
        sink.write(Rows.of_records(listed_block([b"x" * 999] * 1000)))
        sink.prepare(1)
    os.close(reading)
    assert taken == (b"x" * 999 + b"\n") * 1000


@pytest.mark.parametrize("call", ["write", "prepare"])
def test_a_pipe_that_nobody_reads_is_an_error_for_good(call: str) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as stream:
        sink = opened(stream=stream)
        sink.write(Rows.of_records(listed_block([b"a"])))
        sink.prepare(1)
        os.close(reading)
        with pytest.raises(ComponentError, match="cannot print") as caught:
            sink.write(Rows.of_records(listed_block([b"b"]))) if call == "write" else sink.prepare(2)
        assert not caught.value.retryable
        sink.close()


def test_a_full_device_is_an_error_that_may_heal() -> None:
    with Path("/dev/full").open("wb") as stream:
        sink = opened(stream=stream)
        with pytest.raises(ComponentError, match="No space left on device") as caught:
            sink.write(Rows.of_records(listed_block([b"a"])))
        assert caught.value.retryable


def test_a_closed_output_is_an_error() -> None:
    stream = io.BytesIO()
    sink = opened(stream=stream)
    stream.close()
    with pytest.raises(ComponentError, match="closed file"):
        sink.write(Rows.of_records(listed_block([b"a"])))


@pytest.mark.parametrize("stdout", [None, io.StringIO()])
def test_a_process_without_standard_output_is_refused(monkeypatch: pytest.MonkeyPatch, stdout) -> None:
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(ComponentError, match="no standard output"):
        opened()


def test_a_killed_reader_leaves_no_noise_at_exit() -> None:
    """Nothing waits in a buffer of ours, so the interpreter has nothing to complain about when it ends."""
    code = """
import os
from edgesocket.errors import ComponentError
sink = opened()
reading, writing = os.pipe()
os.dup2(writing, 1)
os.close(reading)
os.close(writing)
try:
    sink.write(Rows.of_records(listed_block([b"row"])))
except ComponentError:
    raise SystemExit(69)
"""
    done = run_with_console(code)
    assert (done.returncode, done.stderr) == (69, b"")


def test_all_wrong_options_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        ConsoleSink(format="csv", log_print_delay_ms=-1)
    assert [p.path for p in caught.value.problems] == ["format", "log_print_delay_ms"]


@pytest.mark.parametrize(("format", "line"), [("text", b"1, a, \n"), ("json", b'{"id": 1, "name": "a", "x": null}\n')])
def test_typed_rows_are_values_or_objects(format: str, line: bytes) -> None:
    terminal = Terminal()
    batch = pa.RecordBatch.from_pydict({"id": [1], "name": ["a"], "x": pa.nulls(1)})
    opened(stream=terminal, format=format).write(Rows.of_batch(batch))
    assert terminal.writes == [line]
