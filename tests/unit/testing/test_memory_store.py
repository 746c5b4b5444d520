"""The store in memory fails and forgets as it is told to."""

import pytest

from edgesocket.checkpoint.effects import Create, List, Read, Remove
from edgesocket.errors import StoreError
from edgesocket.testing.memory_store import Fault, MemoryStore, SimulatedCrash


@pytest.mark.parametrize(
    ("fault", "raises", "happened"),
    [
        (Fault.REFUSED, StoreError, False),
        (Fault.UNKNOWN, StoreError, True),
        (Fault.UNSYNCED, StoreError, True),
        (Fault.CRASH_BEFORE, SimulatedCrash, False),
        (Fault.CRASH_AFTER, SimulatedCrash, True),
    ],
)
def test_one_effect_goes_wrong_as_told(fault, raises, happened):
    store = MemoryStore({1: fault})
    store.perform(Create("log/1", b""))
    with pytest.raises(raises):
        store.perform(Create("log/2", b"x"))
    assert store.files == ({"log/1": b"", "log/2": b"x"} if happened else {"log/1": b""})
    assert store.effects == [Create("log/1", b""), Create("log/2", b"x")]


def test_a_simulated_crash_is_not_caught_by_error_handling():
    assert not issubclass(SimulatedCrash, Exception)


def test_created_files_survive_the_loss_of_power():
    store = MemoryStore()
    store.perform(Create("log/1", b"x"))
    store.lose_power()
    assert store.files == {"log/1": b"x"}


@pytest.mark.parametrize("kept", [False, True])
def test_what_was_not_synced_may_be_lost(kept):
    store = MemoryStore({0: Fault.UNSYNCED})
    with pytest.raises(StoreError):
        store.perform(Create("log/1", b"x"))
    store.lose_power(keep=lambda name: kept)
    assert store.files == ({"log/1": b"x"} if kept else {})


@pytest.mark.parametrize("later", [Create("log/2", b""), Read("log/1"), List("log")])
def test_a_later_effect_in_the_directory_syncs_it(later):
    """So that what is read back after an unknown outcome may be relied on."""
    store = MemoryStore({0: Fault.UNSYNCED})
    with pytest.raises(StoreError):
        store.perform(Create("log/1", b"x"))
    store.perform(later)
    store.lose_power()
    assert store.files["log/1"] == b"x"


@pytest.mark.parametrize("other", [Create("state/2", b""), Read("state/1"), List("state"), Remove("log/2")])
def test_other_effects_do_not(other):
    store = MemoryStore({0: Fault.UNSYNCED})
    with pytest.raises(StoreError):
        store.perform(Create("log/1", b"x"))
    store.perform(other)
    store.lose_power()
    assert "log/1" not in store.files


def test_removed_files_may_be_back_until_the_directory_is_synced():
    store = MemoryStore()
    store.perform(Create("log/1", b"x"))
    store.perform(Remove("log/1"))
    store.lose_power()
    assert store.files == {"log/1": b"x"}
    store.perform(Remove("log/1"))
    store.perform(Create("log/2", b"y"))
    store.lose_power()
    assert store.files == {"log/2": b"y"}
