"""Whatever is written, however it is cut, aborted or crashed: the destination holds each row once, in order."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.components.sink import Sink
from edgesocket.sinks.lines import json_lines, text_lines
from edgesocket.sinks.local_file import LocalFileSink
from edgesocket.testing.sink_story import Story, listed_block, received_block
from edgesocket.testing.sinks import DecidingListSink, ListSink, ListStorage

# Any text but LF, which cannot be inside a line; often short, with the characters that formats trip over.
AWKWARD = st.sampled_from('"\\\r\t\0\x1b\x7f\x85\u2028\u2029\ufeffé\U0001f98a{}:/n')
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n")
PAYLOADS = st.text(AWKWARD | CHARACTERS, max_size=20).map(str.encode)
MANY = st.lists(PAYLOADS, min_size=1, max_size=8)
# Blocks of this many records take the fast path.
LONG = st.tuples(MANY, st.integers(10, 40)).map(lambda t: t[0] * t[1])
BLOCKS = st.tuples(st.sampled_from([received_block, listed_block]), MANY | LONG)

STEPS = st.lists(
    BLOCKS | st.sampled_from(["checkpoint", "abort", "crash", "crash before record", "crash before commit", "stop"]),
    max_size=25,
)


class Files:
    def __init__(self, directory: Path, file_format: str, batch_size: int) -> None:
        self.options = {"path": directory, "file_format_type": file_format, "batch_size": batch_size}
        self.directory = directory

    def sink(self) -> Sink:
        return LocalFileSink(**self.options)

    def read(self) -> list[bytes]:
        data = b"".join(path.read_bytes() for path in sorted(self.directory.glob("part-*")))
        assert data == b"" or data.endswith(b"\n")
        lines = data.split(b"\n")[:-1]
        if self.options["file_format_type"] == "text":
            return lines
        return [json.loads(line)["value"].encode() for line in lines]


class Lists:
    def __init__(self, kind: type[ListSink] | type[DecidingListSink]) -> None:
        self.kind, self.storage = kind, ListStorage()

    def sink(self) -> Sink:
        return self.kind(self.storage)

    def read(self) -> list[bytes]:
        return self.storage.payloads


def run(story: Story, steps: Sequence[object]) -> list[bytes]:
    """Let the story happen and end with a completed checkpoint. Returns every payload handed over, in order."""
    written: list[bytes] = []
    number = 1
    for step in steps:
        if isinstance(step, tuple):
            make, payloads = step
            story.write_block(make(payloads))
            written += payloads
        elif step == "checkpoint":
            story.checkpoint(number)
            number += 1
        elif step == "abort":
            story.prepare(number)
            number += len(written) % 2  # an aborted number may be used again or not
        elif step == "crash":
            story.restore()
        elif step == "stop":
            story.sink.close()
            story.restore()
        elif step == "crash before record":
            story.prepare(number)
            story.restore()
        elif step == "crash before commit":
            story.prepare(number)
            if isinstance(story.sink, DecidingListSink):
                story.commit(number)
            else:
                story.record(number)
            story.restore()
            number += 1
    story.checkpoint(number)
    return written


@given(steps=STEPS, file_format=st.sampled_from(["text", "json"]), batch_size=st.integers(1, 12) | st.just(1_000_000))
@settings(max_examples=60, deadline=None)
def test_local_file_holds_each_row_once_in_order(steps: list[object], file_format: str, batch_size: int) -> None:
    batch_size = max(batch_size, sum(len(step[1]) for step in steps if isinstance(step, tuple)) // 30)
    with tempfile.TemporaryDirectory() as directory:
        story = Story(Files(Path(directory), file_format, batch_size))
        written = run(story, steps)
        assert story.read() == written
        story.sink.close()


@pytest.mark.parametrize("kind", [ListSink, DecidingListSink])
@given(steps=STEPS)
@settings(max_examples=100, deadline=None)
def test_in_memory_sinks_hold_each_row_once_in_order(kind, steps: list[object]) -> None:  # type: ignore[no-untyped-def]
    story = Story(Lists(kind))
    written = run(story, steps)
    assert story.read() == written


@given(block=BLOCKS, delimiter=st.sampled_from([b"\n", b"\r", b"\r\n", b"|", "→".encode()]))
@settings(deadline=None)
def test_text_lines_are_the_payloads_and_delimiters(block, delimiter: bytes) -> None:  # type: ignore[no-untyped-def]
    make, payloads = block
    assert bytes(text_lines(make(payloads), delimiter)) == b"".join(payload + delimiter for payload in payloads)


@given(block=BLOCKS, column=st.text(AWKWARD, min_size=1))
@settings(deadline=None)
def test_json_lines_are_what_json_dumps_writes(block, column: str) -> None:  # type: ignore[no-untyped-def]
    make, payloads = block
    expected = "".join(json.dumps({column: p.decode()}, ensure_ascii=False) + "\n" for p in payloads)
    assert json_lines(make(payloads), column) == expected.encode()


@given(payloads=st.lists(st.text(AWKWARD | st.just("\n")).map(str.encode), min_size=1), times=st.sampled_from([1, 70]))
@settings(deadline=None)
def test_json_lines_take_line_feeds_of_packets(payloads: list[bytes], times: int) -> None:
    payloads = payloads * times
    expected = "".join(json.dumps({"value": p.decode()}, ensure_ascii=False) + "\n" for p in payloads)
    assert json_lines(listed_block(payloads)) == expected.encode()
