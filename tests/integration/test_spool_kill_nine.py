"""kill -9 of a process that fills a spool, again and again.

What it was told is kept is there, once, in order, and no id ever changes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgesocket.collector.spool.inspection import find_damage
from edgesocket.collector.spool.options import FsyncPolicy, SpoolOptions
from tests.support.spool_kit import open_spool, read_all, segments

pytestmark = pytest.mark.slow

KILLS = 60
WRITER = """
import sys, random
from pathlib import Path
from edgesocket.collector.spool.options import FsyncPolicy, SpoolOptions
from edgesocket.collector.spool.spool import Spool

directory, policy, start, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
choice = random.Random(seed)
spool = Spool.open(directory, SpoolOptions(max_bytes=64 * 1024 * 1024, segment_bytes=32768, fsync=FsyncPolicy(policy)))
number = int(spool.marks.get("next", start))
print("start", number, flush=True)
known = 0
while True:
    for _ in range(choice.randint(1, 4)):
        count = choice.randint(0, 40)
        lines = [b"%d:" % one + b"x" * choice.choice((0, 10, 300, 3000)) for one in range(number, number + count)]
        number += count
        spool.append(lines, {"next": str(number)})
    spool.sync(0.0)
    print("synced", number, flush=True)
    if choice.random() < 0.3:
        run = spool.read(known, 200, 1 << 20)
        if run is not None:
            known = run.next_id
            last = run.payloads[-1].split(b":")[0].decode()
            print("id", run.first_id, run.payloads[0].split(b":")[0].decode(), last, flush=True)
"""


def run_and_kill(directory: Path, policy: FsyncPolicy, start: int, seed: int, after_s: float) -> list[list[str]]:
    """What the writer had said when it died."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), policy.value, str(start), str(seed)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": "src"},
        text=True,
    )
    assert child.stdout is not None
    said = [child.stdout.readline()]
    time.sleep(after_s)
    child.send_signal(signal.SIGKILL)
    said += child.stdout.readlines()
    child.stdout.close()
    child.wait()
    assert said[0].startswith("start"), said
    return [line.split() for line in said if line.endswith("\n")]


@pytest.mark.parametrize("policy", [FsyncPolicy.GROUP, FsyncPolicy.EACH, FsyncPolicy.NEVER])
def test_what_was_synced_is_there_once_and_ids_never_change(tmp_path: Path, policy: FsyncPolicy) -> None:
    choice = random.Random(policy.value)
    options = SpoolOptions(max_bytes=64 * 1024 * 1024, segment_bytes=32768, fsync=policy)
    ids: dict[int, int] = {}  # batch id -> number of the record
    synced = 0
    for kill in range(KILLS // 3):
        said = run_and_kill(tmp_path, policy, 0, kill, choice.uniform(0.0, 0.15))
        assert int(said[0][1]) >= synced
        for words in said[1:]:
            if words[0] == "synced":
                synced = int(words[1])
            else:
                first_id, first, last = map(int, words[1:])
                for number in range(first, last + 1):
                    assert ids.setdefault(first_id + number - first, number) == number
    spool = open_spool(tmp_path, options)
    found = {batch_id: int(line.split(b":")[0]) for batch_id, line in read_all(spool).items()}
    numbers = list(found.values())
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= synced > 100
    assert spool.marks == {"next": str(len(numbers))}
    assert {batch_id: found[batch_id] for batch_id in ids} == ids
    assert len(segments(tmp_path)) > KILLS // 3
    spool.done(max(found) + 1)
    spool.close()
    assert list(find_damage(tmp_path)) == []
