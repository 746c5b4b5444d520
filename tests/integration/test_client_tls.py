"""The client over TLS: everything arrives once over broken connections, and what is wrong is said."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from net_harness import TOKEN, CountingSource, running

from edgesocket.collector.client import CollectorClient
from edgesocket.collector.options import ClientOptions, TlsOptions
from edgesocket.collector.tls import TlsError
from edgesocket.errors import ConnectionLostError
from edgesocket.net.events import CollectorConnected
from edgesocket.net.options import TlsOptions as ServerTlsOptions
from tests.support.tls import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def server(authority: Authority) -> ServerTlsOptions:
    certificate, key = authority.issue("server", "localhost")
    return ServerTlsOptions(str(certificate), str(key))


def client(
    port: int, authority: Authority, token: bytes | Callable[[], bytes] = TOKEN, patience_s: float = 5.0, **tls: str
) -> CollectorClient:
    options = ClientOptions(
        connect_timeout_s=patience_s, reconnect_most_s=0.1, tls=TlsOptions(ca_file=str(authority.file), **tls)
    )
    return CollectorClient("localhost", port, token, options, on_notice=lambda _: None)


@contextlib.contextmanager
def odd_server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Something that listens, and does `answer` with each connection. Gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    accepted, _ = listener.accept()
                except OSError:
                    return
                with accepted, contextlib.suppress(OSError):
                    answer(accepted)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_large_payloads_both_ways_at_a_time(tmp_path: Path, server: ServerTlsOptions, authority: Authority) -> None:
    payload = b"x" * 300_000
    source = CountingSource(keep=False)
    with running(tmp_path, source, tls=server) as it, client(it.port, authority) as sending:
        for batch_id in range(1, 101):
            sending.send(batch_id, payload)
        sending.flush()
        assert source.records == 100
        assert sending.counts.received == 100


def test_connections_that_break_lose_nothing_and_each_asks_for_the_token(
    tmp_path: Path, server: ServerTlsOptions, authority: Authority
) -> None:
    asked: list[int] = []

    def token() -> bytes:
        asked.append(1)
        return TOKEN

    with running(tmp_path, tls=server) as it, client(it.port, authority, token) as sending:
        for batch_id in range(1, 31):
            if batch_id % 10 == 0:
                sending._sender._link._connection._socket.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
            sending.send(batch_id, b"a")
            sending.flush()
        assert {batch_id for batch_id, _ in it.source.kept} == set(range(1, 31))
        assert len(asked) == len(it.told(CollectorConnected)) == 4


def test_a_new_certificate_of_its_own_is_used_for_the_next_connection(
    tmp_path: Path, server: ServerTlsOptions, authority: Authority
) -> None:
    other = Authority(tmp_path / "other")
    certificate, key = authority.issue("pump", "pump-7")
    both = tmp_path / "both.crt"
    both.write_bytes(authority.file.read_bytes() + other.file.read_bytes())
    mutual = ServerTlsOptions(server.cert_file, server.key_file, str(both))
    with (
        running(tmp_path, tls=mutual) as it,
        client(it.port, authority, cert_file=str(certificate), key_file=str(key)) as sending,
    ):
        sending.send(1, b"a")
        sending.flush()
        fresh = other.pems("pump-7")
        certificate.write_bytes(fresh[0])
        key.write_bytes(fresh[1])
        both.write_bytes(other.file.read_bytes())  # the old one would not do any more
        sending._sender._link._connection._socket.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
        sending.send(2, b"b")
        sending.flush()
        assert {batch_id for batch_id, _ in it.source.kept} == {1, 2}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda sock: None, "does it use TLS?"),
        (lambda sock: sock.sendall(b"REJECTED\n"), "does it use TLS?"),
        (lambda sock: sock.sendall(bytes((22, 3, 3, 0, 4)) + b"\xff" * 4), "no TLS with the ingress"),
    ],
    ids=["closes", "answers in plain words", "answers nonsense"],
)
def test_an_ingress_that_is_none_is_tried_again_and_named(
    authority: Authority, answer: Callable[[socket.socket], None], said: str
) -> None:
    def hear_and_answer(sock: socket.socket) -> None:
        sock.recv(4096)
        answer(sock)

    with odd_server(hear_and_answer) as port, pytest.raises(ConnectionLostError) as error:
        client(port, authority, patience_s=2.0).connect()
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        ({"ca_file": "/nowhere/ca.crt"}, "no certificates to trust in /nowhere/ca.crt: No such file"),
        ({"server_name": ".edge"}, "the ingress cannot have such a name"),
        ({"server_name": "else.example"}, "Hostname mismatch"),
        (
            {"cert_file": "/nowhere/a.crt", "key_file": "/nowhere/a.key"},
            "no certificate with its key in /nowhere/a.crt",
        ),
    ],
)
def test_what_only_a_person_can_heal_ends_the_client(
    tmp_path: Path, server: ServerTlsOptions, authority: Authority, tls: dict[str, str], said: str
) -> None:
    with running(tmp_path, tls=server) as it:
        options = ClientOptions(tls=TlsOptions(**{"ca_file": str(authority.file), **tls}))
        with pytest.raises(TlsError) as error:
            CollectorClient("localhost", it.port, TOKEN, options).connect()
    assert said in str(error.value)
    assert error.value.exit_code == 77
