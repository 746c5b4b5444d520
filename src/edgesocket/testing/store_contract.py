"""What every state store must do: test classes to inherit from.

A store's own test module names how to open one::

    class TestMyStore(SharedStoreContract):
        def open_store(self, place): return MyStore(place)

and pytest runs the rest. `place` is an empty directory of the test's own; a store that needs none ignores it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from edgesocket.checkpoint.effects import Create, List, Read, Remove, StoreEffect, Wait


class Store(Protocol):
    """Something that performs store effects."""

    def perform(self, effect: StoreEffect) -> Any:
        """Do one effect and return its result."""


class StoreContract:
    """The rules for one process."""

    def open_store(self, place: Path) -> Store:
        """A store on `place`."""
        raise NotImplementedError

    def test_what_was_created_is_read_back(self, tmp_path: Path) -> None:
        """The bytes come back as they were given, whatever they are."""
        store = self.open_store(tmp_path)
        for name, data in {"a": b"", "log/b": b"line\n", "deep/er/c": bytes(range(256))}.items():
            assert store.perform(Create(name, data)) is True
            assert store.perform(Read(name)) == data

    def test_create_is_exclusive_and_changes_nothing_when_refused(self, tmp_path: Path) -> None:
        """The second create of a name says so, and the first one's bytes stay."""
        store = self.open_store(tmp_path)
        assert store.perform(Create("log/1", b"first")) is True
        assert store.perform(Create("log/1", b"second")) is False
        assert store.perform(Read("log/1")) == b"first"
        assert store.perform(List("log")) == ["log/1"]

    def test_a_missing_file_reads_as_none(self, tmp_path: Path) -> None:
        """No such file and no such directory are both answers, not errors."""
        store = self.open_store(tmp_path)
        assert store.perform(Read("log/1")) is None
        store.perform(Create("log/2", b""))
        assert store.perform(Read("log/1")) is None

    def test_list_gives_the_names_of_one_directory_in_order(self, tmp_path: Path) -> None:
        """Sorted, as Read takes them, nothing from other directories, and nothing for one that is not there."""
        store = self.open_store(tmp_path)
        for name in ("log/b", "log/a", "log/c", "state/x", "top"):
            store.perform(Create(name, b"data"))
        assert store.perform(List("log")) == ["log/a", "log/b", "log/c"]
        assert store.perform(List("nothing")) == []

    def test_removed_is_gone_and_its_name_is_free(self, tmp_path: Path) -> None:
        """Removing twice is no error."""
        store = self.open_store(tmp_path)
        store.perform(Create("log/1", b"old"))
        for _ in range(2):
            assert store.perform(Remove("log/1")) is None
        assert store.perform(Read("log/1")) is None
        assert store.perform(List("log")) == []
        assert store.perform(Create("log/1", b"new")) is True
        assert store.perform(Read("log/1")) == b"new"

    def test_what_is_no_store_effect_is_refused(self, tmp_path: Path) -> None:
        """Passed over in silence, a procedure that waits would spin."""
        try:
            self.open_store(tmp_path).perform(Wait(1.0, "a reason"))  # type: ignore[arg-type]
        except TypeError:
            return
        raise AssertionError("a store took what is not its to do")

    def test_a_big_file_is_one_file(self, tmp_path: Path) -> None:
        """20 MiB come back whole."""
        store = self.open_store(tmp_path)
        data = os.urandom(1 << 20) * 20
        assert store.perform(Create("state/blob", data)) is True
        assert store.perform(Read("state/blob")) == data


class SharedStoreContract(StoreContract):
    """The rules for several threads and processes on one place."""

    def test_opening_again_finds_everything(self, tmp_path: Path) -> None:
        """A second store on the place sees the first one's files."""
        self.open_store(tmp_path).perform(Create("log/1", b"data"))
        again = self.open_store(tmp_path)
        assert again.perform(Read("log/1")) == b"data"
        assert again.perform(Create("log/1", b"other")) is False

    def test_of_two_threads_one_makes_each_file(self, tmp_path: Path) -> None:
        """Every name has exactly one maker, and holds its bytes."""
        store = self.open_store(tmp_path)
        with ThreadPoolExecutor(2) as threads:
            made = list(threads.map(_create_many, [store, store], [b"one", b"two"]))
        _assert_one_maker_each(store, made)

    def test_of_two_processes_one_makes_each_file(self, tmp_path: Path) -> None:
        """Every name has exactly one maker, and holds its bytes."""
        store = self.open_store(tmp_path)
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
            jobs = [processes.submit(_open_and_create_many, self.open_store, tmp_path, data) for data in _MAKERS]
            made = [job.result(timeout=60) for job in jobs]
        _assert_one_maker_each(store, made)


_MAKERS = (b"one", b"two")
_NAMES = tuple(f"log/{i:03d}" for i in range(40))


def _create_many(store: Store, data: bytes) -> list[bool]:
    return [bool(store.perform(Create(name, data))) for name in _NAMES]


def _open_and_create_many(open_store: Callable[[Path], Store], place: Path, data: bytes) -> list[bool]:
    return _create_many(open_store(place), data)


def _assert_one_maker_each(store: Store, made: list[list[bool]]) -> None:
    for name, *who in zip(_NAMES, *made, strict=True):
        assert sum(who) == 1, f"{name} was made by {sum(who)}"
        assert store.perform(Read(name)) == _MAKERS[who.index(True)]
    assert store.perform(List("log")) == list(_NAMES)
