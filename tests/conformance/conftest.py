"""Lets pytest explain failed assertions of the players."""

import pytest

for player in ("transcript", "core", "listener", "client"):
    pytest.register_assert_rewrite(f"conformance_{player}")
