"""The Kafka sink on a cluster in memory: no checkpoint passes over a row that is not confirmed, whatever goes wrong."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from edgesocket.components.sink import RejectedRow, SinkContext
from edgesocket.errors import BadRecordError, ComponentError, FencedError
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows
from edgesocket.sinks import kafka_transactions, kafka_window
from edgesocket.sinks.kafka import KafkaSink
from edgesocket.sinks.kafka_bounded import CALL_THREAD
from edgesocket.sinks.kafka_deliveries import FLUSH_S, ROOM_S
from tests.support.fake_kafka import FakeCluster

SEMANTICS = ["NON", "AT_LEAST_ONCE", "EXACTLY_ONCE"]
TEN = [b"p%d" % n for n in range(1, 11)]
TRANSPORT = KafkaError(KafkaError._TRANSPORT, "the connection broke")
TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")


class Engine:
    """Sinks on one cluster, each in a new epoch, used as an engine uses them."""

    def __init__(self, semantics: str) -> None:
        self.semantics = semantics
        self.cluster = FakeCluster()
        self.rejected: list[RejectedRow] = []
        self.epoch = 0
        self.sink = self.start()

    def start(self, options: dict[str, Any] | None = None, **context: Any) -> KafkaSink:
        self.epoch += 1
        self.sink = KafkaSink(
            topic="t",
            bootstrap_servers="nowhere",
            semantics=self.semantics,
            **{"format": "text", **(options or {})},
            clients=self.cluster.clients,  # type: ignore[arg-type]
            sleep=self.cluster.sleep,
            now=self.cluster.now,
        )
        self.sink.open(SinkContext("job", self.epoch, "sink", **{"reject": self.rejected.append, **context}))
        if self.semantics == "EXACTLY_ONCE":
            self.sink.fence(self.epoch)
        return self.sink

    def checkpoint(self, number: int) -> None:
        manifest = self.sink.prepare(number)
        if manifest:
            self.sink.commit(number, manifest)

    @property
    def transactional(self) -> bool:
        return self.semantics == "EXACTLY_ONCE"

    @property
    def values(self) -> list[bytes]:
        return self.cluster.values


@pytest.fixture(params=SEMANTICS)
def engine(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.param)


@pytest.fixture
def deciding() -> Engine:
    return Engine("EXACTLY_ONCE")


def rows(*payloads: bytes) -> Rows:
    return Rows.of_records(RecordBlock.of_run(1, payloads))


class WatchedRows(Rows):
    """Rows that a weak reference may name."""

    __slots__ = ("__weakref__",)


def raising(error: KafkaError) -> Callable[[], None]:
    def happen() -> None:
        raise KafkaException(error)

    return happen


# ---- deliveries ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confirms_in_poll", [True, False])
def test_a_checkpoint_right_behind_the_tenth_row_covers_all_ten(engine: Engine, confirms_in_poll: bool) -> None:
    engine.cluster.confirms_in_poll = confirms_in_poll
    engine.sink.write(rows(*TEN))
    engine.checkpoint(1)
    assert engine.values == TEN


def test_a_checkpoint_waits_for_rows_that_nobody_confirms_and_the_next_one_covers_them(engine: Engine) -> None:
    engine.cluster.up = False
    engine.sink.write(rows(*TEN))
    began = engine.cluster.clock
    with pytest.raises(ComponentError, match="has confirmed any of 10 rows") as waiting:
        engine.sink.prepare(1)
    assert engine.cluster.clock - began >= FLUSH_S
    assert not waiting.value.reopen
    assert engine.values == []
    engine.cluster.up = True
    engine.checkpoint(2)
    assert engine.values == TEN


def test_a_client_that_stands_still_while_the_cluster_answers_is_given_up(deciding: Engine) -> None:
    deciding.cluster.stuck = True
    deciding.sink.write(rows(*TEN))
    for up in (True, False, True):  # it may be slow, or nobody may answer
        deciding.cluster.up = up
        with pytest.raises(ComponentError, match="has confirmed any") as waiting:
            deciding.sink.prepare(1)
        assert not waiting.value.reopen
    with pytest.raises(ComponentError, match="though the cluster answers") as given_up:
        deciding.sink.prepare(1)
    assert given_up.value.reopen
    deciding.sink.close()
    deciding.cluster.stuck = False
    deciding.start()
    assert deciding.sink.landed() == 0
    deciding.sink.write(rows(*TEN))
    deciding.checkpoint(1)
    assert deciding.values == TEN


def test_outside_of_transactions_rows_that_stand_still_are_waited_for() -> None:
    engine = Engine("AT_LEAST_ONCE")
    engine.cluster.stuck = True
    engine.sink.write(rows(*TEN))
    with pytest.raises(ComponentError, match="has confirmed any of 10 rows") as waiting:
        engine.sink.prepare(1)
    assert not waiting.value.reopen
    engine.cluster.stuck = False
    engine.checkpoint(2)
    assert engine.values == TEN


@pytest.mark.parametrize("confirms_in_poll", [True, False], ids=["while sending", "only while flushing"])
def test_a_failed_delivery_of_row_5_fails_the_checkpoint_and_the_replay_writes_all_ten(
    engine: Engine, confirms_in_poll: bool
) -> None:
    engine.cluster.confirms_in_poll = confirms_in_poll
    engine.cluster.delivery_errors[b"p5"] = TRANSPORT
    engine.sink.write(rows(*TEN))
    with pytest.raises(ComponentError, match="the connection broke") as failed:
        engine.sink.prepare(1)
    assert failed.value.reopen
    with pytest.raises(ComponentError) as again:
        engine.sink.prepare(2)
    assert again.value.reopen
    engine.sink.close()

    engine.start()
    engine.sink.write(rows(*TEN))
    engine.checkpoint(1)
    if engine.transactional:
        assert engine.values == TEN
    else:
        assert engine.values == [*TEN[:4], *TEN[5:], *TEN]


def test_a_delivery_that_failed_is_seen_by_the_next_write(engine: Engine) -> None:
    engine.cluster.delivery_errors[b"p5"] = TRANSPORT
    engine.sink.write(rows(*TEN))
    with pytest.raises(ComponentError) as failed:
        engine.sink.write(rows(b"more"))
    assert failed.value.reopen


def test_rows_stay_in_memory_until_they_are_confirmed_and_no_longer(engine: Engine) -> None:
    engine.cluster.confirms_in_poll = False
    batch = WatchedRows.of_records(RecordBlock.of_run(1, TEN))
    kept = weakref.ref(batch)
    engine.sink.write(batch)
    del batch
    gc.collect()
    assert kept() is not None
    engine.cluster.confirms_in_poll = True
    engine.sink.write(rows(b"more"))  # without a checkpoint
    gc.collect()
    assert kept() is None


def test_rows_whose_blocks_are_kept_by_a_few_of_them_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_window, "MOST_ROWS", 10)
    engine = Engine("NON")
    engine.cluster.confirms_in_poll = False
    engine.sink.write(rows(*TEN))
    assert engine.values == []
    engine.sink.write(rows(b"more"))
    assert engine.values == TEN


@pytest.mark.parametrize("flush_fails", [False, True])
def test_a_closed_sink_keeps_no_rows(engine: Engine, flush_fails: bool) -> None:
    engine.cluster.confirms_in_poll = False
    batch = WatchedRows.of_records(RecordBlock.of_run(1, TEN))
    kept = weakref.ref(batch)
    engine.sink.write(batch)
    del batch
    if flush_fails:
        engine.cluster.before["flush"] = raising(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
    engine.sink.close()
    gc.collect()
    assert kept() is None


def test_a_checkpoint_without_rows_has_nothing_to_commit(engine: Engine) -> None:
    assert engine.sink.prepare(1) == {}
    engine.sink.write(rows(*TEN))
    engine.checkpoint(2)
    assert engine.sink.prepare(3) == {}
    assert engine.values == TEN


# ---- a full queue ----------------------------------------------------------------------------------------------------


def test_a_queue_that_is_full_at_row_7_is_waited_for(engine: Engine) -> None:
    engine.cluster.queue_rows = 6
    engine.sink.write(rows(*TEN))
    engine.checkpoint(1)
    assert engine.values == TEN


@pytest.mark.timeout(20)
def test_a_queue_that_is_full_again_after_a_failure_is_waited_for(engine: Engine) -> None:
    engine.cluster.queue_rows = 3
    engine.cluster.delivery_errors[b"p2"] = TRANSPORT
    engine.sink.write(rows(*TEN))
    with pytest.raises(ComponentError, match="the connection broke") as failed:
        engine.sink.prepare(1)
    assert failed.value.reopen


def test_a_producer_that_ends_while_its_queue_is_full_is_a_loss(engine: Engine) -> None:
    engine.cluster.queue_rows = 3
    engine.cluster.before["poll"] = raising(KafkaError(KafkaError._FATAL, "no more"))
    with pytest.raises(ComponentError, match="no more") as failed:
        engine.sink.write(rows(*TEN))
    assert failed.value.reopen
    with pytest.raises(ComponentError):
        engine.sink.prepare(1)


def test_after_a_queue_that_stands_still_the_same_rows_go_on_at_row_7(engine: Engine) -> None:
    engine.cluster.queue_rows, engine.cluster.up = 6, False
    batch, began = rows(*TEN), engine.cluster.clock
    for _ in range(2):
        with pytest.raises(ComponentError, match="queue is full") as full:
            engine.sink.write(batch)
        assert not full.value.reopen
    assert engine.cluster.clock - began >= 2 * ROOM_S
    engine.cluster.up = True
    engine.sink.write(batch)
    engine.checkpoint(1)
    assert engine.values == TEN


def test_rows_that_are_given_up_in_the_middle_are_a_loss(engine: Engine) -> None:
    engine.cluster.queue_rows, engine.cluster.up = 6, False
    with pytest.raises(ComponentError):
        engine.sink.write(rows(*TEN))
    engine.cluster.up = True
    with pytest.raises(ComponentError, match="written in part and given up") as lost:
        engine.sink.write(rows(b"other"))
    assert lost.value.reopen


# ---- rows that are refused -------------------------------------------------------------------------------------------


def test_a_row_that_the_client_refuses_is_rejected_and_the_others_go_on(engine: Engine) -> None:
    engine.cluster.produce_errors[b"p5"] = TOO_LARGE
    engine.sink.write(rows(*TEN))
    engine.checkpoint(1)
    assert engine.values == [*TEN[:4], *TEN[5:]]
    assert [(row.batch_id, row.row) for row in engine.rejected] == [(5, b"p5")]


def test_a_row_that_the_client_refuses_ends_a_job_that_says_fail(engine: Engine) -> None:
    engine.start(reject=SinkContext("", 0, "").reject)
    engine.cluster.produce_errors[b"p5"] = TOO_LARGE
    with pytest.raises(BadRecordError, match="batch 5"):
        engine.sink.write(rows(*TEN))


def test_a_row_that_the_client_cannot_take_is_a_loss(engine: Engine) -> None:
    engine.cluster.produce_errors[b"p5"] = KafkaError(KafkaError._FATAL, "no more")
    with pytest.raises(ComponentError, match="no more") as failed:
        engine.sink.write(rows(*TEN))
    assert failed.value.reopen
    with pytest.raises(ComponentError):
        engine.sink.prepare(1)


@pytest.mark.parametrize("semantics", ["NON", "AT_LEAST_ONCE"])
def test_rows_of_a_refused_batch_are_sent_again_alone(semantics: str) -> None:
    engine = Engine(semantics)
    engine.cluster.delivery_errors[b"p5"] = TOO_LARGE  # once: its neighbour was at fault
    engine.sink.write(rows(*TEN))
    engine.checkpoint(1)
    assert sorted(engine.values) == sorted(TEN)
    assert engine.rejected == []


TWO_BUT_FOR_THEIR_HEADERS = Rows.of_batch(pa.RecordBatch.from_pydict({"id": [1, 1], "h": ["a", "b"]}))


def with_headers() -> Engine:
    """Two rows are one value, and differ in the header."""
    engine = Engine("NON")
    engine.start({"format": "json", "kafka_headers_fields": ["h"]}, schema=TWO_BUT_FOR_THEIR_HEADERS.schema)
    return engine


def test_a_row_that_is_sent_again_alone_has_its_headers() -> None:
    engine = with_headers()
    engine.cluster.delivery_errors_at[1] = TOO_LARGE
    engine.sink.write(TWO_BUT_FOR_THEIR_HEADERS)
    engine.checkpoint(1)
    assert [headers for _, headers in engine.cluster.produced] == [[("h", b"a")], [("h", b"b")], [("h", b"b")]]
    assert engine.rejected == []


def test_of_rows_that_differ_in_headers_the_refused_one_is_rejected() -> None:
    engine = with_headers()
    engine.cluster.delivery_errors_at |= {1: TOO_LARGE, 2: TOO_LARGE}
    engine.sink.write(TWO_BUT_FOR_THEIR_HEADERS)
    engine.checkpoint(1)
    assert [row.batch_id for row in engine.rejected] == [2]


def test_a_refusal_inside_a_transaction_ends_the_job_and_names_the_batch(deciding: Engine) -> None:
    deciding.cluster.delivery_errors[b"p5"] = TOO_LARGE
    deciding.sink.write(rows(*TEN))
    with pytest.raises(ComponentError, match="refuses batch 5") as failed:
        deciding.sink.prepare(1)
    assert not failed.value.retryable
    assert deciding.values == []


# ---- transactions ----------------------------------------------------------------------------------------------------


def test_a_commit_whose_answer_is_lost_is_asked_for_again_and_doubles_nothing(deciding: Engine) -> None:
    deciding.sink.write(rows(*TEN))
    later = KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True)
    deciding.cluster.after["commit_transaction"] = raising(later)
    deciding.checkpoint(1)
    assert deciding.values == TEN
    assert deciding.sink.landed() == 1


def test_a_commit_of_unknown_outcome_is_read_back(deciding: Engine) -> None:
    deciding.sink.write(rows(*TEN))
    deciding.cluster.after["commit_transaction"] = raising(KafkaError(KafkaError._FAIL, "who knows"))
    with pytest.raises(ComponentError) as unknown:
        deciding.checkpoint(1)
    assert unknown.value.reopen
    assert deciding.sink.landed() == 1
    deciding.start()
    assert deciding.sink.landed() == 1
    assert deciding.values == TEN


@pytest.mark.parametrize("call", ["begin_transaction", "send_offsets_to_transaction", "commit_transaction"])
def test_a_transaction_that_failed_is_never_reported_as_done(deciding: Engine, call: str) -> None:
    deciding.cluster.before[call] = raising(KafkaError(KafkaError._STATE, "ended", txn_requires_abort=True))
    with pytest.raises(ComponentError) as failed:
        deciding.sink.write(rows(*TEN))
        deciding.checkpoint(1)
    assert failed.value.reopen
    assert deciding.values == []
    assert deciding.sink.landed() == 0
    deciding.start()
    deciding.sink.write(rows(*TEN))
    deciding.checkpoint(1)
    assert deciding.values == TEN


def test_a_call_that_may_work_later_is_repeated_for_a_bounded_time(deciding: Engine) -> None:
    deciding.sink.write(rows(*TEN))
    later = KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True)

    def never() -> None:
        deciding.cluster.before["commit_transaction"] = never
        raise KafkaException(later)

    deciding.cluster.before["commit_transaction"] = never
    began = deciding.cluster.clock
    with pytest.raises(ComponentError) as failed:
        deciding.checkpoint(1)
    assert failed.value.reopen
    assert deciding.cluster.clock - began == pytest.approx(kafka_transactions.GIVE_UP_S, abs=1)


@pytest.mark.parametrize("call", ["send_offsets_to_transaction", "commit_transaction"])
def test_a_call_that_never_returns_is_left_behind(deciding: Engine, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_transactions, "HARD_LIMIT_S", 0.05)
    goes_on = threading.Event()
    deciding.sink.write(rows(*TEN))
    deciding.cluster.before[call] = goes_on.wait  # type: ignore[assignment]
    with pytest.raises(ComponentError, match=r"has not answered for 0\.05 s") as failed:
        deciding.checkpoint(1)
    assert failed.value.reopen
    deciding.sink.close()
    monkeypatch.undo()
    deciding.start()
    goes_on.set()
    for thread in threading.enumerate():
        if thread.name == CALL_THREAD:
            thread.join()
    assert deciding.sink.landed() == 0
    deciding.sink.write(rows(*TEN))
    deciding.checkpoint(1)
    assert deciding.values == TEN


@pytest.mark.parametrize("trouble", [False, True])
def test_after_a_broken_connection_the_group_is_waited_for_before_its_offset_is_sent(
    deciding: Engine, trouble: bool
) -> None:
    calls: list[str] = []
    for name in ("committed", "send_offsets_to_transaction"):
        deciding.cluster.before[name] = lambda name=name: calls.append(name)  # type: ignore[misc]
    deciding.sink.write(rows(*TEN))
    if trouble:
        assert deciding.cluster.owner is not None
        deciding.cluster.owner.on_error(TRANSPORT)
    deciding.checkpoint(1)
    assert calls == ["committed"] * trouble + ["send_offsets_to_transaction"]
    assert deciding.values == TEN


def test_a_group_that_does_not_come_back_ends_the_wait(deciding: Engine) -> None:
    def never() -> None:
        deciding.cluster.before["committed"] = never
        deciding.cluster.sleep(10)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))

    deciding.sink.write(rows(*TEN))
    assert deciding.cluster.owner is not None
    deciding.cluster.owner.on_error(TRANSPORT)
    deciding.cluster.before["committed"] = never
    with pytest.raises(ComponentError, match="read the last checkpoint") as failed:
        deciding.checkpoint(1)
    assert failed.value.reopen
    assert deciding.values == []


def test_a_group_that_is_still_being_loaded_is_asked_again(deciding: Engine) -> None:
    deciding.sink.write(rows(*TEN))
    deciding.checkpoint(1)
    deciding.cluster.before["committed"] = raising(KafkaError(KafkaError.NOT_COORDINATOR, "loading"))
    assert deciding.sink.landed() == 1


def test_a_fenced_run_cannot_commit_and_says_so(deciding: Engine) -> None:
    deciding.sink.write(rows(*TEN))
    manifest, old = deciding.sink.prepare(1), deciding.sink
    new = deciding.start()
    with pytest.raises(FencedError):
        old.commit(1, manifest)
    assert deciding.values == []
    assert new.landed() == 0
    with pytest.raises(FencedError):
        old.prepare(2)


def test_a_state_directory_that_is_behind_the_cluster_is_refused(deciding: Engine) -> None:
    deciding.sink.write(rows(*TEN))
    deciding.checkpoint(7)
    deciding.start()
    deciding.sink.write(rows(*TEN))
    with pytest.raises(ComponentError, match="set another transaction_prefix") as refused:
        deciding.sink.prepare(7)
    assert not refused.value.retryable
