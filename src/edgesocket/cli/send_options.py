"""The command line of `edgesocket send`: its options, and the settings they make once they are checked."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgesocket.collector.inputs import STDIN
from edgesocket.collector.options import ClientOptions, TlsOptions
from edgesocket.collector.window import WindowLimits
from edgesocket.compression import Compression
from edgesocket.errors import UsageError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.packet.cipher import parse_secret_key
from edgesocket.packet.codec import PacketEncoder
from edgesocket.protocol.grammar import BATCH_PREFIX, DEFAULT_MAX_LINE_BYTES

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

TOKEN_VARIABLE = "EDGESOCKET_TOKEN"  # noqa: S105
KEY_VARIABLE = "EDGESOCKET_SECRET_KEY"
KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")

_LONGEST_HEADER = len(BATCH_PREFIX) + len(str(MAX_BATCH_ID)) + 1
DEFAULT_MAX_PAYLOAD_BYTES = DEFAULT_MAX_LINE_BYTES - _LONGEST_HEADER

_DESCRIPTION = """\
Send lines to an EdgeSocket ingress, one batch a line, without their line ends. Replies are read all the time; what is
not received is sent again, also over new connections, until nothing moves for --timeout.
"""

_EPILOG = """\
batch ids:
  They must rise over all runs that send to one job. The default starts at the current time in microseconds, which does
  that as long as fewer than a million lines a second are sent. With --first-id that is your task: with --commit an id
  that was used before would be covered by an old watermark.

secrets:
  Prefer --token-file or EDGESOCKET_TOKEN to --token: other users of this host can read the arguments of a process.
  The key for encrypted packets comes from --key-file or EDGESOCKET_SECRET_KEY (base64 of 32 bytes).

exit codes:
  0  every line is received (with --commit: confirmed)
  64 the command line is off            75 lines are left: try again later (the summary says how many)
  65 lines were refused for good        77 the token or the key does not fit
  69 the ingress cannot be reached      77 also: one side does not accept the other's certificate
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add the verb `send`."""
    parser = subparsers.add_parser(
        "send",
        help="send lines from files or a pipe to an ingress",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("address", metavar="HOST:PORT", help="the ingress; [ADDRESS]:PORT for IPv6")
    parser.add_argument("files", metavar="FILE", nargs="*", help="what to send; none or - is the standard input")
    secrets = parser.add_argument_group("secrets")
    secrets.add_argument("--token", help="the shared token, visible to other users of this host; prefer --token-file")
    secrets.add_argument("--token-file", metavar="FILE", help=f"file with the token (else ${TOKEN_VARIABLE})")
    secrets.add_argument(
        "--key-file", metavar="FILE", help=f"file with the base64 key for encrypted packets (else ${KEY_VARIABLE})"
    )
    secrets.add_argument("--key-id", metavar="NAME", help="name of that key, for an ingress that knows several")
    add_tls_arguments(parser)
    delivery = parser.add_argument_group("delivery")
    delivery.add_argument("--commit", action="store_true", help="wait until completed checkpoints cover every line")
    delivery.add_argument("--first-id", metavar="N", type=int, help="id of the first line (default: microseconds now)")
    delivery.add_argument("--window", metavar="N", type=int, default=256, help="lines not yet received (default: 256)")
    delivery.add_argument(
        "--window-bytes", metavar="N", type=int, default=4 * 1024 * 1024, help="and their bytes (default: 4 MiB)"
    )
    delivery.add_argument(
        "--retain-bytes",
        metavar="N",
        type=int,
        default=64 * 1024 * 1024,
        help="with --commit: bytes kept until they are confirmed (default: 64 MiB)",
    )
    delivery.add_argument(
        "--timeout", metavar="S", type=float, default=60.0, help="give up after S s without progress; 0: never (60)"
    )
    delivery.add_argument(
        "--connect-timeout", metavar="S", type=float, default=10.0, help="give up if there is no connection (10)"
    )
    packets = parser.add_argument_group("form")
    packets.add_argument(
        "--packet", action="store_true", help="send packets (packet_mode = PACKET), encrypted with a key"
    )
    packets.add_argument("--compress", choices=["gzip", "zlib", "deflate"], help="compress each packet")
    packets.add_argument(
        "--max-line-bytes",
        metavar="N",
        type=int,
        default=DEFAULT_MAX_PAYLOAD_BYTES,
        help="longer lines are refused here (default: 16 MiB less the header)",
    )
    packets.add_argument("--format", choices=["text", "json"], default="text", help="of the summary (json: on stdout)")
    _allow_options_between(parser)
    return parser


def add_tls_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options about TLS, which `send` and `collect` share."""
    tls = parser.add_argument_group("TLS (any of these switches it on; the certificate of the ingress is checked)")
    tls.add_argument("--tls", action="store_true", default=None, help="use TLS, and trust what the system trusts")
    tls.add_argument("--tls-ca", metavar="FILE", help="trust the certificates in this PEM file instead")
    tls.add_argument("--tls-server-name", metavar="NAME", help="the name its certificate must have (default: HOST)")
    tls.add_argument("--tls-cert", metavar="FILE", help="PEM file with this side's own certificate")
    tls.add_argument("--tls-key", metavar="FILE", help="PEM file with its key, without a passphrase")


def tls_settings(args: argparse.Namespace) -> TlsOptions | None:
    """How to use TLS; None: not at all. Raises UsageError."""
    if (args.tls_cert is None) != (args.tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together")
    options = TlsOptions(args.tls_ca, args.tls_server_name, args.tls_cert, args.tls_key)
    return options if args.tls or options != TlsOptions() else None


def _allow_options_between(parser: argparse.ArgumentParser) -> None:
    """Let `HOST:PORT --option FILE` work: plain argparse gives FILE up once HOST:PORT was taken alone.

    The parser of a verb is called by its parent as `parse_known_args`, so that is what has to be another one.
    """
    plain = parser.parse_known_args

    def parse_known_args(
        args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        parser.parse_known_args = plain  # type: ignore[method-assign]
        try:
            return parser.parse_known_intermixed_args(args, namespace)
        finally:
            parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]


@dataclass(frozen=True, slots=True)
class SendSettings:
    """What one run shall do, checked.

    Attributes:
        host: the ingress.
        port: its port.
        token: the shared token; not part of `repr`.
        options: of the client.
        encoder: makes packets; None sends raw lines.
        first_id: id of the first line.
        names: what to read, in order; `-` is the standard input.
        max_line_bytes: longer lines, and packets, are not sent.
        json_summary: whether the summary is JSON on stdout.
    """

    host: str
    port: int
    token: bytes = field(repr=False)
    options: ClientOptions
    encoder: PacketEncoder | None
    first_id: int
    names: list[str]
    max_line_bytes: int
    json_summary: bool


def read_settings(args: argparse.Namespace) -> SendSettings:
    """Check the arguments and read the secrets' files.

    Raises:
        UsageError: something is off; no secret is in the text.
        ComponentError: encryption is asked for and `cryptography` is not installed.
    """
    host, port = parse_address(args.address)
    _check_numbers(args)
    return SendSettings(
        host=host,
        port=port,
        token=_token(args),
        options=ClientOptions(
            commit=args.commit,
            limits=WindowLimits(args.window, args.window_bytes, args.retain_bytes),
            connect_timeout_s=args.connect_timeout,
            progress_timeout_s=args.timeout or None,
            tls=tls_settings(args),
        ),
        encoder=_encoder(args),
        first_id=time.time_ns() // 1000 if args.first_id is None else args.first_id,
        names=args.files or [STDIN],
        max_line_bytes=args.max_line_bytes,
        json_summary=args.format == "json",
    )


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT or [IPv6]:PORT as host and port. Raises UsageError for anything else."""
    host, colon, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) < 65536):
        raise UsageError(f"{text} is not HOST:PORT")
    return host, int(digits)


def _check_numbers(args: argparse.Namespace) -> None:
    for name in ("window", "window_bytes", "retain_bytes", "max_line_bytes", "connect_timeout"):
        if not getattr(args, name) > 0:
            raise UsageError(f"--{name.replace('_', '-')} must be greater than 0")
    if not args.timeout >= 0:
        raise UsageError("--timeout must be 0 or greater")
    if args.first_id is not None and not 0 < args.first_id <= MAX_BATCH_ID:
        raise UsageError(f"--first-id must be in 1..{MAX_BATCH_ID}")


def _token(args: argparse.Namespace) -> bytes:
    if args.token is not None and args.token_file is not None:
        raise UsageError("--token and --token-file exclude each other")
    if args.token is not None:
        return os.fsencode(args.token)
    if args.token_file is not None:
        return _first_line(args.token_file)
    if TOKEN_VARIABLE in os.environ:
        return os.fsencode(os.environ[TOKEN_VARIABLE])
    raise UsageError(f"no token: give --token-file, --token or ${TOKEN_VARIABLE}")


def _encoder(args: argparse.Namespace) -> PacketEncoder | None:
    if not args.packet:
        for name in ("compress", "key_file", "key_id"):
            if getattr(args, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')} needs --packet")
        return None
    compression = Compression[(args.compress or "none").upper()]
    text = (
        os.environ.get(KEY_VARIABLE) if args.key_file is None else _first_line(args.key_file).decode("ascii", "replace")
    )
    try:
        key = None if text is None else parse_secret_key(text)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    if args.key_id is not None and (key is None or not KEY_ID.match(args.key_id)):
        raise UsageError("--key-id goes with a key, and has up to 64 letters, digits, dots, dashes and underscores")
    return PacketEncoder(compression, key, os.urandom, args.key_id)


def _first_line(name: str) -> bytes:
    """What a secret's file holds, without its line end."""
    try:
        data = Path(name).read_bytes()
    except OSError as problem:
        raise UsageError(f"cannot read {name}: {problem.strerror}") from None
    lines = data.splitlines()
    if len(lines) != 1:
        raise UsageError(f"{name} must hold one line")
    return lines[0]
