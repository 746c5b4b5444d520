"""What a sender hands its link, and when."""

from __future__ import annotations

from collections.abc import Sequence

from edgesocket.collector.delivery import Delivery
from edgesocket.collector.memory import MemorySource
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.retention import Retention, WindowLimits
from edgesocket.collector.sender import Phase, Sender


class FakeLink:
    """Has room while nothing is unsent. The network takes everything, at the pushes named `takes`."""

    authenticated = connected = True

    def __init__(self, takes: set[int]) -> None:
        self.takes = takes
        self.pushes = 0
        self.unsent: list[int] = []
        self.sent: list[int] = []

    @property
    def has_room(self) -> bool:
        return not self.unsent

    def write_batches(self, first_id: int, payloads: Sequence[bytes]) -> None:
        self.unsent += range(first_id, first_id + len(payloads))

    def push(self) -> None:
        self.pushes += 1
        if self.pushes in self.takes:
            self.sent += self.unsent
            self.unsent = []

    def ready(self) -> list[object]:
        return []

    def close(self) -> None:
        pass


def test_room_that_a_push_makes_is_filled_at_once() -> None:
    """The network tells of it once: who waits for it then, waits for a reply that may not come before the batch."""
    source = MemorySource()
    link = FakeLink(takes={2, 3, 4})
    delivery = Delivery(source, Retention(WindowLimits(16, 1 << 20, 1 << 20), commit=False), None)
    sender = Sender(
        ("ingress", 1),
        b"t",
        ClientOptions(commit=False),
        delivery,
        always=True,
        on_refused=lambda *_: None,
        on_notice=lambda _: None,
        connect=lambda *_: link,  # type: ignore[arg-type, return-value]
    )
    source.append(1, b"x" * (1 << 19))
    source.append(2, b"y" * (1 << 18))
    sender.advance(0.0)
    sender.ready(0.0)
    assert sender.phase is Phase.STREAMING
    sender.advance(0.0)
    assert link.sent == [1, 2]
    assert link.unsent == []
