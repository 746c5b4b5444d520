"""What is remembered of files that are not followed now: cut ones, gone ones, and all of them after a restart."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from edgesocket.collector.intake.discovery import Ident
from edgesocket.collector.intake.file_identity import PREFIX_BYTES, FileMark, digest, is_rotation_of
from edgesocket.collector.intake.framing import Framer

MOST_PAST_FILES = 10_000
"""More are not remembered; the oldest are forgotten first."""

LEAST_EVIDENCE_BYTES = 64
"""With fewer first bytes, a file that is gone is not taken to live on in a copy: two files may begin alike."""

MOST_CUTS = 16
"""As many of one inode that was cut again and again."""


@dataclass(eq=False, slots=True)
class PastFile:
    """One of them.

    Attributes:
        key: name of its mark.
        mark: what is durable of it.
        since: when it became one of them.
        was_cut: its file was cut and written anew, as a rotation by copying does.
        rest: holds the beginning of a line that was not complete; taken from a copy, or given when none appears.
    """

    key: str
    mark: FileMark
    since: float
    was_cut: bool = False
    rest: Framer | None = None

    @property
    def ident(self) -> Ident:
        """Device and inode it had."""
        return self.mark.device, self.mark.inode


class PastFiles:
    """All of them, in the order in which they came."""

    def __init__(self) -> None:
        """None yet."""
        self._files: dict[str, PastFile] = {}

    def __iter__(self) -> Iterator[PastFile]:
        """The newest first."""
        return reversed(list(self._files.values()))

    def __len__(self) -> int:
        """How many."""
        return len(self._files)

    def add(self, past: PastFile) -> None:
        """Remember one more."""
        self._files[past.key] = past

    def remove(self, past: PastFile) -> None:
        """It is followed again, or forgotten."""
        self._files.pop(past.key, None)

    def of_inode(self, ident: Ident, path: str) -> list[PastFile]:
        """Those that may be this file. The device's number may have changed with a restart of the machine."""
        return [
            past
            for past in self
            if not past.mark.ended
            and past.ident[1] == ident[1]
            and (past.ident[0] == ident[0] or past.mark.path == path)
        ]

    def copied_to(self, path: str, head: bytes, present: Container[Ident]) -> list[PastFile]:
        """Those that a new file of that name and first bytes may be a copy of.

        That is: what a cut or vanished file held, under a name that a rotation gives; or any of them under its own
        name or such a name, where its full first bytes agree.

        Args:
            path: of the new file.
            head: its first bytes, up to `PREFIX_BYTES`.
            present: devices and inodes of the files that the globs find now.
        """
        found = []
        for past in self:
            mark = past.mark
            if not mark.prefix_bytes or digest(head[: mark.prefix_bytes]) != mark.prefix:
                continue
            rotated = is_rotation_of(mark.path, path)
            cut = past.was_cut or (mark.ended and past.ident in present)
            gone = past.ident not in present and mark.prefix_bytes >= LEAST_EVIDENCE_BYTES
            if (rotated and (cut or gone)) or (mark.prefix_bytes == PREFIX_BYTES and (rotated or path == mark.path)):
                found.append(past)
        return found

    def too_old(self, now: float, forget_after_s: float) -> list[PastFile]:
        """Those to forget."""
        files = list(self._files.values())
        old = [past for past in files if past.since + forget_after_s <= now and past.rest is None]
        excess = len(files) - MOST_PAST_FILES
        if excess > 0:
            old += [past for past in files[:excess] if past not in old]
        cuts: dict[Ident, int] = {}
        for past in reversed(files):
            if past.was_cut or past.mark.ended:
                cuts[past.ident] = cuts.get(past.ident, 0) + 1
                if cuts[past.ident] > MOST_CUTS and past.rest is None and past not in old:
                    old.append(past)
        return old
