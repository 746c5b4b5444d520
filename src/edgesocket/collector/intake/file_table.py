"""The files that are followed and remembered, and their handles: what finding and reading have in common."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from edgesocket.collector.intake.discovery import Ident
from edgesocket.collector.intake.file_identity import is_rotation_of
from edgesocket.collector.intake.file_options import FileEnvelope, FileOptions
from edgesocket.collector.intake.file_watch import FileWatch
from edgesocket.collector.intake.framing import Framer, FramingCounts, FramingState
from edgesocket.collector.intake.past_files import PastFile, PastFiles
from edgesocket.collector.intake.tailed_file import TailedFile


@dataclass(slots=True)
class Shadow:
    """A copy that waits for the end of its file."""

    path: str
    of: TailedFile


class FileTable:
    """The state of one file input. `file_tail` says what the kinds of files are."""

    def __init__(
        self,
        name: str,
        options: FileOptions,
        envelope: FileEnvelope | None = None,
        report: Callable[[str], object] = lambda _text: None,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Get ready; nothing is looked at before `open`.

        Args:
            name: of the input.
            options: which files, and how.
            envelope: puts records into envelopes; None: they stay as they are.
            report: takes lines for the log.
            wall_ns: time of day, as files have it.
        """
        self._name = name
        self._options = options
        self._envelope = envelope
        self._report = report
        self._wall_ns = wall_ns
        self._framing_counts = FramingCounts()
        self._counts = dict.fromkeys(
            ("files_found", "files_cut", "files_gone", "files_forgotten", "files_failed", "compressed_passed_over"), 0
        )
        self._live: dict[Ident, TailedFile] = {}
        self._left: list[TailedFile] = []
        self._past = PastFiles()
        self._shadows: dict[Ident, Shadow] = {}
        self._passed_over: dict[Ident, str] = {}
        self._turns: deque[TailedFile] = deque()
        self._marks: dict[str, str] = {}
        self._said: set[str] = set()
        self._next_key = 0
        self._next_poll = self._next_scan = 0.0
        self._first_start = False
        self._starting = False
        self._watch: FileWatch | None = None

    def _wants_turn(self, file: TailedFile) -> bool:
        return file.has_more and not self._is_done(file)

    def _is_done(self, file: TailedFile) -> bool:
        return self._live.get(file.ident) is not file

    def _cut(self, file: TailedFile, now: float) -> None:
        """The file was cut and perhaps written anew: its old content is past, the new one is read from its start."""
        self._counts["files_cut"] += 1
        self._say(
            f"{file.path} was cut or written anew: it is read from its start; what was written after the last look and"
            " before that is lost, unless it is in a copy that the globs find",
            once=False,
        )
        past = PastFile(file.key, file.mark(ended=True), now, was_cut=True)
        if file.framer.pending_bytes:
            past.rest = file.framer
        self._past.add(past)
        self._marks[past.key] = past.mark.text()
        if not file.missing and any(is_rotation_of(live.path, file.path) for live in self._live.values()):
            # A copy that was written anew, as another copy perhaps: it is looked at like a new file.
            del self._live[file.ident]
            self._left.append(file)
            self._next_scan = now
            return
        renewed = self._new_file(file.path, file.ident)
        renewed.descriptor, file.descriptor = file.descriptor, None
        renewed.missing = file.missing
        renewed.changed_at = now
        self._follow(renewed)

    def _new_file(self, path: str, ident: Ident) -> TailedFile:
        key = f"{self._name}/{self._next_key}"
        self._next_key += 1
        return TailedFile(key, path, ident, self._framer())

    def _framer(self, state: FramingState | None = None) -> Framer:
        positions = self._envelope is not None
        return Framer(self._options.framing, state, self._framing_counts, positions=positions)

    def _follow(self, file: TailedFile) -> None:
        self._live[file.ident] = file
        file.has_more = True
        self._turns.append(file)

    def _has_handle(self) -> bool:
        """Whether another file may be opened; closes an idle one for it."""
        opened = [file for file in self._live.values() if file.descriptor is not None]
        if len(opened) < self._options.max_open_files:
            return True
        idle = [file for file in opened if self._may_close(file)]
        if not idle:
            silent = [file for file in opened if file.missing and not file.has_more and not file.unstored]
            if silent:
                min(silent, key=lambda file: file.changed_at).finishing = True
            return False
        min(idle, key=lambda file: file.changed_at).close()
        return True

    def _may_close(self, file: TailedFile) -> bool:
        return not (file.has_more or file.unstored or file.missing or file.finishing or file.zipped)

    def _limit_handles(self) -> None:
        opened = [file for file in self._live.values() if file.descriptor is not None]
        excess = len(opened) - self._options.max_open_files
        if excess > 0:
            idle = sorted((file for file in opened if self._may_close(file)), key=lambda file: file.changed_at)
            for file in idle[:excess]:
                file.close()

    def _reopen(self, file: TailedFile) -> bool:
        """Open a file again that was closed for the limit. Whether it can be read."""
        if not self._has_handle():
            return False  # it stays in the turns
        if file.open(file.path):
            return True
        file.has_more = False
        return False

    def _reopen_quietly(self, file: TailedFile) -> bool:
        try:
            return file.open(file.path)
        except OSError:
            return False

    def _failed(self, path: str, problem: Exception) -> None:
        self._counts["files_failed"] += 1
        self._say(f"cannot read {path}: {getattr(problem, 'strerror', None) or problem}; the other files go on")

    def _say(self, text: str, *, once: bool = True) -> None:
        if not once or text not in self._said:
            if len(self._said) < 1000:
                self._said.add(text)
            self._report(f"{self._name}: {text}")
