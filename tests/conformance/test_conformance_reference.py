"""Statements of the reference about the job and its options, on a source or a process that runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conformance_listener import ListeningRig, Peer
from conformance_transcript import TOKEN

from tests.support.jobs import Job, Wire, edgesocket, free_port, wait_for_ack, wait_until

KEY = bytes(range(32))
JAVA_PACKETS = Path(__file__).parents[1] / "fixtures/packet/java_packets.jsonl"


def write(directory: Path, source: str, more: str = "") -> Path:
    path = directory / "job.conf"
    path.write_text(f"source {{\n  EdgeSocket {{\n{source}\n  }}\n}}\n{more}")
    return path


def test_the_minimal_configuration_runs_as_it_stands(tmp_path: Path) -> None:
    """A port and a token are enough: a streaming job with the Console as its sink, one text a row."""
    port = free_port()
    conf = write(tmp_path, f'    port = {port}\n    token = "my-edge-token"')
    with Job(conf, stdout=subprocess.PIPE) as job:
        assert job.wait_until_listening()
        with Wire(port, "my-edge-token") as wire:
            assert wire.authenticated == "ACK"
            line = '{"event":"pageview","user":"alice"}'
            assert wire.ask(f"__BATCH__:1:{line}", "__COMMIT__:1") == "RECEIVED PENDING"
        assert job.stop() == 0
        assert job.process.stdout is not None
        with job.process.stdout as output:
            assert output.read().decode() == f"{line}\n"
        log = job.log_text()
    assert "STREAMING" in log
    assert "Console" in log
    assert "my-edge-token" not in log


def test_endpoint_is_shown_and_changes_nothing_about_what_is_bound(tmp_path: Path) -> None:
    port = free_port()
    source = f'    port = {port}\n    token = "t"\n    endpoint = "edge-lb.prod.example.com:10091"'
    conf = write(tmp_path, source, "sink { Null {} }\nenv { checkpoint.interval = 50 }\n")
    with Job(conf) as job:
        assert job.wait_until_listening()
        with Wire(port, "t") as wire:
            assert wire.ask("__BATCH__:1:a") == "RECEIVED"
            assert wait_for_ack(wire, 1) == "ACK:1"
        assert "edge-lb.prod.example.com:10091" in job.log_text()
        status = json.loads(wait_until(lambda: edgesocket("status", conf, "--format", "json").stdout, what="a status"))
        assert status["live"]["endpoint"] == "edge-lb.prod.example.com:10091"
        assert status["live"]["source"]["port"] == port
        assert job.stop() == 0


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "127.1.2.3"])
def test_the_port_is_bound_on_every_address(tmp_path: Path, address: str) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, Peer(rig.port, address) as peer:
        assert peer.ask(f"__AUTH__:{TOKEN}") == "ACK"


def test_by_default_the_queue_takes_922_of_1024_records_and_names_500_ms(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        replies = peer.ask(*[f"__BATCH__:{n}:x" for n in range(1, 1025)]).split()
        assert replies == ["RECEIVED"] * 922 + ["QUEUE_FULL:500"] * 102
        assert rig.source.status()["queue"] | {"bytes": 0, "max_bytes": 0} == {
            "records": 922,
            "bytes": 0,
            "max_bytes": 0,
            "capacity": 1024,
            "high_water_mark": 922,
            "most_records": 922,
        }


def test_without_a_schema_a_row_is_one_text_named_value(tmp_path: Path) -> None:
    port = free_port()
    out = tmp_path / "out"
    sink = f'sink {{ LocalFile {{ path = "{out}", file_format_type = json }} }}\n'
    with Job(write(tmp_path, f"    port = {port}\n    token = t", sink)) as job:
        assert job.wait_until_listening()
        with Wire(port, "t") as wire:
            assert wire.ask('__BATCH__:1:{"user_id":7}', "__BATCH__:2:no JSON", "__BATCH__:3:") == (
                "RECEIVED RECEIVED RECEIVED"
            )
        assert job.stop() == 0
    lines = [line for path in sorted(out.glob("part-*")) for line in path.read_text().splitlines()]
    assert [json.loads(line) for line in lines] == [{"value": '{"user_id":7}'}, {"value": "no JSON"}, {"value": ""}]


def test_the_java_collector_example_is_answered_received(tmp_path: Path) -> None:
    """Its packets were made with a JDK; what it sealed first was `hello`."""
    packets = JAVA_PACKETS.read_bytes().splitlines()
    options = {"packet_mode": "PACKET", "secret_key": KEY}
    with ListeningRig(tmp_path / "job-1", **options) as rig, rig.collector() as peer:
        lines = [b"__BATCH__:%d:%b" % (n, packet) for n, packet in enumerate(packets, 1)]
        assert peer.ask(*lines) == " ".join(["RECEIVED"] * len(packets))
        assert rig.take() == len(packets)
        assert rig.checkpoint().completed
        assert peer.ask("__COMMIT__:1") == f"ACK:{len(packets)}"
        assert rig.rows()[0] == b"1:hello"


def test_a_checkpoint_holds_what_is_queued_once(tmp_path: Path) -> None:
    """The tuning formula of the reference allows for three times; fingerprints and ids are the rest."""
    records, size = 500, 1024
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        peer.ask(*[b"__BATCH__:%d:%b" % (n, b"x" * size) for n in range(1, records + 1)])
        end = rig.checkpoint()
        assert end.completed
        assert records * size < end.state_bytes < 1.1 * records * size
        rig.take()
        assert rig.checkpoint().state_bytes < 0.1 * records * size, "what is gone to the sink is not in it"


def test_polling_is_optional(tmp_path: Path) -> None:
    """Batches alone make complete rows; nobody has to ask."""
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        for n in range(1, 6):
            assert peer.ask(f"__BATCH__:{n}:x") == "RECEIVED"
            rig.take()
            assert rig.checkpoint().completed
        assert rig.rows() == [b"%d:x" % n for n in range(1, 6)]


def test_commit_polls_and_batches_may_be_mixed_on_one_connection(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        assert peer.ask("__BATCH__:1:a", "__COMMIT__:1", "__BATCH__:2:b", "__COMMIT__:2", "__COMMIT__:3") == (
            "RECEIVED PENDING RECEIVED PENDING RETRY"
        )
        rig.take(1)
        assert rig.checkpoint().completed
        assert peer.ask("__BATCH__:3:c", "__COMMIT__:1", "__COMMIT__:2", "__COMMIT__:3") == (
            "RECEIVED ACK:1 PENDING PENDING"
        )


def test_records_still_queued_are_lost_with_the_process_and_reported_as_such(tmp_path: Path) -> None:
    """RECEIVED promises nothing beyond the process; a poll tells what has to come again."""
    with ListeningRig(tmp_path / "job-1") as rig:
        with rig.collector() as peer:
            assert peer.ask("__BATCH__:1:a", "__BATCH__:2:b") == "RECEIVED RECEIVED"
        rig.crash()
        rig.start()
        assert rig.take() == 0
        with rig.collector() as peer:
            assert peer.ask("__COMMIT__:1", "__COMMIT__:2") == "RESEND RESEND"
