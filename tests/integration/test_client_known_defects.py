"""Rules that other collectors of this protocol are known to break, each as the client keeps it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from edgesocket.collector.client import CollectorClient, Phase
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.pacing import ReconnectPace
from edgesocket.collector.window import WindowLimits
from edgesocket.testing.scripted_ingress import (
    ScriptedIngress,
    Step,
    answer,
    auth,
    expect,
    expect_batches,
    expect_eof,
    pause,
    quiet,
    reply,
    reset,
    send,
)

FAST: dict[str, Any] = {
    "poll_least_s": 0.05,
    "poll_most_s": 0.1,
    "reconnect_least_s": 0.01,
    "reconnect_most_s": 0.02,
    "connect_timeout_s": 5.0,
    "progress_timeout_s": 5.0,
}


def connect(ingress: ScriptedIngress, **options: Any) -> CollectorClient:
    client = CollectorClient(
        "127.0.0.1", ingress.port, "secret", ClientOptions(**{**FAST, **options}), on_notice=lambda _: None
    )
    client.connect()
    return client


def give(client: CollectorClient, *ids: int) -> None:
    for batch_id in ids:
        assert client.try_send(batch_id, b"x")


def test_a_batch_is_not_deleted_at_received_but_when_a_checkpoint_covers_it() -> None:
    script = [auth("secret"), expect_batches(1, 2), reply("RECEIVED", "RECEIVED"), expect("__COMMIT__:2"), reset()]
    again = [auth("secret"), expect("__COMMIT__:1"), reply("RESEND"), expect_batches(1, 2), reply(*["RECEIVED"] * 2)]
    with ScriptedIngress(script, [*again, expect("__COMMIT__:2"), reply("ACK:2")]) as ingress:
        client = connect(ingress, commit=True)
        give(client, 1, 2)
        assert client.flush(received_only=True)
        assert client.left == 2
        client.flush()
        client.close()


def test_many_batches_are_on_their_way_not_one_a_round_trip() -> None:
    script = [auth("secret"), expect_batches(1, 256), quiet(0.02), reply(*["RECEIVED"] * 256), expect_eof()]
    with ScriptedIngress(script) as ingress:
        client = connect(ingress)
        give(client, *range(1, 257))
        client.flush()
        client.close()


def test_it_asks_for_confirmation_by_itself() -> None:
    with ScriptedIngress(
        [auth("secret"), expect_batches(1, 1), reply("RECEIVED"), expect("__COMMIT__:1"), reply("ACK:1")]
    ) as ingress:
        client = connect(ingress, commit=True)
        client.send(1, b"x")
        client.flush()
        client.close()


@pytest.mark.parametrize("loss", [[reset()], []], ids=["rst", "fin"])
def test_after_a_failure_nothing_newer_overtakes_what_failed(loss: list[Step]) -> None:
    """The first failure must not strand the rest of a claimed run while newer rows go out."""
    first = [auth("secret"), expect_batches(1, 8), reply("RECEIVED", "RECEIVED"), pause(0.02), *loss]
    second = [auth("secret"), expect_batches(3, 12), reply(*["RECEIVED"] * 10), expect_eof()]
    with ScriptedIngress(first, second) as ingress:
        client = connect(ingress, limits=WindowLimits(batches=20))
        give(client, *range(1, 9))
        while client.phase is not Phase.OFFLINE:
            client.step(1.0)
        give(client, *range(9, 13))
        client.flush()
        client.close()


def test_a_refused_batch_goes_again_before_its_newer_neighbours_that_were_refused_too() -> None:
    script: list[Step] = [auth("secret"), expect_batches(1, 4), reply("RECEIVED", *["QUEUE_FULL:30"] * 3)]
    for batch_id in (2, 3, 4):
        script += [expect_batches(batch_id, batch_id), quiet(0.02), reply("RECEIVED")]
    with ScriptedIngress([*script, expect_batches(5, 5), reply("RECEIVED")]) as ingress:
        client = connect(ingress)
        give(client, 1, 2, 3, 4)
        client.step(0.1)
        give(client, 5)
        client.flush()
        client.close()


def test_no_number_of_attempts_makes_a_good_batch_a_dead_one() -> None:
    """A long outage is not a bad record."""
    lost = [[auth("secret"), expect_batches(1, 1)] for _ in range(40)]
    with ScriptedIngress(*lost, [auth("secret"), expect_batches(1, 1), reply("RECEIVED")]) as ingress:
        client = connect(ingress, progress_timeout_s=None, reconnect_most_s=0.01)
        client.send(1, b"x")
        client.flush()
        client.close()
        assert (client.counts.refused, client.counts.received) == (0, 1)
        assert client.counts.resent == 40


def test_waits_between_connections_have_full_jitter_and_a_ceiling_of_30_seconds() -> None:
    options = ClientOptions()
    assert (options.reconnect_least_s, options.reconnect_most_s) == (0.2, 30.0)
    low = ReconnectPace(0.2, 30.0, lambda: 0.0)
    high = ReconnectPace(0.2, 30.0, lambda: 1.0)
    assert [low.next_wait_s() for _ in range(20)] == [0.0] * 20
    assert [high.next_wait_s() for _ in range(20)][-1] == 30.0


def test_while_queue_full_waits_the_caller_has_the_thread_back_in_time() -> None:
    """Tailing and rotation must go on during an outage."""
    with ScriptedIngress([auth("secret"), answer(lambda _: "QUEUE_FULL:60000")]) as ingress:
        client = connect(ingress)
        client.send(1, b"x")
        client.step(0.1)
        began = time.monotonic()
        for _ in range(5):
            client.step(0.01)
        assert time.monotonic() - began < 2.0
        client.close()


def test_a_reply_that_stalls_in_mid_line_is_one_reply() -> None:
    script = [auth("secret"), expect_batches(1, 2), send(b"RECEIVED\nRECEI"), pause(0.3), send(b"VED\n"), expect_eof()]
    with ScriptedIngress(script) as ingress:
        client = connect(ingress)
        give(client, 1, 2)
        client.flush()
        client.close()
    assert (client.counts.received, client.counts.resent) == (2, 0)


@pytest.mark.parametrize("word", ["RETRY", "RESEND"])
def test_retry_and_resend_to_a_poll_for_a_batch_it_has_sent_send_it_again_instead_of_waiting(word: str) -> None:
    script = [auth("secret"), expect_batches(1, 1), reply("RECEIVED"), expect("__COMMIT__:1"), reply(word)]
    with ScriptedIngress(
        [*script, expect_batches(1, 1), reply("RECEIVED"), expect("__COMMIT__:1"), reply("ACK:1")]
    ) as ingress:
        client = connect(ingress, commit=True)
        client.send(1, b"x")
        client.flush()
        client.close()


def test_an_ack_that_comes_too_early_evicts_nothing_that_was_not_received() -> None:
    script = [auth("secret"), expect_batches(1, 3), reply("RECEIVED", "RETRY", "RECEIVED"), expect("__COMMIT__:3")]
    with ScriptedIngress(
        [*script, reply("ACK:3"), expect_batches(2, 2), reply("RECEIVED"), expect("__COMMIT__:2"), reply("ACK:3")]
    ) as ingress:
        client = connect(ingress, commit=True)
        give(client, 1, 2, 3)
        client.flush()
        client.close()
    assert client.counts.confirmed == 3


def test_a_dead_letter_in_the_middle_does_not_stop_later_evictions() -> None:
    script = [auth("secret"), expect_batches(1, 3), reply("RECEIVED", "DECODE_FAILED", "RECEIVED")]
    with ScriptedIngress([*script, expect("__COMMIT__:3"), reply("ACK:3"), expect_eof()]) as ingress:
        client = connect(ingress, commit=True)
        give(client, 1, 2, 3)
        client.flush()
        client.close()
    assert (client.counts.confirmed, client.counts.refused) == (2, 1)


def test_a_line_feed_in_a_payload_is_refused_here_and_never_framed() -> None:
    with ScriptedIngress([auth("secret"), expect_eof()]) as ingress:
        client = connect(ingress)
        with pytest.raises(ValueError, match="line feed"):
            client.send(1, b"two\nlines")
        client.close()
