"""Incarnation after incarnation: what a restore knows, and what damage changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgesocket.checkpoint.commit_log import append, read_log
from edgesocket.checkpoint.entries import Accept, Settle
from edgesocket.components.source import OperatorSettlement
from edgesocket.errors import ConfigError, DamagedStateError
from edgesocket.rows import Rows
from edgesocket.store.local import LocalStore
from edgesocket.testing.sinks import DecidingListSink, ListSink, ListStorage
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, ListStorage())


def _operator(rig: Rig, entry: Settle | Accept) -> None:
    store = LocalStore(rig.directory)
    store.run(append(store.run(read_log()), entry))


def _settle(rig: Rig, *ids: tuple[int, int]) -> None:
    _operator(rig, Settle(0, 0, ids, "test", "tester"))


def _ids(rig: Rig) -> list[int]:
    return [batch_id for batch_id, _ in rig.storage.pairs]


def test_queued_records_come_back_in_order_and_are_confirmed_later(rig: Rig) -> None:
    rig.start()
    for n in range(1, 6):
        assert rig.offer(n, f"p{n}") == "RECEIVED"
    rig.checkpoint()
    assert rig.poll(5) == "PENDING"
    rig.crash()

    rig.start()
    assert [rig.poll(n) for n in (1, 5, 6)] == ["PENDING", "PENDING", "RETRY"]
    assert rig.pump() == 5
    rig.checkpoint()

    assert rig.poll(1) == "ACK:5"
    assert rig.storage.pairs == [(n, f"p{n}".encode()) for n in range(1, 6)]


def test_what_was_received_after_the_checkpoint_answers_resend_after_kill_9(rig: Rig) -> None:
    rig.start()
    for n in range(1, 7):
        rig.offer(n)
    rig.pump()
    rig.checkpoint()
    for n in range(7, 11):
        rig.offer(n)
    rig.crash()

    rig.start()

    assert rig.poll(3) == rig.poll(6) == "ACK:6"
    assert [rig.poll(n) for n in (7, 10, 11, 999)] == ["RESEND", "RESEND", "RETRY", "RETRY"]
    for n in range(7, 11):
        assert rig.offer(n) == "RECEIVED"
    rig.pump()
    rig.checkpoint()
    assert rig.poll(10) == "ACK:10"
    assert _ids(rig) == list(range(1, 11))


def test_a_restart_of_ids_is_written_and_never_acknowledged_early(rig: Rig) -> None:
    rig.start()
    for n in range(1, 11):
        rig.offer(n)
    rig.pump()
    rig.checkpoint()
    rig.reconnect()

    assert rig.offer(1, "new") == "RECEIVED"
    assert rig.poll(1) == "PENDING"
    rig.pump()
    rig.checkpoint()

    assert rig.poll(1) == "ACK:10"
    assert (1, b"new") in rig.storage.pairs


def test_a_resend_is_recognised_over_a_restart(rig: Rig) -> None:
    rig.start()
    rig.offer(1, "a")
    rig.offer(2, "b")
    rig.pump()
    rig.checkpoint()
    rig.crash()

    rig.start()
    assert rig.offer(1, "a") == "RECEIVED"
    assert rig.offer(2, "B") == "RECEIVED", "another payload is one more record"
    rig.pump()
    rig.checkpoint()

    assert rig.storage.pairs == [(1, b"a"), (2, b"b"), (2, b"B")]


def test_a_lost_record_under_a_confirmed_id_takes_the_promise_back(rig: Rig) -> None:
    rig.start()
    rig.offer(1, "a")
    rig.offer(2, "b")
    rig.pump()
    rig.checkpoint()
    assert rig.poll(2) == "ACK:2"
    rig.offer(1, "second")
    rig.crash()

    rig.start()
    assert rig.poll(1) == "RESEND"
    assert rig.poll(2) == "PENDING"

    assert rig.offer(1, "a") == "RECEIVED", "recognised: nothing is queued"
    assert rig.pump() == 0
    assert rig.poll(2) == "ACK:2"
    rig.crash()

    rig.start()
    assert rig.poll(2) == "ACK:2", "that the lost batch was recognised is remembered"


def test_held_and_settled_ids_survive(rig: Rig) -> None:
    rig.options = {"local_queue_capacity": 2, "queue_backpressure_watermark_ratio": 1}
    rig.start()
    rig.offer(1)
    rig.offer(2)
    assert rig.offer(3).startswith("QUEUE_FULL:")
    rig.pump()
    assert rig.offer(4, b"\xff") == "DECODE_FAILED"
    rig.offer(5)
    rig.crash()

    rig.start()

    assert rig.poll(3) == "RESEND", "held by a refusal on an earlier connection"
    assert rig.poll(5) == "RESEND"
    rig.offer(1)
    rig.offer(2)
    rig.pump()
    rig.offer(5)
    rig.pump()
    rig.checkpoint()
    assert rig.poll(2) == "ACK:2"
    assert rig.poll(5) == "PENDING"
    rig.offer(3)
    rig.pump()
    rig.checkpoint()
    assert rig.poll(5) == "ACK:5"


def test_a_clean_end_loses_nothing_and_leaves_nothing_open(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.stop()
    rig.boot = "boot-2"

    rig.start()

    assert rig.poll(1) == "ACK:1"
    assert rig.source._service.ledger.unclean_floor is None


def test_after_the_loss_of_the_host_ids_passed_over_are_lost(rig: Rig) -> None:
    rig.start()
    for n in (1, 2):
        rig.offer(n)
    rig.pump()
    rig.checkpoint()
    rig.offer(3)
    for segment in rig.files("arrivals/"):
        segment.write_bytes(segment.read_bytes()[:-8])  # the last burst did not reach the disk
    rig.crash(boot="boot-2")

    rig.start()
    assert rig.poll(3) == "RESEND", "it may have been accepted; nobody knows"
    rig.offer(4)
    rig.pump()
    rig.checkpoint()
    assert rig.poll(4) == "PENDING"
    rig.crash()

    rig.start()
    assert rig.poll(3) == "RESEND"
    rig.offer(3)
    rig.pump()
    rig.checkpoint()
    assert rig.poll(4) == "ACK:4"


def test_an_incarnation_that_dies_before_its_restore_is_done_does_not_hide_an_unclean_end(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    rig.crash(boot="boot-2")

    def die(point: str) -> None:
        if point.startswith("create.before log/"):
            die.left -= 1  # type: ignore[attr-defined]
            if die.left == 0:  # type: ignore[attr-defined]
                raise SystemExit

    die.left = 2  # type: ignore[attr-defined]  # the claim is written, `started` is not
    rig.fault = die
    with pytest.raises(SystemExit):
        rig.start()
    rig.fault = None
    rig.crash()

    rig.start()

    assert rig.source._service.ledger.unclean_floor == 1


def _lose_the_host(rig: Rig) -> None:
    """The host goes down, and the newest burst had not reached the disk."""
    for segment in rig.files("arrivals/"):
        segment.write_bytes(segment.read_bytes()[:-8])
    rig.crash(boot=f"{rig.boot}+")


def test_an_unclean_end_is_remembered_over_an_incarnation_that_received_nothing(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    rig.offer(2)
    _lose_the_host(rig)
    rig.start()
    rig.crash()

    rig.start()
    rig.offer(3)
    rig.pump()
    rig.checkpoint()

    assert rig.poll(2) == "RESEND", "received before the power cut, and nobody knows"
    assert rig.poll(3) == "PENDING"


def test_an_unclean_end_that_the_operator_ended_stays_ended(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    rig.crash(boot="boot-2")
    rig.start()
    assert rig.source._service.ledger.unclean_floor == 1
    _settle(rig)
    rig.source.settle(OperatorSettlement(log_index=99, ranges=(), ends_unclean=True))
    rig.offer(2)
    rig.pump()
    rig.checkpoint()
    rig.offer(3)
    rig.crash()

    rig.start()

    assert rig.source._service.ledger.unclean_floor is None


def test_a_damaged_arrival_log_counts_as_an_unclean_end(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    rig.offer(2)
    rig.offer(4)
    segment = rig.files("arrivals/")[-1]
    data = bytearray(segment.read_bytes())
    data[-40] ^= 1
    data[-2] ^= 1
    segment.write_bytes(bytes(data))
    rig.crash()

    rig.start()

    assert rig.poll(2) == "RESEND"
    assert any("damaged" in report for report in rig.reports)


def test_an_operator_ends_an_unclean_end(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    rig.crash(boot="boot-2")
    _settle(rig)

    rig.start()
    rig.offer(5)
    rig.pump()
    rig.checkpoint()

    assert rig.poll(5) == "ACK:5"
    rig.crash()
    rig.start()
    assert rig.source._service.ledger.unclean_floor is None


def test_settling_skips_a_queued_record_at_the_next_start(rig: Rig) -> None:
    rig.start()
    for n in (1, 2, 3):
        rig.offer(n)
    rig.checkpoint()
    rig.crash()
    _settle(rig, (2, 2))

    rig.start()
    rig.pump()
    rig.checkpoint()

    assert _ids(rig) == [1, 3]
    assert rig.poll(3) == "ACK:3"


def test_a_batch_accepted_after_it_was_settled_is_lost_by_a_crash_not_settled(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.offer(2)
    rig.crash()
    _settle(rig, (1, 2))
    rig.start()
    assert rig.poll(1) == "RETRY" or rig.poll(1) == "PENDING"
    rig.offer(1)
    rig.crash()

    rig.start()

    assert rig.poll(1) == "RESEND", "the collector was told RECEIVED after the operator's word"


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "one bit": lambda path: path.write_bytes(
        path.read_bytes()[:-20] + bytes([path.read_bytes()[-20] ^ 1]) + path.read_bytes()[-19:]
    ),
    "all NUL": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
    "gone": lambda path: path.unlink(),
    "newer format": lambda path: path.write_bytes(path.read_bytes().replace(b"STATE 1\n", b"STATE 2\n")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_queue_blob_gives_what_an_older_one_still_holds(rig: Rig, damage: str) -> None:
    rig.start()
    for n in (1, 2, 3, 4):
        rig.offer(n, f"p{n}")
    rig.checkpoint()
    for n in (5, 6):
        rig.offer(n, f"p{n}")
    rig.checkpoint()
    rig.crash()
    DAMAGES[damage](rig.files(".queue")[-1])

    rig.start()

    assert [rig.poll(n) for n in range(1, 7)] == ["PENDING"] * 4 + ["RESEND"] * 2
    assert rig.pump() == 4
    rig.checkpoint()
    assert rig.poll(4) == "ACK:4"
    assert rig.poll(6) == "RESEND"
    assert any("RESEND" in report for report in rig.reports)


def test_without_any_readable_blob_the_watermark_stays_and_the_queue_is_lost(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    rig.offer(2)
    rig.checkpoint()
    rig.crash()
    for path in rig.files(".queue"):
        path.write_bytes(b"")

    rig.start()

    assert rig.poll(1) == "ACK:1"
    assert rig.poll(2) == "RESEND"


def test_a_damaged_record_stops_the_start_and_names_the_file_and_the_way_on(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    rig.offer(2)
    rig.pump()
    rig.checkpoint()
    rig.crash()
    newest = rig.files("log/")[-1]
    before = {path: path.read_bytes() for path in rig.files("")}
    newest.write_bytes(newest.read_bytes()[:-30])

    with pytest.raises(DamagedStateError) as error:
        rig.start()

    assert newest.name in str(error.value)
    assert "edgesocket restore JOB --accept 2" in str(error.value)
    after = {path: path.read_bytes() for path in rig.files("") if path != newest}
    assert {path: data for path, data in before.items() if path != newest} == after, "nothing was touched"

    _operator(rig, Accept(0, 0, 2, "tester"))  # its blob holds the record: nothing is lost
    rig.start()
    assert rig.poll(2) == "ACK:2"
    rig.offer(3)
    rig.pump()
    rig.checkpoint()
    assert rig.poll(3) == "ACK:3"


def test_accepting_an_older_checkpoint_lets_what_came_later_be_sent_again(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    rig.offer(2)
    rig.pump()
    rig.checkpoint()
    rig.crash()
    newest = rig.files("log/")[-1]
    newest.write_bytes(b"")
    for path in rig.files("state/")[-2:]:
        path.write_bytes(b"")
    with pytest.raises(DamagedStateError):
        rig.start()
    _operator(rig, Accept(0, 0, 1, "tester"))

    rig.start()

    assert rig.poll(1) == "ACK:1"
    assert rig.poll(2) == "RESEND"
    rig.offer(2)
    rig.pump()
    rig.checkpoint()
    assert rig.poll(2) == "ACK:2"


def test_a_deciding_sink_that_committed_makes_the_record_come_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ListStorage(), make_sink=lambda storage: DecidingListSink(storage, with_ids=True))
    rig.start()
    rig.offer(1)
    rig.pump()

    def die(point: str) -> None:
        if point == "after CommitDeciding":
            raise SystemExit

    rig.fault = die
    with pytest.raises(SystemExit):
        rig.checkpoint()
    rig.fault = None
    rig.crash()

    rig.start()

    assert rig.poll(1) == "ACK:1"
    assert rig.pump() == 0
    assert _ids(rig) == [1]


def test_a_lost_reply_of_the_deciding_sink_is_read_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, ListStorage(lost_replies=1), make_sink=lambda storage: DecidingListSink(storage, with_ids=True))
    rig.start()
    rig.offer(1)
    rig.pump()

    assert rig.checkpoint().completed

    assert rig.poll(1) == "ACK:1"
    assert _ids(rig) == [1]


def test_a_sink_that_is_gone_with_unpublished_work_is_refused_until_it_is_given_up(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()

    def die(point: str) -> None:
        if point == "before CommitSinks":
            raise SystemExit

    rig.fault = die
    with pytest.raises(SystemExit):
        rig.checkpoint()
    rig.fault = None
    rig.crash()
    rig.sink_id = "another"

    with pytest.raises(ConfigError, match="--drop-sink-state sink"):
        rig.start()
    rig.crash()
    rig.drop_sink_state = frozenset({"sink"})
    rig.start()


def test_staged_work_is_published_after_a_crash_behind_the_record(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()

    def die(point: str) -> None:
        if point == "before CommitSinks":
            raise SystemExit

    rig.fault = die
    with pytest.raises(SystemExit):
        rig.checkpoint()
    rig.fault = None
    assert _ids(rig) == []
    rig.crash()

    rig.start()

    assert _ids(rig) == [1]
    assert rig.poll(1) == "ACK:1"


def test_an_idle_job_writes_no_checkpoints(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()
    before = rig.files("log/")

    end = rig.checkpoint(force=False)

    assert end.completed and not end.written
    assert rig.files("log/") == before


def test_a_smaller_capacity_takes_back_a_larger_queue(rig: Rig) -> None:
    rig.options = {"local_queue_capacity": 10}
    rig.start()
    for n in range(1, 8):
        rig.offer(n)
    rig.checkpoint()
    rig.crash()
    rig.options = {"local_queue_capacity": 3}

    rig.start()

    assert rig.offer(8).startswith("QUEUE_FULL:")
    assert rig.pump() == 7
    assert rig.offer(8) == "RECEIVED"


def test_state_files_are_private(rig: Rig) -> None:
    rig.start()
    rig.offer(1)
    rig.pump()
    rig.checkpoint()

    assert {oct(path.stat().st_mode & 0o777) for path in rig.files("")} == {"0o600"}


def test_the_state_of_another_job_is_refused(rig: Rig) -> None:
    rig.start()
    rig.crash()
    claim = rig.files("log/")[0]
    text = claim.read_text()
    assert json.loads(text[9:])["job"] == "job"
    rig.start().incarnation = None
    plan_name = "other"
    from edgesocket.components.state import Host
    from edgesocket.engine.incarnation import Incarnation
    from edgesocket.engine.plan import JobPlan
    from tests.support.rig import NoOwnership

    plan = JobPlan(plan_name, rig.directory, "EdgeSocket", lambda: None, ())  # type: ignore[arg-type,return-value]
    other = Incarnation(plan, LocalStore(rig.directory), NoOwnership(), Host("h", "b"), print)
    with pytest.raises(ConfigError, match="belongs to job job"):
        other._acquire()


def test_metadata_of_a_queued_record_is_its_id_alone_after_a_restore(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []

    class RowSink(ListSink):
        def write(self, rows_: Rows) -> None:
            rows.extend(rows_.batch.to_pylist())

    fields = (("batch_id", "id"), ("received_time", "at"), ("peer", "peer"))
    rig = Rig(tmp_path, ListStorage(), make_sink=RowSink, options={"metadata_fields": fields})
    began = datetime.now(UTC).replace(tzinfo=None)
    rig.start()
    rig.offer(1, "a")
    rig.pump()
    rig.offer(2, "b")
    rig.checkpoint()
    rig.crash()
    rig.start()
    rig.offer(3, "c")
    rig.pump()

    assert [(row["value"], row["id"], row["peer"]) for row in rows] == [
        ("a", 1, "test"),
        ("b", 2, None),
        ("c", 3, "test"),
    ]
    times = [row["at"] for row in rows]
    assert times[1] is None
    assert began <= times[0] <= times[2] <= datetime.now(UTC).replace(tzinfo=None)  # type: ignore[operator]
