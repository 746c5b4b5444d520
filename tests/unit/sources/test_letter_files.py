"""Reading dead letters back: positions, order, and lines that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgesocket.components.dead_letter import DEAD_LETTER_SCHEMA, DeadLetter, dead_letter_rows
from edgesocket.components.sink import SinkContext
from edgesocket.sinks.dead_letter import DeadLetterSink
from edgesocket.sinks.local_file import LocalFileSink
from edgesocket.sources.letter_files import FileKey, LetterFiles, Position
from tests.support.letter_kit import at, write_letters

LETTERS = [
    DeadLetter(7, b'{"id": "x"}', "field id: expected int", "EdgeSocket", 1_769_851_800_250),
    DeadLetter(8, b"\xff\x00raw", "not UTF-8", "EdgeSocket", 1_769_851_800_251),
    DeadLetter(9, '{"name": "Zoë\n"}'.encode(), "refused", "Kafka", 1_769_851_800_252),
]


@pytest.mark.parametrize("kind", ["dead", "part"])
def test_what_a_sink_wrote_is_read_back_byte_for_byte(tmp_path: Path, kind: str) -> None:
    sink = DeadLetterSink(path=tmp_path) if kind == "dead" else LocalFileSink(path=tmp_path, file_format_type="json")
    sink.open(SinkContext("job", 1, "dead_letter", schema=DEAD_LETTER_SCHEMA))
    sink.write(dead_letter_rows(LETTERS))
    sink.commit(4, sink.prepare(4))
    sink.close()
    found = list(LetterFiles(tmp_path, kind).letters())
    assert [(one.batch_id, one.payload, one.reason, one.origin, one.time_ms) for one in found] == [
        (one.batch_id, one.payload, one.reason, one.origin, one.time_ms) for one in LETTERS
    ]
    assert [str(one.position) for one in found] == ["1-4-0:1", "1-4-0:2", "1-4-0:3"]


def test_letters_come_in_the_order_they_were_refused_in(tmp_path: Path) -> None:
    write_letters(tmp_path, [{"batch_id": 4}], epoch=2, checkpoint=3)
    write_letters(tmp_path, [{"batch_id": 3}], epoch=1, checkpoint=11)
    write_letters(tmp_path, [{"batch_id": 1}, {"batch_id": 2}], epoch=1, checkpoint=9)
    letters = LetterFiles(tmp_path, "dead")
    assert [one.batch_id for one in letters.letters()] == [1, 2, 3, 4]
    assert [one.batch_id for one in letters.letters(after=at(1, checkpoint=9))] == [2, 3, 4]
    assert letters.count() == 4


def test_a_letter_is_found_by_its_position(tmp_path: Path) -> None:
    write_letters(tmp_path, [{"batch_id": 1}, {"batch_id": 2}])
    letters = LetterFiles(tmp_path, "dead")
    found = letters.letter(at(2))
    assert found is not None
    assert found.batch_id == 2
    assert letters.letter(at(3)) is None
    assert letters.letter(at(1, checkpoint=2)) is None


@pytest.mark.parametrize(
    "line", ["{", "[]", "7", '{"batch_id": "7"}', '{"batch_id": true, "origin": "", "reason": ""}']
)
def test_a_line_that_is_no_letter_is_shown_and_not_skipped(tmp_path: Path, line: str) -> None:
    path = write_letters(tmp_path, [{"batch_id": 1}])
    path.write_text(path.read_text() + line + "\n")
    found = list(LetterFiles(tmp_path, "dead").letters())
    assert [one.origin for one in found] == ["EdgeSocket", ""]
    assert "no dead letter" in found[1].reason
    assert found[1].payload == line.encode()


def test_other_files_and_a_missing_directory_hold_no_letters(tmp_path: Path) -> None:
    write_letters(tmp_path / "a", [{}])
    (tmp_path / "a" / "dead-000001-0000000001-00000.jsonl.gz").write_bytes(b"x\n")
    (tmp_path / "a" / "part-000001-0000000001-replay-00000.json").write_bytes(b"x\n")
    assert LetterFiles(tmp_path / "a", "dead").count() == 1
    assert LetterFiles(tmp_path / "a", "part").count() == 0
    assert list(LetterFiles(tmp_path / "b", "dead").letters()) == []


@pytest.mark.parametrize("text", ["", "1-4-0", "1-4:17", "1-4-0:0", "1-4-0:x", "-1-4-0:1", "1-4-0:1 ", "1-4-0:٣"])
def test_a_position_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="position"):
        Position.parse(text)


def test_positions_read_back_and_rise() -> None:
    position = Position(FileKey(1, 4, 0), 17)
    assert str(position) == "1-4-0:17"
    assert Position.parse("1-4-0:17") == position
    assert Position.parse("1-9-0:1") < Position.parse("1-10-0:1") < Position.parse("2-1-0:1")


def test_a_long_payload_is_cut_in_a_list_and_bytes_are_not_lost(tmp_path: Path) -> None:
    write_letters(tmp_path, [{"payload": "x" * 50}, {"payload": "\ufffd", "payload_base64": "/w=="}])
    long, raw = LetterFiles(tmp_path, "dead").letters()
    shown = long.to_json(most_characters=10)
    assert (shown["payload"], shown["payload_bytes"], shown["cut"]) == ("x" * 10, 50, True)
    assert raw.payload == b"\xff"
    assert raw.to_json()["payload_base64"] == "/w=="


def test_ids_are_plain_numbers(tmp_path: Path) -> None:
    write_letters(tmp_path, [{"batch_id": int(np.int64(2**62))}])
    assert next(LetterFiles(tmp_path, "dead").letters()).batch_id == 2**62
