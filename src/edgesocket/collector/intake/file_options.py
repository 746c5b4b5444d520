"""How the input file is configured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from edgesocket.collector.intake.framing import FramingOptions

POLL_S = 0.5
DISCOVER_S = 1.0
ROTATED_IDLE_S = 60.0
FORGET_AFTER_S = 86_400.0
MAX_OPEN_FILES = 512
COPY_WAIT_S = 5.0
"""How long the beginning of a line that was read before its file was cut waits for a copy with the rest of it."""


class FileEnvelope(Protocol):
    """Puts the records of a file into envelopes."""

    def wrap_file(self, records: Sequence[bytes], path: str, offsets: Sequence[int]) -> list[bytes]:
        """As many records, in the same order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Which files, and how they are followed.

    Attributes:
        include: globs.
        exclude: globs of paths or names that are left out.
        from_beginning: send what files hold at the first start of all. Later files are sent from their start anyway.
        read_gzip: read gzip files that match; otherwise all compressed files are passed over.
        poll_s: how often followed files are looked at.
        discover_s: how often the globs are.
        rotated_idle_s: a file that the globs find no more is let go after so long without news from it.
        forget_after_s: a file that is gone is forgotten after so long.
        max_open_files: open handles at most. Above it, idle files are closed and looked at by name.
        watch: let the system wake the input, where `watchfiles` is installed.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    from_beginning: bool = False
    read_gzip: bool = False
    poll_s: float = POLL_S
    discover_s: float = DISCOVER_S
    rotated_idle_s: float = ROTATED_IDLE_S
    forget_after_s: float = FORGET_AFTER_S
    max_open_files: int = MAX_OPEN_FILES
    watch: bool = True
    framing: FramingOptions = field(default_factory=FramingOptions)
