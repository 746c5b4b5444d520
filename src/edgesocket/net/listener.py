"""Binding the port: one try, and the rule by which tries are repeated.

The same rule holds at start and at every reopening after a collector has left: `max_retries` counts the tries after
the first one (-1: without limit), `reconnect_interval_ms` lies between two, a stop ends the waiting at once, and an
error that no retry can heal (no permission, not an address of this host) is not retried.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from edgesocket.errors import ListenerError
from edgesocket.net.options import UNLIMITED_RETRIES

_HOPELESS = frozenset({errno.EACCES, errno.EPERM, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL})


class BindCancelledError(ListenerError):
    """A stop was asked for while the port could not be bound."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often and how fast to try again.

    Attributes:
        max_retries: tries after the first one; -1 is unlimited.
        interval_ms: wait between two tries.
    """

    max_retries: int
    interval_ms: int

    def allows_another(self, tries: int) -> bool:
        """Whether there is one more after `tries` failed ones."""
        return self.max_retries == UNLIMITED_RETRIES or tries <= self.max_retries


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """Bind and listen once. The socket does not block.

    The address is reusable, so connections of an earlier process that are still winding down do not hold the port; a
    socket that listens on it does.

    Raises:
        OSError: the reason why not. No descriptor is left behind.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def open_by_rule(
    open_once: Callable[[], socket.socket],
    rule: RetryRule,
    wait: Callable[[float], bool],
    on_retry: Callable[[int, str], None],
    port: int,
) -> tuple[socket.socket, int]:
    """Call `open_once` until it succeeds or the rule says enough.

    Args:
        open_once: one try; raises OSError.
        rule: how often and how fast.
        wait: waits that many seconds, or less and returns True when a stop was asked for.
        on_retry: told (tries so far, cause) before each wait.
        port: for the error's text.

    Returns:
        The listener and the number of tries it took.

    Raises:
        ListenerError: naming port, cause and tries. BindCancelledError when `wait` said stop.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return open_once(), tries
        except (OSError, OverflowError) as error:
            cause = describe_cause(error)
            if _is_hopeless(error) or not rule.allows_another(tries):
                raise ListenerError(_failure_text(port, cause, tries)) from error
        on_retry(tries, cause)
        if wait(rule.interval_ms / 1000):
            raise BindCancelledError(f"stopped while {_failure_text(port, cause, tries)}")


def describe_cause(error: Exception) -> str:
    """The error in one line, without Python's number in front."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _is_hopeless(error: Exception) -> bool:
    return not isinstance(error, OSError) or isinstance(error, socket.gaierror) or error.errno in _HOPELESS


def _failure_text(port: int, cause: str, tries: int) -> str:
    hint = ""
    if cause == os.strerror(errno.EACCES) and port < 1024:
        hint = "; a port below 1024 needs a right that this user does not have"
    return f"cannot listen on port {port}: {cause} (tried {tries} {'time' if tries == 1 else 'times'}{hint})"
