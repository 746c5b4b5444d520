"""Retention and window: which batch goes when, what each reply does to it, and what an ACK may evict."""

from __future__ import annotations

import pytest

from edgesocket.collector.memory import MemorySource
from edgesocket.collector.reactions import BATCH_REACTIONS, POLL_REACTIONS, Reaction
from edgesocket.collector.retention import Retention
from edgesocket.collector.window import WindowLimits
from edgesocket.errors import LocalProtocolError
from edgesocket.ids import MAX_BATCH_ID, IdRanges
from edgesocket.protocol.replies import (
    AUTH_FAILED,
    AUTH_OK,
    BAD_REQUEST,
    DECODE_FAILED,
    DECRYPT_FAILED,
    INVALID_PARAM,
    PENDING,
    RECEIVED,
    REJECTED,
    RESEND,
    RETRY,
    ReplyKind,
    ack,
    queue_full,
)


class SendWindow(Retention):
    """A retention with the batches it speaks of, one at a time."""

    def __init__(self, limits: WindowLimits, *, commit: bool) -> None:
        super().__init__(limits, commit=commit)
        self.source = MemorySource()

    def offer(self, batch_id: int, payload: bytes) -> None:
        self.source.append(batch_id, payload)
        self.counts.offered += 1

    def next_batch(self, now: float) -> tuple[int, bytes] | None:
        """Send the next batch, if one may go."""
        while (want := self.wanted(now)) is not None:
            run = self.source.read(want.first_id, 1, want.payload_bytes)
            if run is None or not self.fits(len(run.payloads[0])):
                return None
            if run.first_id > want.first_id:
                self.missing(want.first_id, run.first_id - 1)
                continue
            self.sent(run.first_id, 1, len(run.payloads[0]))
            return run.first_id, run.payloads[0]
        return None

    def reply(self, batch_id: int, reply, now: float) -> Reaction:
        return self.answered(batch_id, 1, reply, now)


def make(*ids: int, commit: bool = False, batches: int = 256, payload_bytes: int = 1 << 20) -> SendWindow:
    """A window with these batches offered."""
    window = SendWindow(WindowLimits(batches, payload_bytes, 1 << 30), commit=commit)
    for batch_id in ids:
        window.offer(batch_id, b"p%d" % batch_id)
    return window


def drain(window: SendWindow, now: float = 0.0) -> list[int]:
    """The ids of everything that may go out now."""
    sent: list[int] = []
    while (batch := window.next_batch(now)) is not None:
        sent.append(batch[0])
    return sent


def test_batches_go_out_in_the_order_of_their_ids() -> None:
    window = make(3, 5, 9)
    assert window.next_batch(0.0) == (3, b"p3")
    assert drain(window) == [5, 9]
    assert window.next_batch(0.0) is None


def test_ids_must_rise() -> None:
    window = make(5)
    for batch_id in (5, 4, 0, -1):
        with pytest.raises(ValueError, match="does not rise"):
            window.offer(batch_id, b"")


def test_after_the_largest_id_there_is_none() -> None:
    window = make(MAX_BATCH_ID)
    with pytest.raises(ValueError, match="beyond the largest"):
        window.offer(MAX_BATCH_ID + 1, b"")


def test_without_commit_a_received_batch_is_done() -> None:
    window = make(1, 2)
    drain(window)
    assert window.reply(1, RECEIVED, 0.0) is Reaction.RECEIVED
    assert (window.left, window.unanswered, window.unconfirmed) == (1, 1, 0)
    window.reply(2, RECEIVED, 0.0)
    assert window.left == 0
    assert window.poll_target() is None


def test_with_commit_a_received_batch_is_kept() -> None:
    window = make(1, 2, commit=True)
    drain(window)
    window.reply(1, RECEIVED, 0.0)
    assert (window.left, window.unanswered, window.unconfirmed) == (2, 1, 1)


@pytest.mark.parametrize("reply", [DECODE_FAILED, BAD_REQUEST, INVALID_PARAM])
@pytest.mark.parametrize("commit", [False, True])
def test_a_batch_refused_for_good_is_done_and_its_id_spent(reply, commit: bool) -> None:
    window = make(1, 2, commit=commit)
    drain(window)
    assert window.reply(1, reply, 0.0) is Reaction.REFUSED
    assert window.left == 1
    assert window.counts.refused == 1
    with pytest.raises(ValueError, match="does not rise"):
        window.offer(1, b"corrected")


def test_decrypt_failed_asks_to_stop_and_keeps_the_batch() -> None:
    window = make(1)
    drain(window)
    assert window.reply(1, DECRYPT_FAILED, 0.0) is Reaction.STOP
    assert window.left == 1


@pytest.mark.parametrize("reply", [None, AUTH_OK, AUTH_FAILED, REJECTED, PENDING, RESEND, ack(1)])
def test_anything_else_is_no_answer_to_a_batch(reply) -> None:
    window = make(1)
    drain(window)
    assert window.reply(1, reply, 0.0) is Reaction.DISTRUST
    assert window.left == window.unanswered == 1


def test_every_reply_of_the_protocol_is_placed() -> None:
    """The reference's response table: each kind answers a batch, a poll or the connection."""
    connection = {ReplyKind.AUTH_OK, ReplyKind.AUTH_FAILED, ReplyKind.REJECTED}
    assert set(BATCH_REACTIONS) | set(POLL_REACTIONS) | connection == set(ReplyKind)
    assert not connection & (set(BATCH_REACTIONS) | set(POLL_REACTIONS))


def test_a_reply_to_what_is_not_on_its_way_is_our_bug() -> None:
    window = make(1)
    for batch_id in (1, 2):
        with pytest.raises(LocalProtocolError):
            window.reply(batch_id, RECEIVED, 0.0)


class TestQueueFull:
    def test_the_batch_waits_as_long_as_it_was_told(self) -> None:
        window = make(1)
        drain(window)
        assert window.reply(1, queue_full(500), 10.0) is Reaction.WAIT_AS_TOLD
        assert window.next_batch(10.499) is None
        assert window.next_time(10.0) == 10.5
        assert window.next_batch(10.5) == (1, b"p1")

    def test_nothing_above_it_goes_until_it_is_received(self) -> None:
        window = make(1, 2, 3)
        window.next_batch(0.0)
        window.reply(1, queue_full(500), 0.0)
        assert drain(window, 0.1) == []
        assert drain(window, 0.6) == [1]
        assert drain(window, 100.0) == []
        window.reply(1, RECEIVED, 100.0)
        assert drain(window, 100.0) == [2, 3]

    def test_what_was_on_its_way_above_it_may_be_received(self) -> None:
        window = make(1, 2, 3, 4)
        for _ in range(3):
            window.next_batch(0.0)
        window.reply(1, queue_full(500), 0.0)
        window.reply(2, RECEIVED, 0.0)
        window.reply(3, RECEIVED, 0.0)
        assert drain(window, 0.1) == []
        assert drain(window, 1.0) == [1]
        window.reply(1, RECEIVED, 1.0)
        assert drain(window, 1.0) == [4]

    def test_several_refused_ones_are_received_one_after_the_other(self) -> None:
        window = make(1, 2, 3, 4)
        for _ in range(3):
            window.next_batch(0.0)
        for batch_id in (1, 2, 3):
            window.reply(batch_id, queue_full(500), 0.0)
        for batch_id in (1, 2, 3):
            assert drain(window, 1.0) == [batch_id]
            window.reply(batch_id, RECEIVED, 1.0)
        assert drain(window, 1.0) == [4]

    def test_a_refusal_above_a_hole_lets_the_lower_ones_pass(self) -> None:
        window = make(1, 2, 3)
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.reply(2, queue_full(100), 0.0)
        window.reply(3, queue_full(5000), 0.0)
        assert drain(window, 1.0) == [2]
        window.reply(2, RECEIVED, 1.0)
        assert drain(window, 1.0) == []
        assert drain(window, 5.0) == [3]

    def test_time_that_has_passed_is_not_waited_for(self) -> None:
        """While the lowest is on its way again, the others wait for its reply, not for the clock."""
        window = make(1, 2)
        drain(window)
        window.reply(1, queue_full(100), 0.0)
        window.reply(2, queue_full(100), 0.0)
        assert drain(window, 1.0) == [1]
        assert window.next_time(1.0) is None

    def test_it_holds_across_connections(self) -> None:
        window = make(1, 2, 3)
        drain(window)
        window.reply(1, queue_full(500), 0.0)
        window.connection_lost()
        window.send_all_again()
        assert drain(window, 0.1) == []
        assert drain(window, 0.5) == [1]
        window.reply(1, RECEIVED, 0.6)
        assert drain(window, 0.6) == [2, 3]

    def test_a_batch_refused_for_good_no_longer_holds(self) -> None:
        window = make(1, 2)
        window.next_batch(0.0)
        window.reply(1, queue_full(100), 0.0)
        assert drain(window, 1.0) == [1]
        window.reply(1, DECODE_FAILED, 1.0)
        assert drain(window, 1.0) == [2]

    def test_a_lower_batch_that_was_lost_may_go(self) -> None:
        window = make(1, 2, 3, commit=True)
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.reply(2, queue_full(5000), 0.0)
        window.reply(3, RECEIVED, 0.0)
        assert window.send_again(1)
        assert window.send_again(3)
        assert drain(window, 0.1) == [1]

    def test_refused_twice_waits_twice(self) -> None:
        window = make(1)
        drain(window)
        window.reply(1, queue_full(100), 0.0)
        drain(window, 1.0)
        window.reply(1, queue_full(300), 1.0)
        assert drain(window, 1.2) == []
        assert drain(window, 1.3) == [1]
        assert window.counts.resent == 2
        assert window.counts.sent == 1


class TestRetry:
    def test_the_waits_grow_and_start_again_after_success(self) -> None:
        window = make(1, 2, commit=True)
        now, waits = 0.0, []
        window.next_batch(now)
        for _ in range(9):
            window.reply(1, RETRY, now)
            until = window.next_time(now)
            assert until is not None
            waits.append(round(until - now, 6))
            now = until
            assert window.next_batch(now) == (1, b"p1")
        assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
        window.reply(1, RECEIVED, now)
        window.send_again(1)
        window.next_batch(now)
        window.reply(1, RETRY, now)
        assert window.next_time(now) == now + 0.1

    def test_nothing_above_it_goes_until_it_is_received(self) -> None:
        window = make(1, 2)
        window.next_batch(0.0)
        assert window.reply(1, RETRY, 0.0) is Reaction.BACK_OFF
        assert drain(window, 9.0) == [1]
        window.reply(1, RECEIVED, 9.0)
        assert drain(window, 9.0) == [2]


class TestLimits:
    def test_no_more_batches_than_allowed_are_on_their_way(self) -> None:
        window = make(*range(1, 7), batches=4)
        assert drain(window) == [1, 2, 3, 4]
        window.reply(1, RECEIVED, 0.0)
        assert drain(window) == [5]

    def test_no_more_bytes_than_allowed_are_on_their_way(self) -> None:
        window = SendWindow(WindowLimits(100, 10, 1 << 20), commit=False)
        for batch_id in (1, 2, 3):
            window.offer(batch_id, b"12345")
        assert drain(window) == [1, 2]

    def test_a_batch_larger_than_the_window_goes_alone(self) -> None:
        window = SendWindow(WindowLimits(100, 10, 1 << 20), commit=False)
        window.offer(1, b"x")
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.offer(2, b"x" * 1000)
        window.offer(3, b"x")
        assert drain(window) == [2]

    def test_it_halves_when_the_queue_is_full_and_grows_back(self) -> None:
        window = make(*range(1, 65), batches=64)
        drain(window)
        window.reply(1, queue_full(100), 0.0)
        window.reply(2, queue_full(100), 0.0)
        assert window.allowed_batches == 32  # once for both
        for batch_id in range(3, 65):
            window.reply(batch_id, RECEIVED, 0.0)
        for batch_id in (1, 2):
            assert drain(window, 1.0) == [batch_id]
            window.reply(batch_id, RECEIVED, 1.0)
        next_id = 65
        while window.allowed_batches < 64:
            window.offer(next_id, b"")
            assert drain(window, 1.0) == [next_id]
            window.reply(next_id, RECEIVED, 1.0)
            next_id += 1
        assert next_id > 65 + 32 * 32  # about one more a window
        window.offer(next_id, b"")
        drain(window, 1.0)
        window.reply(next_id, RECEIVED, 1.0)
        assert window.allowed_batches == 64

    def test_it_never_falls_below_one(self) -> None:
        window = make(1, batches=2)
        for _ in range(5):
            drain(window, 1000.0)
            window.reply(1, queue_full(1), 0.0)
        assert window.allowed_batches == 1
        assert drain(window, 1000.0) == [1]


class TestConnections:
    def test_what_was_not_answered_goes_again_before_anything_new(self) -> None:
        window = make(1, 2, 3)
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.connection_lost()
        window.send_all_again()
        window.offer(4, b"")
        assert drain(window) == [2, 3, 4]
        assert window.counts.sent == 4
        assert window.counts.resent == 2

    def test_with_commit_received_batches_go_again_too(self) -> None:
        window = make(1, 2, 3, commit=True)
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.connection_lost()
        assert window.lowest_unconfirmed == 1
        window.send_all_again()
        assert window.unconfirmed == 0
        assert drain(window) == [1, 2, 3]
        window.reply(1, RECEIVED, 0.0)
        assert window.counts.received == 1  # each batch counts once

    def test_what_was_confirmed_meanwhile_does_not_go_again(self) -> None:
        window = make(1, 2, 3, commit=True)
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.reply(2, RECEIVED, 0.0)
        window.connection_lost()
        assert window.evict(2) == 2
        window.send_all_again()
        assert drain(window) == [3]

    def test_nothing_to_ask_where_nothing_was_received(self) -> None:
        window = make(1, commit=True)
        assert window.lowest_unconfirmed is None
        drain(window)
        window.connection_lost()
        assert window.lowest_unconfirmed is None

    def test_bytes_on_their_way_are_counted_anew(self) -> None:
        window = SendWindow(WindowLimits(100, 10, 1 << 20), commit=True)
        window.offer(1, b"12345")
        window.offer(2, b"12345")
        for _ in range(3):
            assert drain(window) == [1, 2]
            window.reply(1, RECEIVED, 0.0)
            window.connection_lost()
            window.send_all_again()
        assert drain(window) == [1, 2]
        for batch_id in (1, 2):
            window.reply(batch_id, RECEIVED, 0.0)
        window.evict(2)
        assert window.left == 0


class TestAck:
    def test_it_evicts_up_to_the_watermark(self) -> None:
        window = make(1, 2, 3, commit=True)
        drain(window)
        for batch_id in (1, 2, 3):
            window.reply(batch_id, RECEIVED, 0.0)
        assert window.evict(2) == 2
        assert window.left == 1
        assert window.counts.confirmed == 2
        assert window.evict(2) == 0
        assert window.evict(MAX_BATCH_ID) == 1

    @pytest.mark.parametrize("reply", [queue_full(1), RETRY, DECRYPT_FAILED, None])
    def test_it_leaves_a_batch_whose_last_reply_was_another(self, reply) -> None:
        window = make(1, 2, commit=True)
        drain(window)
        window.reply(1, reply, 0.0)
        window.reply(2, RECEIVED, 0.0)
        assert window.evict(2) == 1
        assert window.left == 1

    def test_it_leaves_what_was_never_answered(self) -> None:
        window = make(1, 2, 3, commit=True)
        window.next_batch(0.0)
        assert window.evict(3) == 0

    def test_it_leaves_what_was_lost_until_it_is_received_again(self) -> None:
        window = make(1, commit=True)
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.send_again(1)
        assert window.evict(1) == 0
        drain(window)
        assert window.evict(1) == 0
        window.reply(1, RECEIVED, 0.0)
        assert window.evict(1) == 1

    def test_received_once_and_refused_later_is_not_confirmed(self) -> None:
        window = make(1, commit=True)
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.connection_lost()
        window.send_all_again()
        drain(window)
        window.reply(1, queue_full(5), 0.0)
        assert window.evict(1) == 0

    def test_a_batch_that_waits_to_go_again_after_reconnecting_can_be_confirmed(self) -> None:
        window = make(1, 2, commit=True)
        drain(window)
        window.reply(1, RECEIVED, 0.0)
        window.connection_lost()
        window.send_all_again()
        assert window.evict(2) == 1
        assert drain(window) == [2]


class TestPolls:
    def received(self, *ids: int) -> SendWindow:
        window = make(*ids, commit=True)
        drain(window)
        for batch_id in ids:
            window.reply(batch_id, RECEIVED, 0.0)
        return window

    def test_the_target_is_the_highest_received(self) -> None:
        assert self.received(1, 2, 3).poll_target() == 3

    def test_it_stays_the_target_while_higher_ones_come(self) -> None:
        """Else steady traffic would always ask for an id too new to be confirmed."""
        window = self.received(1, 2)
        assert window.poll_target() == 2
        window.offer(3, b"")
        drain(window)
        window.reply(3, RECEIVED, 0.0)
        assert window.poll_target() == 2
        window.evict(2)
        assert window.poll_target() == 3

    def test_a_lost_target_goes_again_and_another_is_asked_for(self) -> None:
        window = self.received(1, 2)
        assert window.poll_target() == 2
        assert window.send_again(2)
        assert window.poll_target() == 1
        assert drain(window) == [2]

    def test_send_again_ignores_what_is_on_its_way_or_gone(self) -> None:
        window = self.received(1)
        assert window.send_again(1)
        assert not window.send_again(1)
        drain(window)
        assert not window.send_again(1)
        assert not window.send_again(99)
        window.reply(1, RECEIVED, 0.0)
        window.evict(1)
        assert not window.send_again(1)
        assert drain(window) == []

    def test_no_target_without_received_batches(self) -> None:
        window = make(1, 2, commit=True)
        assert window.poll_target() is None
        window = self.received(1)
        window.connection_lost()
        window.send_all_again()
        assert window.poll_target() is None
        assert window.lowest_unconfirmed == 1


class TestRuns:
    """What makes a fast link cheap: runs go out, and are answered, as one."""

    def streamed(self, batches: int, *, commit: bool = True) -> Retention:
        """A retention to which so many batches were sent and received, 1,000 at a time."""
        retention = Retention(WindowLimits(batches=4000), commit=commit)
        for first in range(1, batches, 1000):
            want = retention.wanted(0.0)
            assert want is not None
            assert want.first_id == first
            retention.sent(first, 1000, 256_000)
            assert retention.answered(first, 1000, RECEIVED, 0.0) is Reaction.RECEIVED
        return retention

    def test_a_million_batches_received_in_order_cost_one_range(self) -> None:
        retention = self.streamed(1_000_000)
        assert retention.unconfirmed == retention.kept == 1_000_000
        assert retention.ranges == 1
        assert retention.evict(999_990) == 999_990
        assert retention.done_below == 999_991
        retention.connection_lost()
        retention.send_all_again()
        assert retention.ranges == 2
        assert retention.wanted(0.0) == (999_991, 10, 4 * 1024 * 1024)

    def test_a_lost_million_goes_again_as_one_range_and_counts_once(self) -> None:
        retention = self.streamed(1_000_000)
        retention.connection_lost()
        retention.send_all_again()
        assert retention.ranges == 2
        retention.sent(1, 4000, 4000)
        retention.answered(1, 4000, RECEIVED, 0.0)
        assert (retention.counts.received, retention.counts.resent) == (1_000_000, 4000)
        assert retention.unconfirmed == 4000

    def test_part_of_a_run_can_be_answered(self) -> None:
        retention = Retention(WindowLimits(batches=100, payload_bytes=1000), commit=True)
        retention.sent(1, 10, 1000)
        assert retention.wanted(0.0) is None
        retention.answered(1, 4, RECEIVED, 0.0)
        assert retention.wanted(0.0) == (11, 94, 400)
        retention.answered(5, 6, RECEIVED, 0.0)
        assert retention.wanted(0.0) == (11, 100, 1000)

    def test_a_run_refused_for_now_goes_again_one_by_one(self) -> None:
        retention = Retention(WindowLimits(batches=100), commit=True)
        retention.sent(1, 5, 5)
        retention.answered(1, 5, queue_full(100), 0.0)
        for batch_id in range(1, 6):
            want = retention.wanted(1.0)
            assert want is not None
            assert want[:2] == (batch_id, 1)
            retention.sent(batch_id, 1, 1)
            assert retention.wanted(1.0) is None
            retention.answered(batch_id, 1, RECEIVED, 1.0)
        assert retention.wanted(1.0) is not None

    def test_replies_must_come_in_the_order_of_the_batches(self) -> None:
        retention = Retention(WindowLimits(), commit=True)
        retention.sent(1, 5, 5)
        with pytest.raises(LocalProtocolError):
            retention.answered(2, 1, RECEIVED, 0.0)
        with pytest.raises(LocalProtocolError):
            retention.answered(1, 6, RECEIVED, 0.0)

    def test_batches_that_the_source_does_not_have_are_not_waited_for(self) -> None:
        retention = Retention(WindowLimits(), commit=True)
        retention.resume(10, 20, IdRanges())
        assert retention.kept == 10
        retention.missing(10, 14)
        want = retention.wanted(0.0)
        assert want is not None
        assert want[:2] == (15, 5)
        retention.missing(15, 29)
        assert retention.kept == 0
        assert retention.cursor == retention.done_below == 30


class TestRestart:
    """Over a spool that an earlier process has sent from."""

    def resumed(self) -> Retention:
        retention = Retention(WindowLimits(), commit=True)
        retention.resume(5, 20, IdRanges([(8, 9)]))
        return retention

    def test_an_ack_evicts_what_is_not_in_doubt(self) -> None:
        retention = self.resumed()
        assert retention.lowest_kept == 5
        assert retention.evict(12) == 6
        want = retention.wanted(0.0)
        assert want is not None
        assert want[:2] == (8, 2)
        assert retention.done_below == 8

    def test_everything_else_goes_again_before_anything_new(self) -> None:
        retention = self.resumed()
        sent = []
        while (want := retention.wanted(0.0)) is not None and want.first_id < 25:
            count = min(want.batches, 4)
            retention.sent(want.first_id, count, count)
            sent += range(want.first_id, want.first_id + count)
        assert sent[:19] == list(range(5, 24))

    def test_in_doubt_is_what_went_out_and_has_no_received(self) -> None:
        retention = self.resumed()
        assert list(retention.in_doubt()) == [(8, 9)]
        retention.sent(5, 5, 5)
        assert list(retention.in_doubt()) == [(5, 9)]
        retention.answered(5, 3, RECEIVED, 0.0)
        assert list(retention.in_doubt()) == [(8, 9)]
        retention.answered(8, 1, queue_full(5), 0.0)
        retention.answered(9, 1, DECODE_FAILED, 0.0)
        assert list(retention.in_doubt()) == [(8, 8)]

    def test_a_batch_that_went_out_again_and_was_not_answered_is_not_evicted(self) -> None:
        """Its new reply may be another one than RECEIVED."""
        retention = self.resumed()
        retention.sent(5, 3, 3)
        assert retention.evict(7) == 0
        retention.connection_lost()
        retention.send_all_again()
        assert retention.evict(12) == 3  # 10 to 12
        assert retention.done_below == 5
