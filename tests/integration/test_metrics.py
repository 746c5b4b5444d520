"""Every metric of the catalogue moves when what it is about happens, in a real job with real sockets.

The table says what makes each metric move. A metric without an entry fails, so that none is added untested.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgesocket.errors import ComponentError, StoreError
from edgesocket.ingress import ledger
from edgesocket.packet.cipher import PacketCipher
from edgesocket.store.arrivals import ArrivalWriter
from edgesocket.telemetry.metrics import METRICS, ONLY_WITH_TLS, WAITING_STATES, Metric
from tests.support.jobs import TOKEN, wait_until
from tests.support.metered_jobs import Metered, MeteredJob, Values
from tests.support.tls import Authority, TlsSocket, client_context

KEY = bytes(range(32))
SCHEMA = "schema = { fields { n = bigint } }"
GOOD = '{"n":1}'
PATIENCE_S = 15.0


@dataclass
class World:
    """A job that takes JSON in RAW lines, one that takes packets, and what both said before they ran."""

    raw: MeteredJob
    packets: MeteredJob
    board: Metered
    at_first: Values
    directory: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("metered")
    raw = MeteredJob(
        directory,
        "raw",
        env="job.retry.times = 50",
        source=f"{SCHEMA}\n on_bad_record = dead_letter\n local_queue_capacity = 10\n auth_timeout_ms = 300\n"
        "invalid_utf8 = replace",
    )
    packets = MeteredJob(
        directory,
        "packets",
        env="checkpoint.interval = 150",
        source=f'packet_mode = PACKET\n secret_key = "{base64.b64encode(KEY).decode()}"\n {SCHEMA}\n'
        "json_mode = lenient\n local_queue_capacity = 20\n local_queue_max_bytes = 1000000",
    )
    board = Metered(raw, packets)
    at_first = board.values()
    raw.start()
    packets.start()
    yield World(raw, packets, board, at_first, directory)
    raw.stop()
    packets.stop()


def packet(text: str, iv: bytes) -> str:
    """A packet as the reference's collectors encrypt it."""
    sealed = base64.b64encode(PacketCipher(KEY).encrypt(text.encode(), iv)).decode()
    return json.dumps(
        {
            "version": 1,
            "payload": sealed,
            "compression": "NONE",
            "encryption": "AES_GCM",
            "iv": base64.b64encode(iv).decode(),
        }
    )


# ---- what makes metrics move; what is returned undoes it -------------------------------------------------------------

Move = Callable[[World, pytest.MonkeyPatch], Callable[[], Any] | None]


def send(world: World, _: pytest.MonkeyPatch) -> None:
    assert world.raw.send(GOOD, GOOD) == ["RECEIVED", "RECEIVED"]


def start(world: World, _: pytest.MonkeyPatch) -> None:
    """They were started already; the comparison is with what was said before."""
    world.at_first.update({"edgesocket_job_running": 0.0})


def block_the_sink(world: World, _: pytest.MonkeyPatch) -> Callable[[], Any]:
    gate = world.raw.gate
    gate.close()
    world.raw.send(GOOD)
    wait_until(gate.before_it.is_set)  # what comes now stays in the queue
    world.raw.send(*[GOOD] * 4)
    return gate.open.set


def hold_a_batch(world: World, _: pytest.MonkeyPatch) -> None:
    """One batch is refused, and the next one is accepted. Its collector sends it again afterwards (`catch_up`)."""
    raw = world.raw
    raw.gate.close()
    while raw.send(GOOD) == ["RECEIVED"]:
        pass
    raw.gate.open.set()
    wait_until(lambda: raw.reading().status["source"]["queue"]["records"] == 0)
    raw.send(GOOD)


def fail_the_sink(world: World, _: pytest.MonkeyPatch) -> Callable[[], Any]:
    world.raw.gate.write_error = ComponentError("down")
    world.raw.send(GOOD)
    return lambda: setattr(world.raw.gate, "write_error", None)


def fail_a_checkpoint(world: World, _: pytest.MonkeyPatch) -> Callable[[], Any]:
    world.raw.gate.prepare_error = ComponentError("down")
    world.raw.send(GOOD)
    return lambda: setattr(world.raw.gate, "prepare_error", None)


def fail_the_job(world: World, _: pytest.MonkeyPatch) -> None:
    """It is started again from its last checkpoint."""
    raw = world.raw
    restarts = raw.runner.restarts
    raw.gate.write_error = ComponentError("broken", reopen=True)
    raw.send(GOOD)
    wait_until(lambda: raw.runner.status()["state"] == "restarting" or raw.runner.restarts > restarts)
    raw.gate.write_error = None
    raw.hang_up()
    wait_until(lambda: raw.runner.restarts > restarts and raw.runner.status()["state"] == "running")


def fail_for_good(world: World, _: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A job that may not be started again, beside the others."""
    last = MeteredJob(world.directory, "last", env="job.retry.times = 0")
    last.start()
    last.gate.write_error = ComponentError("broken", reopen=True)
    world.board.jobs = (*world.board.jobs, last)
    last.send(GOOD)
    last.hang_up()

    def forget() -> None:
        world.board.jobs = world.board.jobs[:2]
        last.stop()

    return forget


def fail_the_arrival_log(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    def full(self: ArrivalWriter, data: bytes) -> None:
        raise StoreError("no room")

    raw = world.raw
    raw.wire.ask("__COMMIT__:1")
    monkeypatch.setattr(ArrivalWriter, "append", full)
    raw.wire.send(f"__BATCH__:{raw.ids + 1}:{GOOD}")
    raw.ids += 1
    raw.hang_up()
    return monkeypatch.undo


def fill_the_ledger(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    monkeypatch.setattr(ledger, "MAX_LEDGER_RANGES", 0)
    return monkeypatch.undo


def reconnect(world: World, _: pytest.MonkeyPatch) -> None:
    world.raw.hang_up()
    world.raw.wire.ask("__COMMIT__:1")


def leave(world: World, _: pytest.MonkeyPatch) -> None:
    world.raw.wire.ask("__COMMIT__:1")
    before = world.board.values()
    world.at_first["edgesocket_collector_connected"] = before["edgesocket_collector_connected"]
    world.raw.hang_up()


def knock_with_a_wrong_token(world: World, _: pytest.MonkeyPatch) -> None:
    world.raw.hang_up()
    wait_until(lambda: world.raw.reading().status["source"]["listener"]["state"] == "listening")
    with socket.create_connection(("127.0.0.1", world.raw.port), 5) as peer:
        peer.sendall(f"__AUTH__:not-{TOKEN}\n".encode())
        assert peer.recv(100) == b"AUTH_FAILED\n"


def say_nothing(world: World, _: pytest.MonkeyPatch) -> None:
    world.raw.hang_up()
    wait_until(lambda: world.raw.reading().status["source"]["listener"]["state"] == "listening")
    with socket.create_connection(("127.0.0.1", world.raw.port), 5) as peer:
        assert peer.recv(100) == b""


def send_what_does_not_fit(world: World, _: pytest.MonkeyPatch) -> None:
    world.raw.send('{"n":"no number"}')


def send_what_makes_no_row(world: World, _: pytest.MonkeyPatch) -> None:
    assert world.packets.send(packet("null", b"%012d" % world.packets.ids)) == ["RECEIVED"]


def send_what_is_not_utf8(world: World, _: pytest.MonkeyPatch) -> None:
    world.raw.send(b'{"n":1,"x":"\xff"}')


def send_again(world: World, _: pytest.MonkeyPatch) -> None:
    world.raw.send('{"n":5}')
    assert world.raw.send_as(world.raw.ids, '{"n":5}') == "RECEIVED"


def send_another_under_the_same_id(world: World, _: pytest.MonkeyPatch) -> None:
    world.raw.send('{"n":5}')
    assert world.raw.send_as(world.raw.ids, '{"n":6}') == "RECEIVED"


def send_an_iv_twice(world: World, _: pytest.MonkeyPatch) -> None:
    iv = b"0123456789ab"
    assert world.packets.send(packet('{"n":1}', iv), packet('{"n":2}', iv)) == ["RECEIVED"] * 2


def wait(_: World, __: pytest.MonkeyPatch) -> None:
    """Time goes by."""


MOVES: dict[str, Move] = {
    "edgesocket_job_running": start,
    "edgesocket_job_failed": fail_for_good,
    "edgesocket_job_epoch": fail_the_job,
    "edgesocket_job_restarts_total": fail_the_job,
    "edgesocket_job_rows_total": send,
    "edgesocket_job_events_total": fail_the_sink,
    "edgesocket_source_ready": start,
    "edgesocket_collector_connected": leave,
    "edgesocket_collector_connected_seconds": reconnect,
    "edgesocket_collector_sessions_total": reconnect,
    "edgesocket_connections_total": reconnect,
    "edgesocket_auth_failures_total": knock_with_a_wrong_token,
    "edgesocket_peers_refused_total": say_nothing,
    "edgesocket_received_bytes_total": send,
    "edgesocket_sent_bytes_total": send,
    "edgesocket_replies_total": send,
    "edgesocket_payload_bytes_total": send,
    "edgesocket_source_records_total": send,
    "edgesocket_resends_total": send_again,
    "edgesocket_reused_ids_total": send_another_under_the_same_id,
    "edgesocket_reused_ivs_total": send_an_iv_twice,
    "edgesocket_bad_records_total": send_what_does_not_fit,
    "edgesocket_dropped_records_total": send_what_makes_no_row,
    "edgesocket_replaced_text_records_total": send_what_is_not_utf8,
    "edgesocket_batches": block_the_sink,
    "edgesocket_queue_records": block_the_sink,
    "edgesocket_queue_bytes": block_the_sink,
    "edgesocket_queue_most_records": hold_a_batch,
    "edgesocket_confirmed_watermark": send,
    "edgesocket_highest_offered_id": send,
    "edgesocket_oldest_unconfirmed_seconds": block_the_sink,
    "edgesocket_watermark_held_id": hold_a_batch,
    "edgesocket_watermark_held_seconds": hold_a_batch,
    "edgesocket_ledger_full": fill_the_ledger,
    "edgesocket_arrival_log_failing_seconds": fail_the_arrival_log,
    "edgesocket_checkpoints_total": send,
    "edgesocket_checkpoint_duration_seconds": send,
    "edgesocket_checkpoint_age_seconds": wait,
    "edgesocket_checkpoint_number": send,
    "edgesocket_checkpoint_state_bytes": send,
    "edgesocket_checkpoint_failing_seconds": fail_a_checkpoint,
    "edgesocket_sink_rows_total": send,
    "edgesocket_sink_failures_total": fail_the_sink,
    "edgesocket_sink_write_seconds": send,
    "edgesocket_sink_prepare_seconds": send,
    "edgesocket_sink_failing_seconds": fail_the_sink,
    "edgesocket_dead_letters_total": send_what_does_not_fit,
}

SET_BY_OPTIONS = {
    "edgesocket_queue_capacity_records": {"raw": 10, "packets": 20},
    "edgesocket_queue_mark_records": {"raw": 9, "packets": 18},
    "edgesocket_queue_mark_bytes": {"raw": 256 * 1024 * 1024, "packets": 1_000_000},
    "edgesocket_checkpoint_interval_seconds": {"raw": 0.1, "packets": 0.15},
}
"""Metrics that only an option moves, with what each job has."""

NAMES = {metric.name: metric for metric in METRICS}


def test_every_metric_has_an_entry() -> None:
    assert set(MOVES) | set(SET_BY_OPTIONS) | ONLY_WITH_TLS == set(NAMES)
    assert not set(MOVES) & set(SET_BY_OPTIONS)


@pytest.mark.parametrize("name", [name for name in NAMES if name in MOVES])
def test_it_moves(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = world.at_first if MOVES[name] is start else world.board.values()
    undo = MOVES[name](world, monkeypatch)
    if MOVES[name] is leave:
        before = world.at_first
    try:
        wait_until(lambda: world.board.values().get(name) != before.get(name), PATIENCE_S, f"a move of {name}")
        after = world.board.values()[name]
    finally:
        if undo is not None:
            undo()
        world.raw.catch_up()
    if name.endswith("_total"):
        lowest = -1.0 if MOVES[name] is fail_the_job else before.get(name, 0.0)
        assert after > lowest, "a counter only rises"


@pytest.mark.parametrize("name", SET_BY_OPTIONS)
def test_it_is_what_the_job_file_says(world: World, name: str) -> None:
    found = {labels["job_name"]: value for sample, labels, value in world.board.samples() if sample == name}
    assert found == SET_BY_OPTIONS[name]


def test_the_end_of_a_certificate_moves_when_its_file_changes(tmp_path: Path, world: World) -> None:
    name, authority = "edgesocket_tls_certificate_expires_timestamp_seconds", Authority(tmp_path)
    assert name not in world.board.values(), "a port without TLS has none"
    certificate, key = authority.issue("port", "localhost")
    job = MeteredJob(tmp_path, "tls", source=f'tls {{ cert_file = "{certificate}", key_file = "{key}" }}')
    job.start()
    try:
        board = Metered(job)
        before = board.values()[name]
        assert before > time.time()
        authority.issue("port", "localhost", expired=True)
        with socket.create_connection(("127.0.0.1", job.port), 5) as peer:
            TlsSocket(peer, client_context(None))
        assert board.values()[name] < time.time()
    finally:
        job.stop()


@pytest.mark.parametrize(
    "metric", [metric for metric in METRICS if metric.name not in ONLY_WITH_TLS], ids=lambda metric: metric.name
)
def test_every_sample_has_the_labels_of_the_catalogue(world: World, metric: Metric) -> None:
    shown = [labels for name, labels, _ in world.board.samples() if name == metric.name]
    assert shown
    assert all(tuple(labels) == metric.labels for labels in shown)
    assert {labels["job_name"] for labels in shown} == {"raw", "packets"}
    assert all(labels.values() for labels in shown), "no label is empty"


def test_all_series_of_a_job_are_there_from_its_first_checkpoint_on(world: World) -> None:
    """A series that appears with its first event has no rate for it: an alert would miss the first failure."""
    before = {(name, tuple(sorted(labels.items()))) for name, labels, _ in world.board.samples()}
    send_what_does_not_fit(world, pytest.MonkeyPatch())
    send_again(world, pytest.MonkeyPatch())
    after = {(name, tuple(sorted(labels.items()))) for name, labels, _ in world.board.samples()}
    assert before == after


def test_what_is_on_its_way_holds_no_watermark_in_the_sense_of_the_metric() -> None:
    assert not {"received", "captured"} & set(WAITING_STATES)


def test_every_field_of_the_status_is_documented(world: World) -> None:
    page = (Path(__file__).parents[2] / "docs/metrics.md").read_text(encoding="utf-8")
    section = page.partition("\n## The status\n")[2]
    names = set(re.findall(r"`(?:[a-z_]+\.)*([a-z_0-9]+)`", section))
    by_key = {"each", "replies", "payload_bytes"}  # what is under these has names of sinks and replies

    def undocumented(part: dict[str, Any]) -> Iterator[str]:
        for key, value in part.items():
            if key not in names:
                yield key
            if isinstance(value, dict):
                inner = value.values() if key in by_key else (value,)
                for one in inner:
                    if isinstance(one, dict):
                        yield from undocumented(one)

    assert sorted(undocumented(world.raw.runner.status())) == []
