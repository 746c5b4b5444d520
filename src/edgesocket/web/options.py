"""Where the HTTP server listens, and who may ask it: from flags, environment and seatunnel.yaml to checked options.

Standard library only, and nothing of the server is imported: a job's start must not wait for it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgesocket.errors import UsageError

LOOPBACK = "127.0.0.1"
DEFAULT_PORTS = tuple(range(8080, 8100))
"""Tried in this order where nobody names a port."""

MAX_PORT_RANGE = 1000
"""So many ports are tried at most."""

ADDRESS_VARIABLE = "EDGESOCKET_HTTP"
"""Environment variable with what `--http` takes."""

TOKEN_VARIABLE = "EDGESOCKET_HTTP_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with the token itself."""

MIN_TOKEN_CHARS = 16
MAX_TOKEN_BYTES = 4096
_HOW_TO_MAKE = "make one with: openssl rand -hex 32"


@dataclass(frozen=True, slots=True)
class WebOptions:
    """How the server is to run.

    Attributes:
        host: IP address it binds.
        ports: tried in this order; 0 is any free one.
        asked_for: somebody asked for the server, so that it cannot start is an error and not a note.
        token: bearer token; empty: none, and the server is read-only.
        token_file: where it came from, to be looked at again; None: not from a file.
        certificate, key: PEM files for TLS; None: plain HTTP. The key may stand in the certificate's file.
    """

    host: str = LOOPBACK
    ports: tuple[int, ...] = DEFAULT_PORTS
    asked_for: bool = False
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def loopback(self) -> bool:
        """Whether only this host can reach it."""
        return ipaddress.ip_address(self.host).is_loopback

    def url(self, port: int) -> str:
        """Where this host reaches it once it listens on `port`."""
        address = ipaddress.ip_address(self.host)
        host = (LOOPBACK if address.version == 4 else "::1") if address.is_unspecified else str(address)
        return f"{'https' if self.certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def web_options(
    address: str | None,
    *,
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    environ: Mapping[str, str],
    seatunnel: Mapping[str, str] | None = None,
) -> WebOptions | None:
    """What flags, environment and seatunnel.yaml say together.

    Args:
        address: of `--http`; None: not given.
        token_file: of `--http-token-file`.
        certificate, key: of `--http-cert` and `--http-key`.
        environ: environment variables.
        seatunnel: the `http` settings of a seatunnel.yaml, by name. They count where neither flag nor variable does.

    Returns:
        None: there is to be no server.

    Raises:
        UsageError: an address, port or token that cannot be, or one without what it needs.
    """
    where, source = (address, "--http") if address is not None else (environ.get(ADDRESS_VARIABLE), ADDRESS_VARIABLE)
    if (key is not None) and certificate is None:
        raise UsageError("--http-key needs --http-cert")
    if where:
        if where.strip().lower() == "off":
            return None
        host, ports = _address(where.strip(), source)
        asked_for = True
    else:
        found = _of_seatunnel(seatunnel or {})
        if found is None:
            return None
        host, (ports, asked_for) = LOOPBACK, found
    token = _token(token_file, environ)
    asked_for = asked_for or token_file is not None or certificate is not None
    options = WebOptions(host, ports, asked_for, token, token_file, certificate, key)
    if not options.loopback and not token:
        raise UsageError(
            f"{source} {where}: other hosts can reach this address, so a token is needed: --http-token-file FILE, or "
            f"${TOKEN_VARIABLE} ({_HOW_TO_MAKE})"
        )
    return options


def _address(text: str, source: str) -> tuple[str, tuple[int, ...]]:
    """`ADDR:PORT`, `ADDR:FIRST-LAST`, `[V6]:PORT`, or only ports, on the loopback address."""
    host, colon, ports = text.rpartition(":")
    host = host.strip("[]") if host.startswith("[") and host.endswith("]") else host
    host = LOOPBACK if host == "localhost" or not colon else host
    first, dash, last = ports.partition("-")
    numbers = [_port(first), _port(last if dash else first)]
    try:
        ipaddress.ip_address(host)
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0 or not 0 <= numbers[-1] - numbers[0] <= MAX_PORT_RANGE:
        raise UsageError(
            f"{source} {text}: write ADDRESS:PORT or ADDRESS:FIRST-LAST with an IP address, as in 127.0.0.1:8080, or "
            f"off for no HTTP server"
        )
    return host, tuple(range(numbers[0], numbers[-1] + 1))


def _port(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65535 else -1


def _of_seatunnel(settings: Mapping[str, str]) -> tuple[tuple[int, ...], bool] | None:
    """Ports, and whether the server was asked for; None: switched off."""
    if not settings:
        return DEFAULT_PORTS, False
    if settings.get("enable-http", "true").strip().lower() != "true":
        return None
    if "port" not in settings:
        return DEFAULT_PORTS, True
    port = _number(settings["port"], "port", 65535)
    dynamic = settings.get("enable-dynamic-port", "true").strip().lower() == "true"
    further = _number(settings.get("port-range", "100"), "port-range", MAX_PORT_RANGE) if dynamic else 0
    return tuple(range(port, min(port + further, 65535) + 1)), True


def _number(text: str, name: str, most: int) -> int:
    if text.strip().isascii() and text.strip().isdecimal() and 0 < int(text) <= most:
        return int(text)
    raise UsageError(f"seatunnel.engine.http.{name} of seatunnel.yaml is {text}: a number from 1 to {most} is needed")


def _token(file: Path | None, environ: Mapping[str, str]) -> str:
    if file is None:
        return _checked_token(environ.get(TOKEN_VARIABLE, "").strip(), f"${TOKEN_VARIABLE}")
    return read_token(file)


def read_token(file: Path) -> str:
    """The token in a file. Raises UsageError where there is none that will do."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--http-token-file {file}: {error.strerror or error}") from error
    text = content.decode("ascii", errors="replace").strip()
    if not text or len(content) > MAX_TOKEN_BYTES:
        raise UsageError(f"--http-token-file {file} holds no token ({_HOW_TO_MAKE})")
    return _checked_token(text, f"--http-token-file {file}")


def _checked_token(text: str, source: str) -> str:
    if text and (len(text) < MIN_TOKEN_CHARS or not text.isascii() or not text.isprintable() or " " in text):
        raise UsageError(
            f"{source}: a token has at least {MIN_TOKEN_CHARS} visible ASCII characters and no blank ({_HOW_TO_MAKE})"
        )
    return text
