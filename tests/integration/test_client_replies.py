"""The client against every row of the reference's response table, over real sockets."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from edgesocket.collector.client import CollectorClient, DecryptFailedError
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.window import WindowLimits
from edgesocket.errors import AuthFailedError, CollectorError, ConnectionLostError, ExitCode, RejectedError
from edgesocket.protocol.replies import Reply
from edgesocket.testing.scripted_ingress import (
    ScriptedIngress,
    ScriptError,
    answer,
    auth,
    expect,
    expect_batches,
    expect_eof,
    pause,
    quiet,
    reply,
)

FAST: dict[str, Any] = {
    "poll_least_s": 0.02,
    "poll_most_s": 0.05,
    "reconnect_least_s": 0.01,
    "reconnect_most_s": 0.05,
    "connect_timeout_s": 5.0,
    "progress_timeout_s": 5.0,
}


class Talk:
    """A client to a scripted ingress, with what it reported."""

    def __init__(self, ingress: ScriptedIngress, **options: Any) -> None:
        self.refused: list[tuple[int, bytes, Reply]] = []
        self.notices: list[str] = []
        self.client = CollectorClient(
            "127.0.0.1",
            ingress.port,
            "secret",
            ClientOptions(**{**FAST, **options}),
            on_refused=lambda *refusal: self.refused.append(refusal),
            on_notice=self.notices.append,
        )


def test_ack_to_auth_begins_the_batches() -> None:
    with ScriptedIngress([expect("__AUTH__:secret"), quiet(0.05), reply("ACK"), expect("__BATCH__:1:a")]) as ingress:
        client = Talk(ingress).client
        client.connect()
        client.send(1, b"a")
        ingress.finish()
        client.close()


def test_auth_failed_ends_the_client() -> None:
    with ScriptedIngress([expect("__AUTH__:secret"), reply("AUTH_FAILED"), expect_eof()]) as ingress:
        talk = Talk(ingress)
        with pytest.raises(AuthFailedError) as caught:
            talk.client.connect()
        assert caught.value.exit_code == ExitCode.AUTH
        assert "secret" not in str(caught.value)
        with pytest.raises(AuthFailedError):  # and it stays ended
            talk.client.step(0)


def test_a_refused_connection_is_tried_again_until_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    client = CollectorClient("127.0.0.1", port, "secret", ClientOptions(**{**FAST, "connect_timeout_s": 0.2}))
    with pytest.raises(ConnectionLostError, match=rf"cannot connect to 127.0.0.1:{port}: Connection refused"):
        client.connect()


def test_an_unknown_host_is_said_by_name() -> None:
    client = CollectorClient("no-such-host.invalid", 9, "t", ClientOptions(**{**FAST, "connect_timeout_s": 0.1}))
    with pytest.raises(ConnectionLostError, match=r"cannot connect to no-such-host\.invalid:9: "):
        client.connect()


@pytest.mark.parametrize("steps", [[expect("__AUTH__:secret"), reply("REJECTED")], [reply("REJECTED"), pause(0.1)]])
def test_rejected_ends_the_client_and_is_not_tried_again(steps: list[Any]) -> None:
    with ScriptedIngress(steps) as ingress:
        with pytest.raises(RejectedError) as caught:
            Talk(ingress).client.connect()
        assert caught.value.exit_code == ExitCode.TRY_LATER


def test_received_goes_on_and_without_commit_is_all() -> None:
    batches = [b"__BATCH__:%d:p" % n for n in (1, 2, 3)]
    with ScriptedIngress([auth("secret"), expect(*batches), reply(*["RECEIVED"] * 3), expect_eof()]) as ingress:
        talk = Talk(ingress)
        with talk.client as client:
            for batch_id in (1, 2, 3):
                client.send(batch_id, b"p")
        assert client.left == 0
        assert (client.counts.sent, client.counts.received, client.counts.confirmed) == (3, 3, 0)


def test_queue_full_waits_and_sends_nothing_above_until_accepted() -> None:
    script = [
        auth("secret"),
        expect("__BATCH__:1:a", "__BATCH__:2:b", "__BATCH__:3:c"),
        reply("RECEIVED", "QUEUE_FULL:150", "RECEIVED"),  # 3 was on its way: that is fine
        quiet(0.12),
        expect("__BATCH__:2:b"),
        quiet(0.05),
        reply("RECEIVED"),
        expect("__BATCH__:4:d"),
        reply("RECEIVED"),
    ]
    with ScriptedIngress(script) as ingress:
        client = Talk(ingress, limits=WindowLimits(batches=3)).client
        client.connect()
        began = time.monotonic()
        for batch_id, payload in enumerate([b"a", b"b", b"c", b"d"], 1):
            client.send(batch_id, payload)
        client.flush()
        assert time.monotonic() - began >= 0.15
        client.close()
    assert client.counts.resent == 1


def test_retry_to_a_batch_backs_off_and_sends_the_same_again() -> None:
    script = [
        auth("secret"),
        expect("__BATCH__:1:a"),
        reply("RETRY"),
        quiet(0.08),
        expect("__BATCH__:1:a"),
        reply("RETRY"),
        quiet(0.16),
        expect("__BATCH__:1:a"),
        reply("RECEIVED"),
    ]
    with ScriptedIngress(script) as ingress, Talk(ingress).client as client:
        client.send(1, b"a")


@pytest.mark.parametrize("word", ["DECODE_FAILED", "BAD_REQUEST", "INVALID_PARAM"])
def test_a_refusal_for_good_is_reported_and_the_next_batch_goes(word: str) -> None:
    script = [auth("secret"), expect("__BATCH__:1:bad", "__BATCH__:2:good"), reply(word, "RECEIVED"), expect_eof()]
    with ScriptedIngress(script) as ingress:
        talk = Talk(ingress)
        with talk.client as client:
            client.send(1, b"bad")
            client.send(2, b"good")
    assert [(batch_id, payload, str(said)) for batch_id, payload, said in talk.refused] == [(1, b"bad", word)]
    assert (client.counts.refused, client.counts.received, client.left) == (1, 1, 0)


def test_without_a_callback_refusals_are_noticed() -> None:
    notices: list[str] = []
    with ScriptedIngress([auth("secret"), expect_batches(1, 1), reply("DECODE_FAILED")]) as ingress:
        options = ClientOptions(**FAST)
        with CollectorClient("127.0.0.1", ingress.port, b"secret", options, on_notice=notices.append) as client:
            client.send(1, b"bad")
    assert notices == ["batch 1 was refused for good: DECODE_FAILED"]


def test_decrypt_failed_stops_sending_and_says_so() -> None:
    script = [auth("secret"), expect("__BATCH__:1:a"), reply("DECRYPT_FAILED"), expect_eof()]
    with ScriptedIngress(script) as ingress:
        client = Talk(ingress).client
        client.connect()
        with pytest.raises(DecryptFailedError, match="secret key") as caught:
            client.send(1, b"a")
            client.flush()
        assert caught.value.exit_code == ExitCode.AUTH
        assert client.left == 1
        client.close()


def test_pending_keeps_the_batch_and_polls_again_until_ack() -> None:
    script = [
        auth("secret"),
        expect("__BATCH__:7:a"),
        reply("RECEIVED"),
        expect("__COMMIT__:7"),
        reply("PENDING"),
        expect("__COMMIT__:7"),
        reply("PENDING"),
        expect("__COMMIT__:7"),
        reply("ACK:7"),
        expect_eof(),
    ]
    with ScriptedIngress(script) as ingress:
        with Talk(ingress, commit=True).client as client:
            client.send(7, b"a")
        assert (client.counts.confirmed, client.watermark) == (1, 7)


def test_the_returned_watermark_evicts_also_when_it_is_higher_than_asked() -> None:
    script = [auth("secret"), expect_batches(1, 3), reply(*["RECEIVED"] * 3), expect("__COMMIT__:3"), reply("ACK:999")]
    with ScriptedIngress(script) as ingress:
        with Talk(ingress, commit=True, poll_least_s=0.1).client as client:
            for batch_id in (1, 2, 3):
                client.send(batch_id, b"")
        assert client.counts.confirmed == 3


def test_a_lower_watermark_evicts_only_what_it_covers() -> None:
    script = [
        auth("secret"),
        expect_batches(1, 3),
        reply(*["RECEIVED"] * 3),
        expect("__COMMIT__:3"),
        reply("ACK:2"),
        expect("__COMMIT__:3"),
        reply("ACK:3"),
    ]
    with ScriptedIngress(script) as ingress:
        with Talk(ingress, commit=True, poll_least_s=0.1).client as client:
            for batch_id in (1, 2, 3):
                client.send(batch_id, b"")
        assert client.counts.confirmed == 3


@pytest.mark.parametrize("word", ["RESEND", "RETRY"])
def test_resend_and_retry_to_a_poll_send_the_batch_again(word: str) -> None:
    script = [
        auth("secret"),
        expect("__BATCH__:5:a"),
        reply("RECEIVED"),
        expect("__COMMIT__:5"),
        reply(word),
        expect("__BATCH__:5:a"),
        reply("RECEIVED"),
        expect("__COMMIT__:5"),
        reply("ACK:5"),
    ]
    with ScriptedIngress(script) as ingress:
        with Talk(ingress, commit=True).client as client:
            client.send(5, b"a")
        assert (client.counts.resent, client.counts.received, client.counts.confirmed) == (1, 1, 1)


@pytest.mark.parametrize("word", ["BAD_REQUEST", "INVALID_PARAM"])
def test_an_ingress_that_takes_no_polls_ends_the_client(word: str) -> None:
    script = [auth("secret"), expect_batches(1, 1), reply("RECEIVED"), expect("__COMMIT__:1"), reply(word)]
    with ScriptedIngress(script) as ingress:
        client = Talk(ingress, commit=True).client
        client.connect()
        client.send(1, b"")
        with pytest.raises(CollectorError, match=rf"takes no commit polls: it answered {word}"):
            client.flush()
        assert client.left == 1


def test_nothing_is_on_the_wire_while_nothing_is_unconfirmed() -> None:
    script = [
        auth("secret"),
        quiet(0.15),
        expect_batches(1, 1),
        reply("RECEIVED"),
        expect("__COMMIT__:1"),
        reply("ACK:1"),
        quiet(0.15),
    ]
    with ScriptedIngress(script) as ingress:
        client = Talk(ingress, commit=True).client
        client.connect()
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            client.step(0.05)
        client.send(1, b"")
        client.flush()
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            client.step(0.05)
        client.close()


def test_a_decode_failure_does_not_keep_a_higher_ack_from_the_others() -> None:
    script = [
        auth("secret"),
        expect_batches(1, 3),
        reply("RECEIVED", "DECODE_FAILED", "RECEIVED"),
        expect("__COMMIT__:3"),
        reply("ACK:3"),
    ]
    with ScriptedIngress(script) as ingress:
        talk = Talk(ingress, commit=True, poll_least_s=0.1)
        with talk.client as client:
            for batch_id in (1, 2, 3):
                client.send(batch_id, b"")
        assert (client.counts.confirmed, client.counts.refused) == (2, 1)


def test_an_ack_does_not_evict_a_batch_that_was_refused_for_now() -> None:
    """ACK:n evicts only batches whose last reply was RECEIVED."""
    script = [
        auth("secret"),
        expect_batches(1, 2),
        reply("QUEUE_FULL:300", "RECEIVED"),
        expect("__COMMIT__:2"),
        reply("ACK:2"),
        expect("__BATCH__:1:"),
        reply("RECEIVED"),
        expect("__COMMIT__:1"),
        reply("ACK:2"),
    ]
    with ScriptedIngress(script) as ingress:
        with Talk(ingress, commit=True, poll_least_s=0.1).client as client:
            client.try_send(1, b"")
            client.try_send(2, b"")
        assert client.counts.confirmed == 2


def test_steady_traffic_is_confirmed_and_forgotten_all_along() -> None:
    """The polls keep one target, so a watermark that trails the newest batch still evicts."""
    received: list[int] = []
    seen: dict[str, int] = {"polls": 0}

    def respond(line: bytes) -> str:
        word, number = line.split(b":")[:2]
        if word == b"__BATCH__":
            received.append(int(number))
            return "RECEIVED"
        seen["polls"] += 1
        watermark = max(0, received[-1] - 20)  # always 20 behind
        return f"ACK:{watermark}" if int(number) <= watermark else "PENDING"

    with ScriptedIngress([auth("secret"), answer(respond)]) as ingress:
        client = Talk(ingress, commit=True, poll_least_s=0.01, poll_most_s=0.02).client
        client.connect()
        confirmed_early = 0
        for batch_id in range(1, 201):
            client.send(batch_id, b"x")
            client.step(0.005)
            time.sleep(0.002)
            confirmed_early = client.counts.confirmed
        assert confirmed_early > 50
        assert seen["polls"] > 5
        client.close()


def test_ids_and_payloads_are_checked_before_anything_is_sent() -> None:
    script = [auth("secret"), expect("__BATCH__:5:a\r\r"), reply("RECEIVED"), expect_eof()]
    with ScriptedIngress(script) as ingress, Talk(ingress).client as client:
        with pytest.raises(ValueError, match="line feed"):
            client.send(4, b"a\nb")
        client.send(5, b"a\r")  # a last CR stays part of the payload
        with pytest.raises(ValueError, match="does not rise"):
            client.send(5, b"again")


@pytest.mark.parametrize("token", ["a\nb", b"x" * 4096])
def test_a_token_that_cannot_be_one_is_refused_without_quoting_it(token: str | bytes) -> None:
    with pytest.raises(ValueError, match="the token holds a line feed or is too long"):
        CollectorClient("127.0.0.1", 1, token)


def test_the_script_itself_can_fail() -> None:
    with ScriptedIngress([auth("secret"), expect("__BATCH__:2:b")]) as ingress:
        client = Talk(ingress).client
        client.connect()
        client.send(1, b"a")
        with pytest.raises(ScriptError, match="expected b'__BATCH__:2:b', got b'__BATCH__:1:a'"):
            ingress.finish()
        client.close()
