"""Replays on the real engine and store, into sinks in memory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from edgesocket.components.state import Host
from edgesocket.errors import ComponentError, NotOwnerError, UsageError
from edgesocket.hosting.dead_letters import can_be_read, letter_files, page_of_letters
from edgesocket.hosting.replay import Replay, ReplayEnd, replay_memory
from edgesocket.store.directory import DirectoryPlace
from tests.support.letter_kit import Shelf, at, job_spec, replay, shelf_plan, write_letters

ROW = '{"id": %d, "name": "n"}'


def rows(*batch_ids: int) -> list[tuple[int, dict[str, object]]]:
    return [(batch_id, {"id": batch_id, "name": "n"}) for batch_id in batch_ids]


def test_every_letter_reaches_the_sinks_once_and_is_remembered(tmp_path: Path) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": n, "payload": ROW % n} for n in (1, 2, 3)])
    shelves = {"A": Shelf(), "B": Shelf()}
    end = replay(tmp_path, shelves)
    assert (end.job, end.replayed, end.failed, end.complete) == ("job.replay", 3, 0, True)
    assert shelves["A"].rows == shelves["B"].rows == rows(1, 2, 3)
    write_letters(tmp_path / "dead", [{"batch_id": 4, "payload": ROW % 4}], checkpoint=2)
    end = replay(tmp_path, shelves)
    assert (end.replayed, end.passed_over) == (1, 3)
    assert shelves["A"].rows == rows(1, 2, 3, 4)


def test_the_present_schema_reads_the_letters_and_what_does_not_fit_stays(tmp_path: Path) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": 1, "payload": '{"id": "x"}'}, {"batch_id": 2, "payload": ROW % 2}])
    shelf = Shelf()
    end = replay(tmp_path, {"A": shelf})
    assert (end.replayed, end.failed) == (1, 1)
    assert end.failures[0][0] == at(1)
    assert "id" in end.failures[0][1]
    end = replay(tmp_path, {"A": shelf}, source="schema { fields { id = string, name = string } }")
    assert (end.replayed, end.failed, end.passed_over) == (1, 0, 1)
    assert shelf.rows == [*rows(2), (1, {"id": "x", "name": None})]


def test_letters_that_are_named_are_replayed_and_no_others(tmp_path: Path) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": n, "payload": ROW % n} for n in (1, 2, 3)])
    shelf = Shelf()
    end = replay(tmp_path, {"A": shelf}, {at(2), at(9), at(1, checkpoint=5)})
    assert (end.replayed, end.missing) == (1, (at(9), at(1, checkpoint=5)))
    assert shelf.rows == rows(2)
    end = replay(tmp_path, {"A": shelf}, {at(2)})
    assert (end.replayed, end.passed_over, shelf.rows) == (0, 1, rows(2))


@pytest.mark.parametrize("late", [False, True], ids=["at write", "at prepare"])
def test_a_row_that_a_sink_refuses_again_goes_to_that_sink_alone_the_next_time(tmp_path: Path, late: bool) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": n, "payload": ROW % n} for n in (1, 2, 3)])
    shelves = {"A": Shelf(), "B": Shelf(refuses=lambda row: row["id"] == 2, refuses_late=late)}
    end = replay(tmp_path, shelves)
    assert (end.replayed, end.failed, end.failures) == (2, 1, ((at(2), "the shelf refuses it"),))
    assert (shelves["A"].rows, shelves["B"].rows) == (rows(1, 2, 3), rows(1, 3))
    memory = replay_memory(DirectoryPlace(tmp_path / "state"))
    assert memory.failed[at(2)].sinks == {"B"}
    shelves["B"].refuses = lambda _: False
    end = replay(tmp_path, shelves)
    assert (end.replayed, end.failed) == (1, 0)
    assert (shelves["A"].rows, shelves["B"].rows) == (rows(1, 2, 3), rows(1, 3, 2))


def test_a_letter_of_a_sink_goes_to_that_sink_past_the_transforms(tmp_path: Path) -> None:
    letters = [
        {"batch_id": 1, "payload": '{"name": "n"}', "origin": "B"},
        {"batch_id": 2, "payload": ROW % 2},
        {"batch_id": 3, "payload": '{"name": "n"}', "origin": "gone"},
    ]
    write_letters(tmp_path / "dead", letters)
    shelves = {"A": Shelf(), "B": Shelf()}
    end = replay(tmp_path, shelves, transform="Filter { include_fields = [name] }")
    assert (end.replayed, end.failed) == (2, 1)
    assert "gone" in end.failures[0][1]
    assert shelves["A"].rows == [(2, {"name": "n"})]
    assert shelves["B"].rows == [(1, {"name": "n"}), (2, {"name": "n"})]


def test_a_row_that_a_transform_cannot_take_does_not_stop_the_others(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    write_letters(
        tmp_path / "dead", [{"batch_id": n, "payload": f'{{"id": {n}, "name": "{n or "x"}"}}'} for n in (0, 1, 2, 3)]
    )
    shelf = Shelf()
    query = 'Sql { query = "select id, cast(name as int) as number from edge" }'
    end = replay(
        tmp_path,
        {"A": shelf},
        transform=query,
        source="plugin_output = edge, schema { fields { id = int, name = string } }",
    )
    assert (end.replayed, end.failed, end.failures[0][0]) == (3, 1, at(1))
    assert [row["number"] for _, row in shelf.rows] == [1, 2, 3]


def test_letters_with_one_batch_id_are_told_apart(tmp_path: Path) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": 7, "payload": ROW % n} for n in (1, 2, 3)])
    shelf = Shelf(refuses=lambda row: row["id"] == 2, refuses_late=True)
    end = replay(tmp_path, {"A": shelf})
    assert (end.replayed, end.failures) == (2, ((at(2), "the shelf refuses it"),))
    assert [row["id"] for _, row in shelf.rows] == [1, 3]


def test_payloads_without_a_schema_are_rows_as_they_are(tmp_path: Path) -> None:
    letters = [
        {"batch_id": 1, "payload": "plain"},
        {"batch_id": 2, "payload": "refused by a sink", "origin": "A"},
        {"batch_id": 3, "payload": "\ufffd", "payload_base64": "/w=="},
    ]
    write_letters(tmp_path / "dead", letters)
    shelf = Shelf()
    end = replay(tmp_path, {"A": shelf}, source="batch_id_gaps = skip")
    assert (end.replayed, end.failures[0][0]) == (2, at(3))
    assert shelf.rows == [(1, {"value": "plain"}), (2, {"value": "refused by a sink"})]


def test_a_sink_that_fails_loses_and_doubles_nothing(tmp_path: Path) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": n, "payload": ROW % n} for n in range(1, 6)])
    spec = job_spec(tmp_path)
    shelf = Shelf()

    def give_out(_: dict[str, object]) -> bool:
        raise ComponentError("the shelf broke", retryable=False)

    shelf.refuses = give_out
    place = DirectoryPlace(tmp_path / "state")
    one = Replay(spec, shelf_plan(spec, tmp_path / "state", {"A": shelf}), place, Host("h", "b"))
    with pytest.raises(ComponentError, match="broke"):
        one.run()
    shelf.refuses = lambda _: False
    assert replay(tmp_path, {"A": shelf}).replayed == 5
    assert shelf.rows == rows(1, 2, 3, 4, 5)


def test_two_replays_of_one_job_are_not_at_work_at_once(tmp_path: Path) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": 1, "payload": ROW % 1}])
    reached, go_on, shelf = threading.Event(), threading.Event(), Shelf()

    def wait(_: dict[str, object]) -> bool:
        reached.set()
        return not go_on.wait(20.0)

    shelf.refuses = wait
    ends: list[ReplayEnd] = []
    first = threading.Thread(target=lambda: ends.append(replay(tmp_path, {"A": shelf})))
    first.start()
    try:
        assert reached.wait(20.0)
        with pytest.raises(NotOwnerError):
            replay(tmp_path, {"A": Shelf()})
    finally:
        go_on.set()
        first.join()
    assert [end.replayed for end in ends] == [1]


def test_a_replay_that_is_stopped_covers_what_was_under_way(tmp_path: Path) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": 1 + n % 2, "payload": ROW % n} for n in range(1, 9)])
    spec, shelf = job_spec(tmp_path), Shelf()
    one = Replay(
        spec, shelf_plan(spec, tmp_path / "state", {"A": shelf}), DirectoryPlace(tmp_path / "state"), Host("h", "b")
    )
    shelf.refuses = lambda _: one.stop() or False  # type: ignore[func-returns-value]
    end = one.run()
    assert not end.complete
    assert 0 < end.replayed < 8
    assert len(shelf.rows) == end.replayed
    shelf.refuses = lambda _: False
    end = replay(tmp_path, {"A": shelf})
    assert end.complete
    assert [row["id"] for _, row in shelf.rows] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_page_says_what_was_replayed_and_what_was_refused_again(tmp_path: Path) -> None:
    write_letters(tmp_path / "dead", [{"batch_id": n, "payload": ROW % n if n else "?"} for n in (0, 1, 2)])
    replay(tmp_path, {"A": Shelf()}, {at(1), at(2)})
    spec = job_spec(tmp_path)
    memory = replay_memory(DirectoryPlace(tmp_path / "state"))
    page = page_of_letters(letter_files(spec), memory, limit=2)
    assert [(one["position"], one["replayed"], one["failed_again"] is not None) for one in page["letters"]] == [
        ("1-1-0:1", False, True),
        ("1-1-0:2", True, False),
    ]
    assert page["next"] == "1-1-0:2"
    page = page_of_letters(letter_files(spec), memory, after=at(2), only_new=True)
    assert [one["position"] for one in page["letters"]] == ["1-1-0:3"]
    assert page["next"] is None


@pytest.mark.parametrize(
    ("dead_letter", "where"),
    [
        (
            'Kafka { bootstrap.servers = "k:9092", topic = "refused", format = json }',
            "the topic refused of the sink Kafka",
        ),
        ('LocalFile { path = "/srv/dead", file_format_type = csv }', "files in /srv/dead"),
        ("Console {}", "what the sink Console writes"),
    ],
)
def test_letters_that_cannot_be_read_back_say_where_they_are(tmp_path: Path, dead_letter: str, where: str) -> None:
    spec = job_spec(tmp_path, dead_letter=dead_letter)
    assert not can_be_read(spec)
    with pytest.raises(UsageError) as caught:
        letter_files(spec)
    assert where in str(caught.value)
    assert "DeadLetter" in str(caught.value)
