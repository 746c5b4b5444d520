"""The store that tests use keeps the contract of stores."""

from pathlib import Path

import pytest

pytest.register_assert_rewrite("edgesocket.testing.store_contract")

from edgesocket.testing.memory_store import MemoryStore  # noqa: E402
from edgesocket.testing.store_contract import StoreContract  # noqa: E402


class TestMemoryStore(StoreContract):
    def open_store(self, place: Path) -> MemoryStore:
        return MemoryStore()
