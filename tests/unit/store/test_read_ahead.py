"""Reading ahead: whoever reads one after the other gets what is there, in few round trips."""

from __future__ import annotations

import threading

import pytest

from edgesocket.errors import StoreError
from edgesocket.store.read_ahead import BATCH, LIFETIME_S, ReadAhead

NAMES = [f"log/{index:03d}" for index in range(BATCH + 10)]


class Files:
    """Files whose reads are counted."""

    def __init__(self) -> None:
        self.files = {name: name.encode() for name in NAMES}
        self.reads: list[str] = []
        self.away: set[str] = set()
        self.now = 0.0
        self._lock = threading.Lock()
        self.ahead = ReadAhead(self.read, clock=lambda: self.now)

    def read(self, name: str) -> bytes | None:
        with self._lock:
            self.reads.append(name)
        if name in self.away:
            raise StoreError("away")
        return self.files.get(name)


def test_each_listed_file_is_read_once_and_comes_back_in_order() -> None:
    files = Files()
    files.ahead.listed(NAMES)
    assert [files.ahead.read(name) for name in NAMES] == [name.encode() for name in NAMES]
    assert sorted(files.reads) == NAMES


def test_what_was_not_listed_is_read_when_it_is_asked_for() -> None:
    files = Files()
    assert files.ahead.read("log/001") == b"log/001"
    files.ahead.listed(NAMES[:3])
    assert files.ahead.read("log/000") == b"log/000"
    assert files.reads == ["log/001", "log/000"]


def test_a_file_that_was_not_there_is_looked_for_again() -> None:
    files = Files()
    missing = files.files.pop(NAMES[5])
    files.ahead.listed(NAMES)
    files.ahead.read(NAMES[0])
    files.files[NAMES[5]] = missing
    assert files.ahead.read(NAMES[5]) == missing


def test_what_was_fetched_is_not_served_twice_nor_after_a_while_nor_after_another_listing() -> None:
    files = Files()
    files.ahead.listed(NAMES)
    files.ahead.read(NAMES[0])
    for name in NAMES:
        files.files[name] = b"new"
    assert files.ahead.read(NAMES[1]) == NAMES[1].encode()
    assert files.ahead.read(NAMES[1]) == b"new"
    files.ahead.listed(NAMES)
    assert files.ahead.read(NAMES[2]) == b"new"
    for name in NAMES:
        files.files[name] = b"newest"
    files.now += LIFETIME_S + 1
    assert files.ahead.read(NAMES[3]) == b"newest"


def test_a_failure_ahead_is_nobody_s_business_until_the_file_is_asked_for() -> None:
    files = Files()
    files.away = {NAMES[2]}
    files.ahead.listed(NAMES)
    assert files.ahead.read(NAMES[0]) == NAMES[0].encode()
    with pytest.raises(StoreError):
        files.ahead.read(NAMES[2])
