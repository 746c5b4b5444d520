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
from types import FrameType, TracebackType

from edgesocket.cli.send_options import SendSettings, add_parser, read_settings
from edgesocket.cli.send_report import RareLines, Reporter
from edgesocket.collector.client import CollectorClient
from edgesocket.collector.inputs import LineInput
from edgesocket.errors import ConnectionLostError, EdgeSocketError, ExitCode, UsageError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.replies import Reply

__all__ = ["add_parser", "run"]

_READ_BYTES = 64 * 1024
_GRACE_S = 1.0
"""After a signal: how long replies to what is already on its way are waited for."""


def run(args: argparse.Namespace) -> int:
    """Send what the arguments say; returns the exit code. Reports on stderr."""
    reporter = Reporter(sys.stderr, "edgesocket send: ")
    try:
        with StopSignals() as stop:
            return Sending(read_settings(args), reporter, stop).run()
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

    def __init__(self, settings: SendSettings, reporter: Reporter, stop: StopSignals) -> None:
        """Get ready. Raises UsageError where the token is none or a file cannot be read."""
        self._settings = settings
        self._reporter = reporter
        self._stop = stop
        self._next_id = settings.first_id
        self._lines: deque[bytes] = deque()
        self._sealed: bytes | None = None
        self._skipped = 0
        self._refusals = RareLines(reporter.line)
        self._began = time.monotonic()
        try:
            self._client = CollectorClient(
                settings.host,
                settings.port,
                settings.token,
                settings.options,
                on_refused=self._refused,
                on_notice=reporter.line,
            )
        except ValueError as problem:
            raise UsageError(str(problem)) from None
        # No piece is larger than the window: what is read ahead of it is bounded by it.
        read_bytes = min(_READ_BYTES, settings.options.limits.payload_bytes)
        self._input = LineInput(settings.names, settings.max_line_bytes, read_bytes)

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
                self._sealed = (
                    self._lines[0] if self._settings.encoder is None else self._settings.encoder.seal(self._lines[0])
                )
            if len(self._sealed) > self._settings.max_line_bytes:
                self._skip(f"a packet of {len(self._sealed)} bytes is longer than --max-line-bytes")
            elif self._client.try_send(self._next_id, self._sealed):
                self._next_id += 1
            else:
                return
            self._lines.popleft()
            self._sealed = None

    def _tell_skipped(self) -> None:
        for place in self._input.skipped:
            self._skip(f"{place}: the line is longer than --max-line-bytes ({self._settings.max_line_bytes})")
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
        if self._settings.json_summary:
            facts = {
                "sent": counts.sent,
                "received": counts.received,
                "confirmed": counts.confirmed,
                "refused": self._refused_count,
                "resent": counts.resent,
                "left": self._left,
                "seconds": round(seconds, 3),
                "first_id": self._settings.first_id,
                "last_id": self._next_id - 1,
                "exit_code": code,
            }
            print(json.dumps(facts), flush=True)
            return
        self._reporter.line(
            f"sent {counts.sent}, received {counts.received}, confirmed {counts.confirmed}, "
            f"refused {self._refused_count}, resent {counts.resent}, left {self._left}, {seconds:.2f} s"
        )
