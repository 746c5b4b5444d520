"""When a peer that does not read is hung up on: closing alone would wait until it has read what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

pytest.importorskip("uvicorn")

from edgesocket.web.serving import SEND_TIMEOUT_S, PatientlessProtocol


class Timer:
    def __init__(self, delay_s: float, action: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class PlayedConnection:
    """Loop, transport and flow of uvicorn's protocol in one."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.closing = False
        self.aborted = False
        self.protocol = object.__new__(PatientlessProtocol)
        for name in ("loop", "transport", "flow"):
            setattr(self.protocol, name, cast(Any, self))

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        self.timers.append(Timer(delay_s, action))
        return self.timers[-1]

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.aborted = True

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    def let_the_time_pass(self) -> None:
        for timer in [one for one in self.timers if not one.cancelled]:
            assert timer.delay_s == SEND_TIMEOUT_S
            timer.action()


@pytest.mark.parametrize("closing", [False, True])
def test_a_full_buffer_that_nobody_reads_is_the_end(closing: bool) -> None:
    it = PlayedConnection()
    it.protocol.pause_writing()
    it.closing = closing
    it.protocol.look()
    it.let_the_time_pass()
    assert it.aborted
    assert len(it.timers) == 1


def test_who_reads_in_time_stays() -> None:
    it = PlayedConnection()
    it.protocol.pause_writing()
    it.protocol.resume_writing()
    it.protocol.look()
    it.let_the_time_pass()
    assert not it.aborted


def test_a_closed_connection_does_not_wait_for_the_rest_to_be_read_for_ever() -> None:
    """The rest may be less than what makes a buffer count as full."""
    it = PlayedConnection()
    it.closing = True
    it.protocol.look()
    it.protocol.look()
    it.let_the_time_pass()
    assert it.aborted
    assert len(it.timers) == 1
