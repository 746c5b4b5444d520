"""The flag that a blocked thread waits for."""

import os

import pytest

from edgesocket.net.wake import Wake


def test_it_stays_up_once_raised() -> None:
    wake = Wake()
    assert not wake.wait(0)

    wake.set()
    wake.set()

    assert wake.is_set
    assert wake.wait(0)
    assert wake.wait(0)
    wake.close()


def test_one_that_nobody_closed_gives_its_descriptors_back() -> None:
    read = Wake().fileno()

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)


def test_raising_it_after_the_end_writes_nowhere() -> None:
    wake = Wake()
    wake.close()
    read, write = os.pipe()  # most likely the same numbers
    wake.set()
    os.set_blocking(read, False)

    with pytest.raises(BlockingIOError):
        os.read(read, 1)

    wake.close()
    os.close(read)
    os.close(write)
