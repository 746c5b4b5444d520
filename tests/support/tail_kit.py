"""A file tail on a spool that can forget what was not stored, and a clock that is moved by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from edgesocket.collector.intake.contract import Intake
from edgesocket.collector.intake.file_options import FileOptions
from edgesocket.collector.intake.file_tail import FileTail


class TailRig:
    """One input over any number of runs of the agent."""

    def __init__(self, *include: str, envelope: Any = None, **options: Any) -> None:
        self.options = FileOptions(
            include=tuple(include), **{"from_beginning": True, "watch": False, "rotated_idle_s": 30.0} | options
        )
        self.envelope = envelope
        self.lines: list[bytes] = []
        """What is durable."""
        self.marks: dict[str, str] = {}
        self.now = 0.0
        self.said: list[str] = []
        self.wall_ns = 0
        self.tail: FileTail | None = None
        self.start()

    def start(self) -> None:
        assert self.tail is None
        self.tail = FileTail(
            "files", self.options, self.envelope, self.said.append, wall_ns=lambda: 1 << 62 if self.wall_ns else 0
        )
        self.tail.open(dict(self.marks), self.now)

    def look(self) -> None:
        """One look at everything, as happens also while the spool is full."""
        assert self.tail is not None
        self.now += self.options.discover_s
        self.tail.discover(self.now)

    def read(self, budget: int = 1 << 18) -> Intake | None:
        assert self.tail is not None
        return self.tail.read(budget, self.now)

    def store(self, intake: Intake) -> None:
        assert self.tail is not None
        self.lines += intake.lines
        for name, text in intake.marks.items():
            assert name.startswith("files/")
            if text:
                self.marks[name] = text
            else:
                self.marks.pop(name, None)
        self.tail.stored(intake, self.now)

    def drain(self, budget: int = 1 << 18) -> list[bytes]:
        """Look, and read until there is nothing; the lines that came."""
        before = len(self.lines)
        self.look()
        for _ in range(1000):
            intake = self.read(budget)
            if intake is None:
                return self.lines[before:]
            self.store(intake)
        raise AssertionError("never comes to rest")

    def wait(self, seconds: float) -> list[bytes]:
        """Let time pass, then `drain` twice: what is ended by time, and what follows from that."""
        self.now += seconds
        return self.drain() + self.drain()

    def stop(self) -> None:
        """A stop as it should be."""
        assert self.tail is not None
        rest = self.tail.close(self.now)
        if rest is not None:
            self.lines += rest.lines
            self.marks |= rest.marks
        self.tail = None

    def crash(self) -> None:
        """The process dies: what was not stored is forgotten."""
        assert self.tail is not None
        self.tail.close(self.now)
        self.tail = None

    def restart(self) -> None:
        self.crash()
        self.start()


def append(path: Path, data: bytes | str) -> None:
    with path.open("ab") as file:
        file.write(data.encode() if isinstance(data, str) else data)


def copy_truncate(path: Path, copy: Path) -> None:
    copy.write_bytes(path.read_bytes())
    os.truncate(path, 0)
