"""kill -9 of `edgesocket run` at every numbered step of a checkpoint, for any sink.

One job lives through all kills on one state directory, and each incarnation has one kill point built in. The collector
deletes what is acknowledged, so a row that the job loses after its ACK is missing for good. How to use it::

    @pytest.mark.slow
    @pytest.mark.timeout(1200)
    def test_200_kills(tmp_path):
        port = free_port()
        conf = write_job(tmp_path, port, source="schema { fields { id = bigint } }", sink="Kafka { ... }")
        report = run_kills(conf, port, read_ids, payload=lambda n: f'{{"id": {n}}}')
        assert report.killed == 200

`read_ids()` returns the ids of all rows that a reader of the destination sees now, in any order, repeats included. It
is called after each kill, so it should remember what it has read of things that never change (`ReadFiles`). Every
claim is asserted inside `run_kills`; the report says how it went.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.jobs import EagerCollector, Job, payload_of

EFFECTS = [
    f"{side} {effect}"
    for effect in ("Cut", "PrepareSinks", "WallClock", "CommitSinks", "Complete")
    for side in ("before", "after")
]
"""Around each numbered step of a checkpoint that is not writing the store."""
FILES = [
    f"create.{moment}:{part}"
    for part in ("queue", "fingerprints", "log/")
    for moment in ("before", "half-written", "written", "synced", "linked", "done")
]
"""Inside the store."""
ARRIVALS = ["arrivals.half-written", "arrivals.written"]
POINTS = [*EFFECTS, *FILES, *ARRIVALS]

_MOST_NTH = 3
_SPARE = 1.5
"""Incarnations allowed for each kill: not every one reaches its point; the rest end with SIGTERM."""


@dataclass
class KillReport:
    """How the runs went.

    Attributes:
        killed: incarnations that died at their kill point.
        last: the ids are 1..last, each published.
        repeats: ids that were published more than once; none where `exactly_once` was asked for.
        answers_after_restart: what the collector was told about what it had not deleted, by kind of reply.
    """

    killed: int = 0
    last: int = 0
    repeats: list[int] = field(default_factory=list)
    answers_after_restart: dict[str, int] = field(default_factory=dict)


def run_kills(
    conf: Path,
    port: int,
    read_ids: Callable[[], Iterable[int]],
    *,
    kills: int = 200,
    points: Sequence[str] = POINTS,
    payload: Callable[[int], str] = payload_of,
    exactly_once: bool = True,
    rows_a_run: int = 80,
) -> KillReport:
    """Kill the job `kills` times, then let it finish.

    Args:
        conf: the job file; its source listens on `port` with the token of `tests.support.jobs`.
        port: where the job listens.
        read_ids: the ids published so far, repeats included.
        kills: how often the job must die.
        points: where, in turn; each the first time it is reached, then the second time, then the third.
        payload: of the batch with an id.
        exactly_once: whether an id that is published twice is a failure.
        rows_a_run: batches that each incarnation gets.
    """
    collector = EagerCollector(payload=payload)
    report = KillReport(answers_after_restart=collector.answers_after_restart)
    for point, nth in itertools.islice(_kill_points(points), int(kills * _SPARE)):
        if report.killed == kills:
            break
        report.killed += _one_run(conf, port, collector, collector.next_id + rows_a_run, (point, nth))
        _check(read_ids(), collector.acked, exactly_once, f"after {point} {nth}")

    report.last = collector.next_id + 20
    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        assert collector.run(port, report.last)
        assert job.stop() == 0
    seen = _check(read_ids(), report.last, exactly_once, "at the end")
    assert set(seen) == set(range(1, report.last + 1))
    assert report.killed == kills
    report.repeats = sorted(id_ for id_, count in seen.items() if count > 1)
    return report


def _kill_points(points: Sequence[str]) -> Iterator[tuple[str, int]]:
    """A point and which time it kills: every point the first time, then every point the second time, and so on."""
    for nth in itertools.cycle(range(1, _MOST_NTH + 1)):
        for point in points:
            yield point, nth


def _one_run(conf: Path, port: int, collector: EagerCollector, goal: int, kill_at: tuple[str, int]) -> bool:
    """One incarnation, until its kill point or until `goal` is acknowledged. Whether it was killed."""
    with Job(conf, kill_at=kill_at, forked=True) as job:
        if job.wait_until_listening():
            for _ in range(1000):
                if collector.run(port, goal) or job.process.poll() is not None:
                    break
                assert job.process.poll() is not None or job.process.wait(10) is not None
            if job.process.poll() is None:
                job.stop()
        job.process.wait(30)
        assert job.process.returncode in (-9, 0), f"{kill_at}:\n{job.log_text()}"
        return job.process.returncode == -9


def _check(ids: Iterable[int], acked: int, exactly_once: bool, when: str) -> Counter[int]:
    seen = Counter(ids)
    missing = [id_ for id_ in range(1, acked + 1) if id_ not in seen]
    assert not missing, f"{when}: acknowledged up to {acked}, missing {missing[:10]}"
    if exactly_once:
        repeated = [id_ for id_, count in seen.items() if count > 1]
        assert not repeated, f"{when}: published more than once: {sorted(repeated)[:10]}"
    return seen


class ReadFiles:
    """The ids in files that never change once they are there: each file is read once.

    Args:
        directory: where the files are published.
        read: the ids in one file.
        pattern: which files.
    """

    def __init__(self, directory: Path, read: Callable[[Path], Iterable[int]], pattern: str = "part-*") -> None:
        self._directory = directory
        self._read = read
        self._pattern = pattern
        self._known: dict[str, list[int]] = {}

    def __call__(self) -> list[int]:
        """All ids, file by file."""
        for path in sorted(self._directory.glob(self._pattern)):
            if path.name not in self._known:
                self._known[path.name] = list(self._read(path))
        return [id_ for ids in self._known.values() for id_ in ids]
