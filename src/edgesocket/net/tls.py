"""TLS on the edge port: which certificates, which rules, and new files without a restart.

The files are looked at for every new connection. When one has changed, they are read again: the next handshake has the
new certificate, conversations that go on keep theirs. Files that cannot be read together (a certificate without its key
yet, say) change nothing: the last good ones stay, it is said once, and the next connection looks again.
"""

from __future__ import annotations

import math
import os
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from edgesocket.errors import ConfigError, ConfigProblem
from edgesocket.net.channel import Channel
from edgesocket.net.control import Control
from edgesocket.net.events import NetEvent, TlsCertificateExpires, TlsFilesRefused, TlsFilesReloaded
from edgesocket.net.options import TlsOptions
from edgesocket.net.tls_channel import TlsChannel, words_of

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2: forward secrecy and authenticated encryption, nothing else. TLS 1.3 has no other ones."""

MAX_FILE_BYTES = 1 << 20
MAX_SHOWN_NAME_CHARS = 80

EXPIRY_NOTICE_S = 14 * 86_400.0
"""So long before it expires a certificate is worth a warning."""

_DAY_S = 86_400.0
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_Look = tuple[tuple[int, int, int] | None, ...]


class TlsFilesError(Exception):
    """The files cannot be used. `option` is the one to look at; the text holds names of files, nothing from them."""

    def __init__(self, option: str, cause: str) -> None:
        self.option = option
        super().__init__(cause)


class ServerTls:
    """Makes TLS channels with the newest good files. Used by one thread at a time.

    Attributes:
        expires: when the certificate in use expires, as Unix time; None: that is not known.
    """

    expires: float | None = None

    def __init__(self, options: TlsOptions, emit: Callable[[NetEvent], None]) -> None:
        """Read the files.

        Raises:
            ConfigError: they cannot be used.
        """
        self._options = options
        self._emit = emit
        self._look = self._stat()
        self._expiry_told = -math.inf
        try:
            self._context = make_context(options)
        except TlsFilesError as error:
            path = f"source.EdgeSocket.tls.{error.option}"
            raise ConfigError([ConfigProblem(path, str(error), _FIXES.get(error.option, ""))]) from None
        self.expires = expiry_of(options.cert_file)

    def channel(self, sock: socket.socket, control: Control) -> TlsChannel:
        """A channel for a new connection, at the beginning of its handshake."""
        self._reload_if_changed()
        self._watch_expiry(time.time())
        return TlsChannel(sock, control, self._context)

    def refuses(self, channel: Channel) -> str | None:
        """The peer's names, for a message, where none of them is wanted here; None: it is welcome."""
        wanted = self._options.client_names
        if not wanted or not isinstance(channel, TlsChannel):
            return None
        names = names_of(channel.certificate)
        if any(matches(name, one) for name in names for one in wanted):
            return None
        return ", ".join(map(_harmless, names))[: 4 * MAX_SHOWN_NAME_CHARS] or "none"

    def _reload_if_changed(self) -> None:
        look = self._stat()
        if look == self._look:
            return
        self._look = look
        try:
            self._context = make_context(self._options)
        except TlsFilesError as error:
            self._emit(TlsFilesRefused(str(error)))
        else:
            self.expires = expiry_of(self._options.cert_file)
            self._expiry_told = -math.inf
            self._emit(TlsFilesReloaded(self._options.cert_file))

    def _watch_expiry(self, now: float) -> None:
        if self.expires is None or self.expires - now > EXPIRY_NOTICE_S or now - self._expiry_told < _DAY_S:
            return
        self._expiry_told = now
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.expires))
        self._emit(TlsCertificateExpires(self._options.cert_file, at))

    def _stat(self) -> _Look:
        options = self._options
        return tuple(_stat(name) for name in (options.cert_file, options.key_file, options.client_ca_file) if name)


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """What handshakes are done with.

    TLS 1.2 or newer, no compression, no renegotiation, no session tickets: a client that comes back is looked at as
    closely as one that is new.

    Raises:
        TlsFilesError: a file cannot be read, or they do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.min_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.set_ciphers(CIPHERS)
    files = (("cert_file", options.cert_file), ("key_file", options.key_file))
    for option, name in (*files, ("client_ca_file", options.client_ca_file)):
        if name:
            _check_readable(option, name)
    try:
        context.load_cert_chain(options.cert_file, options.key_file, password=_no_passphrase)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise TlsFilesError(*_why_no_chain(options, error)) from None
    if options.client_ca_file:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(options.client_ca_file)
        except (ssl.SSLError, OSError) as error:
            raise TlsFilesError(
                "client_ca_file", f"{options.client_ca_file} holds no certificates: {_why(error)}"
            ) from None
    return context


def expiry_of(cert_file: str) -> float | None:
    """When the certificate expires, as Unix time; None where the library that reads certificates is not installed."""
    try:
        from cryptography import x509

        return x509.load_pem_x509_certificate(Path(cert_file).read_bytes()).not_valid_after_utc.timestamp()
    except (ImportError, OSError, ValueError):
        return None


def names_of(certificate: dict[str, object]) -> list[str]:
    """The names in a certificate: its alternative names, and its common name where it has none of those."""
    found = [value for _, value in _pairs(certificate.get("subjectAltName"))]
    if found:
        return found
    subject = certificate.get("subject")
    parts = [pair for part in subject for pair in _pairs(part)] if isinstance(subject, tuple) else []
    return [value for key, value in parts if key == "commonName"]


def matches(name: str, wanted: str) -> bool:
    """Whether a name of a certificate is the wanted one; `*.plant.example` stands for one label more."""
    name, wanted = name.lower(), wanted.lower()
    if wanted.startswith("*."):
        return name.partition(".")[2] == wanted[2:] and not name.startswith(".")
    return name == wanted


def _pairs(value: object) -> list[tuple[str, str]]:
    if not isinstance(value, tuple):
        return []
    return [(str(pair[0]), str(pair[1])) for pair in value if isinstance(pair, tuple) and len(pair) == 2]


def _harmless(name: str) -> str:
    """A name for a log line: whoever asked a trusted authority for it may have chosen it freely."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in name[:MAX_SHOWN_NAME_CHARS])


def _stat(name: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - asked at every connection
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _check_readable(option: str, name: str) -> None:
    try:
        with Path(name).open("rb") as file:
            if len(file.read(MAX_FILE_BYTES + 1)) > MAX_FILE_BYTES:
                raise TlsFilesError(option, f"{name} is larger than {MAX_FILE_BYTES} bytes")
    except OSError as error:
        raise TlsFilesError(option, f"cannot read {name}: {error.strerror}") from None


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase")


def _why_no_chain(options: TlsOptions, error: Exception) -> tuple[str, str]:
    reason = getattr(error, "reason", "") or ""
    if isinstance(error, ValueError):
        return "key_file", f"{options.key_file} has a passphrase, and nobody is here to type it"
    if reason == "KEY_VALUES_MISMATCH":
        return "key_file", f"{options.key_file} is not the key of {options.cert_file}"
    return "cert_file", f"no certificate with its key in {options.cert_file} and {options.key_file}: {_why(error)}"


def _why(error: Exception) -> str:
    return words_of(error) if isinstance(error, ssl.SSLError) else str(getattr(error, "strerror", "") or error)


_FIXES = {
    "cert_file": "a PEM file with the certificate, and the chain above it",
    "key_file": "a PEM file with the key of cert_file: openssl pkey -in WITH_PASSPHRASE.key -out PLAIN.key",
    "client_ca_file": "a PEM file with the certificates that the collectors' ones are signed with",
}
