"""What an incarnation takes over from the one before: what may not be published yet is published again."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesocket.checkpoint.commit_log import append, claim, read_log
from edgesocket.checkpoint.entries import Claim, Commit, Ended
from edgesocket.checkpoint.log_view import Log
from edgesocket.checkpoint.recovery import Recovered, recover
from edgesocket.components.sink import SinkContext
from edgesocket.engine.starting import prepared_manifests
from edgesocket.rows import Rows
from edgesocket.sinks.local_file import LocalFileSink
from edgesocket.testing.memory_store import MemoryStore
from edgesocket.testing.sink_story import listed_block

RECORD = {"source": {}, "sinks": {"files": {"files": ["staged"]}}, "log_index": 0}


def _restarted(*ends: Ended, record: dict[str, object] = RECORD) -> tuple[Log, Recovered]:
    """The log as a second incarnation finds it: one checkpoint, then how the first one ended."""
    store = MemoryStore()
    for end in (*ends, None):
        log = store.run(read_log())
        store.run(claim(log, Claim(0, 0, "", "here", "boot", 1, "job", "s", (), "", "")))
        if end is not None:
            store.run(append(log, Commit(log.epoch, 0, log.epoch, record)))
            store.run(append(log, Ended(log.epoch, 0, end.clean, end.reason, end.batch_id)))
    return log, store.run(recover(log, log.epoch, has_deciding_sink=False))


@pytest.mark.parametrize(
    ("end", "again"),
    [
        (Ended(0, 0, clean=True), False),
        (Ended(0, 0, clean=True, reason="batch 9: bad", batch_id=9), True),
        (Ended(0, 0, clean=False, reason="the disk"), True),
    ],
)
def test_only_a_plain_stop_has_surely_published_its_last_checkpoint(end: Ended, again: bool) -> None:
    log, recovered = _restarted(end)
    assert prepared_manifests(log, recovered) == (RECORD["sinks"] if again else {})


def test_rows_of_a_checkpoint_are_not_lost_when_a_bad_record_ends_the_job_before_they_are_published(
    tmp_path: Path,
) -> None:
    """Record N is there, publishing fails or takes its time, and a record that does not fit ends the job for good."""
    sink = LocalFileSink(path=tmp_path, file_format_type="text")
    sink.open(SinkContext("job", 1, "files"))
    sink.write(Rows.of_records(listed_block([b"a row"])))
    manifest = sink.prepare(1)
    sink.close()
    end = Ended(0, 0, clean=True, reason="batch 9: bad", batch_id=9)
    log, recovered = _restarted(end, record={"source": {}, "sinks": {"files": manifest}, "log_index": 0})

    prepared = prepared_manifests(log, recovered)["files"]
    again = LocalFileSink(path=tmp_path, file_format_type="text")
    again.open(SinkContext("job", 2, "files", last_checkpoint=1, prepared={1: prepared}))
    again.commit(1, prepared)
    again.close()

    assert [path.read_bytes() for path in tmp_path.glob("part-*")] == [b"a row\n"]
