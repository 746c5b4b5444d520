"""Exactly once into PostgreSQL: kill -9 at every step, and an owner that falls asleep inside a checkpoint."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from edgesocket.errors import ExitCode
from tests.support.databases import Database
from tests.support.jobs import Job, Wire, free_port, wait_for_ack, write_job
from tests.support.kill_runs import ARRIVALS, FILES, run_kills

pytestmark = pytest.mark.slow

KILLS = 200
EFFECTS = [
    f"{side} {effect}"
    for effect in ("FenceDeciding", "AskDeciding", "Cut", "PrepareSinks", "WallClock", "CommitDeciding", "Complete")
    for side in ("before", "after")
]
POINTS = [*EFFECTS, *FILES, *ARRIVALS]
TABLE = "edge_killed"


@pytest.fixture
def database(postgresql: Database) -> Database:
    postgresql.ask(f"drop table if exists {TABLE}")
    postgresql.ask("drop table if exists edgesocket_checkpoints")
    # No key: a row that comes twice is there twice.
    postgresql.ask(f"create table {TABLE} (value text)")
    return postgresql


def sink(database: Database, *, copies: bool = False) -> str:
    """The sink's block. Batches of 7 rows, so that rows lie in the open transaction at all times."""
    return f"""Jdbc {{
        url = "{database.url}", username = {database.user}, password = "{database.password}"
        generate_sink_sql = true, table = {TABLE}, is_exactly_once = true, batch_size = 7
        use_copy_statement = {str(copies).lower()}
    }}"""


def ids(database: Database) -> list[int]:
    """What a reader of the table sees."""
    return [int(row[0].removeprefix("p")) for row in database.ask(f"select value from {TABLE}")]


@pytest.mark.timeout(900)
def test_200_kills_leave_every_row_in_the_table_once(tmp_path: Path, database: Database) -> None:
    port = free_port()
    conf = write_job(tmp_path, port, env="checkpoint.interval = 20", sink=sink(database))
    report = run_kills(conf, port, lambda: ids(database), kills=KILLS, points=POINTS, rows_a_run=40)
    assert report.killed == KILLS
    assert report.repeats == []
    assert len(database.ask("select * from edgesocket_checkpoints")) == 1
    assert database.password not in (tmp_path / "job.log").read_text()


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("before CommitDeciding", 2),  # step 4 is still to come
        ("after CommitDeciding", 2),  # and here it has happened, without a record
        ("create.before:log/", 4),  # so has it here; the claim and `started` were the first two files
        ("create.done:log/", 4),
        ("before Complete", 2),
    ],
)
def test_an_owner_that_slept_between_steps_4_and_6_changes_nothing_when_it_wakes(
    tmp_path: Path, database: Database, point: str, nth: int
) -> None:
    state = tmp_path / "state"
    env, block = "lease_ms = 2000\n job.name = shared", sink(database, copies=True)
    first_port, second_port = free_port(), free_port()
    first_conf = write_job(tmp_path, first_port, env=env, sink=block, name="first")
    second_conf = write_job(tmp_path, second_port, env=env, sink=block, name="second")
    options = ("--state-dir", str(state))
    with Job(first_conf, *options, kill_at=(point, nth), signal_at_point=signal.SIGSTOP) as first:
        assert first.wait_until_listening(), first.log_text()
        old = Wire(first_port)
        offered, acked = _offer_until_it_sleeps(old)
        first.wait_for_state("T")
        with Job(second_conf, *options) as second:
            assert second.wait_until_listening(), second.log_text()
            wire = Wire(second_port)
            top = offered + 10
            for n in range(acked + 1, top + 1):
                assert wire.ask(f"__BATCH__:{n}:p{n}") == "RECEIVED"
            assert wait_for_ack(wire, top) == f"ACK:{top}"
            assert sorted(ids(database)) == list(range(1, top + 1))

            os.kill(first.pid, signal.SIGCONT)
            assert first.wait(20) == ExitCode.TRY_LATER, first.log_text()
            assert wire.ask(f"__BATCH__:{top + 1}:p{top + 1}") == "RECEIVED"
            assert wait_for_ack(wire, top + 1) == f"ACK:{top + 1}"
            wire.close()
            assert second.stop() == ExitCode.OK, second.log_text()
        old.close()
    assert sorted(ids(database)) == list(range(1, top + 2))


def _offer_until_it_sleeps(wire: Wire) -> tuple[int, int]:
    """Send batches until nobody answers. Returns the last one received and the last one acknowledged."""
    offered = acked = 0
    wire.socket.settimeout(1.0)
    with contextlib.suppress(OSError):
        while True:
            reply = wire.ask(f"__BATCH__:{offered + 1}:p{offered + 1}")
            if reply.startswith("QUEUE_FULL"):  # it sleeps, or the machine is busy
                time.sleep(0.05)
                continue
            assert reply == "RECEIVED"
            offered += 1
            reply = wire.ask(f"__COMMIT__:{offered}")
            acked = int(reply[4:]) if reply.startswith("ACK:") else acked
    return offered, acked
