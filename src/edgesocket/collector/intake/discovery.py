"""Which files there are: globs to regular files, each once, however many names it has."""

from __future__ import annotations

import fnmatch
import glob
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

Ident = tuple[int, int]
"""Device and inode."""

_MAGIC = frozenset("*?[")


def find_files(include: Sequence[str], exclude: Sequence[str]) -> dict[Ident, tuple[str, os.stat_result]]:
    """The regular files that match: device and inode -> name and status. Symbolic links are followed.

    Args:
        include: globs; `**` stands for directories at any depth. A file with several names (hard links, symbolic
            links, two globs) comes once, by the first name in the order of the globs and the alphabet.
        exclude: globs; a file whose path or name matches one is left out.
    """
    found: dict[Ident, tuple[str, os.stat_result]] = {}
    for pattern in include:
        for path in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207
            if _excluded(path, exclude):
                continue
            try:
                status = Path(path).stat()
            except OSError:
                continue  # gone in between, or a link to nothing
            if stat.S_ISREG(status.st_mode):
                found.setdefault((status.st_dev, status.st_ino), (path, status))
    return found


def find_inode(directory: str, ident: Ident) -> str | None:
    """The name of a file in a directory by its inode, whatever it is called now."""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.inode() == ident[1] and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    if status.st_dev == ident[0]:
                        return entry.path
    except OSError:
        return None
    return None


def watched_directories(include: Iterable[str]) -> list[str]:
    """The existing directories in which something that matches can appear or grow, as far as globs tell."""
    directories = set()
    for pattern in include:
        parts = Path(pattern).parent.parts
        fixed = next((at for at, part in enumerate(parts) if _MAGIC & set(part)), len(parts))
        directory = Path(*parts[:fixed]) if fixed else Path()
        if fixed == len(parts) and directory.is_dir():
            directories.add(str(directory))
    return sorted(directories)


def _excluded(path: str, exclude: Sequence[str]) -> bool:
    name = Path(path).name
    return any(fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(name, pattern) for pattern in exclude)
