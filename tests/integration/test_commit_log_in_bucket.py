"""Real processes, stopped and continued at random, claim and commit in one bucket that loses answers: the fence holds.

As test_commit_log_processes.py, over HTTP. A tenth of the requests goes wrong, half of them after they were performed.
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

pytest.importorskip("obstore", reason="needs obstore: the extra s3")
pytest.importorskip("moto.server", reason="needs moto's server")

from edgesocket.checkpoint.commit_log import read_log
from edgesocket.checkpoint.entries import Claim, Commit, Started
from tests.support.jobs import ROOT, wait_until
from tests.support.s3_faults import DROP, LOSE, Fate, Request, faulty_s3, object_store

PROCESSES = 4
SECONDS = 6.0

CONTENDER = """
import os, random, sys, time
from pathlib import Path

from edgesocket.checkpoint.commit_log import append, claim, prune, read_log
from edgesocket.checkpoint.entries import Claim, Commit, Started
from edgesocket.errors import FencedError, StoreError
from tests.support.s3_faults import object_store

directory, url, bucket, name, seed = Path(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5])
chance = random.Random(seed)
store = object_store(url, bucket)
acknowledged = os.open(directory / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def insist(procedure):
    while True:
        try:
            return store.run(procedure())
        except FencedError:
            raise
        except StoreError:
            time.sleep(0.01)


def live(token):
    log = insist(read_log)
    entry = Claim(0, 0, token, "host", "boot", os.getpid(), "job", "source", (), "", "")
    insist(lambda: claim(log, entry))
    last = log.last(Commit)
    n = last[1].n if last else 0
    insist(lambda: append(log, Started(log.epoch, 0, None, 0, "host", "boot")))
    for _ in range(chance.randrange(1, 20)):
        n += 1
        index = insist(lambda: append(log, Commit(log.epoch, 0, n, {})))
        os.write(acknowledged, f"{log.epoch} {n} {index}\\n".encode())
        keep = log.keep_from(2)
        insist(lambda: prune(log, keep, operator_through=0, now_ms=1, keep_at_least=3, keep_age_ms=0))


lives = 0
while True:
    lives += 1
    try:
        live(f"{name}-{lives}")
    except FencedError:
        pass
"""


def torment(processes: list[subprocess.Popen[bytes]], chance: random.Random) -> None:
    """Stop and continue them at random for `SECONDS`."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        victim = chance.choice(processes)
        victim.send_signal(signal.SIGSTOP)
        time.sleep(chance.choice([0.001, 0.02, 0.3]))
        if chance.random() < 0.7:
            victim.send_signal(signal.SIGCONT)
        else:
            chance.choice(processes).send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_processes_that_fight_for_one_log_over_a_bad_network_never_acknowledge_twice(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)

    def fate(request: Request) -> Fate:
        return chance.choice([LOSE, LOSE, LOSE, 503, DROP, 0.05]) if chance.random() < 0.1 else None

    with faulty_s3() as s3:
        bucket = s3.bucket()
        s3.fate = fate
        arguments = [sys.executable, "-c", CONTENDER, str(tmp_path), s3.url, bucket]
        contenders = [
            subprocess.Popen(
                [*arguments, f"p{i}", str(chance.randrange(2**32))],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            for i in range(PROCESSES)
        ]
        try:
            wait_until((tmp_path / "acknowledged").exists, what="a first commit")
            torment(contenders, chance)
            assert [contender.poll() for contender in contenders] == [None] * PROCESSES, "a contender failed"
        finally:
            for contender in contenders:
                contender.kill()
                contender.wait()
        s3.fate = lambda request: None

        acknowledged = [tuple(map(int, line.split())) for line in (tmp_path / "acknowledged").read_text().splitlines()]
        by_number = sorted(acknowledged, key=lambda one: one[1])
        numbers = [n for _, n, _ in by_number]
        print(len(numbers), "acknowledged by", len({epoch for epoch, _, _ in acknowledged}), "incarnations")
        assert len(numbers) > 20
        assert len({epoch for epoch, _, _ in acknowledged}) > 3, "it is no test when nobody takes over"
        assert len(set(numbers)) == len(numbers), "two incarnations acknowledged one number"
        assert [epoch for epoch, _, _ in by_number] == sorted(epoch for epoch, _, _ in by_number)
        assert [index for _, _, index in by_number] == sorted(index for _, _, index in by_number)

        log = object_store(s3.url, bucket).run(read_log())
        assert log.damaged == []
        assert log.last(Commit)[1].n >= numbers[-1], "what was acknowledged is in the history"
        assert log.last(Claim) is not None
        assert log.last(Started) is not None
