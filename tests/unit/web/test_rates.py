"""Rates from counters."""

from __future__ import annotations

from edgesocket.web.rates import STALE_S, RateMeter


def meter(*samples: tuple[float, float]) -> RateMeter:
    made = RateMeter()
    for at, count in samples:
        made.add(at, {"n": count})
    return made


def test_nothing_is_known_before_the_second_look() -> None:
    assert RateMeter().rate("n", 0.0) == 0.0
    assert meter((1.0, 100)).rate("n", 1.0) == 0.0


def test_a_rate_is_the_mean_of_the_last_few_seconds() -> None:
    assert meter((0, 0), (1, 10), (2, 30)).rate("n", 2.0) == 15.0
    fast_lately = meter(*((second, 0) for second in range(60)), (60, 40))
    assert fast_lately.rate("n", 60.0) == 10.0, "the window has four seconds"


def test_counters_that_begin_anew_give_no_negative_rate() -> None:
    assert meter((0, 1000), (1, 2000), (2, 5)).rate("n", 2.0) == 0.0
    assert meter((0, 1000), (1, 2000), (2, 5), (3, 15)).rate("n", 3.0) == 10.0


def test_looks_that_come_thick_and_fast_keep_the_window_long() -> None:
    made = meter(*((number * 0.01, number) for number in range(1000)))
    assert 90 < made.rate("n", 9.99) < 110


def test_a_job_that_says_nothing_has_no_rate() -> None:
    made = meter((0, 0), (1, 10))
    assert made.rate("n", 1.0 + STALE_S) == 10.0
    assert made.rate("n", 1.5 + STALE_S) == 0.0


def test_two_looks_at_one_moment_are_no_division_by_zero() -> None:
    assert meter((1.0, 0), (1.0, 10)).rate("n", 1.0) == 0.0
