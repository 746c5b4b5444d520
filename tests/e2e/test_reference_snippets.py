"""The job snippets of the reference run as they stand there: each takes a batch, confirms it, and stops cleanly.

Substituted are the port (a free one), the placeholder of the secret key, and the address of the Kafka broker.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from edgesocket.errors import ExitCode
from tests.support.jobs import ROOT, Job, Wire, edgesocket, free_port, wait_for_ack
from tests.support.kafka import KafkaBroker

PAGE = ROOT.parent / "shared/reference/EdgeSocket.md"
KEY = bytes(range(32))
KEY_PLACEHOLDER = "your-base64-encoded-32-byte-key"
BROKER_PLACEHOLDER = "kafka:9092"
LABEL = "edge-ingress"
SNIPPETS = re.findall(r"^```hocon\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S) if PAGE.exists() else []
CHECKPOINTS = "seatunnel:\n  engine:\n    checkpoint:\n      interval: 50\n"

pytestmark = pytest.mark.skipif(not SNIPPETS, reason=f"the reference is not there: {PAGE}")


def _name(snippet: str) -> str:
    token = re.findall(r'token = "([^"]*)"', snippet)[0]
    return "-".join(
        [token, *(key for key in ("Kafka", "schema", "PACKET", "tag_filter", "endpoint") if key in snippet)]
    )


def _with(*parts: str, without: tuple[str, ...] = ()) -> list[pytest.param]:  # type: ignore[valid-type]
    """The snippets with all of `parts` and none of `without`."""
    return [
        pytest.param(snippet, id=f"{number}-{_name(snippet)}")
        for number, snippet in enumerate(SNIPPETS)
        if all(part in snippet for part in parts) and not any(part in snippet for part in without)
    ]


@dataclass(frozen=True)
class Place:
    """A directory with a snippet to run in it."""

    conf: Path
    yaml: Path
    port: int
    token: str

    def job(self, *options: str) -> Job:
        """`edgesocket run`, with its standard output in a file."""
        with (self.conf.parent / "stdout").open("wb") as stream:
            return Job(self.conf, "--seatunnel-yaml", str(self.yaml), *options, stdout=stream.fileno())

    def printed(self) -> str:
        """What the job wrote on its standard output."""
        return (self.conf.parent / "stdout").read_text(encoding="utf-8")


def _place(directory: Path, snippet: str, broker: str = "") -> Place:
    port = free_port()
    text, ports = re.subn(r"^(\s*port = )\d+$", rf"\g<1>{port}", snippet, flags=re.M)
    assert ports == 1
    text = text.replace(KEY_PLACEHOLDER, base64.b64encode(KEY).decode())
    text = text.replace(BROKER_PLACEHOLDER, broker or BROKER_PLACEHOLDER)
    conf, yaml = directory / "job.conf", directory / "engine.yaml"
    conf.write_text(text, encoding="utf-8")
    yaml.write_text(CHECKPOINTS, encoding="utf-8")
    return Place(conf, yaml, port, re.findall(r'token = "([^"]*)"', text)[0])


def _run(place: Place, *payloads: str, options: tuple[str, ...] = ()) -> str:
    """Run it, send each payload as a batch, see all confirmed, stop; returns the log."""
    with place.job(*options) as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port, place.token) as wire:
            assert wire.authenticated == "ACK"
            for number, payload in enumerate(payloads, 1):
                assert wire.ask(f"__BATCH__:{number}:{payload}") == "RECEIVED", job.log_text()
                assert wait_for_ack(wire, number) == f"ACK:{number}"
        assert job.stop() == ExitCode.OK, job.log_text()
        return job.log_text()


def _envelope(payload: str, *, encrypted: bool) -> str:
    data, iv = payload.encode(), os.urandom(12)
    fields = {"version": 1, "compression": "NONE", "encryption": "NONE"}
    if encrypted:
        data = AESGCM(KEY).encrypt(iv, data, None)
        fields |= {"encryption": "AES_GCM", "iv": base64.b64encode(iv).decode()}
    return json.dumps(fields | {"payload": base64.b64encode(data).decode()})


def test_every_snippet_is_run_by_a_test() -> None:
    groups = ("Kafka",), ("schema",), ("PACKET",), ("tag_filter",), ()
    names = {group for snippet in SNIPPETS for group in groups if all(part in snippet for part in group)}
    assert names == set(groups)
    assert len(SNIPPETS) >= 8


@pytest.mark.parametrize("snippet", _with(without=("Kafka", "schema", "PACKET", "tag_filter")))
def test_text_goes_to_the_console_that_is_filled_in(tmp_path: Path, snippet: str) -> None:
    place = _place(tmp_path, snippet)
    log = _run(place, '{"event":"pageview","user":"alice"}')
    assert "filled in" in log
    assert place.printed() == '{"event":"pageview","user":"alice"}\n'
    endpoint = re.findall(r'endpoint = "([^"]*)"', snippet)
    assert ("collectors dial" in log) == bool(endpoint)
    assert all(f"collectors dial {one}" in log for one in endpoint)


@pytest.mark.parametrize("snippet", _with("Kafka"))
def test_text_goes_to_kafka(tmp_path: Path, kafka: KafkaBroker, snippet: str) -> None:
    topic = re.findall(r'topic = "([^"]*)"', snippet)[0]
    admin = kafka.admin()
    with contextlib.suppress(KafkaException):  # it is there
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    before = len(kafka.values(topic))
    _run(_place(tmp_path, snippet, kafka.servers), "hello", "world")
    assert [json.loads(value) for value in kafka.values(topic)[before:]] == [{"value": "hello"}, {"value": "world"}]


@pytest.mark.parametrize("snippet", _with("schema"))
def test_json_becomes_typed_columns(tmp_path: Path, snippet: str) -> None:
    place = _place(tmp_path, snippet)
    _run(place, '{"user_id":1,"event":"a","ts":1}', '{"user_id":"2","event":"b","ts":9223372036854775807}')
    assert place.printed() == "1, a, 1\n2, b, 9223372036854775807\n"


@pytest.mark.parametrize("snippet", _with("schema"))
def test_json_that_does_not_fit_fails_the_job(tmp_path: Path, snippet: str) -> None:
    place = _place(tmp_path, snippet)
    with place.job() as job:
        assert job.wait_until_listening(), job.log_text()
        with Wire(place.port, place.token) as wire:
            wire.send('__BATCH__:1:{"user_id":"many","event":"a","ts":1}')
            assert job.wait() == ExitCode.BAD_DATA, job.log_text()
    assert "user_id" in job.log_text()


@pytest.mark.parametrize("snippet", _with("PACKET"))
def test_packets_are_unpacked(tmp_path: Path, snippet: str) -> None:
    place = _place(tmp_path, snippet)
    _run(place, _envelope("plain text", encrypted=False), _envelope("secret text", encrypted=True))
    assert place.printed() == "plain text\nsecret text\n"


@pytest.mark.parametrize("snippet", _with("PACKET"))
def test_the_placeholder_of_the_key_is_refused(tmp_path: Path, snippet: str) -> None:
    place = _place(tmp_path, snippet)
    place.conf.write_text(place.conf.read_text().replace(base64.b64encode(KEY).decode(), KEY_PLACEHOLDER))
    refused = edgesocket("run", place.conf)
    assert refused.returncode == ExitCode.CONFIG
    assert "secret_key" in refused.stderr
    assert KEY_PLACEHOLDER not in refused.stderr, "secrets are not shown, not even this one"


@pytest.mark.parametrize("snippet", _with("tag_filter"))
class TestTagFilter:
    def test_without_labels_it_warns_and_runs(self, tmp_path: Path, snippet: str) -> None:
        log = _run(_place(tmp_path, snippet), "x")
        assert f"asks for a place labelled {LABEL}=true" in log

    def test_at_the_place_it_asks_for_it_runs(self, tmp_path: Path, snippet: str) -> None:
        log = _run(_place(tmp_path, snippet), "x", options=("--label", f"{LABEL}=true"))
        assert "asks for a place" not in log

    def test_the_labels_of_the_reference_s_hazelcast_yaml_do(self, tmp_path: Path, snippet: str) -> None:
        yaml = re.findall(r"^```yaml\n(hazelcast:.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)[0]
        (tmp_path / "hazelcast.yaml").write_text(yaml, encoding="utf-8")
        options = ("--hazelcast-yaml", str(tmp_path / "hazelcast.yaml"))
        assert "asks for a place" not in _run(_place(tmp_path, snippet), "x", options=options)

    def test_elsewhere_it_is_refused(self, tmp_path: Path, snippet: str) -> None:
        place = _place(tmp_path, snippet)
        refused = edgesocket("run", place.conf, "--label", f"{LABEL}=false")
        assert refused.returncode == ExitCode.CONFIG
        assert f"env.tag_filter.{LABEL}" in refused.stderr
        assert not (tmp_path / ".edgesocket").exists()
