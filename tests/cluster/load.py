"""A collector under load, on a machine of its own: `python -m tests.cluster.load LOOKUP JOB TOKEN OUT`.

It asks the lookup before each connection, sends ids 1, 2, 3, ... and keeps each until an ACK covers it. One JSON line
an event goes to OUT: `{"at": ..., "event": "streaming" | "lost", "watermark": ...}` (`at`: the steady clock, which all
processes of this machine share), and `{"event": "watermark", ...}` every quarter of a second. A line on standard input
ends it: everything is flushed, and the last line says `{"event": "end", "sent": ..., "confirmed": ...}`.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path
from typing import TextIO

from edgesocket.collector.client import CollectorClient, Phase
from edgesocket.collector.lookup import JobFinder
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.window import WindowLimits

RATE = 400
"""Batches a second."""

TOLD_S = 0.25
FLUSH_S = 60.0


class Load:
    """See the module's text."""

    def __init__(self, url: str, job: str, token: str, out: TextIO) -> None:
        options = ClientOptions(
            commit=True,
            limits=WindowLimits(batches=200_000, payload_bytes=64 << 20),
            connect_timeout_s=1.0,
            progress_timeout_s=None,
            poll_most_s=0.2,
            reconnect_least_s=0.05,
            reconnect_most_s=0.1,
        )
        self._client = CollectorClient("", 0, token, options, find=JobFinder(url, job), on_notice=lambda _: None)
        self._out = out
        self._sent = 0
        self._streaming = False
        self._next_told = 0.0
        self._highest = 0

    def run(self) -> None:
        """Send until told to end."""
        began = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            while self._sent < (time.monotonic() - began) * RATE and self._client.try_send(
                self._sent + 1, b"p%d" % (self._sent + 1)
            ):
                self._sent += 1
            self._client.step(0.01)
            self._look()
        deadline = time.monotonic() + FLUSH_S
        while self._client.left and time.monotonic() < deadline:
            self._client.step(0.05)
            self._look()
        self._tell("end", sent=self._sent, left=self._client.left)

    def _look(self) -> None:
        watermark = self._client.watermark
        assert watermark >= self._highest, "the watermark fell"
        self._highest = watermark
        streaming = self._client.phase is Phase.STREAMING
        if streaming != self._streaming:
            self._streaming = streaming
            self._tell("streaming" if streaming else "lost")
        elif time.monotonic() > self._next_told:
            self._tell("watermark")

    def _tell(self, event: str, **more: int) -> None:
        self._next_told = time.monotonic() + TOLD_S
        told = {"at": time.monotonic(), "event": event, "watermark": self._client.watermark, **more}
        self._out.write(json.dumps(told) + "\n")
        self._out.flush()


if __name__ == "__main__":
    with Path(sys.argv[4]).open("w") as out:
        Load(sys.argv[1], sys.argv[2], sys.argv[3], out).run()
