"""Any sequence of writes, rotations, stops and crashes: every line once, in order, save what a cut takes by nature."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgesocket.collector.intake.framing import FramingOptions
from tests.support.tail_kit import TailRig, append, copy_truncate

STEPS = [
    "write",
    "write",
    "write_much",
    "write_part",
    "rename",
    "rename_and_write_behind",
    "copy_truncate",
    "truncate",
    "truncate_and_write",
    "delete",
    "replace",
    "look",
    "read",
    "read",
    "read_and_forget",
    "drain",
    "drain",
    "crash",
    "stop",
    "start",
]


class World:
    """A directory with a log, an agent that follows it, and what may be missing in the end."""

    def __init__(self, directory: Path, everything: bool) -> None:
        self.log = directory / "app.log"
        self.directory = directory
        self.everything = everything
        """Whether rotated files lie under the globs too."""
        self.rig = TailRig(
            str(directory / ("app.log*" if everything else "app.log")), framing=FramingOptions(idle_flush_s=None)
        )
        self.written: list[list[bytes]] = [[]]
        """Lines of each content that the log has had."""
        self.may_miss: set[bytes] = set()
        self.part = b""
        self.number = 0
        self.rotated = 0

    @property
    def runs(self) -> bool:
        return self.rig.tail is not None

    def _line(self) -> bytes:
        self.number += 1
        return b"%05d " % self.number + b"x" * (60 + self.number * 7 % 60)

    def write(self, count: int = 2, path: Path | None = None) -> None:
        text = b""
        for _ in range(count):
            rest, line = self.part, self._line()
            self.part = b""
            if rest:
                self.written[-1].append(rest)
                text += rest[len(rest) // 2 :] + b"\n"
            self.written[-1].append(line)
            text += line + b"\n"
        append(path or self.log, text)

    def write_much(self) -> None:
        self.write(40)

    def write_part(self) -> None:
        if not self.part:
            self.part = self._line()
            append(self.log, self.part[: len(self.part) // 2])

    def _end_part(self) -> None:
        if self.part:
            append(self.log, self.part[len(self.part) // 2 :] + b"\n")
            self.written[-1].append(self.part)
            self.part = b""

    def _next_name(self) -> Path:
        self.rotated += 1
        return self.directory / f"app.log.{self.rotated}"

    def _unseen(self) -> None:
        """The present content is about to vanish: what is not durable now may be missing."""
        self.may_miss |= set(self.written[-1]) - set(self.rig.lines)

    def _seen(self) -> bool:
        """Whether it is durably known that there is a log with this content."""
        if not set(self.written[-1]) & set(self.rig.lines):
            return False
        inode = self.log.stat().st_ino
        return any(json.loads(mark)["inode"] == inode for key, mark in self.rig.marks.items() if "started" not in key)

    def rename(self) -> None:
        if self.log.exists():
            self._end_part()
            if not self.everything and not self._seen():
                self._unseen()
            self.log.rename(self._next_name())
            self.written.append([])

    def rename_and_write_behind(self) -> None:
        if self.log.exists() and (self.everything or self.runs):
            self._end_part()
            name = self._next_name()
            if not self.everything:
                self.rig.look()
            seen = self.everything or self._seen()
            self.log.rename(name)
            self.write(2, name)
            if not seen:
                self._unseen()
            self.written.append([])

    def copy_truncate(self) -> None:
        if self.log.exists():
            self._end_part()
            if not self.everything:
                self._unseen()
            copy_truncate(self.log, self._next_name())
            self.written.append([])

    def truncate(self) -> None:
        if self.log.exists():
            self._end_part()
            self._unseen()
            os.truncate(self.log, 0)
            self.written.append([])

    def truncate_and_write(self) -> None:
        self.truncate()
        self.write(5)

    def delete(self) -> None:
        if self.log.exists():
            self._end_part()
            self._unseen()
            self.log.unlink()
            self.written.append([])

    def replace(self) -> None:
        self.delete()
        self.write()

    def look(self) -> None:
        if self.runs:
            self.rig.look()

    def read(self, keep: bool = True) -> None:
        if self.runs:
            intake = self.rig.read(500)
            if intake is not None and keep:
                self.rig.store(intake)
            elif intake is not None:
                self.crash()

    def read_and_forget(self) -> None:
        self.read(keep=False)

    def drain(self) -> None:
        if self.runs:
            self.rig.drain()

    def crash(self) -> None:
        if self.runs:
            self.rig.crash()

    def stop(self) -> None:
        if self.runs:
            self.rig.stop()

    def start(self) -> None:
        if not self.runs:
            self.rig.start()

    def finish(self) -> None:
        self._end_part()
        self.start()
        self.rig.drain()
        self.rig.drain()
        self.rig.stop()

    def check(self) -> None:
        lines = self.rig.lines
        assert len(lines) == len(set(lines)), "a line came twice"
        whole = {line for content in self.written for line in content}
        assert not [line for line in lines if not any(one.startswith(line) for one in whole)], "half a line"
        missing = whole - set(lines) - self.may_miss
        assert not missing, sorted(missing)
        place = {line: at for at, line in enumerate(lines)}
        for content in self.written:
            places = [place[line] for line in content if line in place]
            assert places == sorted(places), "out of order"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(STEPS), max_size=40), st.booleans())
def test_every_line_comes_once_and_in_order(steps: list[str], everything: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), everything)
        try:
            for step in steps:
                getattr(world, step)()
            world.finish()
        finally:
            if world.runs:
                world.rig.crash()
        world.check()
