"""What a job publishes of itself holds no secret, whatever a library put into its errors."""

from __future__ import annotations

from typing import Any

from edgesocket.cli.running import _masked
from edgesocket.telemetry.masking import Mask

SECRET = "hunter2-hunter2"


def test_texts_of_libraries_are_masked_at_every_depth_and_the_rest_stays_as_it_is() -> None:
    told = f"connecting to postgres://me:{SECRET}@db failed: password={SECRET}"
    status: dict[str, Any] = {
        "state": "running",
        "rows_written": 7,
        "last_error": told,
        "sinks": {"last_failure": told, "failing_for_s": None, "each": {"Jdbc": {"last_failure": told, "rows": 5}}},
        "source": {"listener": {"failure": told, "bind_problem": told}, "replies": {"RECEIVED": 1}},
        "checkpoints": {"last_failure": told},
    }
    masked = _masked(status, Mask([SECRET]))
    assert SECRET not in str(masked)
    assert str(masked).count("***") >= 6
    assert (masked["rows_written"], masked["source"]["replies"]) == (7, {"RECEIVED": 1})
    assert masked["sinks"]["each"]["Jdbc"]["rows"] == 5
    assert status["last_error"] == told, "what the job works with is not changed"
