"""TLS on the port, with real certificates: who gets in, who is told what, and new files while it runs."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from net_harness import AUTH, Collector, CountingSource, Gate, OverTls, Running, running, wait_for

from edgesocket.errors import ConfigError
from edgesocket.net.events import (
    AuthenticationFailed,
    ClientNameRefused,
    PeerDropped,
    PeerRejected,
    PeerTimedOut,
    PlainPeerOnTlsPort,
    TlsCertificateExpires,
    TlsFilesRefused,
    TlsFilesReloaded,
    TlsHandshakeFailed,
    TlsPeerOnPlainPort,
)
from edgesocket.net.options import TlsOptions
from tests.support.tls import Authority, TlsSocket, client_context

BATCH = b"__BATCH__:1:a\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("strangers"))


@pytest.fixture
def files(authority: Authority) -> TlsOptions:
    certificate, key = authority.issue("server", "localhost")
    return TlsOptions(str(certificate), str(key))


@pytest.fixture
def mutual(files: TlsOptions, authority: Authority) -> TlsOptions:
    return TlsOptions(files.cert_file, files.key_file, str(authority.file))


def connect(it: Running, context: ssl.SSLContext) -> TlsSocket:
    sock = socket.create_connection(("127.0.0.1", it.port), timeout=10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        return TlsSocket(sock, context)
    except BaseException:
        sock.close()
        raise


@contextlib.contextmanager
def connected(it: Running, context: ssl.SSLContext) -> Iterator[TlsSocket]:
    tls = connect(it, context)
    try:
        yield tls
    finally:
        tls.close()


def failure(it: Running, context: ssl.SSLContext) -> str:
    """What OpenSSL says at the collector's side, at the latest when it reads."""
    with pytest.raises(OSError) as error, connected(it, context) as tls:
        tls.sendall(AUTH)
        assert not tls.recv(100)
        raise ConnectionResetError("closed")
    return str(error.value)


class TestHandshake:
    def test_a_collector_is_served_and_both_sides_agree_on_a_modern_cipher(
        self, tmp_path: Path, files: TlsOptions, authority: Authority
    ) -> None:
        with running(tmp_path, tls=files) as it, connected(it, client_context(authority.file)) as tls:
            tls.sendall(AUTH + BATCH)

            assert tls.recv(100) == b"ACK\n"
            assert tls.recv(100) == b"RECEIVED\n"
            assert tls.tls.version() == "TLSv1.3"
            assert tls.tls.compression() is None
            assert it.source.kept == [(1, b"a")]

    def test_tls_1_2_with_forward_secrecy_is_spoken_and_nothing_older_or_weaker(
        self, tmp_path: Path, files: TlsOptions, authority: Authority
    ) -> None:
        context = client_context(authority.file)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with running(tmp_path, tls=files) as it:
            with connected(it, context) as tls:
                cipher = tls.tls.cipher()
                assert cipher is not None
                assert cipher[0].startswith("ECDHE-")
            context.set_ciphers("AES256-GCM-SHA384:AES128-SHA")
            assert "HANDSHAKE_FAILURE" in failure(it, context)
            context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            with pytest.warns(DeprecationWarning):
                context.maximum_version = ssl.TLSVersion.TLSv1_1
            context.set_ciphers("ALL:@SECLEVEL=0")
            assert "PROTOCOL_VERSION" in failure(it, context)
            it.wait_for(lambda: len(it.told(TlsHandshakeFailed)) == 2)
            assert [event.cause for event in it.told(TlsHandshakeFailed)] == [
                "no shared cipher",
                "unsupported protocol",
            ]

    def test_min_version_1_3_refuses_1_2(self, tmp_path: Path, files: TlsOptions, authority: Authority) -> None:
        context = client_context(authority.file)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        options = TlsOptions(files.cert_file, files.key_file, min_version="1.3")
        with running(tmp_path, tls=options) as it:
            assert "PROTOCOL_VERSION" in failure(it, context)

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on this machine")
    def test_a_client_cannot_renegotiate(self, tmp_path: Path, files: TlsOptions, authority: Authority) -> None:
        """`R` tells s_client to try."""
        with running(tmp_path, tls=files) as it:
            command = ["openssl", "s_client", "-tls1_2", "-CAfile", str(authority.file)]
            tried = subprocess.run(
                [*command, "-connect", f"127.0.0.1:{it.port}"],
                input=b"R\n",
                capture_output=True,
                timeout=20,
                check=False,
            )
        assert b"RENEGOTIATING" in tried.stdout + tried.stderr
        assert b"no renegotiation" in tried.stderr

    def test_a_handshake_that_comes_byte_by_byte_is_one(
        self, tmp_path: Path, files: TlsOptions, authority: Authority
    ) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(authority.file).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with (
            running(tmp_path, tls=files) as it,
            socket.create_connection(("127.0.0.1", it.port), timeout=10) as sock,
        ):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def step(data: bytes) -> None:
                for byte in data:
                    sock.sendall(bytes([byte]))

            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    step(outgoing.read())
                    incoming.write(sock.recv(65536))
            tls.write(AUTH)
            step(outgoing.read())
            incoming.write(sock.recv(65536))
            assert tls.read(100) == b"ACK\n"

    def test_there_is_no_session_to_come_back_with(
        self, tmp_path: Path, files: TlsOptions, authority: Authority
    ) -> None:
        """A ticket would spare a client the look at its certificate."""
        with running(tmp_path, tls=files) as it, connected(it, client_context(authority.file)) as tls:
            tls.sendall(AUTH)
            assert tls.recv(100) == b"ACK\n"
            session = tls.tls.session
            assert session is None or not session.has_ticket

    def test_a_collector_that_does_not_trust_the_certificate_says_so_and_the_log_too(
        self, tmp_path: Path, files: TlsOptions, strangers: Authority
    ) -> None:
        with running(tmp_path, tls=files) as it:
            assert "CERTIFICATE_VERIFY_FAILED" in failure(it, client_context(strangers.file))
            it.wait_for(lambda: it.told(TlsHandshakeFailed))
            assert it.told(TlsHandshakeFailed)[0].cause == "tlsv1 alert unknown ca"
            assert it.server.describe()["tls_failed"] == 1


class TestMutual:
    def test_a_certificate_of_the_authority_gets_in(
        self, tmp_path: Path, mutual: TlsOptions, authority: Authority
    ) -> None:
        context = client_context(authority.file, authority.issue("pump", "pump-7.plant.example"))
        with running(tmp_path, tls=mutual) as it, connected(it, context) as tls:
            tls.sendall(AUTH)
            assert tls.recv(100) == b"ACK\n"

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    @pytest.mark.parametrize("which", ["none", "of strangers", "expired"])
    def test_no_other_one_does(
        self,
        tmp_path: Path,
        mutual: TlsOptions,
        authority: Authority,
        strangers: Authority,
        which: str,
        version: ssl.TLSVersion,
    ) -> None:
        certificate = {
            "none": None,
            "of strangers": strangers.issue("pump", "pump-7.plant.example"),
            "expired": authority.issue("expired", "pump-7.plant.example", expired=True),
        }[which]
        context = client_context(authority.file, certificate)
        context.maximum_version = version
        with running(tmp_path, tls=mutual) as it:
            said = failure(it, context)
            it.wait_for(lambda: it.told(TlsHandshakeFailed))

        assert "alert" in said, "the alert has to arrive, not a reset"
        cause = it.told(TlsHandshakeFailed)[0].cause
        assert (
            cause
            == {
                "none": "peer did not return a certificate",
                "of strangers": "its certificate is not accepted: unable to get local issuer certificate",
                "expired": "its certificate is not accepted: certificate has expired",
            }[which]
        )
        assert not it.source.sessions

    def test_the_token_is_wanted_as_well(self, tmp_path: Path, mutual: TlsOptions, authority: Authority) -> None:
        context = client_context(authority.file, authority.issue("pump", "pump-7.plant.example"))
        with running(tmp_path, tls=mutual) as it, connected(it, context) as tls:
            tls.sendall(b"__AUTH__:wrong\n")
            assert tls.recv(100) == b"AUTH_FAILED\n"
            assert tls.recv(100) == b""

    @pytest.mark.parametrize(
        ("names", "good"),
        [
            (["pump-7.plant.example"], True),
            (["else.example", "PUMP-7.plant.example"], True),
            (["a.edge.example"], True),
            (["edge.example"], False),
            (["a.b.edge.example"], False),
            (["pump-8.plant.example"], False),
            ([], False),
        ],
    )
    def test_one_of_its_names_has_to_be_wanted(
        self, tmp_path: Path, mutual: TlsOptions, authority: Authority, names: list[str], good: bool
    ) -> None:
        wanted = ("pump-7.plant.example", "*.edge.example")
        options = TlsOptions(mutual.cert_file, mutual.key_file, mutual.client_ca_file, wanted)
        certificate = authority.issue("pump", *names, common_name="pump\n7" if not names else None)
        with running(tmp_path, tls=options) as it, connected(it, client_context(authority.file, certificate)) as tls:
            tls.sendall(AUTH)
            assert tls.recv(100) == (b"ACK\n" if good else b"AUTH_FAILED\n")
            if not good:
                it.wait_for(lambda: it.told(AuthenticationFailed))
                assert it.told(ClientNameRefused)[0].names == (names[0] if names else "pump?7")


class TestTheOtherLanguage:
    @pytest.mark.parametrize("first", [AUTH, AUTH[:5], b"GET / HTTP/1.1\r\n\r\n", b"\0"])
    def test_a_plain_collector_on_a_tls_port_gets_an_answer_it_can_read(
        self, tmp_path: Path, files: TlsOptions, first: bytes
    ) -> None:
        with running(tmp_path, tls=files) as it, Collector(it.port) as plain:
            plain.send(first)

            assert plain.rest() == b"AUTH_FAILED\n"
            it.wait_for(lambda: it.told(PlainPeerOnTlsPort))
            assert it.server.describe()["tls_mismatches"] == 1
            assert not it.source.sessions

    def test_a_tls_collector_on_a_plain_port_gets_an_alert_that_it_can_read(
        self, tmp_path: Path, authority: Authority
    ) -> None:
        with running(tmp_path) as it:
            assert "PROTOCOL_VERSION" in failure(it, client_context(authority.file))
            it.wait_for(lambda: it.told(TlsPeerOnPlainPort))
            assert not it.told(AuthenticationFailed)

    def test_nonsense_that_begins_like_tls_is_a_failed_handshake(self, tmp_path: Path, files: TlsOptions) -> None:
        with running(tmp_path, tls=files) as it, Collector(it.port) as peer:
            peer.send(bytes((22, 3, 1, 0, 5)) + b"\xff" * 200)
            peer.rest()
            it.wait_for(lambda: it.told(TlsHandshakeFailed))

            with it.collector(auth=False):
                assert it.state() == "listening"


class TestInTheLobby:
    def test_silent_and_stuck_handshakes_have_the_time_of_a_first_line(
        self, tmp_path: Path, files: TlsOptions, authority: Authority
    ) -> None:
        tls = client_context(authority.file).wrap_bio(ssl.MemoryBIO(), out := ssl.MemoryBIO(), server_hostname="x")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        hello = out.read()
        with running(tmp_path, tls=files, auth_timeout_ms=300) as it:
            with (
                Collector(it.port),
                Collector(it.port) as half,
                Collector(it.port) as whole,
                connected(it, client_context(authority.file)),
            ):
                half.send(hello[:100])
                whole.send(hello)
                it.wait_for(lambda: len(it.told(PeerTimedOut)) == 4)
            with connected(it, client_context(authority.file)) as good:
                good.sendall(AUTH)
                assert good.recv(100) == b"ACK\n"

    def test_a_hundred_stuck_handshakes_do_not_hold_up_the_collector(
        self, tmp_path: Path, files: TlsOptions, authority: Authority
    ) -> None:
        with running(tmp_path, tls=files) as it:
            stuck = [Collector(it.port) for _ in range(100)]
            for peer in stuck:
                with contextlib.suppress(OSError):
                    peer.send(bytes((22, 3, 1, 2, 0)) + b"\x01\x00\x01\xfc")
            it.wait_for(lambda: len(it.told(PeerDropped)) == 92)
            with connected(it, client_context(authority.file)) as good:
                started = time.monotonic()
                good.sendall(AUTH)
                assert good.recv(100) == b"ACK\n"
                assert time.monotonic() - started < 2
            for peer in stuck:
                peer.close()

    def test_rejected_reaches_those_in_every_stage_of_their_handshake(
        self, tmp_path: Path, files: TlsOptions, authority: Authority
    ) -> None:
        context = client_context(authority.file)
        with running(tmp_path, tls=files) as it:
            silent, done = Collector(it.port), connect(it, context)
            it.wait_for(lambda: it.server.describe()["waiting_peers"] == 2)
            with connected(it, context) as elected:
                elected.sendall(AUTH)
                assert elected.recv(100) == b"ACK\n"

                assert done.recv(100) == b"REJECTED\n"
                assert done.recv(100) == b""
                late = TlsSocket(silent.sock, context)
                assert late.recv(100) == b"REJECTED\n"
                assert len(it.told(PeerRejected)) == 2
                elected.sendall(BATCH)
                assert elected.recv(100) == b"RECEIVED\n"
            for peer in (silent, done):
                peer.close()

    def test_a_line_and_requests_in_one_piece_with_the_end_behind_them_are_answered(
        self, tmp_path: Path, files: TlsOptions, authority: Authority
    ) -> None:
        with running(tmp_path, tls=files) as it, connected(it, client_context(authority.file)) as tls:
            tls.sendall(AUTH + b"__BATCH__:1:a\n__BATCH__:2:b\n__BATCH__:3:no line end")
            tls.notify_close()

            assert b"".join(iter(lambda: tls.recv(100), b"")) == b"ACK\nRECEIVED\nRECEIVED\n"
            assert it.source.kept == [(1, b"a"), (2, b"b")]

    @pytest.mark.parametrize("how", ["notify", "fin", "reset"])
    def test_one_that_is_gone_behind_its_first_line_is_not_elected(
        self, tmp_path: Path, files: TlsOptions, authority: Authority, how: str
    ) -> None:
        context = client_context(authority.file)
        gate = Gate()
        with running(tmp_path, tls=files) as it, connected(it, context) as dead, connected(it, context) as held:
            it.source.before_token = gate
            held.sendall(b"__AUTH__:wrong\n")
            gate.wait_until_reached()
            dead.sendall(AUTH)
            if how == "notify":
                dead.notify_close()
            elif how == "fin":
                dead.shutdown(socket.SHUT_WR)
            else:
                dead.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
                dead.close()
            gate.open()
            it.wait_for(lambda: it.server.describe()["peers_left"] == 1)
            assert not it.source.sessions

    @pytest.mark.parametrize("where", ["accepts_token", "session_started"])
    def test_an_abort_lets_no_byte_out(
        self, tmp_path: Path, files: TlsOptions, authority: Authority, where: str
    ) -> None:
        gate = Gate()
        context = client_context(authority.file)

        class Held(CountingSource):
            def session_started(self, peer: str) -> None:
                super().session_started(peer)
                if where == "session_started":
                    gate()

        with running(tmp_path, Held(), tls=files) as it, connected(it, context) as tls:
            if where == "accepts_token":
                it.source.before_token = gate
            tls.sendall(AUTH)
            gate.wait_until_reached()
            it.server.abort()
            gate.open()

            with contextlib.suppress(OSError):
                assert tls.raw.recv(100) == b""


class TestFiles:
    def test_new_connections_get_the_new_certificate_and_the_old_one_goes_on(
        self, tmp_path: Path, authority: Authority
    ) -> None:
        certificate, key = authority.issue("rotating", "localhost")
        context = client_context(authority.file)
        with running(tmp_path, tls=TlsOptions(str(certificate), str(key))) as it:
            with connected(it, context) as first:
                old = first.tls.getpeercert(binary_form=True)
                first.sendall(AUTH)
                assert first.recv(100) == b"ACK\n"
                authority.issue("rotating", "localhost")
                first.sendall(BATCH)
                assert first.recv(100) == b"RECEIVED\n"
            wait_for(lambda: it.state() == "listening")
            with connected(it, context) as second:
                assert second.tls.getpeercert(binary_form=True) != old
                second.sendall(AUTH)
                assert second.recv(100) == b"ACK\n"
        assert len(it.told(TlsFilesReloaded)) == 1

    @pytest.mark.parametrize("how", ["garbage", "another key", "gone"])
    def test_broken_files_keep_the_old_certificate_and_are_named_once(
        self, tmp_path: Path, authority: Authority, how: str
    ) -> None:
        certificate, key = authority.issue("breaking", "localhost")
        good = certificate.read_bytes(), key.read_bytes()
        context = client_context(authority.file)
        with running(tmp_path, tls=TlsOptions(str(certificate), str(key))) as it:
            if how == "garbage":
                certificate.write_text("-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n")
            elif how == "another key":
                key.write_bytes(authority.pems("localhost")[1])
            else:
                certificate.unlink()
            for _ in range(3):
                with connected(it, context) as tls:
                    tls.sendall(AUTH)
                    assert tls.recv(100) == b"ACK\n"
                wait_for(lambda: it.state() == "listening")
            assert len(it.told(TlsFilesRefused)) == 1
            assert "breaking" in it.told(TlsFilesRefused)[0].cause
            assert "PRIVATE" not in repr(it.events)
            certificate.write_bytes(good[0])
            key.write_bytes(good[1])
            with connected(it, context):
                assert it.told(TlsFilesReloaded)

    def test_a_certificate_that_expires_soon_is_said_once_and_its_time_is_in_the_status(
        self, tmp_path: Path, authority: Authority, files: TlsOptions
    ) -> None:
        certificate, key = authority.issue("old", "localhost", expired=True)
        context = client_context(None)
        with running(tmp_path, tls=TlsOptions(str(certificate), str(key))) as it:
            for _ in range(3):
                with connected(it, context):
                    pass
            it.wait_for(lambda: it.told(TlsCertificateExpires))
            assert len(it.told(TlsCertificateExpires)) == 1
            assert it.server.describe()["tls_certificate_expires"] < time.time()
            certificate.write_bytes(Path(files.cert_file).read_bytes())
            key.write_bytes(Path(files.key_file).read_bytes())
            with connected(it, context):
                assert len(it.told(TlsCertificateExpires)) == 1
                assert it.server.describe()["tls_certificate_expires"] > time.time()

    def test_another_authority_counts_for_the_next_connection(self, tmp_path: Path, mutual: TlsOptions) -> None:
        first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
        ca_file = tmp_path / "clients.crt"
        ca_file.write_bytes(first.file.read_bytes())
        options = TlsOptions(mutual.cert_file, mutual.key_file, str(ca_file))
        with running(tmp_path, tls=options) as it:

            def answer(of: Authority) -> bytes:
                context = client_context(None, of.issue("pump", "pump"))
                context.maximum_version = ssl.TLSVersion.TLSv1_2  # there a refusal is part of the handshake
                with connected(it, context) as tls:
                    tls.sendall(b"__AUTH__:wrong\n")
                    return tls.recv(100)

            assert answer(first) == b"AUTH_FAILED\n"
            ca_file.write_bytes(first.file.read_bytes() + second.file.read_bytes())
            assert answer(first) == answer(second) == b"AUTH_FAILED\n"
            ca_file.write_bytes(second.file.read_bytes())
            with pytest.raises(ssl.SSLError):
                answer(first)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"cert_file": "/nowhere/tls.crt"}, r"tls\.cert_file: cannot read /nowhere/tls.crt: No such file"),
            ({"key_file": "CA"}, r"tls\.(key|cert)_file: "),
            ({"client_ca_file": "KEY"}, r"tls\.client_ca_file: .* holds no certificates"),
            ({"key_file": "LOCKED"}, r"tls\.key_file: .* has a passphrase"),
        ],
    )
    def test_files_that_cannot_be_used_at_the_start_are_a_config_error(
        self, tmp_path: Path, files: TlsOptions, authority: Authority, change: dict[str, Any], said: str
    ) -> None:
        from cryptography.hazmat.primitives import serialization

        key = serialization.load_pem_private_key(Path(files.key_file).read_bytes(), None)
        locked = tmp_path / "locked.key"
        locked.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b"hunter2"),
            )
        )
        names = {"CA": str(authority.file), "KEY": files.key_file, "LOCKED": str(locked)}
        given = {name: names.get(value, value) for name, value in change.items()}
        options = TlsOptions(**{"cert_file": files.cert_file, "key_file": files.key_file, **given})
        with pytest.raises(ConfigError, match=said):
            Running(tmp_path, tls=options)


def test_the_harness_itself_can_be_over_tls(tmp_path: Path, files: TlsOptions, authority: Authority) -> None:
    """What test_net_over_tls.py stands on: what it does is really encrypted."""
    over = OverTls(files, client_context(authority.file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Collector, "over_tls", over)
        with running(tmp_path) as it, it.collector() as collector:
            assert isinstance(collector.sock, TlsSocket)
            assert it.server.describe()["sessions"] == 1
