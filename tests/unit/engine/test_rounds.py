"""Work that comes again and again, on few threads: on time, never twice at once, never behind one that hangs."""

from __future__ import annotations

import threading
import time

import pytest

from edgesocket.engine.rounds import Rounds, SharedHelpers
from edgesocket.errors import FencedError

WAIT_S = 10.0


class Counter:
    """Work that counts, and tells when it has been done often enough."""

    def __init__(self, enough: int = 3) -> None:
        self.times: list[float] = []
        self.enough = enough
        self.done = threading.Event()
        self.at_once = 0
        self.most_at_once = 0

    def __call__(self) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.times.append(time.monotonic())
        self.at_once -= 1
        if len(self.times) >= self.enough:
            self.done.set()


def test_work_comes_again_and_again_until_it_is_stopped() -> None:
    rounds, work = Rounds(), Counter()
    one = rounds.every(0.01, work)
    assert work.done.wait(WAIT_S)
    one.stop()
    count = len(work.times)
    other = Counter()
    rounds.every(0.01, other)
    assert other.done.wait(WAIT_S)
    assert len(work.times) == count


def test_a_hundred_pieces_of_work_need_two_threads() -> None:
    before = threading.active_count()
    rounds = Rounds()
    works = [Counter(2) for _ in range(100)]
    placed = [rounds.every(0.1, work) for work in works]
    assert all(work.done.wait(WAIT_S) for work in works)
    for one in placed:
        one.stop()
    assert threading.active_count() - before <= 2 + rounds.helped  # helped: a machine with other work


def test_work_that_is_due_about_the_same_time_is_done_at_one_time() -> None:
    now = [50.01]
    rounds = Rounds(lambda: now[0])
    for moment in (50.01, 50.03, 50.07):
        now[0] = moment
        rounds.every(0.5, lambda: None)
    with rounds._turn:
        assert sorted(at for at, _, _ in rounds._queue) == pytest.approx([50.5, 50.5, 50.6])


def test_work_that_hangs_holds_up_no_other() -> None:
    rounds, gate = Rounds(), threading.Event()
    for _ in range(3):
        rounds.every(0.01, lambda: gate.wait(WAIT_S) and None)
    work = Counter(5)
    rounds.every(0.01, work)
    assert work.done.wait(WAIT_S)
    gate.set()


def test_hurried_work_is_done_now_and_not_twice_as_often_afterwards() -> None:
    rounds, work = Rounds(), Counter(1)
    one = rounds.every(3600.0, work)
    for count in range(1, 6):
        work.done.clear()
        one.soon()
        assert work.done.wait(WAIT_S)
        assert len(work.times) == count
    with rounds._turn:
        valid = [entry for entry in rounds._queue if entry[1] == entry[2].entry]
    assert len(valid) <= 1


def test_work_that_is_hurried_while_it_is_being_done_is_done_once_more() -> None:
    rounds = Rounds()
    began, gate, twice = threading.Event(), threading.Event(), threading.Event()
    count = 0

    def work() -> None:
        nonlocal count
        count += 1
        began.set()
        gate.wait(WAIT_S)
        if count == 2:
            twice.set()

    one = rounds.every(3600.0, work)
    one.soon()
    assert began.wait(WAIT_S)
    one.soon()
    gate.set()
    assert twice.wait(WAIT_S)


def test_stop_waits_while_the_work_is_being_done() -> None:
    rounds, began, ended = Rounds(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        time.sleep(0.05)
        ended.set()

    one = rounds.every(0.001, work)
    assert began.wait(WAIT_S)
    one.stop()
    assert ended.is_set()


def test_what_ends_one_helper_ends_the_job_and_the_other_helper() -> None:
    rounds, failed = Rounds(), threading.Event()
    failures: list[BaseException] = []

    def beat() -> None:
        raise FencedError("taken over")

    def fail(error: BaseException) -> None:
        failures.append(error)
        failed.set()

    helpers = SharedHelpers(rounds, beat, lambda: None, lambda: None, fail, time.monotonic)
    helpers.start()
    assert failed.wait(WAIT_S)
    helpers.stop()
    assert len(failures) == 1
    assert isinstance(failures[0], FencedError)


def test_helpers_publish_soon() -> None:
    rounds, published = Rounds(), threading.Event()
    helpers = SharedHelpers(rounds, lambda: None, lambda: None, published.set, lambda _: None, time.monotonic)
    helpers.start()
    helpers.publish_soon()
    assert published.wait(0.9)  # before its time
    helpers.stop()
