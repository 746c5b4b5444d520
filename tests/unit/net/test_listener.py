"""The bind-retry rule, without sockets: how often, how fast, what is hopeless, what the error says."""

import errno
import os
import socket
from collections.abc import Callable

import pytest

from edgesocket.errors import ListenerError
from edgesocket.net.listener import BindCancelledError, RetryRule, open_by_rule


class Attempts:
    """Fails `failures` times with one error, then gives a socket; remembers waits and reports."""

    def __init__(self, failures: float, error: Exception) -> None:
        self.failures = failures
        self.error = error
        self.tries = 0
        self.waits: list[float] = []
        self.reports: list[tuple[int, str]] = []
        self.stop_at_wait = 0
        self.socket = socket.socket()

    def open_once(self) -> socket.socket:
        self.tries += 1
        if self.tries <= self.failures:
            raise self.error
        return self.socket

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return len(self.waits) == self.stop_at_wait

    def run(self, max_retries: int, interval_ms: int = 100, port: int = 9999) -> tuple[socket.socket, int]:
        rule = RetryRule(max_retries, interval_ms)
        return open_by_rule(self.open_once, rule, self.wait, lambda n, cause: self.reports.append((n, cause)), port)


@pytest.fixture
def failing() -> "Callable[..., Attempts]":
    made: list[Attempts] = []

    def make(failures: float, number: int = errno.EADDRINUSE) -> Attempts:
        made.append(Attempts(failures, OSError(number, os.strerror(number))))
        return made[-1]

    yield make
    for attempts in made:
        attempts.socket.close()


def test_max_retries_counts_the_tries_after_the_first_one(failing: "Callable[..., Attempts]") -> None:
    attempts = failing(float("inf"))

    with pytest.raises(ListenerError, match=r"cannot listen on port 9999: Address already in use \(tried 4 times\)"):
        attempts.run(max_retries=3)

    assert attempts.tries == 4
    assert attempts.waits == [0.1, 0.1, 0.1]
    assert attempts.reports == [(n, "Address already in use") for n in (1, 2, 3)]


def test_zero_retries_is_one_try(failing: "Callable[..., Attempts]") -> None:
    attempts = failing(float("inf"))

    with pytest.raises(ListenerError, match=r"\(tried 1 time\)"):
        attempts.run(max_retries=0)

    assert attempts.waits == []


def test_minus_one_goes_on_until_a_stop(failing: "Callable[..., Attempts]") -> None:
    attempts = failing(float("inf"))
    attempts.stop_at_wait = 500

    with pytest.raises(BindCancelledError, match="tried 500 times"):
        attempts.run(max_retries=-1)


def test_a_stop_ends_the_waiting_and_no_try_follows(failing: "Callable[..., Attempts]") -> None:
    attempts = failing(float("inf"))
    attempts.stop_at_wait = 1

    with pytest.raises(BindCancelledError):
        attempts.run(max_retries=3)

    assert attempts.tries == 1


def test_success_says_how_many_tries_it_took(failing: "Callable[..., Attempts]") -> None:
    attempts = failing(2)

    assert attempts.run(max_retries=2) == (attempts.socket, 3)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
def test_what_no_retry_can_heal_fails_at_once(failing: "Callable[..., Attempts]", number: int) -> None:
    attempts = failing(float("inf"), number)

    with pytest.raises(ListenerError, match=r"\(tried 1 time"):
        attempts.run(max_retries=-1)

    assert attempts.waits == []


def test_a_port_below_1024_without_the_right_says_so(failing: "Callable[..., Attempts]") -> None:
    with pytest.raises(ListenerError, match=r"port 80: Permission denied .*below 1024"):
        failing(1, errno.EACCES).run(max_retries=3, port=80)


@pytest.mark.parametrize("error", [OverflowError("port must be 0-65535"), socket.gaierror(-2, "Name unknown")])
def test_an_address_that_is_none_fails_at_once(error: Exception) -> None:
    attempts = Attempts(float("inf"), error)
    with attempts.socket, pytest.raises(ListenerError, match="tried 1 time"):
        attempts.run(max_retries=-1)


def test_an_error_that_is_not_about_the_port_passes_through() -> None:
    attempts = Attempts(1, RuntimeError("a bug"))
    with attempts.socket, pytest.raises(RuntimeError, match="a bug"):
        attempts.run(max_retries=3)
