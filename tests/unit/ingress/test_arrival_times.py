"""How old the oldest unconfirmed batch is: right to a mark, bounded, and never older than it is."""

from __future__ import annotations

import pytest

from edgesocket.ingress.arrival_times import MOST_MARKS, ArrivalTimes


def test_a_batch_came_when_the_first_mark_at_or_above_it_was_made() -> None:
    times = ArrivalTimes()
    times.mark(10, 100.0)
    times.mark(20, 101.0)
    assert times.age_s(5, 105.0) == 5.0
    assert times.age_s(10, 105.0) == 5.0
    assert times.age_s(11, 105.0) == 4.0
    assert times.age_s(21, 105.0) == 0.0, "it came since the last mark"


def test_marks_without_anything_new_change_nothing() -> None:
    times = ArrivalTimes()
    for now in (1.0, 2.0, 3.0):
        times.mark(10, now)
    assert times.age_s(10, 4.0) == 3.0


def test_what_is_confirmed_is_forgotten() -> None:
    times = ArrivalTimes()
    times.mark(10, 1.0)
    times.mark(20, 2.0)
    times.forget_below(11)
    assert times.age_s(3, 4.0) == 2.0
    assert times.age_s(15, 4.0) == 2.0
    times.forget_below(100)
    assert times.age_s(3, 4.0) == 0.0


@pytest.mark.parametrize("marks", [MOST_MARKS + 1, MOST_MARKS * 5])
def test_marks_are_bounded_and_the_newest_stays_exact(marks: int) -> None:
    times = ArrivalTimes()
    for n in range(marks):
        times.mark(n + 1, float(n))
    assert len(times._highest) <= MOST_MARKS
    assert times.age_s(marks, float(marks)) == 1.0
    ages = [times.age_s(id_, float(marks)) for id_ in range(1, marks + 1)]
    assert ages == sorted(ages, reverse=True)
    assert all(age <= marks - id_ + 1 for id_, age in enumerate(ages, 1)), "none counts as older than it is"
