"""kill -9 of the agent and of the ingress at random, under load and rotation: every line is there, once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.agents import AgentProcess
from tests.support.jobs import Job, free_port, rows, wait_until, write_job

KILLS = 200
AGENT_SHARE = 0.75
LONGEST_LIFE_S = 1.0
ROTATE_LINES = 4000


class Writer:
    """Writes numbered lines into a file that it renames now and then, on a thread of its own."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "app.log"
        self._directory = directory
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.lines = 0
        self.rotations = 0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        dice = random.Random(1)
        stream = self._path.open("a")
        in_file = 0
        while not self._stop.wait(0.01):
            for _ in range(dice.randrange(1, 30)):
                stream.write(f"line {self.lines}\n")
                self.lines += 1
                in_file += 1
            if dice.random() < 0.5:
                stream.flush()
            if in_file > ROTATE_LINES:
                stream.close()
                self._path.rename(self._directory / f"app.log.{self.rotations}")
                self.rotations += 1
                stream, in_file = self._path.open("a"), 0
        stream.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_200_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    port = free_port()
    conf = write_job(tmp_path, port, source="deduplicate = true", env="job.retry.times = 1000")
    logs = tmp_path / "logs"
    logs.mkdir()
    arguments = ["--file", str(logs / "app.log*"), "--from-beginning", "--to", f"127.0.0.1:{port}",
                 "--spool", str(tmp_path / "spool")]  # fmt: skip
    dice = random.Random(20261130)

    def start_agent() -> AgentProcess:
        return AgentProcess(*arguments, log=tmp_path / "agent.log")

    kills: Counter[str] = Counter()
    job, agent = Job(conf), start_agent()
    try:
        with Writer(logs) as writer:
            while sum(kills.values()) < KILLS:
                time.sleep(dice.uniform(0.05, LONGEST_LIFE_S))
                if dice.random() < AGENT_SHARE:
                    assert agent.process.poll() is None, agent.log_text()
                    agent.kill()
                    agent = start_agent()
                    kills["agent"] += 1
                else:
                    assert job.process.poll() is None, job.log_text()
                    job.kill()
                    job = Job(conf)
                    kills["ingress"] += 1
            writer.end()
        assert rows(tmp_path / "out"), "records went all the way between the kills"
        wait_until(lambda: len(rows(tmp_path / "out")) >= writer.lines, 60.0, f"{writer.lines} rows")
        assert agent.stop() == 0
        with AgentProcess(*arguments, "--once", "--timeout", "60", log=tmp_path / "agent.log") as last:
            assert last.wait(90) == 0, last.log_text()
        assert job.stop() == 0
    finally:
        agent.kill()
        job.kill()
    seen = Counter(rows(tmp_path / "out"))
    missing = [number for number in range(writer.lines) if f"line {number}" not in seen]
    doubled = [row for row, count in seen.items() if count > 1]
    assert not missing, f"{len(missing)} of {writer.lines} lines are missing: {missing[:10]}"
    assert not doubled, f"{len(doubled)} lines are there twice: {doubled[:10]}"
    assert len(seen) == writer.lines
    assert writer.rotations > 2
    assert min(kills["agent"], kills["ingress"]) > KILLS // 10
