"""One run of the generator, and alternating windows of several servers.

A window during which something else used the CPUs says nothing about the server: it is measured again, a few times at
most, and the least disturbed try counts.
"""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Any

from bench.harness.build import Program
from bench.harness.machine import Pins, busy_seconds, settler
from bench.harness.servers import TOKEN, Server, ServerFailedError

DISTURBED = 0.08
"""A window is disturbed when others used more than this share of the server's or the generator's CPU."""


@dataclass(frozen=True)
class Load:
    """What the generator sends.

    Attributes:
        mode: `full` (never waits), `window` (at most `window` lines unanswered) or `stop` (one line unanswered).
        payload: bytes of payload a line.
        seconds, warmup: length of the measured window and of what goes before it; without meaning with `records`.
        records: send exactly so many instead, and measure all of them in `slices` equal slices.
        payloads: a file with the payloads, one a line, each of `payload` bytes; else some text.
    """

    mode: str = "full"
    payload: int = 256
    window: int = 64
    seconds: float = 1.0
    warmup: float = 0.3
    records: int = 0
    slices: int = 1
    payloads: Path | None = None

    def options(self) -> list[str]:
        """As the generator's options."""
        words = ["--mode", self.mode, "--payload", str(self.payload), "--warmup", str(self.warmup)]
        words += ["--seconds", str(self.seconds), "--slices", str(self.slices)]
        words += ["--window", str(self.window)] if self.mode == "window" else []
        words += ["--payloads", str(self.payloads)] if self.payloads else []
        return words + (["--records", str(self.records)] if self.records else [])


@dataclass(frozen=True)
class Slice:
    """A measured stretch of a run."""

    seconds: float
    received: int
    answered: int
    own_cpu_s: float
    server_cpu_s: float | None = None

    @property
    def rate(self) -> float:
        """Records accepted and answered (or taken, by a server that never answers) a second."""
        return self.received / self.seconds

    @property
    def cpu_ns(self) -> float | None:
        """CPU nanoseconds of the server for a line answered."""
        return None if self.server_cpu_s is None else self.server_cpu_s * 1e9 / max(1, self.answered)


@dataclass(frozen=True)
class Run:
    """What one run of the generator found. `disturbed` is the share of a CPU that others used meanwhile."""

    sent: int
    received: int
    queue_full: int
    other: int
    other_sample: str
    line_bytes: int
    slices: tuple[Slice, ...]
    p50_us: float | None = None
    p99_us: float | None = None
    disturbed: float | None = None

    @property
    def whole(self) -> Slice:
        """All slices as one."""
        cpu = [piece.server_cpu_s for piece in self.slices if piece.server_cpu_s is not None]
        return Slice(
            seconds=sum(piece.seconds for piece in self.slices),
            received=sum(piece.received for piece in self.slices),
            answered=sum(piece.answered for piece in self.slices),
            own_cpu_s=sum(piece.own_cpu_s for piece in self.slices),
            server_cpu_s=sum(cpu) if len(cpu) == len(self.slices) else None,
        )

    @property
    def rate(self) -> float:
        """Records a second in the measured window."""
        return self.whole.rate

    @property
    def wire_mb(self) -> float:
        """Megabytes (10^6) of request lines a second in the measured window."""
        return self.whole.rate * self.line_bytes / 1e6

    @property
    def cpu_ns(self) -> float | None:
        """CPU nanoseconds of the server for a record."""
        return self.whole.cpu_ns

    @property
    def generator_busy(self) -> float:
        """Which share of a CPU the generator used: far below 1, it was not the limit."""
        return self.whole.own_cpu_s / self.whole.seconds

    @property
    def refused_share(self) -> float:
        """The share of lines that were answered with anything but RECEIVED."""
        return (self.queue_full + self.other) / max(1, self.sent)


def parse_run(text: str, server_cpu_s: float | None, disturbed: float | None) -> tuple[Run, int]:
    """Read the generator's JSON.

    Args:
        text: what it printed.
        server_cpu_s: CPU time of the server over the whole run, used where the generator could not ask for it.
        disturbed: the share of a CPU that others used.

    Returns:
        The run, and the next id that may be sent.
    """
    found: dict[str, Any] = json.loads(text)
    slices = [Slice(**piece) for piece in found["slices"]]
    if server_cpu_s is not None and any(piece.server_cpu_s is None for piece in slices):
        share = server_cpu_s / max(1, found["sent"])
        slices = [Slice(p.seconds, p.received, p.answered, p.own_cpu_s, share * p.answered) for p in slices]
    run = Run(
        sent=found["sent"],
        received=found["received"],
        queue_full=found["queue_full"],
        other=found["other"],
        other_sample=found["other_sample"],
        line_bytes=found["line_bytes"],
        slices=tuple(slices),
        p50_us=found["p50_ns"] / 1000 if "p50_ns" in found else None,
        p99_us=found["p99_ns"] / 1000 if "p99_ns" in found else None,
        disturbed=disturbed,
    )
    return run, found["next_id"]


def children_cpu() -> float:
    """CPU time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True)
class Bench:
    """How this benchmark runs the generator."""

    generator: Program
    pins: Pins
    windows: int = 5
    tries: int = 3
    echo: Callable[[str], None] = print

    def run(self, server: Server, load: Load) -> Run:
        """Send one load to one server.

        Raises:
            ServerFailedError: the server ended, did not let the generator in, or did not answer every line.
        """
        command = [*self.generator.command, "--port", str(server.port), "--token", TOKEN, *load.options()]
        command += ["--server-pid", str(server.process.pid), "--first-id", str(server.next_id)]
        command += [] if server.spec.replies else ["--no-replies"]
        before, began = self._clocks(server), monotonic()
        child = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60 + load.seconds + load.records / 2000,
            preexec_fn=settler(self.pins.generator, self.pins.nice),
        )
        elapsed, after = monotonic() - began, self._clocks(server)
        server.check()
        if child.returncode != 0:
            raise ServerFailedError(f"{server.spec.title}: {child.stderr.strip()}\n{server.last_words()}")
        used = [None if a is None or b is None else b - a for a, b in zip(before, after, strict=True)]
        run, server.next_id = parse_run(child.stdout, used[0], self._disturbed(used, elapsed))
        return run

    def _clocks(self, server: Server) -> list[float | None]:
        pins = self.pins
        return [server.cpu_seconds(), children_cpu(), busy_seconds(pins.server), busy_seconds(pins.generator)]

    def _disturbed(self, used: list[float | None], elapsed: float) -> float | None:
        """The larger of the shares that others took of the two CPUs; known only with one CPU each."""
        server, generator, server_busy, generator_busy = used
        if server is None or generator is None or server_busy is None or generator_busy is None:
            return None
        if len(self.pins.server) > 1 or len(self.pins.generator) > 1:
            return None
        if self.pins.nice < 0:
            return None  # others then run only while these CPUs would be idle
        if self.pins.server == self.pins.generator:
            return max(0.0, (server_busy - server - generator) / elapsed)
        return max(0.0, server_busy - server, generator_busy - generator) / elapsed

    def clean_run(self, server: Server, load: Load) -> Run:
        """The first undisturbed run of a few tries, or else the least disturbed."""
        runs: list[Run] = []
        for _ in range(max(1, self.tries)):
            runs.append(self.run(server, load))
            if (runs[-1].disturbed or 0.0) <= DISTURBED:
                break
        return min(runs, key=lambda run: run.disturbed or 0.0)

    def alternate(self, servers: Sequence[Server], load: Load) -> list[Series]:
        """Measure every server once a round, round after round, each round starting with another one."""
        rows = [Series(server, load) for server in servers]
        for n in range(self.windows):
            start = n % max(1, len(rows))
            for row in rows[start:] + rows[:start]:
                row.runs.append(self.clean_run(row.server, load))
        return rows


@dataclass
class Series:
    """The windows of one server under one load, in the order of the rounds."""

    server: Server
    load: Load
    runs: list[Run] = field(default_factory=list)

    def median(self, pick: Callable[[Run], float | None]) -> float | None:
        """The median of a figure over the windows that have it."""
        values = [value for run in self.runs if (value := pick(run)) is not None]
        return median(values) if values else None

    def spread(self) -> float:
        """How far the windows' rates lie apart: (highest - lowest) / median."""
        rates = [run.rate for run in self.runs]
        return (max(rates) - min(rates)) / median(rates) if rates else 0.0

    def ratio(self, other: Series, pick: Callable[[Run], float | None]) -> float | None:
        """The median of the ratios of the rounds: slow drifts of the machine hit both sides of a round alike."""
        pairs = [(pick(a), pick(b)) for a, b in zip(self.runs, other.runs, strict=True)]
        ratios = [a / b for a, b in pairs if a is not None and b]
        return median(ratios) if ratios else None

    @property
    def disturbed_windows(self) -> int:
        """How many of the windows that count were disturbed."""
        return sum((run.disturbed or 0.0) > DISTURBED for run in self.runs)
