"""Waits: full jitter between connections, growing waits for repeats, commit polls that calm down."""

from __future__ import annotations

import pytest

from edgesocket.collector.pacing import PollPace, ReconnectPace, retry_wait_s


def test_reconnects_wait_anywhere_below_a_doubling_ceiling() -> None:
    highest = ReconnectPace(0.2, 30.0, lambda: 1.0)
    assert [round(highest.next_wait_s(), 6) for _ in range(10)] == [
        0.2,
        0.4,
        0.8,
        1.6,
        3.2,
        6.4,
        12.8,
        25.6,
        30.0,
        30.0,
    ]
    lowest = ReconnectPace(0.2, 30.0, lambda: 0.0)
    assert [lowest.next_wait_s() for _ in range(3)] == [0.0, 0.0, 0.0]
    numbers = iter([0.5, 0.25])
    some = ReconnectPace(0.2, 30.0, lambda: next(numbers))
    assert [some.next_wait_s(), some.next_wait_s()] == pytest.approx([0.1, 0.1])


def test_only_progress_makes_them_short_again() -> None:
    pace = ReconnectPace(0.2, 30.0, lambda: 1.0)
    for _ in range(2000):  # and no number overflows
        pace.next_wait_s()
    assert pace.next_wait_s() == 30.0
    pace.progressed()
    assert pace.next_wait_s() == 0.2


def test_retry_waits_double_up_to_a_bound() -> None:
    assert [retry_wait_s(n) for n in (1, 2, 3, 8, 5000)] == [0.1, 0.2, 0.4, 10.0, 10.0]


def test_nothing_is_polled_while_nothing_is_unconfirmed() -> None:
    pace = PollPace(0.2, 1.0)
    assert pace.due is None
    pace.waiting(False, 5.0)
    assert pace.due is None


def test_the_first_poll_comes_one_interval_after_there_is_something() -> None:
    pace = PollPace(0.2, 1.0)
    pace.waiting(True, 5.0)
    pace.waiting(True, 5.1)
    assert pace.due == 5.2


def test_one_poll_is_on_its_way_at_most() -> None:
    pace = PollPace(0.2, 1.0)
    pace.waiting(True, 0.0)
    pace.sent()
    assert pace.due is None
    pace.answered(0.5, news=True)
    assert pace.due == 0.7


def test_without_news_the_interval_grows_to_its_bound_and_news_make_it_short() -> None:
    pace = PollPace(0.2, 1.0)
    intervals = []
    for _ in range(6):
        pace.answered(0.0, news=False)
        intervals.append(round(pace.due or 0, 4))
    assert intervals == [0.3, 0.45, 0.675, 1.0, 1.0, 1.0]
    pace.answered(0.0, news=True)
    assert pace.due == 0.2


def test_after_stale_polls_every_other_one_asks_for_the_lowest() -> None:
    pace = PollPace(0.2, 1.0)
    asks = []
    for _ in range(8):
        asks.append(pace.ask_lowest)
        pace.answered(0.0, news=False)
    assert asks == [False, False, False, False, False, True, False, True]
    pace.answered(0.0, news=True)
    assert not pace.ask_lowest


def test_the_polls_stop_when_all_is_confirmed_and_start_fresh() -> None:
    pace = PollPace(0.2, 1.0)
    for _ in range(4):
        pace.answered(0.0, news=False)
    pace.waiting(False, 1.0)
    assert pace.due is None
    pace.waiting(True, 2.0)
    assert pace.due == 2.2


def test_a_lost_connection_forgets_the_poll_on_its_way() -> None:
    pace = PollPace(0.2, 1.0)
    pace.waiting(True, 0.0)
    pace.sent()
    pace.connection_lost()
    pace.waiting(True, 3.0)
    assert pace.due == 3.2
