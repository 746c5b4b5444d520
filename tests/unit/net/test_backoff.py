"""Who failed has to wait longer each time, and nobody for ever."""

import pytest

from edgesocket.net import backoff
from edgesocket.net.backoff import FORGOTTEN_AFTER_S, FREE_FAILURES, LEAST_WAIT_S, Backoff

HERE, THERE = "192.0.2.1", "192.0.2.2"


def fail(book: Backoff, times: int, address: str = HERE, now: float = 100.0) -> list[float]:
    return [book.failed(address, now) for _ in range(times)]


def test_the_first_failures_cost_nothing() -> None:
    book = Backoff(5.0)

    assert fail(book, FREE_FAILURES) == [0.0] * FREE_FAILURES


def test_the_wait_doubles_up_to_its_limit_and_stays_there() -> None:
    book = Backoff(5.0)
    fail(book, FREE_FAILURES)

    assert fail(book, 7) == [LEAST_WAIT_S, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert fail(book, 2000)[-1] == 5.0


def test_other_addresses_do_not_wait() -> None:
    book = Backoff(5.0)
    fail(book, 50)

    assert fail(book, FREE_FAILURES, THERE) == [0.0] * FREE_FAILURES


def test_a_right_token_clears_the_address() -> None:
    book = Backoff(5.0)
    fail(book, 50)
    book.succeeded(HERE)

    assert fail(book, FREE_FAILURES) == [0.0] * FREE_FAILURES


def test_an_address_without_a_failure_for_long_begins_anew() -> None:
    book = Backoff(5.0)
    fail(book, 50)

    assert book.failed(HERE, 100.0 + FORGOTTEN_AFTER_S) == 0.0


def test_the_table_is_bounded_and_forgets_those_that_failed_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "ADDRESSES", 3)
    book = Backoff(5.0)
    for number in range(4):
        fail(book, FREE_FAILURES + 1, f"192.0.2.{number}", 100.0 + number)

    assert len(book) == 3
    assert book.failed("192.0.2.3", 103.0) > 0.0
    assert book.failed("192.0.2.0", 103.0) == 0.0


def test_zero_switches_it_off() -> None:
    book = Backoff(0.0)

    assert fail(book, 100) == [0.0] * 100
    assert len(book) == 0
