"""Whether an incarnation may go on: it still owns the job, nothing has failed, nobody asked it to stop.

Known to every thread. The source asks before every byte that it sends; the pump asks before everything it does.
"""

from __future__ import annotations

from collections.abc import Callable

from edgesocket.components.source import Source
from edgesocket.components.state import Ownership
from edgesocket.errors import EdgeSocketError, FencedError
from edgesocket.telemetry.events import BeatMissed


class Standing:
    """Safe on any thread.

    Args:
        owner: the claim on the job.
        lease_ms: how long it may go without a sign of life.
        report: told of a sign of life that could not be shown.
        now: a steady clock in seconds.

    Attributes:
        stop_requested: a graceful end was asked for.
        was_fenced: it is known that another process owns the job, or may.
        source: what is silenced when that happens, once there is one.
    """

    def __init__(
        self, owner: Ownership, lease_ms: int, report: Callable[[object], None], now: Callable[[], float]
    ) -> None:
        self.stop_requested = False
        self.was_fenced = False
        self.source: Source | None = None
        self._owner = owner
        self._lease_ms = lease_ms
        self._report = report
        self._now = now
        self._failure: BaseException | None = None

    @property
    def fenced(self) -> bool:
        """Whether another process may own the job."""
        return self.was_fenced or self._owner.is_overdue(self._now())

    def is_owner(self) -> bool:
        """Whether the job is still ours."""
        return not self.fenced

    def beat(self) -> None:
        """Show a sign of life. Raises FencedError when the job may not be ours any more."""
        if self.fenced:
            raise FencedError(f"could not beat for {self._lease_ms} ms: another process may own the job")
        try:
            self._owner.beat()
        except FencedError:
            raise
        except EdgeSocketError as error:
            self._report(BeatMissed(str(error)))

    def fail(self, error: BaseException) -> None:
        """End the incarnation with `error`; a fenced one falls silent at once."""
        if isinstance(error, FencedError):
            self.fence()
        if self._failure is None:
            self._failure = error
        if self.source is not None:
            self.source.wake()

    def fence(self) -> None:
        """Fall silent: another process owns the job, or may."""
        self.was_fenced = True
        if self.source is not None:
            self.source.silence()

    def raise_failure(self) -> None:
        """Raise what ends this incarnation, if anything does."""
        if self._failure is not None:
            raise self._failure
        if self.fenced:
            raise FencedError("this process could not show a sign of life for longer than its lease")
