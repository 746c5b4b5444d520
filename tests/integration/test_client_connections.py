"""The client when connections break, replies come in pieces, or the peer is slow."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from edgesocket.collector.client import CollectorClient, Phase
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.window import WindowLimits
from edgesocket.errors import AuthFailedError, ConnectionLostError, RejectedError
from edgesocket.testing.scripted_ingress import (
    Conversation,
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
    send,
)

FAST: dict[str, Any] = {
    "poll_least_s": 0.02,
    "poll_most_s": 0.05,
    "reconnect_least_s": 0.01,
    "reconnect_most_s": 0.05,
    "connect_timeout_s": 5.0,
    "progress_timeout_s": 5.0,
}


def connect(ingress: ScriptedIngress, notices: list[str] | None = None, **options: Any) -> CollectorClient:
    said = [] if notices is None else notices
    client = CollectorClient(
        "127.0.0.1", ingress.port, "secret", ClientOptions(**{**FAST, **options}), on_notice=said.append
    )
    client.connect()
    return client


def send_all(client: CollectorClient, last_id: int, payload: bytes = b"x") -> None:
    for batch_id in range(1, last_id + 1):
        client.send(batch_id, payload)
    client.flush()
    client.close()


@pytest.mark.parametrize("cut", range(1, len("QUEUE_FULL:20\n")))
def test_a_reply_split_at_any_byte_is_one_reply(cut: int) -> None:
    data = b"QUEUE_FULL:20\n"
    script = [
        auth("secret"),
        expect("__BATCH__:1:x"),
        send(data[:cut]),
        pause(0.01),
        send(data[cut:]),
        expect("__BATCH__:1:x"),
        reply("RECEIVED"),
    ]
    with ScriptedIngress(script) as ingress:
        client = connect(ingress)
        send_all(client, 1)
    assert (client.counts.received, client.counts.resent) == (1, 1)


def test_replies_byte_by_byte_and_with_cr_are_read() -> None:
    script = [
        expect("__AUTH__:secret"),
        send(b"ACK\r\n", 1, 0.001),
        expect_batches(1, 3),
        send(b"RECEIVED\r\nDECODE_FAILED\nRECEIVED\n", 1, 0.001),
    ]
    with ScriptedIngress(script) as ingress:
        client = connect(ingress)
        send_all(client, 3)
    assert (client.counts.received, client.counts.refused) == (2, 1)


@pytest.mark.parametrize("ending", [[], [reset()]], ids=["eof", "rst"])
@pytest.mark.parametrize("piece", [b"", b"REC", b"RECEIVED"], ids=["nothing", "a part", "all but its end"])
def test_a_connection_that_ends_inside_a_reply_was_no_reply(ending: list[Any], piece: bytes) -> None:
    script = [auth("secret"), expect("__BATCH__:1:x"), send(piece), pause(0.02), *ending]
    again = [auth("secret"), expect("__BATCH__:1:x"), reply("RECEIVED")]
    with ScriptedIngress(script, again) as ingress:
        client = connect(ingress)
        send_all(client, 1)
    assert client.counts.resent == 1


def test_unanswered_batches_go_again_in_order_before_higher_ones() -> None:
    first = [auth("secret"), expect_batches(1, 4), reply("RECEIVED"), reset()]
    second = [auth("secret"), expect_batches(2, 5), reply(*["RECEIVED"] * 4), expect_batches(6, 6), reply("RECEIVED")]
    with ScriptedIngress(first, second) as ingress:
        notices: list[str] = []
        client = connect(ingress, notices, limits=WindowLimits(batches=4))
        send_all(client, 6)
    assert client.counts.sent == 6
    assert client.counts.resent in (3, 4)  # 5 may have gone out before the end was noticed
    assert any("lost the connection" in notice for notice in notices)


def test_with_commit_a_new_connection_asks_first_and_sends_only_the_rest() -> None:
    first = [auth("secret"), expect_batches(1, 3), reply(*["RECEIVED"] * 3), expect("__COMMIT__:3"), reset()]
    second = [
        auth("secret"),
        expect("__COMMIT__:1"),
        quiet(0.05),
        reply("ACK:2"),
        expect("__BATCH__:3:x"),
        reply("RECEIVED"),
        expect("__COMMIT__:3"),
        reply("ACK:3"),
    ]
    with ScriptedIngress(first, second) as ingress:
        client = connect(ingress, commit=True, poll_least_s=0.1)
        send_all(client, 3)
    assert (client.counts.confirmed, client.counts.resent, client.counts.received) == (3, 1, 3)


@pytest.mark.parametrize("word", ["PENDING", "RESEND", "RETRY", "ACK:0"])
def test_with_commit_everything_unconfirmed_goes_again_whatever_the_first_poll_says(word: str) -> None:
    """Also for ids sent on an earlier connection a RETRY does not make the client wait."""
    first = [auth("secret"), expect_batches(1, 2), reply("RECEIVED"), reset()]
    second = [
        auth("secret"),
        expect("__COMMIT__:1"),
        reply(word),
        expect_batches(1, 2),
        reply(*["RECEIVED"] * 2),
        expect("__COMMIT__:2"),
        reply("ACK:2"),
    ]
    with ScriptedIngress(first, second) as ingress:
        client = connect(ingress, commit=True, poll_least_s=0.1)
        send_all(client, 2)
    assert client.counts.confirmed == 2


def test_with_commit_a_new_connection_asks_for_the_lowest_it_has_also_when_nothing_was_received() -> None:
    first = [auth("secret"), expect_batches(1, 1), reset()]
    second = [
        auth("secret"),
        expect("__COMMIT__:1"),
        reply("ACK:9"),  # confirmed or not: no RECEIVED was read, so it goes again
        expect_batches(1, 1),
        reply("RECEIVED"),
        expect("__COMMIT__:1"),
        reply("ACK:9"),
    ]
    with ScriptedIngress(first, second) as ingress:
        client = connect(ingress, commit=True)
        send_all(client, 1)
    assert (client.counts.received, client.counts.confirmed) == (1, 1)


@pytest.mark.parametrize("line", ["", "ACK", "RECEIVEDX", "received", "PENDING", "\x00", "QUEUE_FULL", "QUEUE_FULL:x"])
def test_what_is_no_reply_counts_as_not_received_and_is_told_once(line: str) -> None:
    strange = [auth("secret"), expect("__BATCH__:1:x"), reply(line), expect_eof()]
    good = [auth("secret"), expect("__BATCH__:1:x"), reply("RECEIVED")]
    with ScriptedIngress(strange, strange, good) as ingress:
        notices: list[str] = []
        client = connect(ingress, notices)
        send_all(client, 1)
    assert (client.counts.received, client.counts.resent) == (1, 2)
    assert sum("told once" in notice for notice in notices) == 1


def test_replies_after_one_that_is_none_do_not_count() -> None:
    strange = [auth("secret"), expect_batches(1, 2), reply("WHAT", "RECEIVED"), expect_eof()]
    good = [auth("secret"), expect_batches(1, 2), reply("RECEIVED", "RECEIVED")]
    with ScriptedIngress(strange, good) as ingress:
        client = connect(ingress)
        client.try_send(1, b"x")
        client.try_send(2, b"x")
        client.flush()
        client.close()
    assert client.counts.resent == 2


def test_a_reply_nobody_asked_for_ends_the_connection() -> None:
    with ScriptedIngress([auth("secret"), pause(0.1), reply("RECEIVED"), expect_eof()], [auth("secret")]) as ingress:
        client = connect(ingress)
        while client.phase is not Phase.OFFLINE:
            client.step(1.0)
        client.connect()
        client.close()


def test_an_endless_line_is_no_reply_and_is_not_kept() -> None:
    first = [auth("secret"), expect_batches(1, 1), send(b"A" * 1_000_000 + b"\n"), expect_eof()]
    second = [auth("secret"), expect_batches(1, 1), reply("RECEIVED")]
    with ScriptedIngress(first, second) as ingress:
        send_all(connect(ingress), 1)


def test_an_ingress_that_drops_every_connection_is_not_flooded() -> None:
    """Without progress the waits grow although each connection is accepted and authenticated."""
    drop = [auth("secret"), expect_batches(1, 1)]
    with ScriptedIngress(*[drop] * 4, [auth("secret"), expect_batches(1, 1), reply("RECEIVED")]) as ingress:
        client = connect(ingress, reconnect_least_s=0.1, reconnect_most_s=10.0)
        client._sender._reconnects._random = lambda: 1.0
        began = time.monotonic()
        send_all(client, 1)
        assert time.monotonic() - began > 0.1 + 0.2 + 0.4 + 0.8


def test_it_gives_up_after_the_time_without_progress() -> None:
    with ScriptedIngress(
        [auth("secret"), expect_batches(1, 1), reply("RECEIVED"), expect_batches(2, 2), expect_eof()]
    ) as ingress:
        client = connect(ingress, progress_timeout_s=0.3)
        client.send(1, b"x")
        client.flush()
        client.send(2, b"x")
        with pytest.raises(ConnectionLostError, match=r"no progress for 0\.3 s: 1 batches are not received"):
            client.flush()
        assert client.left == 1


def test_it_gives_up_when_the_ingress_does_not_come_back() -> None:
    with ScriptedIngress([auth("secret"), expect_batches(1, 1)]) as ingress:
        client = connect(ingress, progress_timeout_s=0.3)
        client.send(1, b"x")
        with pytest.raises(ConnectionLostError, match=r"1 batches are not received \(Connection refused\)"):
            client.flush()


def test_waiting_for_confirmation_has_the_same_deadline() -> None:
    script = [auth("secret"), answer(lambda line: "RECEIVED" if line.startswith(b"__B") else "PENDING")]
    with ScriptedIngress(script) as ingress:
        client = connect(ingress, commit=True, progress_timeout_s=0.3)
        client.send(1, b"x")
        with pytest.raises(ConnectionLostError, match="1 batches are not confirmed"):
            client.flush()


def test_idle_time_is_not_lack_of_progress() -> None:
    with ScriptedIngress([auth("secret"), expect_batches(1, 1), reply("RECEIVED")]) as ingress:
        client = connect(ingress, progress_timeout_s=0.2)
        time.sleep(0.4)
        send_all(client, 1)


def test_a_batch_that_takes_long_to_write_is_progress() -> None:
    def slowly(talk: Conversation) -> None:
        talk.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        for _ in range(8):
            time.sleep(0.4)
            taken = 0
            while taken < 3 << 19:
                data = talk.socket.recv((3 << 19) - taken)
                talk.take(data)
                taken += len(data)
        talk.read_line()
        talk.write(b"RECEIVED\n")

    with ScriptedIngress([auth("secret"), slowly]) as ingress:
        client = connect(ingress, progress_timeout_s=2.0)
        began = time.monotonic()
        send_all(client, 1, b"s" * (12 << 20))
        assert time.monotonic() - began > 3.0
    assert client.counts.received == 1


def test_a_large_batch_refused_for_ever_is_lack_of_progress() -> None:
    with ScriptedIngress([auth("secret"), answer(lambda _: "QUEUE_FULL:10")]) as ingress:
        client = connect(ingress, progress_timeout_s=0.5)
        client.send(1, b"x" * (12 << 20))
        with pytest.raises(ConnectionLostError, match="no progress"):
            client.flush()


def test_queue_full_for_ever_is_lack_of_progress() -> None:
    with ScriptedIngress([auth("secret"), answer(lambda _: "QUEUE_FULL:10")]) as ingress:
        client = connect(ingress, progress_timeout_s=0.3)
        client.send(1, b"x")
        with pytest.raises(ConnectionLostError, match="no progress"):
            client.flush()


def test_a_reconnect_whose_token_is_refused_ends_the_client() -> None:
    first = [auth("secret"), expect_batches(1, 1)]
    second = [expect("__AUTH__:secret"), reply("AUTH_FAILED"), expect_eof()]
    with ScriptedIngress(first, second) as ingress:
        client = connect(ingress)
        client.send(1, b"x")
        with pytest.raises(AuthFailedError):
            client.flush()
        assert client.left == 1


def test_rejected_right_after_a_connection_of_its_own_is_tried_once_more() -> None:
    """The ingress may still have taken the lost connection for the one collector."""
    first = [auth("secret"), expect_batches(1, 1)]
    rejected = [expect("__AUTH__:secret"), reply("REJECTED"), expect_eof()]
    good = [auth("secret"), expect_batches(1, 1), reply("RECEIVED")]
    with ScriptedIngress(first, rejected, good) as ingress:
        notices: list[str] = []
        client = connect(ingress, notices)
        send_all(client, 1)
    assert any("which may be this one's last connection" in notice for notice in notices)


def test_rejected_twice_in_a_row_ends_the_client() -> None:
    first = [auth("secret"), expect_batches(1, 1)]
    rejected = [expect("__AUTH__:secret"), reply("REJECTED"), expect_eof()]
    with ScriptedIngress(first, rejected, rejected) as ingress:
        client = connect(ingress)
        client.send(1, b"x")
        with pytest.raises(RejectedError):
            client.flush()
        assert client.left == 1


def test_rejected_long_after_its_own_last_connection_ends_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgesocket.collector.sender.HALF_OPEN_S", -1.0)
    first = [auth("secret"), expect_batches(1, 1)]
    with ScriptedIngress(first, [expect("__AUTH__:secret"), reply("REJECTED"), expect_eof()]) as ingress:
        client = connect(ingress)
        client.send(1, b"x")
        with pytest.raises(RejectedError):
            client.flush()


def test_while_idle_a_lost_connection_is_only_made_again_for_the_next_batch() -> None:
    with ScriptedIngress([auth("secret")], [auth("secret"), expect_batches(1, 1), reply("RECEIVED")]) as ingress:
        notices: list[str] = []
        client = connect(ingress, notices)
        while client.phase is not Phase.OFFLINE:
            client.step(1.0)
        client.step(0.1)
        assert len(ingress.requests) == 1
        assert notices == []
        send_all(client, 1)


def test_an_ingress_that_accepts_and_stays_silent_is_left() -> None:
    silent = [expect("__AUTH__:secret"), expect_eof()]
    with ScriptedIngress(silent) as ingress:
        notices: list[str] = []
        with pytest.raises(ConnectionLostError, match="no answer"):
            connect(ingress, notices, connect_timeout_s=0.2)


def test_a_last_try_that_nothing_answers_does_not_hide_what_the_one_before_said() -> None:
    silent = [expect("__AUTH__:secret"), expect_eof()]
    with (
        ScriptedIngress([expect("__AUTH__:secret")], silent) as ingress,
        pytest.raises(ConnectionLostError, match=r"no answer; before that: the ingress closed"),
    ):
        connect(ingress, [], connect_timeout_s=0.5)


def test_a_peer_that_reads_slowly_slows_the_sender_and_loses_nothing() -> None:
    def slowly(talk: Conversation) -> None:
        for _ in range(20):
            time.sleep(0.01)
            talk.write(b"RECEIVED\n" * len([talk.read_line() for _ in range(10)]))

    with ScriptedIngress([auth("secret"), slowly]) as ingress:
        client = connect(ingress)
        send_all(client, 200, b"y" * 50_000)
    assert client.counts.received == 200
    assert [len(line) for line in ingress.requests[0][1:]] == [
        len(b"__BATCH__:%d:" % n) + 50_000 for n in range(1, 201)
    ]


def test_no_deadlock_with_a_peer_that_does_not_read_before_its_replies_are_taken() -> None:
    """Both directions are full: replies that no buffer holds one way, large batches the other way."""
    small, large = 30_000, 2

    def stubborn(talk: Conversation) -> None:
        talk.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        for _ in range(small):
            talk.read_line()
        talk.write(b"RECEIVED\n" * small)  # 270 KB; until all of it is taken nothing is read
        for _ in range(large):
            talk.read_line()
        talk.write(b"RECEIVED\n" * large)

    with ScriptedIngress([auth("secret"), stubborn]) as ingress:
        client = connect(ingress, progress_timeout_s=60.0, limits=WindowLimits(1 << 20, 1 << 30, 1 << 30))
        for batch_id in range(1, small + 1):
            assert client.try_send(batch_id, b"")
        for batch_id in range(small + 1, small + large + 1):
            assert client.try_send(batch_id, b"z" * (8 << 20))
        client.flush()
        client.close()
    assert (client.counts.received, client.counts.resent) == (small + large, 0)


def test_connections_that_break_after_progress_are_made_again_soon() -> None:
    """Progress makes the next wait short; without that the eighth would be 128 times as long."""
    scripts = [[auth("secret"), expect_batches(n, n), reply("RECEIVED")] for n in range(1, 10)]
    with ScriptedIngress(*scripts) as ingress:
        client = connect(ingress, reconnect_least_s=0.03, reconnect_most_s=30.0, limits=WindowLimits(batches=1))
        client._sender._reconnects._random = lambda: 1.0
        began = time.monotonic()
        for batch_id in range(1, 10):
            client.send(batch_id, b"x")
            client.flush()
            if batch_id < 9:
                while client.phase is not Phase.OFFLINE:
                    client.step(1.0)
        assert time.monotonic() - began < 3.0
        client.close()


def test_one_batch_of_many_megabytes_goes_through() -> None:
    one_by_one = [expect_batches(1, 1), reply("RECEIVED"), expect_batches(2, 2), reply("RECEIVED")]
    with ScriptedIngress([auth("secret"), *one_by_one]) as ingress:
        client = connect(ingress)
        send_all(client, 2, b"w" * (8 << 20))
    assert [len(line) for line in ingress.requests[0][1:]] == [len(b"__BATCH__:1:") + (8 << 20)] * 2


def test_no_more_than_the_window_is_on_its_way() -> None:
    script = [auth("secret"), expect_batches(1, 8), quiet(0.1), reply("RECEIVED"), expect_batches(9, 9), quiet(0.05)]
    with ScriptedIngress([*script, reply(*["RECEIVED"] * 8), expect_batches(10, 10), reply("RECEIVED")]) as ingress:
        send_all(connect(ingress, limits=WindowLimits(batches=8)), 10)


def test_retained_batches_stop_the_sender_until_they_are_confirmed() -> None:
    limits = WindowLimits(batches=10, retain_bytes=2 * (256 + 100))
    script = [
        auth("secret"),
        expect_batches(1, 2),
        reply("RECEIVED", "RECEIVED"),
        expect("__COMMIT__:2"),
        quiet(0.1),
        reply("ACK:1"),
        expect_batches(3, 3),
    ]
    with ScriptedIngress(script) as ingress:
        client = connect(ingress, commit=True, limits=limits, poll_least_s=0.1)
        for batch_id in (1, 2, 3):
            client.send(batch_id, b"x" * 100)
        ingress.finish()
        client.close()


def test_leaving_the_block_by_an_error_does_not_wait() -> None:
    with ScriptedIngress([auth("secret"), expect_batches(1, 1), expect_eof()]) as ingress:
        client = CollectorClient("127.0.0.1", ingress.port, "secret", ClientOptions(**FAST))
        with pytest.raises(KeyError), client:
            client.send(1, b"x")
            raise KeyError
        assert client.left == 1
        with pytest.raises(ConnectionLostError, match="closed"):
            client.send(2, b"x")


def test_a_name_with_several_addresses_is_tried_address_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """localhost is often ::1 first, where nothing may listen."""
    with ScriptedIngress([auth("secret"), expect_batches(1, 1), reply("RECEIVED")]) as ingress:
        with socket.create_server(("127.0.0.2", 0)) as taken:
            dead = taken.getsockname()
        real = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", ingress.port))
        addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", dead), real]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: list(addresses))
        send_all(connect(ingress), 1)


def test_waiting_can_be_ended_from_outside() -> None:
    wake_read, wake_write = socket.socketpair()
    with wake_read, wake_write, ScriptedIngress([expect("__AUTH__:secret"), expect_eof()]) as ingress:
        client = CollectorClient("127.0.0.1", ingress.port, "secret", ClientOptions(**FAST))
        threading.Timer(0.05, lambda: wake_write.send(b"!")).start()
        assert client.connect([wake_read.fileno()]) is False
        assert client.step(5.0, [wake_read.fileno()]) == {wake_read.fileno()}
        client.close()


def test_flush_can_be_told_how_long() -> None:
    script = [auth("secret"), answer(lambda line: "RECEIVED" if line.startswith(b"__B") else "PENDING")]
    with ScriptedIngress(script) as ingress:
        client = connect(ingress, commit=True)
        client.send(1, b"x")
        assert client.flush(2.0, received_only=True)
        assert not client.flush(0.05)
        client.close()


def test_neither_token_nor_payload_is_in_a_notice() -> None:
    scripts = [[auth("secret"), expect_batches(1, 1), reply("WHAT"), expect_eof()] for _ in range(2)]
    with ScriptedIngress(*scripts, [expect("__AUTH__:secret"), reply("AUTH_FAILED")]) as ingress:
        notices: list[str] = []
        client = connect(ingress, notices)
        client.send(1, b"payload")
        with pytest.raises(AuthFailedError) as caught:
            client.flush()
    assert notices
    for text in [*notices, str(caught.value), repr(client)]:
        assert "secret" not in text.replace("secret key", "")
        assert "payload" not in text
