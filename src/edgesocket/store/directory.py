"""States in directories of the local, or a shared POSIX, file system: a job's whole state is one directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgesocket.checkpoint.entries import LOG_DIRECTORY
from edgesocket.components.state import Ownership, StateStore
from edgesocket.errors import StoreError
from edgesocket.store import status_file, stop_request
from edgesocket.store.local import LocalStore
from edgesocket.store.ownership import Beat, Owner, read_beat


class DirectoryPlace:
    """See Place. Commit log, blobs, arrival log, lock, beat and status lie in one directory.

    Args:
        directory: need not be there yet.
    """

    apart = None
    """The arrival log lies with the rest of the state."""

    def __init__(self, directory: Path) -> None:
        self.scratch = directory.absolute()
        self.text = str(self.scratch)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"DirectoryPlace({self.text!r})"

    def beside(self, suffix: str) -> DirectoryPlace:
        """See Place."""
        return DirectoryPlace(Path(self.text + suffix))

    def open_store(self) -> StateStore:
        """See Place."""
        return LocalStore(self.scratch)

    def owner(self, job: str) -> Ownership:
        """See Place."""
        return Owner(self.scratch, job)

    def exists(self) -> bool:
        """See Place."""
        return (self.scratch / LOG_DIRECTORY).is_dir()

    def read_beat(self) -> Beat | None:
        """See Place."""
        return read_beat(self.scratch)

    def read_status(self) -> dict[str, Any] | None:
        """See Place."""
        return status_file.read_status(self.scratch)

    def write_status(self, status: dict[str, Any]) -> None:
        """See Place."""
        status_file.write_status(self.scratch, status)

    def ask_to_stop(self, instance: str, by: str) -> None:
        """See Place."""
        try:
            stop_request.ask_to_stop(self.scratch, instance, by)
        except OSError as error:
            raise StoreError(f"{self.text}: {error.strerror or error}") from error

    def asked_to_stop(self, instance: str) -> str:
        """See Place."""
        return stop_request.asked_to_stop(self.scratch, instance)

    def clear_request(self, instance: str) -> None:
        """See Place."""
        stop_request.clear_request(self.scratch, instance)


class DirectoryRoot:
    """See Root. Each job has a directory of its name below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.text = str(self.directory)

    def __str__(self) -> str:
        return self.text

    def place(self, name: str) -> DirectoryPlace:
        """See Root."""
        return DirectoryPlace(self.directory / name)

    def names(self) -> list[str]:
        """See Root."""
        try:
            found = [entry.name for entry in self.directory.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"{self.text}: {error.strerror or error}") from error
        return sorted(name for name in found if not name.startswith(".") and self.place(name).exists())
