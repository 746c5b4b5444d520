"""PACKET envelopes on the wire of the real listener: base64, keys and ivs, one change each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance_listener import ListeningRig, Peer

KEY = bytes(range(32))
KEY_BASE64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
SEALED: dict[str, Any] = {
    "version": 1,
    "payload": "IH6yChbJcuCzKlH6qT4Awt77OvFF",
    "compression": "NONE",
    "encryption": "AES_GCM",
    "iv": "ZGVmZ2hpamtsbW5v",
}
SEALED_GZIP = "V5DWZnnpVp48nfS+8Egk0MgNSls5XiQj7fznhdDyFxq+wRMSHTiyUk/BTAi9wpDPqFLotg1KQSiPpbqh9yR+RWwb8/8GpzXb"
PLAIN: dict[str, Any] = {"version": 1, "payload": "aGVsbG8=", "compression": "NONE", "encryption": "NONE"}
ABSENT = object()

SEALED_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({}, "RECEIVED"),
    ({"compression": "GZIP", "payload": SEALED_GZIP}, "RECEIVED"),
    ({"payload": "IH6yChbJcuCzKlH6qT4Awt77OvFE"}, "DECRYPT_FAILED"),  # last byte of the tag
    ({"payload": "EBFcrwdWLm/vbTp97ZdYKiFZ7Vun"}, "DECRYPT_FAILED"),  # another key
    ({"iv": ""}, "DECRYPT_FAILED"),
    ({"iv": "AAAAAAAAAAA="}, "DECRYPT_FAILED"),  # 8 bytes
    ({"iv": "AAAAAAAAAAAAAAA=", "payload": "pqZcvaHx31iqNLAT79ySx6MH8KiV"}, "DECRYPT_FAILED"),  # 11, right for it
    ({"iv": "AAAAAAAAAAAAAAAAAA=="}, "DECRYPT_FAILED"),  # 13
    ({"iv": "AAAAAAAAAAAAAAAAAAAAAA==", "payload": "oNs0VtowK5l+sbLEGYdbhfqQRi0c"}, "DECRYPT_FAILED"),  # 16, right
    ({"iv": ABSENT}, "DECRYPT_FAILED"),
    ({"iv": None}, "DECRYPT_FAILED"),
    ({"payload": "AAAAAAAAAAAAAAAAAAAA"}, "DECRYPT_FAILED"),  # 15 bytes: no room for a tag
    ({"payload": "AAAAAAAAAAAAAAAAAAAAAA=="}, "DECRYPT_FAILED"),  # a tag of nothing, and wrong
    ({"compression": "GZIP"}, "DECODE_FAILED"),  # opens, and is no gzip
    ({"encryption": "aes_gcm"}, "RECEIVED"),
]

PLAIN_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({}, "RECEIVED"),
    ({"payload": "aGVs\nbG8="}, "DECODE_FAILED"),
    ({"payload": "aGV sbG8="}, "DECODE_FAILED"),
    ({"payload": "_-_-"}, "DECODE_FAILED"),
    ({"payload": "aGVsbG8"}, "DECODE_FAILED"),
    ({"payload": "aGVs=bG8="}, "DECODE_FAILED"),
    ({"payload": "aGVsbG8=aGVsbG8="}, "DECODE_FAILED"),
    ({"payload": "aGVsbG9="}, "DECODE_FAILED"),  # stray bits
    ({"payload": ""}, "RECEIVED"),  # an empty record
    ({"payload": "", "compression": "GZIP"}, "DECODE_FAILED"),
    ({"payload": ABSENT}, "DECODE_FAILED"),
    ({"payload": None}, "DECODE_FAILED"),
    ({"payload": 1}, "DECODE_FAILED"),
    ({"version": 2}, "DECODE_FAILED"),
    ({"version": "1"}, "DECODE_FAILED"),
    ({"version": 1.0}, "DECODE_FAILED"),
    ({"version": True}, "DECODE_FAILED"),
    ({"version": ABSENT}, "DECODE_FAILED"),
    ({"compression": "none"}, "RECEIVED"),
    ({"compression": None}, "RECEIVED"),
    ({"compression": ABSENT}, "RECEIVED"),
    ({"compression": ""}, "RECEIVED"),
    ({"compression": "SNAPPY"}, "DECODE_FAILED"),
    ({"encryption": ABSENT}, "RECEIVED"),
    ({"encryption": None}, "RECEIVED"),
    ({"encryption": "AES"}, "DECODE_FAILED"),
    ({"more": [1, 2]}, "RECEIVED"),
    ({"payload": "/w=="}, "DECODE_FAILED"),  # not UTF-8
]

NO_ENVELOPES = [b"hello", b"[1]", b"1", b"null", b'"x"', b"{", b"{}", b'{"version":1}', b"\xff", b"[" * 5000]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListeningRig]:
    with ListeningRig(tmp_path_factory.mktemp("packets") / "job-1", packet_mode="PACKET", secret_key=KEY) as rig:
        yield rig


@pytest.fixture(scope="module")
def peer(rig: ListeningRig) -> Iterator[Peer]:
    with rig.collector() as peer:
        yield peer


ids = iter(range(1, 10_000))


def reply_to(peer: Peer, envelope: dict[str, Any], changes: dict[str, Any]) -> str:
    changed = {name: value for name, value in {**envelope, **changes}.items() if value is not ABSENT}
    return peer.ask(b"__BATCH__:%d:%b" % (next(ids), json.dumps(changed).encode()))


def name(value: object) -> str | None:
    if isinstance(value, dict):
        return ", ".join(f"{k} {'absent' if v is ABSENT else v!r}" for k, v in value.items())[:60] or "unchanged"
    return None


@pytest.mark.parametrize(("changes", "reply"), SEALED_CHANGES, ids=name)
def test_a_sealed_packet(peer: Peer, changes: dict[str, Any], reply: str) -> None:
    assert reply_to(peer, SEALED, changes) == reply


@pytest.mark.parametrize(("changes", "reply"), PLAIN_CHANGES, ids=name)
def test_a_plain_packet_where_the_source_has_a_key(peer: Peer, changes: dict[str, Any], reply: str) -> None:
    assert reply_to(peer, PLAIN, changes) == reply


@pytest.mark.parametrize("payload", NO_ENVELOPES, ids=lambda value: repr(value)[:20])
def test_what_is_no_envelope_cannot_be_decoded(peer: Peer, payload: bytes) -> None:
    assert peer.ask(b"__BATCH__:%d:%b" % (next(ids), payload)) == "DECODE_FAILED"


def test_of_a_repeated_key_the_last_counts(peer: Peer) -> None:
    twice = b'{"version":2,"version":1,"payload":"_-_-","payload":"aGVsbG8="}'
    assert peer.ask(b"__BATCH__:%d:%b" % (next(ids), twice)) == "RECEIVED"


def test_without_a_key_here_a_sealed_packet_cannot_be_decrypted(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", packet_mode="PACKET") as rig, rig.collector() as peer:
        assert reply_to(peer, SEALED, {}) == "DECRYPT_FAILED"
        assert reply_to(peer, PLAIN, {}) == "RECEIVED"


def test_where_encryption_is_required_a_plain_packet_is_refused(tmp_path: Path) -> None:
    options = {"packet_mode": "PACKET", "secret_key": KEY, "require_encryption": True}
    with ListeningRig(tmp_path / "job-1", **options) as rig, rig.collector() as peer:
        assert reply_to(peer, PLAIN, {}) == "DECRYPT_FAILED"
        assert reply_to(peer, SEALED, {}) == "RECEIVED"


def test_the_same_packet_under_two_ids_is_two_rows(tmp_path: Path) -> None:
    with (
        ListeningRig(tmp_path / "job-1", packet_mode="PACKET", secret_key=KEY) as rig,
        rig.collector() as peer,
    ):
        line = json.dumps(SEALED).encode()
        assert peer.ask(b"__BATCH__:1:" + line, b"__BATCH__:2:" + line) == "RECEIVED RECEIVED"
        assert rig.take() == 2
        assert rig.checkpoint().completed
        assert rig.rows() == [b"1:hello", b"2:hello"]
        rig.source.tick()
        assert any("iv" in report for report in rig.reports), "the same iv is accepted, and warned of"


def test_a_resend_of_a_packet_is_no_reused_iv(tmp_path: Path) -> None:
    options = {"packet_mode": "PACKET", "secret_key": KEY}
    with ListeningRig(tmp_path / "job-1", **options) as rig, rig.collector() as peer:
        line = b"__BATCH__:1:" + json.dumps(SEALED).encode()
        assert peer.ask(line, line) == "RECEIVED RECEIVED"
        assert rig.source.status()["reused_ivs"] == 0
        assert peer.ask(line.replace(b":1:", b":2:", 1)) == "RECEIVED"
        assert rig.source.status()["reused_ivs"] == 1


def test_a_packet_stays_compressed_in_the_queue_and_is_inflated_for_the_sink(tmp_path: Path) -> None:
    """The size of a checkpoint follows from what is queued, so the tuning formula counts compressed bytes."""
    record = b"all work and no play " * 1000
    stored = gzip.compress(record)
    with ListeningRig(tmp_path / "job-1", packet_mode="PACKET") as rig, rig.collector() as peer:
        import base64

        packet = {"version": 1, "payload": base64.b64encode(stored).decode(), "compression": "GZIP"}
        assert peer.ask(b"__BATCH__:1:" + json.dumps(packet).encode()) == "RECEIVED"
        assert rig.source.status()["queue"]["bytes"] == len(stored)
        assert rig.checkpoint().state_bytes < len(record) / 10
        assert rig.take() == 1
        assert rig.checkpoint().completed
        assert rig.rows() == [b"1:" + record]


def test_neither_key_nor_text_is_in_what_the_source_says(rig: ListeningRig, peer: Peer) -> None:
    for changes, _ in SEALED_CHANGES:
        reply_to(peer, SEALED, changes)
    rig.source.tick()
    said = "\n".join(rig.reports) + json.dumps(rig.source.status())
    for secret in (KEY_BASE64, KEY.hex(), repr(KEY), "my-edge-token", "hello", "user_id"):
        assert secret not in said
