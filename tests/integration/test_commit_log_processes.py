"""Real processes, stopped and continued at random, claim and commit in one directory: the fence holds.

Each process claims, commits as fast as it can, prunes down to almost nothing, and claims again after a while or when it
is fenced. What it acknowledges it first writes, with one write(2), to a file that all share.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from edgesocket.checkpoint.commit_log import read_log
from edgesocket.checkpoint.entries import Claim, Commit, Started
from edgesocket.store.local import LocalStore

PROCESSES = 4
SECONDS = 5.0

CONTENDER = """
import os, random, sys, time
from pathlib import Path

from edgesocket.checkpoint.commit_log import append, claim, prune, read_log
from edgesocket.checkpoint.entries import Claim, Commit, Started
from edgesocket.errors import FencedError
from edgesocket.store.local import LocalStore

directory, name, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
chance = random.Random(seed)
store = LocalStore(directory / "state")
acknowledged = os.open(directory / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def live(token):
    log = store.run(read_log())
    store.run(claim(log, Claim(0, 0, token, "host", "boot", os.getpid(), "job", "source", (), "", "")))
    last = log.last(Commit)
    n = last[1].n if last else 0
    store.run(append(log, Started(log.epoch, 0, None, 0, "host", "boot")))
    for _ in range(chance.randrange(1, 40)):
        n += 1
        index = store.run(append(log, Commit(log.epoch, 0, n, {})))
        os.write(acknowledged, f"{log.epoch} {n} {index}\\n".encode())
        store.run(prune(log, log.keep_from(2), operator_through=0, now_ms=1, keep_at_least=3, keep_age_ms=0))


lives = 0
while True:
    lives += 1
    try:
        live(f"{name}-{lives}")
    except FencedError:
        pass
"""


def torment(processes, chance):
    """Stop and continue them at random for `SECONDS`."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        victim = chance.choice(processes)
        victim.send_signal(signal.SIGSTOP)
        time.sleep(chance.choice([0.001, 0.02, 0.2]))
        if chance.random() < 0.7:
            victim.send_signal(signal.SIGCONT)
        else:
            chance.choice(processes).send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_stopped_and_continued_processes_never_acknowledge_twice(tmp_path):
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    contenders = [
        subprocess.Popen([sys.executable, "-c", CONTENDER, str(tmp_path), f"p{i}", str(chance.randrange(2**32))])
        for i in range(PROCESSES)
    ]
    try:
        torment(contenders, chance)
        assert [contender.poll() for contender in contenders] == [None] * PROCESSES, "a contender failed"
    finally:
        for contender in contenders:
            contender.kill()
            contender.wait()

    lines = (tmp_path / "acknowledged").read_text().splitlines()
    acknowledged = [tuple(map(int, line.split())) for line in lines]
    by_number = sorted(acknowledged, key=lambda one: one[1])
    numbers = [n for _, n, _ in by_number]
    assert len(numbers) > 50
    assert len({epoch for epoch, _, _ in acknowledged}) > 5, "it is no test when nobody takes over"
    assert len(set(numbers)) == len(numbers), "two incarnations acknowledged one number"
    assert [epoch for epoch, _, _ in by_number] == sorted(epoch for epoch, _, _ in by_number)
    assert [index for _, _, index in by_number] == sorted(index for _, _, index in by_number)

    log = LocalStore(tmp_path / "state").run(read_log())
    assert log.damaged == []
    assert log.last(Commit)[1].n >= numbers[-1], "what was acknowledged is in the history"
    assert log.last(Claim) is not None
    assert log.last(Started) is not None
    assert not [name for name in os.listdir(tmp_path / "state/log") if name.startswith(".tmp")]  # noqa: PTH208
    print(len(numbers), "acknowledged by", len({epoch for epoch, _, _ in acknowledged}), "incarnations")
