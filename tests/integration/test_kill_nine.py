"""kill -9 of `edgesocket run` at every step: each row is in the published files once, whatever was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jobs import free_port, write_job
from tests.support.kill_runs import ReadFiles, run_kills

KILLS = 200


def _ids(path: Path) -> Iterator[int]:
    return (int(line.removeprefix("p")) for line in path.read_text(encoding="utf-8").splitlines())


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_200_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    port = free_port()
    conf = write_job(tmp_path, port)
    report = run_kills(conf, port, ReadFiles(tmp_path / "out", _ids), kills=KILLS)
    assert report.killed == KILLS
    assert report.answers_after_restart.get("RESEND", 0) > 0, "some received batches must have been lost and said so"
