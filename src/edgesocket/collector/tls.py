"""TLS on the way to the ingress. Standard library only, and loaded only where TLS is wanted.

The certificate of the ingress is always checked, its name as well; there is no switch to do without. The files are
looked at for every connection, so a new client certificate is used from the next one on.

OpenSSL works on two memory buffers, beside the socket: reading never waits for writing, and the other way round.
"""

from __future__ import annotations

import os
import select
import ssl
from collections import deque

from edgesocket.collector.connection import READ_BYTES, Connection
from edgesocket.collector.options import TlsOptions
from edgesocket.errors import CollectorError, ExitCode

_RECORD_BYTES = 16 * 1024
_PIECE_BYTES = 64 * 1024
_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "TLSV1_ALERT_PROTOCOL_VERSION", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"})
_ABOUT_OUR_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "ALERT_UNKNOWN_CA",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNSUPPORTED_CERTIFICATE",
)

_Look = tuple[tuple[int, int, int] | None, ...]


class TlsError(CollectorError):
    """The two sides do not trust each other, or a file for TLS cannot be used. Somebody has to heal that."""

    exit_code = ExitCode.AUTH


class TlsMaker:
    """Makes what connections are wrapped with, anew when a file has changed. Not thread-safe."""

    def __init__(self, options: TlsOptions) -> None:
        """Get ready; nothing is read before `context`."""
        self.options = options
        self._look: _Look = ()
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 or newer, the peer's certificate and name required.

        Raises:
            TlsError: a file cannot be used, now; ask again later.
        """
        options = self.options
        look = tuple(_stat(name) for name in (options.ca_file, options.cert_file, options.key_file) if name)
        if self._context is None or look != self._look:
            self._context, self._look = make_context(options), look
        return self._context


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """See `TlsMaker.context`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        if options.ca_file:
            context.load_verify_locations(options.ca_file)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except (ssl.SSLError, OSError) as problem:
        raise TlsError(f"no certificates to trust in {options.ca_file}: {_why(problem)}") from None
    if options.cert_file:
        try:
            context.load_cert_chain(options.cert_file, options.key_file or None, password=_no_passphrase)
        except (ssl.SSLError, OSError, ValueError) as problem:
            files = f"{options.cert_file} and {options.key_file}" if options.key_file else options.cert_file
            raise TlsError(f"no certificate with its key in {files}: {_why(problem)}") from None
    return context


class TlsConnection(Connection):
    """A connection with TLS around it; `connected` when its handshake is done."""

    def __init__(self, host: str, port: int, maker: TlsMaker) -> None:
        """Begin to connect. Raises OSError as Connection does, and TlsError."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        name = maker.options.server_name or host
        try:
            self._tls = maker.context().wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        except ValueError as problem:
            raise TlsError(f"the ingress cannot have such a name: {problem}") from None
        self._name = name
        self._in_handshake = False
        self._encrypted: deque[memoryview] = deque()
        self._promised = 0
        self._fin = False
        super().__init__(host, port)

    @property
    def wanted_events(self) -> int:
        """See Connection."""
        if self._in_handshake:
            return select.POLLIN | (select.POLLOUT if self._encrypted else 0)
        wanted = super().wanted_events
        return wanted | select.POLLOUT if self.connected and self._encrypted and not self._write_broken else wanted

    @property
    def is_writing(self) -> bool:
        """See Connection."""
        return bool(self._unsent) or bool(self._encrypted)

    def check_connected(self) -> bool:
        """See Connection. Raises TlsError too."""
        if not self._in_handshake:
            super().check_connected()
        if self._in_handshake:
            self._shake_hands()
        return self.connected

    def push(self) -> None:
        """See Connection."""
        while self._flush() and self._unsent and not self._write_broken:
            piece = self._unsent[0][:_PIECE_BYTES]
            try:
                self._promised = self._tls.write(piece)
            except ssl.SSLError:
                self._write_broken = True
                return
            self._encrypt()

    def read(self) -> bytes | None:
        """See Connection. Raises TlsError too."""
        pieces: list[bytes] = []
        ended = not self._receive() and self._write_broken
        try:
            while piece := self._tls.read(_RECORD_BYTES):
                pieces.append(piece)
            ended = True
        except ssl.SSLWantReadError:
            ended = ended or self._fin
        except ssl.SSLZeroReturnError:
            ended = True
        except ssl.SSLError as problem:
            if not pieces:
                raise self._told(problem) from None
        self._encrypt()
        self._flush()
        return b"".join(pieces) if pieces or ended else None

    def close(self) -> None:
        """Close; what is unsent is not sent. The ingress is told where that needs no waiting."""
        if self.connected and not self._write_broken and not self._encrypted:
            try:
                self._tls.unwrap()
            except (ssl.SSLError, ValueError):
                pass  # it would wait for the other side
            self._encrypt()
            self._flush()
        super().close()

    def _made(self) -> None:
        super()._made()
        self.connected = False
        self._in_handshake = True
        self._shake_hands()

    def _shake_hands(self) -> None:
        self._receive()
        try:
            self._tls.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            if self._fin:
                raise ConnectionResetError(0, "the ingress ended the TLS handshake; does it use TLS?") from None
        except ssl.SSLError as problem:
            self._encrypt()
            self._flush()
            raise self._told(problem) from None
        else:
            self._in_handshake = False
            self.connected = True
        self._encrypt()
        self._flush()

    def _receive(self) -> bool:
        """Hand OpenSSL what has come. Returns whether anything has, the end of the stream included."""
        assert self._socket is not None
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._incoming.write(data)
        else:
            self._fin = True  # OpenSSL is not told: it would take that for an error
        return True

    def _encrypt(self) -> None:
        """Take over what OpenSSL has made."""
        if self._outgoing.pending:
            self._encrypted.append(memoryview(self._outgoing.read()))

    def _flush(self) -> bool:
        """Write what is encrypted. Returns whether all of it is out."""
        assert self._socket is not None
        while self._encrypted:
            piece = self._encrypted[0]
            try:
                written = self._socket.send(piece)
            except BlockingIOError:
                return False
            except OSError:
                self._write_broken = True
                return False
            if written < len(piece):
                self._encrypted[0] = piece[written:]
                continue
            self._encrypted.popleft()
        if self._promised:
            self._written(self._promised)
            self._promised = 0
        return True

    def _told(self, problem: ssl.SSLError) -> Exception:
        """A failure in words: TlsError where only a person can heal it."""
        if isinstance(problem, ssl.SSLCertVerificationError):
            return TlsError(f"the certificate of the ingress is not accepted: {problem.verify_message.rstrip('.')}")
        reason = problem.reason or ""
        if any(reason.endswith(word) for word in _ABOUT_OUR_CERTIFICATE):
            return TlsError(f"the ingress does not accept this side's certificate: {_words(reason)}")
        if reason in _NOT_TLS:
            return ConnectionResetError(0, f"no TLS with the ingress: {_words(reason)}; does it use TLS?")
        return ConnectionResetError(0, f"TLS: {_why(problem)}")


def _stat(name: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - asked at every connection
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase, and nobody is here to type it")


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")


def _why(problem: Exception) -> str:
    if isinstance(problem, ssl.SSLError) and problem.reason:
        return _words(problem.reason)
    return str(getattr(problem, "strerror", None) or problem)
