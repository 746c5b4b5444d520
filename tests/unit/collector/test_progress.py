"""Whether a client still gets anywhere."""

from __future__ import annotations

import math

from edgesocket.collector.progress import ProgressWatch
from edgesocket.collector.window import WindowCounts


def test_it_stalls_after_the_limit_without_progress() -> None:
    watch = ProgressWatch(60.0, 100.0)
    assert watch.stalls_at == 160.0
    watch.made(130.0, WindowCounts(sent=1))
    assert watch.stalls_at == 190.0
    watch.idle(150.0)
    assert watch.stalls_at == 210.0


def test_without_a_limit_it_never_stalls() -> None:
    assert ProgressWatch(None, 100.0).stalls_at == math.inf


def test_a_batch_that_goes_out_for_the_first_time_is_progress() -> None:
    watch = ProgressWatch(60.0, 0.0)
    watch.watch(10.0, WindowCounts(sent=1), None)
    watch.watch(20.0, WindowCounts(sent=1), None)
    assert watch.stalls_at == 70.0


def test_so_are_its_bytes_on_a_slow_line_but_not_those_of_a_repeat() -> None:
    watch = ProgressWatch(60.0, 0.0)
    watch.watch(10.0, WindowCounts(sent=1), 100)
    watch.watch(20.0, WindowCounts(sent=1), 200)
    watch.watch(30.0, WindowCounts(sent=1), 200)
    assert watch.stalls_at == 80.0
    watch.watch(40.0, WindowCounts(sent=1, resent=1), 300)
    assert watch.stalls_at == 80.0
    watch.made(50.0, WindowCounts(sent=1, resent=1))
    watch.watch(55.0, WindowCounts(sent=1, resent=1), 400)
    assert watch.stalls_at == 115.0
