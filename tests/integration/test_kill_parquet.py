"""kill -9 of a job that writes Parquet: each id is in the published files exactly once, whatever was acknowledged."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.jobs import free_port, write_job
from tests.support.kill_runs import ReadFiles, run_kills

KILLS = 200


def _ids(path: Path) -> list[int]:
    return [int(value.removeprefix("p")) for value in pq.read_table(path)["value"].to_pylist()]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_200_kills_leave_each_row_in_the_parquet_files_once(tmp_path: Path) -> None:
    port = free_port()
    sink = f'LocalFile {{ path = "{tmp_path / "out"}", file_format_type = parquet, compress_codec = zstd }}'
    conf = write_job(tmp_path, port, sink=sink)
    report = run_kills(conf, port, ReadFiles(tmp_path / "out", _ids, "*.parquet"), kills=KILLS)
    assert report.killed == KILLS
    assert report.answers_after_restart.get("RESEND", 0) > 0, "some received batches must have been lost and said so"
