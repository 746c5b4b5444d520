"""What a client takes on before it has to send: batches, bytes on their way, bytes kept."""

from __future__ import annotations

import pytest

from edgesocket.collector.client import CollectorClient
from edgesocket.collector.memory import ENTRY_OVERHEAD_BYTES, MemorySource
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.window import WindowLimits
from edgesocket.protocol.collector_session import Asked, Request
from edgesocket.protocol.replies import RECEIVED


class Wire:
    """A link that takes everything."""

    has_room = True

    def write_batches(self, first_id: int, payloads: object) -> None: ...

    def push(self) -> None: ...


def client(batches: int = 100, payload_bytes: int = 1 << 20, retain_bytes: int = 1 << 30) -> CollectorClient:
    limits = WindowLimits(batches, payload_bytes, retain_bytes)
    return CollectorClient("localhost", 1, "t", ClientOptions(commit=True, limits=limits))


def receive(sender: CollectorClient, first: int, count: int) -> None:
    """Send what may go and have it received, without a network."""
    sender._delivery.fill(Wire(), 0.0)
    sender._delivery.answered(Request(Asked.RECEIPT, first, count), RECEIVED, 0.0, lambda *_: None)


def test_room_ends_at_the_number_of_batches_not_received() -> None:
    sender = client(batches=2)
    assert sender.try_send(1, b"")
    assert sender.try_send(2, b"")
    assert not sender.try_send(3, b"")
    receive(sender, 1, 1)
    assert sender.try_send(3, b"")


def test_room_ends_at_the_bytes_that_wait() -> None:
    sender = client(payload_bytes=10)
    assert sender.try_send(1, b"x" * 10)
    assert not sender.room_for(1)
    sender._delivery.fill(Wire(), 0.0)
    assert sender.room_for(10)
    assert not sender.room_for(11)


def test_room_ends_at_what_may_be_kept() -> None:
    sender = client(retain_bytes=2 * (100 + ENTRY_OVERHEAD_BYTES))
    for batch_id in (1, 2):
        assert sender.try_send(batch_id, b"x" * 100)
    receive(sender, 1, 2)
    assert not sender.room_for(0)
    sender._retention.evict(1)
    sender._delivery.tell_done()
    assert sender.room_for(100)
    assert not sender.room_for(101)


def test_an_empty_client_takes_any_one_batch() -> None:
    sender = client(1, 1, 1)
    assert sender.try_send(1, b"x" * 1000)
    assert not sender.room_for(0)


def test_a_client_with_a_source_takes_no_batches_by_hand() -> None:
    sender = CollectorClient("localhost", 1, "t", source=MemorySource())
    with pytest.raises(TypeError, match="come from its source"):
        sender.try_send(1, b"x")


def test_the_window_over_a_source_is_bounded_by_what_an_ingress_remembers() -> None:
    with pytest.raises(ValueError, match="16384"):
        CollectorClient("localhost", 1, "t", ClientOptions(limits=WindowLimits(batches=16_385)), source=MemorySource())


def test_payloads_and_token_are_in_no_repr() -> None:
    sender = CollectorClient("localhost", 1, "very-secret")
    sender.try_send(1, b"payload")
    assert "very-secret" not in repr(sender)
    assert "payload" not in repr(sender)
