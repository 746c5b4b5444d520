"""kill -9 of `edgesocket run` at every step: nothing at or below an ACK is ever missing.

One job lives through all kills, on one state directory; each incarnation has one kill point built in. The collector
deletes what is acknowledged, so a record that the job lost after its ACK would be missing for good.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jobs import EagerCollector, Job, free_port, rows, write_job

EFFECTS = [
    f"{side} {effect}"
    for effect in ("Cut", "PrepareSinks", "WallClock", "CommitSinks", "Complete")
    for side in ("before", "after")
]
FILES = [
    f"create.{moment}:{part}"
    for part in ("queue", "fingerprints", "log/")
    for moment in ("before", "half-written", "written", "synced", "linked", "done")
]
ARRIVALS = ["arrivals.half-written", "arrivals.written"]
POINTS = [*EFFECTS, *FILES, *ARRIVALS]
KILLS = 200
MOST_INCARNATIONS = 300
"""Not every incarnation reaches its kill point (the tenth checkpoint may not come); the rest end with SIGTERM."""


def _kill_points() -> Iterator[tuple[str, int]]:
    """A point and which time it kills: every point the first time, then every point the second time, and so on."""
    for nth in itertools.cycle(range(1, 4)):
        for point in POINTS:
            yield point, nth


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_200_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    port = free_port()
    conf = write_job(tmp_path, port)
    collector = EagerCollector()
    killed = 0
    for point, nth in itertools.islice(_kill_points(), MOST_INCARNATIONS):
        if killed == KILLS:
            break
        goal = collector.next_id + 80
        with Job(conf, kill_at=(point, nth)) as job:
            if job.wait_until_listening():
                for _ in range(1000):
                    if collector.run(port, goal) or job.process.poll() is not None:
                        break
                    assert job.process.poll() is not None or job.process.wait(10) is not None
                if job.process.poll() is None:
                    job.stop()
            job.process.wait(30)
            killed += job.process.returncode == -9
            assert job.process.returncode in (-9, 0), f"{point} {nth}:\n{job.log_text()}"
        published = set(rows(tmp_path / "out"))
        missing = [id_ for id_ in range(1, collector.acked + 1) if f"p{id_}" not in published]
        assert not missing, f"after {point} {nth}: acknowledged up to {collector.acked}, missing {missing[:10]}"

    last = collector.next_id + 20
    with Job(conf) as job:
        assert job.wait_until_listening()
        assert collector.run(port, last)
        assert job.stop() == 0

    assert killed == KILLS
    assert sorted(set(rows(tmp_path / "out")), key=lambda row: int(row[1:])) == [f"p{n}" for n in range(1, last + 1)]
    assert collector.answers_after_restart.get("RESEND", 0) > 0, "some received batches must have been lost and said so"
