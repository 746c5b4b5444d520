"""Forms of batch ids and of request lines, on the wire of the real listener: all of them in one conversation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance_listener import ListeningRig, Peer

NO_IDS = {
    "zero": b"0",
    "minus one": b"-1",
    "minus zero": b"-0",
    "plus one": b"+1",
    "blank before": b" 1",
    "blank behind": b"1 ",
    "tab behind": b"1\t",
    "underscore": b"1_000",
    "Arabic-Indic digits": "\u0661\u0662".encode(),
    "full width digit": "\uff11".encode(),
    "superscript": "\u00b2".encode(),
    "decimal": b"1.0",
    "exponent": b"1e3",
    "hexadecimal": b"0x10",
    "word": b"abc",
    "empty": b"",
    "one above the largest": b"9223372036854775808",
    "far above the largest": b"99999999999999999999",
    "5,000 digits": b"1" * 5000,
    "5,000 zeros": b"0" * 5000,
    "not even text": b"\xff1",
}

SHAPES = {
    b"__BATCH__": "BAD_REQUEST",
    b"__BATCH__:": "BAD_REQUEST",
    b"__BATCH__:5": "BAD_REQUEST",
    b"__BATCH__::p": "INVALID_PARAM",
    b"__batch__:5:p": "BAD_REQUEST",
    b" __BATCH__:5:p": "BAD_REQUEST",
    b"__COMMIT__": "BAD_REQUEST",
    b"__COMMIT__:": "INVALID_PARAM",
    b"__COMMIT__:5:x": "INVALID_PARAM",
    b"__PING__": "BAD_REQUEST",
    b"": "BAD_REQUEST",
    b"\r": "BAD_REQUEST",
    b"__AUTH__:my-edge-token": "BAD_REQUEST",
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningRig]:
    with ListeningRig(tmp_path_factory.mktemp("ids") / "job-1") as rig:
        yield rig


@pytest.fixture(scope="module")
def peer(rig: ListeningRig) -> Iterator[Peer]:
    with rig.collector() as peer:
        yield peer


@pytest.mark.parametrize("digits", NO_IDS.values(), ids=NO_IDS)
def test_what_is_no_id_is_an_invalid_parameter_and_nothing_is_queued(
    rig: ListeningRig, peer: Peer, digits: bytes
) -> None:
    assert peer.ask(b"__BATCH__:%b:p" % digits, b"__COMMIT__:%b" % digits) == "INVALID_PARAM INVALID_PARAM"
    assert rig.source.status()["queue"]["records"] == 0


@pytest.mark.parametrize(("line", "reply"), SHAPES.items(), ids=lambda value: repr(value)[:40])
def test_a_line_of_another_shape_is_answered_once_and_the_conversation_goes_on(
    rig: ListeningRig, peer: Peer, line: bytes, reply: str
) -> None:
    assert peer.ask(line, b"__COMMIT__:77777") == f"{reply} RETRY"
    assert rig.source.status()["queue"]["records"] == 0


def test_an_empty_payload_is_an_empty_row(rig: ListeningRig, peer: Peer) -> None:
    assert peer.ask(b"__BATCH__:5:") == "RECEIVED"
    assert rig.take() == 1
    assert rig.checkpoint().completed
    assert rig.rows() == [b"5:"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (b"007", b"7"),
        (b"9223372036854775806", b"9223372036854775806"),
        (b"9223372036854775807", b"9223372036854775807"),
        (b"0009223372036854775807", b"9223372036854775807"),
    ],
)
def test_one_id_has_one_meaning_everywhere(tmp_path: Path, written: bytes, meant: bytes) -> None:
    """In the queue, the ledger, the memory of resends and the watermark."""
    with ListeningRig(tmp_path / "job-1") as rig, rig.collector() as peer:
        assert peer.ask(b"__BATCH__:%b:p" % written, b"__BATCH__:%b:p" % meant) == "RECEIVED RECEIVED"
        assert rig.take() == 1
        assert peer.ask(b"__COMMIT__:%b" % meant) == "PENDING"
        assert rig.checkpoint().completed
        assert peer.ask(b"__COMMIT__:%b" % written) == f"ACK:{int(meant)}"
        assert rig.rows() == [b"%b:p" % meant]


def test_an_empty_payload_is_no_packet(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", packet_mode="PACKET") as rig, rig.collector() as peer:
        assert peer.ask(b"__BATCH__:5:") == "DECODE_FAILED"
