"""Dead letters as rows: nothing of a record is lost, whatever its bytes."""

from __future__ import annotations

import datetime

from edgesocket.components.dead_letter import DEAD_LETTER_SCHEMA, DeadLetter, dead_letter_rows


def letter(payload: bytes = b"x", **more: object) -> DeadLetter:
    values = {"batch_id": 1, "reason": "broken", "origin": "EdgeSocket", "time_ms": 1_769_851_800_250, **more}
    return DeadLetter(payload=payload, **values)  # type: ignore[arg-type]


def test_rows_have_the_one_schema_and_the_ids_of_the_batches() -> None:
    rows = dead_letter_rows([letter(batch_id=9), letter(batch_id=4), letter(batch_id=9)])
    assert rows.schema.equals(DEAD_LETTER_SCHEMA)
    assert [rows.id_at(n) for n in range(rows.count)] == [9, 4, 9]
    assert rows.batch.column("batch_id").to_pylist() == [9, 4, 9]


def test_a_text_payload_is_in_one_column() -> None:
    (row,) = dead_letter_rows([letter("Zürich \x00 \U0001f98a".encode())]).batch.to_pylist()
    assert row == {
        "batch_id": 1,
        "time": datetime.datetime(2026, 1, 31, 9, 30, 0, 250_000),
        "origin": "EdgeSocket",
        "reason": "broken",
        "payload": "Zürich \x00 \U0001f98a",
        "payload_bytes": None,
    }


def test_a_payload_that_is_no_text_is_kept_as_bytes_too() -> None:
    (row,) = dead_letter_rows([letter(b"a\xff\xfeb")]).batch.to_pylist()
    assert (row["payload"], row["payload_bytes"]) == ("a\ufffd\ufffdb", b"a\xff\xfeb")


def test_an_empty_payload_is_an_empty_text() -> None:
    (row,) = dead_letter_rows([letter(b"")]).batch.to_pylist()
    assert (row["payload"], row["payload_bytes"]) == ("", None)


def test_a_payload_that_holds_the_replacement_character_is_text() -> None:
    (row,) = dead_letter_rows([letter("\ufffd".encode())]).batch.to_pylist()
    assert (row["payload"], row["payload_bytes"]) == ("\ufffd", None)


def test_a_reason_that_is_no_unicode_does_not_stop_a_dead_letter() -> None:
    (row,) = dead_letter_rows([letter(reason="lone \ud800")]).batch.to_pylist()
    assert row["reason"] == "lone ?"
