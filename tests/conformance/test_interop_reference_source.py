"""Our client, in memory and over a spool, against a model of SeaTunnel's source, made from its documentation.

SeaTunnel itself is not run here. Where its documentation is silent, or says otherwise, the model does what its public
code does: the watermark goes up id by id; before the first checkpoint a batch that finds it at 0 moves it to the id
below; ids that came after the restored checkpoint are answered RETRY; a CR ends a line; nothing is recognised as a
resend. docs/interop.md says what follows from that.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgesocket.collector.client import CollectorClient
from edgesocket.collector.options import ClientOptions
from edgesocket.collector.spool.spool import Spool
from edgesocket.errors import AuthFailedError, RejectedError
from edgesocket.packet.codec import PacketEncoder
from edgesocket.testing.scripted_ingress import Conversation, ScriptedIngress, Step, auth, expect, expect_eof, reply
from tests.support.spool_kit import FIRST_ID, open_spool, put, segments

OPTIONS = ClientOptions(
    commit=True,
    poll_least_s=0.01,
    poll_most_s=0.02,
    reconnect_least_s=0.01,
    reconnect_most_s=0.03,
    connect_timeout_s=5.0,
    progress_timeout_s=20.0,
)
PATIENCE_S = 10.0

Record = tuple[int, bytes]


class ReferenceSource:
    """What the source knows of ids, its queue, and a sink behind it. Steps of checkpoints are called by the test.

    Attributes:
        sink: rows that will not go away any more.
        broken_line: id of a batch whose line it breaks: it waited for the rest longer than `accept_timeout_ms`.
    """

    def __init__(self, mark: int = 1000, *, packets: bool = False) -> None:
        """Args: records in the queue at which it answers QUEUE_FULL; whether payloads are (plain) packets."""
        self._mark = mark
        self._packets = packets
        self._lock = threading.Lock()
        self.sink: list[Record] = []
        self.broken_line = 0
        self.replies: Counter[str] = Counter()
        self._saved: tuple[int, int, Counter[int], set[int], list[Record]] | None = None
        self._begin_empty()

    def _begin_empty(self) -> None:
        self._committed = self._last_received = 0
        self._pending: Counter[int] = Counter()
        self._drained: set[int] = set()
        self._queue: list[Record] = []
        self._in_hand: list[Record] = []
        self._gone = threading.Event()

    # ---- the conversation ----------------------------------------------------------------------------------------

    def serve(self) -> Step:
        """Answer until the collector or the source goes away."""

        def step(talk: Conversation) -> None:
            gone = self._gone
            while (line := talk.read_line()) is not None and not gone.is_set():
                # To its reader a CR ends a line like an LF; both together are one end.
                words = [self.answer(part) for part in line.removesuffix(b"\r").split(b"\r")]
                self.replies.update(word.split(":")[0] for word in words)
                try:
                    talk.write("".join(f"{word}\n" for word in words).encode())
                except ConnectionError:
                    return

        return step

    def answer(self, line: bytes) -> str:
        """The reply to one line."""
        if not line.startswith((b"__BATCH__:", b"__COMMIT__:")):
            return "BAD_REQUEST"
        command, number, *payload = line.split(b":", 2)
        batch_id = int(number)
        with self._lock:
            if command == b"__COMMIT__":
                return self._answer_poll(batch_id)
            if batch_id == self.broken_line:
                return "BAD_REQUEST"
            if len(self._queue) >= self._mark:
                return "QUEUE_FULL:20"
            if self._committed == 0:
                self._committed = batch_id - 1
            self._last_received = max(self._last_received, batch_id)
            self._pending[batch_id] += 1
            self._drained.discard(batch_id)
            record = base64.b64decode(json.loads(payload[0])["payload"]) if self._packets else payload[0]
            self._queue.append((batch_id, record))
            return "RECEIVED"

    def _answer_poll(self, batch_id: int) -> str:
        if batch_id <= self._committed:
            return f"ACK:{self._committed}"
        if batch_id > self._last_received and batch_id not in self._drained | set(self._pending):
            return "RETRY"
        return "PENDING"

    # ---- the job -------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Everything in the queue goes to the sink, which has it in hand."""
        with self._lock:
            for batch_id, payload in self._queue:
                self._in_hand.append((batch_id, payload))
                self._pending[batch_id] -= 1
                if not self._pending[batch_id]:
                    del self._pending[batch_id]
                    self._drained.add(batch_id)
            self._queue.clear()

    def checkpoint(self, *, sink_too: bool = True) -> None:
        """A checkpoint completes; without `sink_too` the sink still has its rows in hand, and the ACK comes early."""
        with self._lock:
            while self._committed + 1 in self._drained:
                self._committed += 1
                self._drained.discard(self._committed)
            self._saved = (
                self._committed,
                self._last_received,
                self._pending.copy(),
                set(self._drained),
                list(self._queue),
            )
            if sink_too:
                self.sink += self._in_hand
                self._in_hand = []

    def restart(self, *, without_state: bool = False) -> None:
        """The worker dies, and the job starts from its last checkpoint, or anew."""
        with self._lock:
            self._gone.set()
            self._begin_empty()
            if self._saved is not None and not without_state:
                self._committed, self._last_received, pending, drained, queue = self._saved
                self._pending, self._drained, self._queue = pending.copy(), set(drained), list(queue)

    @property
    def received(self) -> int:
        """Replies RECEIVED."""
        return self.replies["RECEIVED"]


# ---- our side --------------------------------------------------------------------------------------------------------


class Sending:
    """A client that has batches, in memory or in a spool, with ids from FIRST_ID on."""

    def __init__(self, directory: Path | None, lines: list[bytes]) -> None:
        """Args: where the spool is; None: in memory."""
        self.lines = lines
        self.refused: list[tuple[int, str]] = []
        self.spool: Spool | None = None
        if directory is not None:
            self.spool = open_spool(directory)
            put(self.spool, *lines)
        self._clients: list[CollectorClient] = []

    @property
    def ids(self) -> list[int]:
        return list(range(FIRST_ID, FIRST_ID + len(self.lines)))

    @property
    def rows(self) -> list[Record]:
        return list(zip(self.ids, self.lines, strict=True))

    def client(self, ingress: ScriptedIngress) -> CollectorClient:
        """A client with everything there is."""
        client = CollectorClient(
            "127.0.0.1",
            ingress.port,
            "secret",
            OPTIONS,
            source=self.spool,
            on_refused=lambda batch_id, _, word: self.refused.append((batch_id, str(word))),
            on_notice=lambda _: None,
        )
        self._clients.append(client)
        if self.spool is None:
            for batch_id, line in self.rows:
                assert client.try_send(batch_id, line)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()
        if self.spool is not None:
            self.spool.close()


MakeSending = Callable[[int], Sending]


@pytest.fixture(params=["in memory", "spool"])
def sending(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeSending]:
    """Makes a sender of so many batches, of either kind."""
    made: list[Sending] = []

    def make(count: int) -> Sending:
        directory = tmp_path / "spool" if request.param == "spool" else None
        made.append(Sending(directory, [b"row %d" % n for n in range(count)]))
        return made[-1]

    yield make
    for one in made:
        one.close()


def step_until(client: CollectorClient, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        client.step(0.01)


def polls(source: ReferenceSource, client: CollectorClient, count: int) -> None:
    """Let the client poll some more."""
    enough = source.replies.total() + count
    step_until(client, lambda: source.replies.total() >= enough)


def connections(source: ReferenceSource, count: int) -> list[list[Step]]:
    """As many connections, served one after the other."""
    return [[auth("secret"), lambda talk: source.serve()(talk)] for _ in range(count)]


# ---- what holds ------------------------------------------------------------------------------------------------------


def test_everything_is_confirmed_by_its_watermark_and_by_nothing_less(sending: MakeSending) -> None:
    source, mine = ReferenceSource(), sending(50)
    with ScriptedIngress(*connections(source, 1)) as ingress:
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 50)
        source.drain()
        polls(source, client, 3)
        assert (client.left, client.counts.confirmed) == (50, 0), "no checkpoint has completed"
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        client.close()
    assert source.sink == mine.rows


def test_ids_from_microseconds_on_are_not_confirmed_before_a_checkpoint(sending: MakeSending) -> None:
    """Its first batch sets the watermark to the id below, which is then not 0 any more: it stays there."""
    source, mine = ReferenceSource(), sending(3)
    with ScriptedIngress(*connections(source, 2)) as ingress:
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 3)
        polls(source, client, 12)  # some of them for the lowest id
        assert client.counts.confirmed == 0
        source.restart()
        step_until(client, lambda: source.received == 6)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        client.close()
    assert source.sink == mine.rows


def test_its_retry_after_a_restart_means_lost_and_everything_unconfirmed_goes_again_in_order(
    sending: MakeSending,
) -> None:
    """To wait and poll, as its documentation has it, would be to wait for ever."""
    source, mine = ReferenceSource(), sending(10)
    source.checkpoint()
    with ScriptedIngress(*connections(source, 2)) as ingress:
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 10)
        source.drain()
        source.restart()
        step_until(client, lambda: source.received == 20)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        client.close()
    assert source.replies["RETRY"] >= 1
    assert source.sink == mine.rows
    again = ingress.requests[1][1:]
    assert again[0] == b"__COMMIT__:%d" % FIRST_ID
    assert again[1:11] == [b"__BATCH__:%d:%b" % row for row in mine.rows]


def test_queue_full_in_the_middle_of_a_window_loses_and_doubles_nothing(sending: MakeSending) -> None:
    source, mine = ReferenceSource(mark=4), sending(30)
    with ScriptedIngress(*connections(source, 1)) as ingress:
        client = mine.client(ingress)
        deadline = time.monotonic() + PATIENCE_S
        while client.counts.received < 30:
            assert time.monotonic() < deadline
            client.step(0.01)
            if source.replies["QUEUE_FULL"]:
                source.drain()
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        client.close()
    assert sorted(source.sink) == mine.rows


def test_rejected_right_after_its_own_connection_is_tried_once_more(sending: MakeSending) -> None:
    source, mine = ReferenceSource(), sending(2)
    rejected: list[Step] = [expect("__AUTH__:secret"), reply("REJECTED"), expect_eof()]
    first, last = connections(source, 2)
    with ScriptedIngress(first, rejected, last) as ingress:
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 2)
        source.restart()
        step_until(client, lambda: source.received == 4)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        client.close()
    assert source.sink == mine.rows


@pytest.mark.parametrize(("word", "error"), [("REJECTED", RejectedError), ("AUTH_FAILED", AuthFailedError)])
def test_turned_away_it_stops_with_everything_kept_and_the_next_client_delivers(
    tmp_path: Path, word: str, error: type[Exception]
) -> None:
    """The agent makes that next client by itself after half a minute. The first line may have been cut by a stall."""
    source, mine = ReferenceSource(), Sending(tmp_path / "spool", [b"a", b"b"])
    turned_away: list[Step] = [expect("__AUTH__:secret"), reply(word), expect_eof()]
    with ScriptedIngress(turned_away, *connections(source, 1)) as ingress:
        client = mine.client(ingress)
        with pytest.raises(error):
            step_until(client, lambda: False)
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 2)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        mine.close()
    assert source.sink == mine.rows


# ---- what does not ---------------------------------------------------------------------------------------------------


def test_ids_from_1_on_are_confirmed_without_a_checkpoint_and_lost(tmp_path: Path) -> None:
    """Batch 2 moves its watermark to 1, and the answer is believed. So begin elsewhere, as agent and `send` do."""
    source = ReferenceSource()
    with ScriptedIngress(*connections(source, 2)) as ingress:
        client = CollectorClient("127.0.0.1", ingress.port, "secret", OPTIONS, on_notice=lambda _: None)
        client.try_send(1, b"a")
        client.try_send(2, b"b")
        step_until(client, lambda: client.counts.confirmed == 1)
        source.restart()
        step_until(client, lambda: source.received == 3)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        client.close()
    assert source.sink == [(2, b"b")]


def test_an_ack_that_the_sink_does_not_stand_behind_is_believed(sending: MakeSending) -> None:
    """Nothing on the wire tells it from a true one: what the sink had in hand is gone with the worker."""
    source, mine = ReferenceSource(), sending(3)
    with ScriptedIngress(*connections(source, 1)) as ingress:
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 3)
        source.drain()
        source.checkpoint(sink_too=False)
        step_until(client, lambda: client.left == 0)
        client.close()
    source.restart()
    source.drain()
    assert source.sink == []


def test_what_its_checkpoint_holds_and_the_client_sends_again_is_doubled(sending: MakeSending) -> None:
    """It recognises no resend. Nothing is lost: every row is there at least once."""
    source, mine = ReferenceSource(), sending(5)
    with ScriptedIngress(*connections(source, 2)) as ingress:
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 5)
        source.checkpoint()  # all five are still queued
        source.restart()
        step_until(client, lambda: source.received == 10)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        client.close()
    assert Counter(source.sink) == Counter(dict.fromkeys(mine.rows, 2))


def damaged_spool(directory: Path) -> Sending:
    """Five records whose third was damaged after all had their ids."""
    mine = Sending(directory, [b"row 0", b"row 1"])
    assert mine.spool is not None
    put(mine.spool, b"hit by damage")
    put(mine.spool, b"row 3", b"row 4")
    assert mine.spool.read(0, 100, 1 << 20) is not None
    mine.spool.close()
    path = segments(directory)[0]
    path.write_bytes(path.read_bytes().replace(b"hit by damage", b"hot by damage"))
    mine.spool = open_spool(directory)
    return mine


KEPT = {FIRST_ID: b"row 0", FIRST_ID + 1: b"row 1", FIRST_ID + 3: b"row 3", FIRST_ID + 4: b"row 4"}


@pytest.mark.parametrize("way_on", ["fill the gap", "begin the job anew"])
def test_a_gap_in_the_ids_stops_its_watermark_and_what_is_above_stays_in_the_spool(tmp_path: Path, way_on: str) -> None:
    """Nothing is lost; but the spool fills up until somebody fills the gap by hand, or starts the job without state."""
    source, mine = ReferenceSource(), damaged_spool(tmp_path / "spool")
    with ScriptedIngress(*connections(source, 2 if way_on == "begin the job anew" else 1)) as ingress:
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 4)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.counts.confirmed == 2)
        source.checkpoint()
        polls(source, client, 15)
        assert client.left == 2
        if way_on == "fill the gap":
            assert source.answer(b"__BATCH__:%d:filler" % (FIRST_ID + 2)) == "RECEIVED"
        else:
            source.restart(without_state=True)
            step_until(client, lambda: source.received == 6)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.left == 0)
        mine.close()
    assert dict(row for row in source.sink if row[1] != b"filler") == KEPT


def test_a_line_that_it_broke_goes_to_the_dead_letters_and_its_id_is_such_a_gap(tmp_path: Path) -> None:
    """A stall in mid-line beyond its `accept_timeout_ms`: the rest of the line is answered BAD_REQUEST."""
    source, mine = ReferenceSource(), Sending(tmp_path / "spool", [b"a", b"b", b"c"])
    source.broken_line = FIRST_ID + 1
    with ScriptedIngress(*connections(source, 1)) as ingress:
        client = mine.client(ingress)
        step_until(client, lambda: client.counts.received == 2)
        source.drain()
        source.checkpoint()
        step_until(client, lambda: client.counts.confirmed == 1)
        polls(source, client, 15)
        assert client.left == 1
        client.close()
    assert mine.refused == [(FIRST_ID + 1, "BAD_REQUEST")]
    assert mine.spool is not None
    assert mine.spool.state().dead_letters == 1
    mine.close()


@pytest.mark.parametrize("packets", [False, True], ids=["RAW", "PACKET"])
def test_a_cr_inside_a_record_cuts_it_unless_it_is_in_a_packet(packets: bool) -> None:
    """To it the rest of the line is a request of its own, and there is one reply too many."""
    source = ReferenceSource(packets=packets)
    with ScriptedIngress(*connections(source, 1)) as ingress:
        client = CollectorClient(
            "127.0.0.1",
            ingress.port,
            "secret",
            OPTIONS,
            seal=PacketEncoder().seal if packets else None,
            on_notice=lambda _: None,
        )
        for batch_id, payload in enumerate([b"one", b"10%\r100%", b"three"], FIRST_ID):
            client.try_send(batch_id, payload)
        step_until(client, lambda: source.received == 3)
        client.close()
    source.drain()
    source.checkpoint()
    arrived = b"10%\r100%" if packets else b"10%"
    assert source.sink == [(FIRST_ID, b"one"), (FIRST_ID + 1, arrived), (FIRST_ID + 2, b"three")]
    assert source.replies["BAD_REQUEST"] == (0 if packets else 1)
