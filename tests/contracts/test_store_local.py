"""The local store keeps the contract of stores."""

from pathlib import Path

import pytest

pytest.register_assert_rewrite("edgesocket.testing.store_contract")

from edgesocket.store.local import LocalStore  # noqa: E402
from edgesocket.testing.store_contract import SharedStoreContract  # noqa: E402


class TestLocalStore(SharedStoreContract):
    def open_store(self, place: Path) -> LocalStore:
        return LocalStore(place / "state")
