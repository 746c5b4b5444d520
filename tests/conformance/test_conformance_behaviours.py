"""What went wrong in other implementations of this protocol must not go wrong here: on the real listener.

Each test is named after the behaviour. A connection that is silent, drips or comes a thousand times is in
`tests/integration/test_net_election.py`; rotation and the like belong to agents and are not here.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import time
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conformance_listener import ListeningRig, Peer, wait_for
from conformance_transcript import TOKEN

from edgesocket.errors import DamagedStateError
from edgesocket.ingress import ledger
from tests.support.jobs import Job, Wire, free_port, rows, wait_for_ack, write_job
from tests.support.memory import HAS_PROC, MIB, Meter
from tests.support.namespaces import ADDRESSES, Network, network_or_skip


@pytest.fixture
def network() -> Iterator[Network]:
    with network_or_skip() as network:
        yield network


# ---- a read timeout in the middle of a line --------------------------------------------------------------------------


def test_a_stall_of_two_seconds_inside_a_batch_line_loses_nothing(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", accept_timeout_ms=50) as rig, rig.collector() as peer:
        peer.send(b"__BATCH__:1:a\n__BATCH__:2:first half, ")
        assert peer.line() == "RECEIVED"
        time.sleep(2)
        peer.send(b"second half\n__BATCH__:3:c\n")
        assert peer.lines(2) == ["RECEIVED", "RECEIVED"]

        assert rig.take() == 3
        assert rig.checkpoint().completed
        assert rig.rows() == [b"1:a", b"2:first half, second half", b"3:c"]


def test_a_stall_of_two_seconds_inside_the_first_line_is_no_wrong_token(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", accept_timeout_ms=50) as rig, Peer(rig.port) as peer:
        peer.send(f"__AUTH__:{TOKEN[:5]}".encode())
        time.sleep(2)
        peer.send(f"{TOKEN[5:]}\n".encode())
        assert peer.line() == "ACK"


# ---- text that is none -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload", [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82"]
)
def test_bad_utf8_is_refused_and_never_replaced_in_silence(tmp_path: Path, payload: bytes) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        replies = peer.ask(b"__BATCH__:1:a", b"__BATCH__:2:" + payload, "__BATCH__:3:\u00e9\U0001f600".encode())
        assert replies == "RECEIVED DECODE_FAILED RECEIVED"

        assert rig.take() == 2
        assert rig.checkpoint().completed
        assert rig.rows() == [b"1:a", "3:\u00e9\U0001f600".encode()]
        assert peer.ask("__COMMIT__:3") == "ACK:3", "the refused batch does not hold the watermark"


@pytest.mark.parametrize(
    ("options", "payload"),
    [
        ({}, b"a\xff"),
        ({"packet_mode": "PACKET"}, b'{"version":1,"payload":"Yf8="}'),
    ],
    ids=["RAW", "PACKET"],
)
def test_with_replace_the_record_goes_through_and_somebody_is_told(
    tmp_path: Path, options: dict[str, Any], payload: bytes
) -> None:
    with ListeningRig(tmp_path / "job-1", invalid_utf8="replace", **options) as rig, rig.collector() as peer:
        assert peer.ask(b"__BATCH__:1:" + payload) == "RECEIVED"
        assert rig.take() == 1
        assert rig.checkpoint().completed
        assert rig.rows() == ["1:a\ufffd".encode()]
        rig.source.tick()
        assert rig.source.status()["replaced_utf8"] == 1
        assert any("U+FFFD" in report for report in rig.reports)


# ---- collectors that are gone ----------------------------------------------------------------------------------------


def test_a_half_open_collector_is_noticed_and_the_next_one_is_let_in(tmp_path: Path, network: Network) -> None:
    """A host that vanished without a FIN: keepalive ends the session, and nothing it sent is lost."""
    options = {"keepalive_idle_s": 1, "keepalive_interval_s": 1, "keepalive_probes": 1, "user_timeout_ms": 2000}
    rig = ListeningRig(tmp_path / "job-1", **options)
    with network.inside(0):
        rig.start()
    with rig:
        with network.inside(1):
            gone = Peer(rig.port, ADDRESSES[0])
        assert gone.ask(f"__AUTH__:{TOKEN}", "__BATCH__:1:a") == "ACK RECEIVED"
        network.cut()
        started = time.monotonic()
        rig.wait_until_listening()
        assert time.monotonic() - started < 6

        network.mend()
        with network.inside(1):
            following = Peer(rig.port, ADDRESSES[0])
        assert following.ask(f"__AUTH__:{TOKEN}", "__BATCH__:2:b") == "ACK RECEIVED"
        rig.take()
        assert rig.checkpoint().completed
        assert following.ask("__COMMIT__:2") == "ACK:2"
        gone.close()
        following.close()


def test_a_collector_that_resets_before_reading_its_reply_may_send_the_batch_again(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig:
        peer = rig.collector()
        peer.send(b"__BATCH__:7:x\n")
        wait_for(lambda: rig.source.status()["replies"].get("RECEIVED"))
        peer.reset()
        rig.wait_until_listening()

        with rig.collector() as again:
            assert again.ask("__BATCH__:7:x") == "RECEIVED"
            assert rig.take() == 1
            assert rig.checkpoint().completed
            assert again.ask("__COMMIT__:7") == "ACK:7"
        assert rig.rows() == [b"7:x"]


# ---- who gets in -----------------------------------------------------------------------------------------------------


def test_rejected_can_be_reached_by_everyone_in_the_race(tmp_path: Path) -> None:
    """Those still in the kernel's backlog, and those that were accepted and have not authenticated yet."""
    with ListeningRig(tmp_path / "job-1") as rig:
        early = [Peer(rig.port) for _ in range(3)]
        wait_for(lambda: rig.listener()["waiting_peers"] == 3)
        elected = Peer(rig.port)
        late = [Peer(rig.port) for _ in range(3)]
        elected.send(f"__AUTH__:{TOKEN}\n".encode())
        assert elected.line() == "ACK"

        for peer in [*early, *late]:
            assert peer.rest() == b"REJECTED\n"
            peer.close()
        with pytest.raises(ConnectionRefusedError):
            Peer(rig.port)
        assert elected.ask("__BATCH__:1:a") == "RECEIVED"
        elected.close()


def test_a_peer_that_does_not_authenticate_holds_up_nobody(tmp_path: Path) -> None:
    """Not even for one `accept_timeout_ms`."""
    with ListeningRig(tmp_path / "job-1", accept_timeout_ms=5000) as rig, Peer(rig.port) as silent:
        silent.send(b"__AUTH__:")
        wait_for(lambda: rig.listener()["waiting_peers"] == 1)
        started = time.monotonic()
        with rig.collector() as peer:
            assert peer.ask("__BATCH__:1:a") == "RECEIVED"
        assert time.monotonic() - started < 2


# ---- the watermark ---------------------------------------------------------------------------------------------------


def test_ids_10_20_30_are_acknowledged_with_30(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        for batch_id in (10, 20, 30):
            assert peer.ask(f"__BATCH__:{batch_id}:x") == "RECEIVED"
        rig.take()
        assert rig.checkpoint().completed
        assert peer.ask("__COMMIT__:30", "__COMMIT__:10", "__COMMIT__:20") == "ACK:30 ACK:30 ACK:30"


def test_a_skipped_and_a_refused_id_do_not_stop_the_watermark_for_ever(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        assert peer.ask("__BATCH__:1:a", b"__BATCH__:2:\xff", "__BATCH__:4:d") == "RECEIVED DECODE_FAILED RECEIVED"
        rig.take()
        assert rig.checkpoint().completed
        assert peer.ask("__COMMIT__:4") == "ACK:4"
        rig.crash()
        rig.start()
        with rig.collector() as again:
            assert again.ask("__COMMIT__:4", "__BATCH__:5:e") == "ACK:4 RECEIVED"
            rig.take()
            assert rig.checkpoint().completed
            assert again.ask("__COMMIT__:5") == "ACK:5"


def test_no_ack_without_a_checkpoint_on_the_second_batch(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        assert peer.ask("__BATCH__:1:a", "__COMMIT__:1") == "RECEIVED PENDING"
        assert peer.ask("__BATCH__:2:b", "__COMMIT__:1", "__COMMIT__:2") == "RECEIVED PENDING PENDING"
        rig.take()
        assert peer.ask("__COMMIT__:1", "__BATCH__:3:c", "__COMMIT__:1") == "PENDING RECEIVED PENDING"


def test_a_first_id_of_7_is_no_ack_for_what_lies_below(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        assert peer.ask("__BATCH__:7:g", "__COMMIT__:5", "__COMMIT__:6", "__COMMIT__:7") == (
            "RECEIVED RETRY RETRY PENDING"
        )


def test_what_was_received_and_not_confirmed_answers_resend_after_kill_9(tmp_path: Path) -> None:
    """A real process. Upstream answers RETRY here, and a collector that waits as it is told waits for ever."""
    port = free_port()
    with Job(write_job(tmp_path, port)) as job:
        assert job.wait_until_listening()
        with Wire(port) as wire:
            assert wire.ask("__BATCH__:1:a", "__BATCH__:2:b") == "RECEIVED RECEIVED"
            assert wait_for_ack(wire, 2) == "ACK:2"
        assert job.stop() == 0
    with Job(write_job(tmp_path, port, env="checkpoint.interval = 1 hour")) as job:
        assert job.wait_until_listening()
        with Wire(port) as wire:
            assert wire.ask("__BATCH__:3:c", "__BATCH__:4:d") == "RECEIVED RECEIVED"
            job.kill()
    with Job(write_job(tmp_path, port)) as job:
        assert job.wait_until_listening()
        with Wire(port) as wire:
            replies = wire.ask("__COMMIT__:2", "__COMMIT__:3", "__COMMIT__:4", "__COMMIT__:5")
            assert replies == "ACK:2 RESEND RESEND RETRY"
            assert wire.ask("__BATCH__:3:c", "__BATCH__:4:d") == "RECEIVED RECEIVED"
            assert wait_for_ack(wire, 4) == "ACK:4"
        assert job.stop() == 0
    assert rows(tmp_path / "out") == ["a", "b", "c", "d"]


# ---- poison ----------------------------------------------------------------------------------------------------------


def packet(payload: bytes, compression: str) -> bytes:
    return json.dumps(
        {"version": 1, "payload": base64.b64encode(payload).decode(), "compression": compression}
    ).encode()


RECORD = b'{"user_id":7}' * 100
POISON = {
    "gzip cut": packet(gzip.compress(RECORD)[:-9], "GZIP"),
    "gzip with a wrong checksum": packet(gzip.compress(RECORD)[:-8] + bytes(8), "GZIP"),
    "gzip with something behind it": packet(gzip.compress(RECORD) + b"x", "GZIP"),
    "zlib cut": packet(zlib.compress(RECORD)[:-1], "ZLIB"),
    "gzip called zlib": packet(gzip.compress(RECORD), "ZLIB"),
    "zlib called deflate": packet(zlib.compress(RECORD), "DEFLATE"),
    "not text inside": packet(gzip.compress(b"\xff\xfe"), "GZIP"),
    "too large inside": packet(gzip.compress(bytes(2_000_000)), "GZIP"),
    "not a packet": b"hello",
}


def test_a_poison_record_is_refused_at_ingress_and_cannot_crash_a_job_again_and_again(tmp_path: Path) -> None:
    """What was RECEIVED can be decoded: nothing that fails later gets into the queue or a checkpoint."""
    with ListeningRig(tmp_path / "job-1", packet_mode="PACKET", max_record_bytes=1_000_000) as rig:
        with rig.collector() as peer:
            for batch_id, poison in enumerate(POISON.values(), 1):
                assert peer.ask(b"__BATCH__:%d:%b" % (batch_id, poison)) == "DECODE_FAILED"
            last = len(POISON) + 1
            assert peer.ask(b"__BATCH__:%d:%b" % (last, packet(gzip.compress(RECORD), "GZIP"))) == "RECEIVED"
            assert rig.checkpoint().completed
        for _ in range(2):
            rig.crash()
            rig.start()
        with rig.collector() as peer:
            assert peer.ask(f"__COMMIT__:{last}") == "PENDING"
            assert rig.take() == 1
            assert rig.checkpoint().completed
            assert peer.ask(f"__COMMIT__:{last}") == f"ACK:{last}"
        assert rig.rows() == [b"%d:%b" % (last, RECORD)]


def test_a_restore_into_a_smaller_queue_starts_and_keeps_the_order(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", local_queue_capacity=100) as rig:
        with rig.collector() as peer:
            for batch_id in range(1, 51):
                assert peer.ask(f"__BATCH__:{batch_id}:x") == "RECEIVED"
        assert rig.checkpoint().completed
        rig.crash()
        assert rig.options is not None
        rig.options["local_queue_capacity"] = 10
        rig.start()
        with rig.collector() as peer:
            assert peer.ask("__BATCH__:51:x") == "QUEUE_FULL:500"
            assert rig.take() == 50
            assert peer.ask("__BATCH__:51:x") == "RECEIVED"
            rig.take()
            assert rig.checkpoint().completed
            assert peer.ask("__COMMIT__:51") == "ACK:51"
        assert rig.rows() == [b"%d:x" % n for n in range(1, 52)]


def test_a_damaged_record_names_the_file_and_the_way_on_instead_of_starting_empty(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        assert peer.ask("__BATCH__:1:a") == "RECEIVED"
        rig.take()
        assert rig.checkpoint().completed
        rig.crash()
        newest = rig.files("log/")[-1]
        newest.write_bytes(newest.read_bytes()[:-10])
        with pytest.raises(DamagedStateError, match=newest.name):
            rig.start()
        rig.incarnation = None


# ---- bounds ----------------------------------------------------------------------------------------------------------


needs_proc = pytest.mark.skipif(not HAS_PROC, reason="memory is read from /proc")


def test_a_first_line_without_end_is_cut_off_at_4_kib(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, Peer(rig.port) as peer:
        peer.send(b"__AUTH__:" + b"x" * 4096)
        assert peer.rest() == b"AUTH_FAILED\n"


@needs_proc
def test_a_hundred_mebibytes_without_a_line_end_are_not_held(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", max_line_bytes=MIB) as rig, rig.collector() as peer:
        meter = Meter(os.getpid())
        peer.send(b"__BATCH__:1:")
        piece = b"x" * MIB
        for _ in range(100):
            peer.send(piece)
        assert meter.grown() < 32 * MIB
        peer.send(b"\n__BATCH__:2:ok\n")
        assert peer.lines(2) == ["BAD_REQUEST", "RECEIVED"]
        rig.take()
        assert rig.checkpoint().completed
        assert rig.rows() == [b"2:ok"]


def test_lines_up_to_the_limit_arrive_byte_by_byte_identical_and_one_more_is_refused(tmp_path: Path) -> None:
    limit = 100_000
    with ListeningRig(tmp_path / "job-1", max_line_bytes=limit) as rig, rig.collector() as peer:
        header = len(b"__BATCH__:1:")
        good = bytes(65 + n % 26 for n in range(limit - header))
        replies = peer.ask(
            b"__BATCH__:1:" + b"A" * 70_000,
            b"__BATCH__:2:" + good,
            b"__BATCH__:3:" + good + b"x",
            b"__BATCH__:4:ok",
            b"__BATCH__:5:" + good * 4,
            b"__BATCH__:6:ok",
        )
        assert replies == "RECEIVED RECEIVED BAD_REQUEST RECEIVED BAD_REQUEST RECEIVED"
        rig.take()
        assert rig.checkpoint().completed
        assert rig.rows() == [b"1:" + b"A" * 70_000, b"2:" + good, b"4:ok", b"6:ok"]


def test_the_queue_is_bounded_in_bytes_and_takes_one_record_of_any_size_when_empty(tmp_path: Path) -> None:
    options = {"local_queue_capacity": 100_000, "local_queue_max_bytes": MIB}
    with ListeningRig(tmp_path / "job-1", **options) as rig, rig.collector() as peer:
        large = b"x" * (MIB // 4)
        replies = peer.ask(*[b"__BATCH__:%d:%b" % (n, large) for n in range(1, 11)])
        assert replies == " ".join(["RECEIVED"] * 4 + ["QUEUE_FULL:500"] * 6)
        assert rig.source.status()["queue"]["bytes"] == MIB
        rig.take()
        assert peer.ask(b"__BATCH__:5:" + large * 8) == "RECEIVED"
        assert peer.ask(b"__BATCH__:6:x") == "QUEUE_FULL:500"


@needs_proc
def test_a_packet_inflates_no_further_than_the_limit(tmp_path: Path) -> None:
    """64 MiB of zeros in 87,000 characters: refused, and memory stays where it was."""
    bomb = packet(gzip.compress(bytes(64 * MIB)), "GZIP")
    with (
        ListeningRig(tmp_path / "job-1", packet_mode="PACKET", max_record_bytes=MIB) as rig,
        rig.collector() as peer,
    ):
        meter = Meter(os.getpid())
        for batch_id in range(1, 11):
            assert peer.ask(b"__BATCH__:%d:%b" % (batch_id, bomb)) == "DECODE_FAILED"
        assert meter.grown() < 16 * MIB


# ---- back-pressure ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "ratio", "mark"),
    [(100, "0.07", 7), (100, "0.55", 55), (1, "0.9", 1), (10, "0.9", 9), (3, "0.67", 3), (7, "1.0", 7), (5, "0.01", 1)],
)
def test_the_high_water_mark_is_exact(tmp_path: Path, capacity: int, ratio: str, mark: int) -> None:
    """Binary floats say 8 and 56 for the first two."""
    options = {"local_queue_capacity": capacity, "queue_backpressure_watermark_ratio": Decimal(ratio)}
    with ListeningRig(tmp_path / "job-1", **options) as rig, rig.collector() as peer:
        replies = peer.ask(*[f"__BATCH__:{n}:x" for n in range(1, capacity + 2)]).split()
        assert replies.count("RECEIVED") == mark
        assert replies[mark:] == ["QUEUE_FULL:500"] * (capacity + 1 - mark)


def test_a_burst_waits_for_room_once(tmp_path: Path) -> None:
    """However many blocks a burst has, `queue_full_wait_ms` is waited once."""
    options = {"local_queue_capacity": 1, "queue_full_wait_ms": 200}
    with ListeningRig(tmp_path / "job-1", **options) as rig, rig.collector() as peer:
        assert peer.ask("__BATCH__:1:x") == "RECEIVED"
        lines = [line for n in range(2, 42) for line in (f"__BATCH__:{n}:x", "__COMMIT__:1")]
        started = time.monotonic()
        assert peer.ask(*lines) == " ".join(["QUEUE_FULL:500", "PENDING"] * 40)
        assert time.monotonic() - started < 2


def test_a_full_ledger_answers_queue_full_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAX_LEDGER_RANGES", 5)
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        replies = [peer.ask(f"__BATCH__:{2 * n}:x") for n in range(1, 8)]
        assert replies == ["RECEIVED"] * 5 + ["QUEUE_FULL:500"] * 2
        rig.source.tick()
        assert any("id ranges" in report for report in rig.reports)


def test_another_payload_under_a_known_id_is_one_more_row_and_is_reported(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        assert peer.ask("__BATCH__:10:x", "__BATCH__:10:OTHER") == "RECEIVED RECEIVED"
        rig.source.tick()
        assert any("another payload" in report and "10" in report for report in rig.reports)
        assert not any("OTHER" in report for report in rig.reports)
