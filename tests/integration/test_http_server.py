"""The Http sink with real time, real TLS and a real engine: who is trusted, and that refused rows lose nothing."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from edgesocket.components.sink import SinkContext
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.sinks.http import HttpSink
from tests.support.http_server import ScriptedServer, answer, reset

SCHEMA = pa.schema([pa.field("id", pa.int64())])


def rows(count: int = 1) -> Rows:
    return Rows.of_batch(pa.record_batch([pa.array(range(count), pa.int64())], schema=SCHEMA))


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody has signed but itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private


@pytest.fixture
def tls_server(certificate: tuple[Path, Path]) -> Iterator[ScriptedServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = ScriptedServer(tls=context)
    yield server
    server.close()


def opened(url: str, **options: int) -> HttpSink:
    sink = HttpSink(url=url, **options)
    sink.open(SinkContext(job="job", epoch=1, sink_id="Http", schema=SCHEMA))
    return sink


def test_a_server_that_the_system_trusts_gets_rows_over_tls(
    tls_server: ScriptedServer, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    sink = opened(tls_server.url)
    sink.write(rows(2))
    sink.close()
    assert len(tls_server.bodies) == 2
    assert {request.connection for request in tls_server.requests} == {1}


def test_a_server_that_the_system_does_not_trust_gets_nothing(tls_server: ScriptedServer) -> None:
    sink = opened(tls_server.url, retry=0)
    with pytest.raises(ComponentError, match="certificate"):
        sink.write(rows())
    sink.close()
    assert tls_server.bodies == []


def test_real_failures_and_real_pauses_end_in_every_row_once_or_more() -> None:
    server = ScriptedServer([answer(503), reset, answer(200), answer(429, Retry_After="1"), answer(500)])
    sink = opened(server.url, retry_backoff_multiplier_ms=20)
    began = time.monotonic()
    try:
        sink.write(rows(5))
        sink.prepare(1)
    finally:
        sink.close()
        server.close()
    assert time.monotonic() - began >= 1.0, "Retry-After is kept"
    assert list(dict.fromkeys(json.loads(body)["id"] for body in server.bodies)) == list(range(5))


def test_a_silent_server_holds_a_write_no_longer_than_the_timeouts() -> None:
    server = ScriptedServer()
    server.reactions = [server.wait] * 3
    sink = opened(server.url, retry=2, retry_backoff_multiplier_ms=1, socket_timeout_ms=200)
    began = time.monotonic()
    try:
        with pytest.raises(ComponentError, match="3 attempts"):
            sink.write(rows())
    finally:
        sink.close()
        server.close()
    assert time.monotonic() - began < 5
