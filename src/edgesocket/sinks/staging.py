"""Files that are written in one directory and published in another, so that a reader never sees half a file.

A *staging area* is a pair of directories on one device: `staging`, which belongs to one sink alone, and `target`,
where readers look. A staged file becomes a final one by a hard link, which fails where the name is taken: no file is
ever overwritten. What happens when, and what a crash after it leaves behind:

====================================  ===============================================================================
rows are appended to the staged file  leftovers, removed by the next `clean`
file synced, staging directory synced  the same, until a manifest that names the file is durable
link to the final name                both names, one file: publishing again finds that and goes on
target directory synced               the same
manifest linked, its directory synced  the same; the manifest is found to be there
receipt made, staging directory synced  publishing again only removes staged names
staged name removed                   done
====================================  ===============================================================================

The *receipt* is an empty file whose name carries the number of the checkpoint last published. Thanks to it a reader
may take final files away at any time: publishing again after a crash knows that they have been there.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgesocket.errors import ComponentError

_STAGED_NAME = re.compile(r"(\d+)-\d+\.staged")
_RECEIPT_NAME = re.compile(r"published-(\d+)")
_MANIFEST_NAME = "manifest"
_EPOCH_IN_NAME = re.compile(r"\D*(\d+)-")

MANIFESTS = "_manifests"
"""Directory inside the target that says which files belong together; readers of data pass over a leading `_`."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A finished file and the name it will get. The fields are what a manifest keeps of it.

    Attributes:
        staged: name in the staging directory.
        final: name in the target directory.
        rows: how many rows it holds.
        bytes: its size.
    """

    staged: str
    final: str
    rows: int
    bytes: int


@contextmanager
def explained(attempt: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a ComponentError that names the attempt, the path and the cause."""
    try:
        yield
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "unknown")
        raise ComponentError(f"cannot {attempt} {path}: {error.strerror} ({code})") from error


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory and those above it, durably. One that is there already is no error."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


class StagedWriter:
    """One staged file while rows are added to it. Every method may raise OSError.

    Attributes:
        path: where it lies.
        rows: rows added.
        bytes: bytes added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self.bytes = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor: int | None = os.open(path, flags, 0o666)

    def append(self, lines: bytes | memoryview, rows: int) -> None:
        """Add rows. After an error the file may hold a part of them: `rewind`."""
        assert self._descriptor is not None
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self.rows += rows
        self.bytes += len(lines)

    def rewind(self, rows: int, size: int) -> None:
        """Cut the file back to an earlier state, also when it is sealed."""
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.ftruncate(self._descriptor, size)
        self.rows, self.bytes = rows, size

    def seal(self) -> None:
        """Make the content durable and close; nothing to do for one that is sealed.

        After an error nobody knows which rows are on the disk, and trying again would not tell: what failed to be
        written is no longer in memory.
        """
        if self._descriptor is not None:
            os.fsync(self._descriptor)
            self._close()

    def discard(self) -> None:
        """Throw the file away."""
        self._close()
        self.path.unlink(missing_ok=True)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class StagingArea:
    """The two directories and the moves between them. Every method raises ComponentError, naming path and cause.

    Args:
        target: where readers look.
        staging: belongs to this area alone.
    """

    def __init__(self, target: Path, staging: Path) -> None:
        self.target = target
        self.staging = staging
        self._receipt: int | None = None
        self._sequence = 0

    def make_ready(self) -> None:
        """Make both directories and see that a file can be linked from one to the other."""
        for directory in (self.target, self.staging):
            with explained("make the directory", directory):
                make_directory(directory)
        probe, linked = self.staging / "probe", self.target / f".probe-{self.staging.name}"
        with explained("write to", self.staging):
            probe.touch()
        with explained("link a file to", self.target):
            linked.unlink(missing_ok=True)
            try:
                linked.hardlink_to(probe)
            except OSError as error:
                if error.errno == errno.EXDEV:
                    raise self._on_two_devices() from error
                raise
            finally:
                probe.unlink()
            linked.unlink()

    def clean(self, epoch: int, keep: set[str], checkpoints: Iterable[int]) -> None:
        """Remove what earlier incarnations staged.

        Args:
            epoch: of this incarnation.
            keep: staged names that stay.
            checkpoints: those whose receipt stays; any other is of another life of this job.
        """
        self._receipt = None
        with explained("tidy up", self.staging):
            for path in sorted(self.staging.iterdir()):
                staged, receipt = _STAGED_NAME.fullmatch(path.name), _RECEIPT_NAME.fullmatch(path.name)
                if staged and int(staged[1]) > epoch:
                    raise ComponentError(
                        f"{path} was staged by run {int(staged[1])} of this job, but this is run {epoch}: another "
                        "job of this name writes here, or this job's state was deleted. Remove the directory "
                        f"{self.staging} if its rows are not needed, else give this job another name or path.",
                        retryable=False,
                    )
                if receipt and int(receipt[1]) in checkpoints:
                    self._receipt = max(int(receipt[1]), self._receipt or 0)
                elif receipt or path.name == _MANIFEST_NAME or (staged and path.name not in keep):
                    path.unlink()

    def create(self, epoch: int) -> StagedWriter:
        """A new, empty staged file."""
        while True:
            path = self.staging / f"{epoch}-{self._sequence}.staged"
            self._sequence += 1
            with explained("create", path):
                try:
                    return StagedWriter(path)
                except FileExistsError:  # of an earlier life in this epoch, named by a prepared manifest
                    continue

    def settle(self, files: Iterable[StagedFile]) -> None:
        """Make the names of sealed files durable, and see that every file is still there and whole."""
        with explained("sync the directory", self.staging):
            sync_directory(self.staging)
        for file in files:
            path = self.staging / file.staged
            with explained("find the staged file", path):
                self._check_size(path, file.bytes)

    def free_names(self, prefix: str, suffix: str, taken: set[str]) -> Iterator[str]:
        """Final names `<prefix><k><suffix>`, k rising, that are neither in `taken` nor in the target directory."""
        k = 0
        while True:
            name = f"{prefix}{k:05d}{suffix}"
            if name not in taken and not os.path.lexists(self.target / name):
                yield name
            k += 1

    def publish(self, checkpoint: int, files: Iterable[StagedFile], who: dict[str, str] | None = None) -> None:
        """Give every staged file its final name. May be repeated; see the module's table.

        Args:
            checkpoint: the one that is complete.
            files: prepared for it.
            who: what the manifest for readers begins with; None writes none.
        """
        files = list(files)
        if self._receipt is None or self._receipt < checkpoint:
            for file in files:
                self._link(file)
            with explained("sync the directory", self.target):
                sync_directory(self.target)
            if who is not None:
                self._make_manifest(checkpoint, files, who)
            self._make_receipt(checkpoint)
        for file in files:
            path = self.staging / file.staged
            with explained("remove", path):
                path.unlink(missing_ok=True)

    def _link(self, file: StagedFile) -> None:
        staged, final = self.staging / file.staged, self.target / file.final
        with explained("publish", final):
            try:
                self._check_size(staged, file.bytes)
                final.hardlink_to(staged)
            except FileExistsError:
                if not final.samefile(staged):
                    raise ComponentError(
                        f"cannot publish {staged} as {final}: another file of that name is there"
                    ) from None
            except FileNotFoundError:
                if staged.exists():  # then it is the target directory that is gone
                    raise
                if not final.exists():
                    raise ComponentError(
                        f"prepared rows are missing: neither the staged file {staged} nor {final} is there "
                        f"({file.rows} rows, {file.bytes} bytes)"
                    ) from None
                self._check_size(final, file.bytes)

    def _make_manifest(self, checkpoint: int, files: list[StagedFile], who: dict[str, str]) -> None:
        """Tell readers which files a checkpoint made. One of the same name and other content stays as it is."""
        epoch = max(int(match[1]) if (match := _EPOCH_IN_NAME.match(file.final)) else 0 for file in files)
        content = {
            **who,
            "epoch": epoch,
            "checkpoint": checkpoint,
            "rows": sum(file.rows for file in files),
            "bytes": sum(file.bytes for file in files),
            "files": [{"name": file.final, "rows": file.rows, "bytes": file.bytes} for file in files],
        }
        text = json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"
        directory, staged = self.target / MANIFESTS, self.staging / _MANIFEST_NAME
        with explained("write", directory):
            make_directory(directory)
            staged.unlink(missing_ok=True)
            writer = StagedWriter(staged)
            try:
                writer.append(text, 0)
                writer.seal()
                _link_beside(staged, directory, f"{epoch:06d}-{checkpoint:010d}", text)
                sync_directory(directory)
            finally:
                writer.discard()

    def _make_receipt(self, checkpoint: int) -> None:
        path = self.staging / f"published-{checkpoint}"
        with explained("write", path):
            path.touch()
            sync_directory(self.staging)
            if self._receipt is not None:
                (self.staging / f"published-{self._receipt}").unlink(missing_ok=True)
        self._receipt = checkpoint

    def _check_size(self, path: Path, size: int) -> None:
        found = path.stat().st_size
        if found != size:
            raise ComponentError(f"{path} has {found} bytes, not the {size} that were written to it")

    def _on_two_devices(self) -> ComponentError:
        return ComponentError(
            f"{self.staging} and {self.target} are on different devices or mounts: a file cannot move from one to "
            "the other in one step, so a reader could see half of it. Set tmp_path to a directory on the device of "
            "path, or leave it out.",
            retryable=False,
        )


def _link_beside(staged: Path, directory: Path, stem: str, content: bytes) -> None:
    """Give a file the first name that is free, unless one of those before it has this content already."""
    for k in itertools.count():
        final = directory / (f"{stem}-{k}.json" if k else f"{stem}.json")
        try:
            final.hardlink_to(staged)
        except FileExistsError:
            if final.read_bytes() == content:
                return
        else:
            return
