"""The status file of a job that waits is written seldom, that of one to which something happens at once."""

from __future__ import annotations

from edgesocket.cli.status_pace import QUIET_S, StatusPace

QUIET = {"state": "running", "source": {"watermark": 5, "collector": "", "ages": [1.5, 2]}, "running_for_s": 1.0}


def test_the_first_status_and_every_change_are_due() -> None:
    pace = StatusPace()
    assert pace.due(QUIET, 0.0)
    assert pace.due({**QUIET, "state": "stopping"}, 0.1)
    assert pace.due({**QUIET, "source": {**QUIET["source"], "watermark": 6}}, 0.2)  # type: ignore[dict-item]


def test_ages_are_no_change_until_it_is_time() -> None:
    pace = StatusPace()
    pace.due(QUIET, 0.0)
    assert not pace.due({**QUIET, "running_for_s": 2.0}, 1.0)
    assert pace.due({**QUIET, "running_for_s": 3.0}, QUIET_S)
    assert not pace.due(QUIET, QUIET_S + 1.0)
