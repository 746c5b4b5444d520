"""DeadLetterSink: lines, names, and what happens when the disk fails."""

from __future__ import annotations

import base64
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from edgesocket.components.dead_letter import DEAD_LETTER_SCHEMA, DeadLetter, dead_letter_rows
from edgesocket.components.sink import SinkContext
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows, text_schema
from edgesocket.sinks import staging
from edgesocket.sinks.dead_letter import DeadLetterSink


def letters(*payloads: bytes, first_id: int = 1) -> Rows:
    return dead_letter_rows(
        [
            DeadLetter(
                batch_id=number, payload=payload, reason="no JSON", origin="EdgeSocket", time_ms=1_769_851_800_250
            )
            for number, payload in enumerate(payloads, first_id)
        ]
    )


def opened(path: Path, *, epoch: int = 1, prepared: Any = None, schema: Any = DEAD_LETTER_SCHEMA) -> DeadLetterSink:
    sink = DeadLetterSink(path=path)
    sink.open(SinkContext(job="job", epoch=epoch, sink_id="DeadLetter", schema=schema, prepared=prepared or {}))
    return sink


def published(path: Path) -> dict[str, list[dict[str, Any]]]:
    files = sorted(path.glob("dead-*"))
    return {file.name: [json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files}


def staged(path: Path) -> list[str]:
    return sorted(file.name for file in (path / ".staged" / "job.DeadLetter").glob("*.staged"))


def test_a_line_says_what_was_refused_by_whom_and_why(tmp_path: Path) -> None:
    sink = opened(tmp_path, epoch=3)
    sink.write(letters("Zürich".encode(), first_id=7))
    sink.commit(12, sink.prepare(12))
    (file,) = tmp_path.glob("dead-*")
    assert file.name == "dead-000003-0000000012-00000.jsonl"
    assert file.read_text("utf-8") == (
        '{"batch_id": 7, "time": "2026-01-31T09:30:00.250Z", "origin": "EdgeSocket", "reason": "no JSON", '
        '"payload": "Zürich"}\n'
    )


def test_a_payload_that_is_no_text_can_be_had_back_byte_for_byte(tmp_path: Path) -> None:
    payload = bytes(range(256))
    sink = opened(tmp_path)
    sink.write(letters(payload, b"text"))
    sink.commit(1, sink.prepare(1))
    ((broken, text),) = published(tmp_path).values()
    assert base64.b64decode(broken["payload_base64"]) == payload
    assert broken["payload"] == payload.decode(errors="replace")
    assert "payload_base64" not in text


def test_writes_of_one_checkpoint_share_a_file(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.write(letters(b"a", b"b"))
    sink.write(letters(b"c", first_id=3))
    manifest = sink.prepare(1)
    assert [file["rows"] for file in manifest["files"]] == [3]
    sink.commit(1, manifest)
    assert [[line["payload"] for line in lines] for lines in published(tmp_path).values()] == [["a", "b", "c"]]


def test_a_checkpoint_without_dead_letters_makes_no_file(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    assert sink.prepare(1) == {}
    assert staged(tmp_path) == []
    assert published(tmp_path) == {}


def test_two_jobs_may_share_a_directory(tmp_path: Path) -> None:
    sinks = []
    for job in ("one", "two"):
        sink = DeadLetterSink(path=tmp_path)
        sink.open(SinkContext(job=job, epoch=1, sink_id="DeadLetter", schema=DEAD_LETTER_SCHEMA))
        sink.write(letters(job.encode()))
        sinks.append(sink)
    for sink in sinks:
        sink.commit(1, sink.prepare(1))
    assert [lines[0]["payload"] for lines in published(tmp_path).values()] == ["one", "two"]


def test_rows_that_are_no_dead_letters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match="takes dead letters only") as caught:
        opened(tmp_path, schema=text_schema())
    assert not caught.value.retryable


def test_a_write_that_fails_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(tmp_path)
    sink.write(letters(b"a"))
    real = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) < 50:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:60])

    with monkeypatch.context() as patched:
        patched.setattr(staging.os, "write", half)
        with pytest.raises(ComponentError, match="ENOSPC"):
            sink.write(letters(b"b" * 100, first_id=2))
    sink.write(letters(b"c", first_id=3))
    sink.commit(1, sink.prepare(1))
    assert [[line["payload"] for line in lines] for lines in published(tmp_path).values()] == [["a", "c"]]


def test_a_file_without_a_whole_line_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sink = opened(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(staging.os, "write", full)
        with pytest.raises(ComponentError):
            sink.write(letters(b"a"))
    assert sink.prepare(1) == {}
    assert staged(tmp_path) == []


def test_after_a_failed_sync_the_sink_wants_to_be_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    sink = opened(tmp_path)
    sink.write(letters(b"a"))
    with monkeypatch.context() as patched:
        patched.setattr(staging.os, "fsync", broken)
        with pytest.raises(ComponentError, match="EIO"):
            sink.prepare(1)
    for call in (lambda: sink.write(letters(b"b")), lambda: sink.prepare(2)):
        with pytest.raises(ComponentError, match="opened again") as caught:
            call()
        assert caught.value.reopen
    sink.close()
    again = opened(tmp_path, epoch=2)
    again.write(letters(b"a"))
    again.commit(1, again.prepare(1))
    assert len(published(tmp_path)) == 1
