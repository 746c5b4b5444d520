"""The client over a source that outlives it: runs, notes, restarts, refusals, packets, trouble of the disk."""

from __future__ import annotations

import time
from typing import Any

import pytest

from edgesocket.collector.client import CollectorClient, NoIdLeftError, Phase
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.source import BatchRun
from edgesocket.collector.window import WindowLimits
from edgesocket.errors import ConnectionLostError, RejectedError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.replies import Reply
from edgesocket.testing.scripted_ingress import (
    ScriptedIngress,
    answer,
    auth,
    expect,
    expect_batches,
    expect_eof,
    pause,
    quiet,
    reply,
    reset,
)

FAST: dict[str, Any] = {
    "commit": True,
    "poll_least_s": 0.05,
    "poll_most_s": 0.1,
    "reconnect_least_s": 0.01,
    "reconnect_most_s": 0.05,
    "connect_timeout_s": 5.0,
    "progress_timeout_s": 5.0,
}


class Spool:
    """What a spool is to the client, in memory; it outlives the clients of a test."""

    def __init__(self, *ids: int) -> None:
        self.batches = {id_: b"p%d" % id_ for id_ in ids}
        self.dead: dict[int, tuple[bytes, str]] = {}
        self.below = 0
        self.note = ""
        self.failing: set[str] = set()

    def _work(self, what: str) -> None:
        if what in self.failing:
            raise OSError(5, f"cannot {what}")

    def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
        self._work("read")
        ids = [id_ for id_ in self.batches if id_ >= max(at_least_id, self.below) and id_ not in self.dead]
        if not ids:
            return None
        count = 1
        while count < min(most_batches, len(ids)) and ids[count] == ids[0] + count:
            count += 1
        return BatchRun(ids[0], [self.batches[id_] for id_ in ids[:count]])

    def refused(self, batch_id: int, payload: bytes, reply: Reply) -> None:
        self._work("refused")
        self.dead[batch_id] = (payload, str(reply))

    def done(self, below_id: int) -> None:
        self._work("done")
        self.below = max(self.below, below_id)

    def recall(self) -> str:
        return self.note

    def remember(self, text: str, durable: bool) -> None:
        self._work("remember")
        self.note = text


def over(spool: Spool, ingress: ScriptedIngress, notices: list[str] | None = None, **options: Any) -> CollectorClient:
    return CollectorClient(
        "127.0.0.1",
        ingress.port,
        "secret",
        ClientOptions(**{**FAST, **options}),
        source=spool,
        on_notice=[].append if notices is None else notices.append,
    )


def crash(client: CollectorClient) -> None:
    """The process is gone: the connection ends and nothing is said to the spool."""
    client._sender._drop_link()


def step_until(client: CollectorClient, condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        client.step(0.02)


def test_step_alone_connects_pulls_batches_and_tells_the_source_what_is_done() -> None:
    script = [auth("secret"), expect_batches(1, 5), reply(*["RECEIVED"] * 5), expect("__COMMIT__:5"), reply("ACK:3")]
    with ScriptedIngress([*script, expect("__COMMIT__:5"), reply("ACK:5"), expect_eof()]) as ingress:
        spool = Spool(*range(1, 6))
        client = over(spool, ingress)
        step_until(client, lambda: spool.below == 4)
        assert (client.left, client.watermark) == (2, 3)
        step_until(client, lambda: spool.below == 6)
        assert client.flush()
        assert client.round_trip_s is not None
        client.close()


def test_what_comes_into_the_source_later_goes_out_after_the_next_wake() -> None:
    with ScriptedIngress([auth("secret"), quiet(0.1), expect_batches(7, 8), reply(*["RECEIVED"] * 2)]) as ingress:
        spool = Spool()
        client = over(spool, ingress, commit=False)
        step_until(client, lambda: client.phase is Phase.STREAMING)
        client.step(0.15)
        spool.batches.update({7: b"a", 8: b"b"})
        step_until(client, lambda: spool.below == 9)
        client.close()


def test_with_a_source_a_connection_is_kept_also_while_idle() -> None:
    with ScriptedIngress([auth("secret"), pause(0.02)], [auth("secret"), expect_eof()]) as ingress:
        client = over(Spool(), ingress)
        step_until(client, lambda: client.last_problem == "the ingress closed the connection")
        step_until(client, lambda: client.phase is Phase.STREAMING)
        client.close()


def test_ids_may_leave_gaps() -> None:
    lines = [b"__BATCH__:%d:p%d" % (n, n) for n in (3, 4, 90, 1_000_000, 1_000_001)]
    script = [
        auth("secret"),
        expect(*lines),
        reply(*["RECEIVED"] * 5),
        expect("__COMMIT__:1000001"),
        reply("ACK:1000001"),
    ]
    with ScriptedIngress(script) as ingress:
        spool = Spool(3, 4, 90, 1_000_000, 1_000_001)
        with over(spool, ingress) as client:
            pass
        assert client.counts.confirmed == 5


class TestRestart:
    def test_the_first_ack_evicts_what_was_answered_and_the_rest_goes_out_again(self) -> None:
        first = [auth("secret"), expect_batches(1, 6), reply(*["RECEIVED"] * 4), expect_eof()]
        second = [
            auth("secret"),
            expect("__COMMIT__:1"),
            quiet(0.05),
            reply("ACK:6"),  # 5 and 6 are covered too, but nobody knows what they were answered
            expect_batches(5, 6),
            reply("RECEIVED", "DECODE_FAILED"),
        ]
        with ScriptedIngress(first, [*second, expect("__COMMIT__:5"), reply("ACK:6")]) as ingress:
            spool = Spool(*range(1, 7))
            client = over(spool, ingress, poll_least_s=5.0)
            step_until(client, lambda: client.counts.received == 4)
            client._delivery.close()  # as the next note would say it
            crash(client)
            with over(spool, ingress):
                pass
        assert spool.dead == {6: (b"p6", "DECODE_FAILED")}
        assert spool.below == 7

    def test_without_a_note_since_everything_goes_out_again(self) -> None:
        first = [auth("secret"), expect_batches(1, 3), reply(*["RECEIVED"] * 3), expect_eof()]
        second = [
            auth("secret"),
            expect("__COMMIT__:1"),
            reply("ACK:3"),
            expect_batches(1, 3),
            reply(*["RECEIVED"] * 3),
        ]
        with ScriptedIngress(first, [*second, expect("__COMMIT__:3"), reply("ACK:3")]) as ingress:
            spool = Spool(1, 2, 3)
            client = over(spool, ingress, poll_least_s=5.0)
            step_until(client, lambda: client.counts.received == 3)
            crash(client)
            with over(spool, ingress):
                pass

    def test_a_closed_client_leaves_nothing_in_doubt(self) -> None:
        first = [auth("secret"), expect_batches(1, 3), reply(*["RECEIVED"] * 3), expect_eof()]
        second = [auth("secret"), expect("__COMMIT__:1"), reply("ACK:3"), quiet(0.05), expect_eof()]
        with ScriptedIngress(first, second) as ingress:
            spool = Spool(1, 2, 3)
            client = over(spool, ingress, poll_least_s=5.0)
            step_until(client, lambda: client.counts.received == 3)
            client.close()
            with over(spool, ingress) as client:
                time.sleep(0.1)
            assert client.counts.confirmed == 3

    def test_what_the_ingress_does_not_confirm_goes_out_again_in_order_before_anything_new(self) -> None:
        first = [auth("secret"), expect_batches(1, 3), reply(*["RECEIVED"] * 3), expect_eof()]
        second = [
            auth("secret"),
            expect("__COMMIT__:1"),
            reply("RESEND"),
            expect_batches(1, 5),
            reply(*["RECEIVED"] * 5),
        ]
        with ScriptedIngress(first, [*second, expect("__COMMIT__:5"), reply("ACK:5")]) as ingress:
            spool = Spool(1, 2, 3)
            client = over(spool, ingress, poll_least_s=5.0)
            step_until(client, lambda: client.counts.received == 3)
            client.close()
            spool.batches.update({4: b"", 5: b""})
            with over(spool, ingress, poll_least_s=0.1):
                pass
        assert spool.below == 6

    def test_a_batch_in_the_dead_letters_is_never_sent_again(self) -> None:
        first = [auth("secret"), expect_batches(1, 3), reply("RECEIVED", "BAD_REQUEST", "RECEIVED"), expect_eof()]
        second = [auth("secret"), expect("__COMMIT__:1"), reply("PENDING"), expect("__BATCH__:1:p1", "__BATCH__:3:p3")]
        with ScriptedIngress(first, second) as ingress:
            spool = Spool(1, 2, 3)
            client = over(spool, ingress, poll_least_s=5.0)
            step_until(client, lambda: client.counts.received == 2)
            crash(client)
            client = over(spool, ingress)
            step_until(client, lambda: len(ingress.requests) == 2 and len(ingress.requests[1]) == 4)
            client.close()


class TestReplies:
    @pytest.mark.parametrize("word", ["DECODE_FAILED", "BAD_REQUEST", "INVALID_PARAM"])
    def test_a_refusal_for_good_goes_to_the_dead_letters_with_its_reason(self, word: str) -> None:
        script = [auth("secret"), expect_batches(1, 3), reply("RECEIVED", word, "RECEIVED")]
        with ScriptedIngress([*script, expect("__COMMIT__:3"), reply("ACK:3"), expect_eof()]) as ingress:
            spool, notices = Spool(1, 2, 3), []
            with over(spool, ingress, notices, poll_least_s=0.1):
                pass
        assert spool.dead == {2: (b"p2", word)}
        assert spool.below == 4
        assert notices == []

    def test_a_run_of_refusals_is_a_dead_letter_each(self) -> None:
        script = [auth("secret"), expect_batches(1, 4), reply(*["DECODE_FAILED"] * 4), expect_eof()]
        with ScriptedIngress(script) as ingress:
            spool = Spool(1, 2, 3, 4)
            with over(spool, ingress):
                pass
        assert sorted(spool.dead) == [1, 2, 3, 4]

    def test_turned_away_for_good_it_ends_and_another_client_goes_on(self) -> None:
        turned_away = [expect("__AUTH__:secret"), reply("REJECTED"), expect_eof()]
        good = [auth("secret"), expect_batches(1, 1), reply("RECEIVED"), expect("__COMMIT__:1"), reply("ACK:1")]
        with ScriptedIngress(turned_away, good) as ingress:
            spool = Spool(1)
            client = over(spool, ingress)
            with pytest.raises(RejectedError):
                step_until(client, lambda: False)
            with over(spool, ingress):
                pass
        assert spool.below == 2


class TestTroubleOfTheSource:
    @pytest.mark.parametrize("what", ["read", "remember", "refused", "done"])
    def test_it_ends_the_client_and_another_one_loses_nothing(self, what: str) -> None:
        respond = answer(
            lambda line: {b"__B": "DECODE_FAILED" if line.endswith(b"p2") else "RECEIVED"}.get(line[:3], "ACK:3")
        )
        with ScriptedIngress([auth("secret"), respond], [auth("secret"), respond]) as ingress:
            spool = Spool(1, 2, 3)
            client = over(spool, ingress)
            step_until(client, lambda: client.phase is not Phase.OFFLINE)
            spool.failing = {what}
            with pytest.raises(OSError, match=f"cannot {what}"):
                step_until(client, lambda: False)
            with pytest.raises(ConnectionLostError, match="closed"):
                client.step(0.0)
            spool.failing = set()
            with over(spool, ingress):
                pass
        assert sorted(spool.dead) == [2]
        assert spool.below == 4

    def test_a_source_that_cannot_be_read_is_said_at_once(self) -> None:
        spool = Spool(1)
        spool.failing = {"read"}
        with pytest.raises(OSError, match="cannot read"):
            CollectorClient("127.0.0.1", 1, "secret", source=spool)


def test_after_the_largest_id_the_client_ends_with_a_clear_error_and_does_not_wrap() -> None:
    script = [auth("secret"), expect_batches(MAX_BATCH_ID - 1, MAX_BATCH_ID), expect_eof()]
    with ScriptedIngress(script) as ingress:
        client = over(Spool(MAX_BATCH_ID - 1, MAX_BATCH_ID, MAX_BATCH_ID + 1), ingress)
        with pytest.raises(NoIdLeftError, match="no batch id is left: 9223372036854775808"):
            step_until(client, lambda: False)


class TestPackets:
    def test_each_payload_is_sealed_when_it_goes_out_each_time_anew(self) -> None:
        first = [auth("secret"), expect("__BATCH__:1:{0:p1}", "__BATCH__:2:{1:p2}"), reply("RECEIVED"), reset()]
        second = [
            auth("secret"),
            expect("__COMMIT__:1"),
            reply("ACK:1"),
            expect("__BATCH__:2:{2:p2}"),
            reply("DECODE_FAILED"),
        ]
        sealed: list[bytes] = []

        def seal(payload: bytes) -> bytes:
            sealed.append(payload)
            return b"{%d:%b}" % (len(sealed) - 1, payload)

        with ScriptedIngress(first, second) as ingress:
            spool = Spool(1, 2)
            options = ClientOptions(**FAST)
            with CollectorClient(
                "127.0.0.1", ingress.port, "secret", options, source=spool, seal=seal, on_notice=lambda _: None
            ):
                pass
        assert sealed == [b"p1", b"p2", b"p2"]
        assert spool.dead == {2: (b"p2", "DECODE_FAILED")}, "the dead letters have the record, not the packet"


def test_a_long_stream_is_pulled_in_runs_and_nothing_is_missing() -> None:
    class Endless(Spool):
        most = 20_000

        def read(self, at_least_id: int, most_batches: int, most_bytes: int) -> BatchRun | None:
            first = max(1, at_least_id)
            count = min(most_batches, self.most + 1 - first, 500)
            return BatchRun(first, [b"x%d" % n for n in range(first, first + count)]) if count > 0 else None

    received: list[bytes] = []

    def respond(line: bytes) -> str:
        if line.startswith(b"__COMMIT__"):
            return f"ACK:{len(received)}"
        received.append(line)
        return "RECEIVED"

    with ScriptedIngress([auth("secret"), answer(respond)]) as ingress:
        spool = Endless()
        with over(spool, ingress, limits=WindowLimits(batches=8192)) as client:
            pass
        assert client._retention.ranges == 0
    assert received == [b"__BATCH__:%d:x%d" % (n, n) for n in range(1, 20_001)]
    assert spool.below == 20_001
