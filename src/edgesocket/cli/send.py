"""`edgesocket send`: lines from files or a pipe, one batch each, to an ingress. Standard library only.

Needs `cryptography` only where packets are encrypted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from edgesocket.cli.send_report import RareLines, Reporter
from edgesocket.collector.client import ClientOptions, CollectorClient
from edgesocket.collector.inputs import STDIN, LineInput
from edgesocket.collector.window import WindowLimits
from edgesocket.compression import Compression
from edgesocket.errors import ConnectionLostError, EdgeSocketError, ExitCode, UsageError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.packet.cipher import parse_secret_key
from edgesocket.packet.codec import PacketEncoder
from edgesocket.protocol.grammar import BATCH_PREFIX, DEFAULT_MAX_LINE_BYTES
from edgesocket.protocol.replies import Reply

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

TOKEN_VARIABLE = "EDGESOCKET_TOKEN"  # noqa: S105
KEY_VARIABLE = "EDGESOCKET_SECRET_KEY"

_LONGEST_HEADER = len(BATCH_PREFIX) + len(str(MAX_BATCH_ID)) + 1
DEFAULT_MAX_PAYLOAD_BYTES = DEFAULT_MAX_LINE_BYTES - _LONGEST_HEADER
_READ_BYTES = 64 * 1024
_GRACE_S = 1.0
"""After a signal: how long replies to what is already on its way are waited for."""

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
  69 the ingress cannot be reached
"""


def add_parser(subparsers: Subparsers) -> argparse.ArgumentParser:
    """Add the verb `send`; the parsed arguments carry `run`."""
    parser = subparsers.add_parser(
        "send",
        help="send lines from files or a pipe to an ingress",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.add_argument("address", metavar="HOST:PORT", help="the ingress; [ADDRESS]:PORT for IPv6")
    parser.add_argument("files", metavar="FILE", nargs="*", help="what to send; none or - is the standard input")
    secrets = parser.add_argument_group("secrets")
    secrets.add_argument("--token", help="the shared token, visible to other users of this host; prefer --token-file")
    secrets.add_argument("--token-file", metavar="FILE", help=f"file with the token (else ${TOKEN_VARIABLE})")
    secrets.add_argument(
        "--key-file", metavar="FILE", help=f"file with the base64 key for encrypted packets (else ${KEY_VARIABLE})"
    )
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
    return parser


def run(args: argparse.Namespace) -> int:
    """Send what the arguments say; returns the exit code. Reports on stderr."""
    reporter = Reporter(sys.stderr, "edgesocket send: ")
    try:
        with StopSignals() as stop:
            return Sending(args, reporter, stop).run()
    except EdgeSocketError as problem:
        reporter.line(str(problem))
        return problem.exit_code


class StopSignals:
    """SIGINT and SIGTERM as a readable descriptor; the second one raises KeyboardInterrupt.

    Outside the main thread, where Python cannot take signals, it never fires.
    """

    def __init__(self) -> None:
        self.requested = False
        self._read_end, self._write_end = os.pipe()
        self._before: dict[int, object] = {}

    def fileno(self) -> int:
        """Readable once a signal has come."""
        return self._read_end

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self._read_end)
        os.close(self._write_end)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        os.write(self._write_end, b"!")


class Sending:
    """One run of the command."""

    def __init__(self, args: argparse.Namespace, reporter: Reporter, stop: StopSignals) -> None:
        """Check the arguments. Raises UsageError for what is off."""
        host, port = parse_address(args.address)
        _check_numbers(args)
        self._reporter = reporter
        self._stop = stop
        self._format: str = args.format
        self._max_line_bytes: int = args.max_line_bytes
        self._encoder = _encoder(args)
        self._first_id: int = time.time_ns() // 1000 if args.first_id is None else args.first_id
        self._next_id = self._first_id
        self._lines: deque[bytes] = deque()
        self._sealed: bytes | None = None
        self._skipped = 0
        self._refusals = RareLines(reporter.line)
        self._began = time.monotonic()
        limits = WindowLimits(args.window, args.window_bytes, args.retain_bytes)
        options = ClientOptions(
            commit=args.commit,
            limits=limits,
            connect_timeout_s=args.connect_timeout,
            progress_timeout_s=args.timeout or None,
        )
        try:
            self._client = CollectorClient(
                host, port, _token(args), options, on_refused=self._refused, on_notice=reporter.line
            )
        except ValueError as problem:
            raise UsageError(str(problem)) from None
        self._input = LineInput(args.files or [STDIN], args.max_line_bytes, min(_READ_BYTES, args.window_bytes))

    def run(self) -> int:
        """Send everything; returns the exit code."""
        try:
            code = self._send_all()
        except EdgeSocketError as problem:
            self._reporter.line(str(problem))
            code = problem.exit_code
        except KeyboardInterrupt:
            code = ExitCode.TRY_LATER
        finally:
            self._client.close()
            self._input.close()
        self._refusals.close()
        self._summary(code)
        return code

    def _send_all(self) -> int:
        try:
            connected = self._client.connect([self._stop.fileno()])
        except ConnectionLostError as problem:
            self._reporter.line(str(problem))
            return ExitCode.UNAVAILABLE
        if connected:
            self._pump()
        if self._stop.requested:
            self._client.flush(_GRACE_S, received_only=True)
            return ExitCode.TRY_LATER
        if self._lines:
            raise UsageError(f"no batch id is left above {self._next_id - 1}: begin with a lower --first-id")
        return ExitCode.BAD_DATA if self._refused_count else ExitCode.OK

    def _pump(self) -> None:
        """Read, send and wait until all is done, a signal comes, or the ids have run out."""
        client, source = self._client, self._input
        while not self._stop.requested:
            self._offer()
            out_of_ids = bool(self._lines) and self._next_id > MAX_BATCH_ID
            wants_input = not self._lines and not source.ended
            if (out_of_ids or (not self._lines and source.ended)) and not client.left:
                return
            wake_on = [self._stop.fileno()]
            if wants_input:
                wake_on.append(source.fileno())
            ready = client.step(1.0, wake_on)
            if wants_input and source.fileno() in ready:
                self._lines.extend(source.read())
                self._tell_skipped()
            self._reporter.progress(self._progress, time.monotonic())

    def _offer(self) -> None:
        """Give the client lines while it has room and there are ids."""
        while self._lines and self._next_id <= MAX_BATCH_ID:
            if self._sealed is None:
                self._sealed = self._lines[0] if self._encoder is None else self._encoder.seal(self._lines[0])
            if len(self._sealed) > self._max_line_bytes:
                self._skip(f"a packet of {len(self._sealed)} bytes is longer than --max-line-bytes")
            elif self._client.try_send(self._next_id, self._sealed):
                self._next_id += 1
            else:
                return
            self._lines.popleft()
            self._sealed = None

    def _tell_skipped(self) -> None:
        for place in self._input.skipped:
            self._skip(f"{place}: the line is longer than --max-line-bytes ({self._max_line_bytes})")
        self._input.skipped.clear()

    def _skip(self, why: str) -> None:
        self._skipped += 1
        self._refusals.line(f"not sent: {why}")

    def _refused(self, batch_id: int, payload: bytes, reply: Reply) -> None:
        self._refusals.line(f"refused: batch {batch_id} ({len(payload)} bytes): {reply}")

    @property
    def _refused_count(self) -> int:
        return self._client.counts.refused + self._skipped

    @property
    def _left(self) -> int:
        return self._client.left + len(self._lines)

    def _progress(self) -> str:
        counts, seconds = self._client.counts, time.monotonic() - self._began
        confirmed = f", confirmed {counts.confirmed}" if counts.confirmed else ""
        return f"received {counts.received}{confirmed}, left {self._left}, {counts.received / seconds:.0f}/s"

    def _summary(self, code: int) -> None:
        counts, seconds = self._client.counts, time.monotonic() - self._began
        if self._format == "json":
            facts = {
                "sent": counts.sent,
                "received": counts.received,
                "confirmed": counts.confirmed,
                "refused": self._refused_count,
                "resent": counts.resent,
                "left": self._left,
                "seconds": round(seconds, 3),
                "first_id": self._first_id,
                "last_id": self._next_id - 1,
                "exit_code": code,
            }
            print(json.dumps(facts), flush=True)
            return
        self._reporter.line(
            f"sent {counts.sent}, received {counts.received}, confirmed {counts.confirmed}, "
            f"refused {self._refused_count}, resent {counts.resent}, left {self._left}, {seconds:.2f} s"
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
        for name in ("compress", "key_file"):
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
    return PacketEncoder(compression, key, os.urandom)


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
