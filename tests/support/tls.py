"""Certificates made for a test, and a socket with TLS around it that can do what a plain one can."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import trustme

_READ_BYTES = 65536


class Authority:
    """A certificate authority, and files signed by it. `names`: alternative names, DNS names or addresses."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / f"{name}.crt"
        self._ca.cert_pem.write_to_path(str(self.file))

    def issue(self, stem: str, *names: str, common_name: str | None = None, expired: bool = False) -> tuple[Path, Path]:
        """Write STEM.crt and STEM.key; returns both."""
        certificate, key = self._directory / f"{stem}.crt", self._directory / f"{stem}.key"
        cert_pem, key_pem = self.pems(*names, common_name=common_name, expired=expired)
        certificate.write_bytes(cert_pem)
        key.write_bytes(key_pem)
        return certificate, key

    def pems(self, *names: str, common_name: str | None = None, expired: bool = False) -> tuple[bytes, bytes]:
        """A certificate with its chain, and its key."""
        import datetime

        more: dict[str, Any] = {}
        if expired:
            now = datetime.datetime.now(datetime.UTC)
            more = {"not_before": now - datetime.timedelta(days=2), "not_after": now - datetime.timedelta(days=1)}
        one = self._ca.issue_cert(*names, common_name=common_name, **more)
        return b"".join(blob.bytes() for blob in one.cert_chain_pems), one.private_key_pem.bytes()


def client_context(ca: Path | None, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    """What a collector wraps its connection with; without `ca` it trusts anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(ca)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


class TlsSocket:
    """A connected socket with TLS around it: one thread may send while another receives, and each side may be closed.

    `ssl.SSLSocket` can do neither.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, name: str = "localhost") -> None:
        """Shake hands. Raises ssl.SSLError or OSError where that fails."""
        self.raw = sock
        self._lock = threading.Lock()
        self._fin = False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                if self._fin:
                    raise ConnectionResetError("closed during the handshake") from None
                self._flush()
                self._pull()
            except ssl.SSLError:
                self._flush()
                raise
        self._flush()

    def sendall(self, data: bytes) -> None:
        for start in range(0, len(data), 1 << 20):
            with self._lock:
                self.tls.write(data[start : start + (1 << 20)])
            self._flush()

    def recv(self, most: int) -> bytes:
        while True:
            try:
                with self._lock:
                    return self.tls.read(most)
            except ssl.SSLWantReadError:
                if self._fin:
                    return b""
                self._pull()
            except ssl.SSLZeroReturnError:
                return b""

    def shutdown(self, how: int) -> None:
        """Close without a close_notify, as many clients do."""
        self.raw.shutdown(how)

    def notify_close(self) -> None:
        """Say that nothing more comes, in TLS alone. What has not been read yet is lost, so read all replies before."""
        with self._lock:
            try:
                self.tls.unwrap()
            except ssl.SSLError:
                pass  # the other side goes on
        self._flush()

    def setsockopt(self, *arguments: Any) -> None:
        self.raw.setsockopt(*arguments)

    def settimeout(self, seconds: float | None) -> None:
        self.raw.settimeout(seconds)

    def fileno(self) -> int:
        return self.raw.fileno()

    def close(self) -> None:
        self.raw.close()

    def _flush(self) -> None:
        with self._lock:
            data = self._outgoing.read()
        if data:
            self.raw.sendall(data)

    def _pull(self) -> None:
        data = self.raw.recv(_READ_BYTES)
        if not data:
            self._fin = True
        with self._lock:
            self._incoming.write(data)
