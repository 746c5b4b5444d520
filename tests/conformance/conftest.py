"""Lets pytest explain failed assertions of the players."""

import pytest

pytest.register_assert_rewrite("conformance_core", "conformance_listener", "conformance_client", "conformance_transcript")
