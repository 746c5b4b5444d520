import pytest

pytest.register_assert_rewrite("edgesocket.testing.sink_contract", "edgesocket.testing.sink_story")
