"""SeaTunnel's Edge Agent against this source: transcripts and a model, made from its documentation.

The agent is not run here. What its documentation says of it, and where that is silent its public code: it sends one row
of its queue a line and waits for the reply; it never sends `__COMMIT__`; a row is deleted when it is RECEIVED; after a
failure the other rows it had claimed (128 at most) wait for a minute while newer ones go out. docs/interop.md says what
follows from that.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from conformance_core import CorePlayer
from conformance_listener import ListenerPlayer, ListeningRig, Peer, wait_for
from conformance_transcript import TOKEN, TRANSCRIPTS, Transcript, read

from edgesocket.compression import Compression
from edgesocket.ingress.fingerprints import FingerprintMemory
from edgesocket.packet.codec import PacketEncoder
from edgesocket.testing.sinks import ListStorage
from tests.support.rig import Rig

AGENT = read(TRANSCRIPTS / "interop/seatunnel_agent.txt")
KEY = bytes(range(32))

CLAIMED_ROWS = 128
"""Its `queue.poll-batch-size`."""
RECONNECT_CYCLES = 16
"""Its `output.max-reconnect-cycles`."""
MOST_ATTEMPTS = 16
"""Its `retry.max-attempts`; a row that was claimed so often is DEAD."""


@pytest.mark.parametrize("transcript", AGENT, ids=str)
def test_transcript_on_the_pure_conversation(transcript: Transcript) -> None:
    CorePlayer(transcript).play(transcript.events)


@pytest.mark.parametrize("transcript", AGENT, ids=str)
def test_transcript_on_the_pure_conversation_byte_by_byte(transcript: Transcript) -> None:
    CorePlayer(transcript, piece_bytes=1).play(transcript.events)


@pytest.mark.parametrize("transcript", AGENT, ids=str)
def test_transcript_on_the_real_listener(transcript: Transcript, tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", **transcript.options) as rig:
        ListenerPlayer(rig).play(transcript.events)


# ---- a model of the agent --------------------------------------------------------------------------------------------


class ConnectionEndedError(Exception):
    """What the agent takes for a failure of the connection."""


class AgentEndedError(Exception):
    """AUTH_FAILED or REJECTED: it stops and does not come back by itself."""


class Door(Protocol):
    """A connection that has authenticated."""

    def ask(self, batch_id: int, payload: bytes) -> str:
        """Send one row and wait for the reply; raises ConnectionEndedError."""
        ...

    def close(self) -> None: ...


class EdgeAgent:
    """Its queue and its loop, without files and clocks: a test says when a minute has passed."""

    def __init__(self, connect: Callable[[], Door], wait: Callable[[], object] = lambda: None) -> None:
        """Args: makes a connection; what happens while it waits for a busy source."""
        self._connect = connect
        self._wait = wait
        self._door: Door | None = None
        self._next_id = 1
        self.pending: dict[int, bytes] = {}
        self.sending: dict[int, bytes] = {}
        self.deleted: dict[int, bytes] = {}
        self.dead: dict[int, bytes] = {}
        self.attempts: dict[int, int] = {}
        self.replies: list[str] = []

    def tail(self, *payloads: bytes) -> None:
        """Put rows into the queue."""
        for payload in payloads:
            self.pending[self._next_id] = payload
            self._next_id += 1

    def loop_once(self) -> None:
        """Claim rows and send them one by one; the first failure strands the rest."""
        claimed = sorted(self.pending)[:CLAIMED_ROWS]
        for batch_id in claimed:
            self.sending[batch_id] = self.pending.pop(batch_id)
            self.attempts[batch_id] = self.attempts.get(batch_id, 0) + 1
        for batch_id in claimed:
            try:
                self._send(batch_id, self.sending[batch_id])
            except ConnectionEndedError:
                return
            self.deleted[batch_id] = self.sending.pop(batch_id)

    def minute(self) -> None:
        """Its `queue.resurrect-interval-ms` is over: stranded rows wait again, those tried too often are DEAD."""
        for batch_id, payload in self.sending.items():
            place = self.dead if self.attempts[batch_id] >= MOST_ATTEMPTS else self.pending
            place[batch_id] = payload
        self.sending = {}

    def die(self) -> None:
        """The process ends between two rows, and is started again."""
        self.hang_up()
        self.minute()

    def _send(self, batch_id: int, payload: bytes) -> None:
        for _ in range(RECONNECT_CYCLES):
            try:
                self._door = self._door or self._connect()
                self._send_until_received(self._door, batch_id, payload)
            except ConnectionEndedError:
                self.hang_up()
            else:
                return
        raise ConnectionEndedError

    def _send_until_received(self, door: Door, batch_id: int, payload: bytes) -> None:
        while True:
            reply = door.ask(batch_id, payload)
            self.replies.append(reply)
            if reply == "RECEIVED":
                return
            if reply != "RETRY" and not reply.startswith("QUEUE_FULL:"):
                raise ConnectionEndedError  # whatever else it is told counts as a failure of the connection
            self._wait()

    def hang_up(self) -> None:
        """Close the connection."""
        if self._door is not None:
            self._door.close()
            self._door = None


class TcpDoor:
    """A connection over loopback."""

    def __init__(self, rig: ListeningRig) -> None:
        self._peer = self._connect(rig)
        self._peer.send(f"__AUTH__:{TOKEN}\n".encode())
        word = self._peer.line()
        if word != "ACK":
            self._peer.close()
            raise AgentEndedError(word)

    @staticmethod
    def _connect(rig: ListeningRig) -> Peer:
        """Its waits double from 100 ms up to 30 s; here they are a hundredth of that."""
        for cycle in range(RECONNECT_CYCLES):
            try:
                return Peer(rig.port)
            except ConnectionRefusedError:
                time.sleep(min(0.3, 0.001 * 2**cycle))
        raise ConnectionEndedError

    def ask(self, batch_id: int, payload: bytes) -> str:
        try:
            reply = self._peer.ask(b"__BATCH__:%d:%b" % (batch_id, payload))
        except OSError:
            raise ConnectionEndedError from None
        if not reply:
            raise ConnectionEndedError
        return reply

    def close(self) -> None:
        self._peer.close()


MakeAgent = Callable[..., EdgeAgent]


@pytest.fixture
def agents() -> Iterator[MakeAgent]:
    """Makes agents that hang up at the end of the test."""
    made: list[EdgeAgent] = []

    def make(rig: ListeningRig, wait: Callable[[], object] = lambda: None) -> EdgeAgent:
        agent = EdgeAgent(lambda: TcpDoor(rig), wait)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        agent.hang_up()


# ---- what holds ------------------------------------------------------------------------------------------------------


def test_everything_it_sends_is_a_row_once_and_it_never_polls(tmp_path: Path, agents: MakeAgent) -> None:
    with ListeningRig(tmp_path / "job-1") as rig:
        agent = agents(rig)
        agent.tail(*[b"row %d" % n for n in range(1, 301)])
        for _ in range(3):
            agent.loop_once()
        assert (len(agent.deleted), agent.pending, agent.sending) == (300, {}, {})
        rig.take()
        assert rig.checkpoint().completed
        assert rig.rows() == [b"%d:row %d" % (n, n) for n in range(1, 301)]
        assert {word: n for word, n in rig.source.status()["replies"].items() if n} == {"RECEIVED": 300}


def test_a_connection_that_breaks_is_made_again_and_doubles_nothing(tmp_path: Path, agents: MakeAgent) -> None:
    """The port is closed for the moment that the end of the old connection takes to be seen; it tries again."""
    with ListeningRig(tmp_path / "job-1") as rig:
        agent = agents(rig)
        agent.tail(*[b"row %d" % n for n in range(1, 11)])
        agent.loop_once()
        agent.pending = dict(agent.deleted)  # it died before it had noted any reply
        agent.die()
        agent.tail(b"row 11")
        agent.loop_once()
        assert agent.pending == {}
        rig.take()
        assert rig.checkpoint().completed
        assert rig.rows() == [b"%d:row %d" % (n, n) for n in range(1, 12)]
        assert rig.source.status()["resends"] == 10


def test_while_its_old_connection_is_open_the_new_one_is_refused_by_tcp_and_never_rejected(
    tmp_path: Path, agents: MakeAgent
) -> None:
    """REJECTED would end it; a refused connection is tried again until keepalive has found the old one dead."""
    with ListeningRig(tmp_path / "job-1") as rig:
        half_open = rig.collector()
        with pytest.raises(ConnectionRefusedError):
            Peer(rig.port)
        half_open.close()
        agent = agents(rig)
        agent.tail(b"a")
        agent.loop_once()
        assert agent.deleted == {1: b"a"}


def test_a_second_agent_in_the_race_gets_the_bare_word_rejected(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1") as rig, Peer(rig.port) as late:
        wait_for(lambda: rig.listener()["waiting_peers"] == 1)
        with rig.collector():
            assert late.rest() == b"REJECTED\n"


def test_a_sealed_row_that_is_sent_again_has_another_iv_and_is_still_known(tmp_path: Path) -> None:
    """`packet-mode: PACKET` with gzip, its default there, and aes_gcm."""
    seal = PacketEncoder(Compression.GZIP, KEY, os.urandom).seal
    with ListeningRig(tmp_path / "job-1", packet_mode="PACKET", secret_key=KEY) as rig, rig.collector() as peer:
        first, again = seal(b"event"), seal(b"event")
        assert first != again
        assert peer.ask(b"__BATCH__:1:" + first) == "RECEIVED"
        assert peer.ask(b"__BATCH__:1:" + again) == "RECEIVED"
        rig.take()
        assert rig.checkpoint().completed
        assert rig.rows() == [b"1:event"]


def test_another_key_is_answered_decrypt_failed_and_the_row_is_taken_once_the_keys_agree(tmp_path: Path) -> None:
    with ListeningRig(tmp_path / "job-1", packet_mode="PACKET", secret_key=KEY) as rig, rig.collector() as peer:
        wrong = PacketEncoder(Compression.GZIP, bytes(32), os.urandom).seal(b"event")
        assert peer.ask(b"__BATCH__:1:" + wrong) == "DECRYPT_FAILED"
        right = PacketEncoder(Compression.GZIP, KEY, os.urandom).seal(b"event")
        assert peer.ask(b"__BATCH__:1:" + right) == "RECEIVED"
        rig.take()
        assert rig.checkpoint().completed
        assert rig.rows() == [b"1:event"]


def test_a_short_wait_for_room_saves_it_the_pause_of_queue_full(tmp_path: Path) -> None:
    """`queue_full_wait_ms`: it would sleep for `queue_full_retry_after_ms`, reading no file meanwhile."""
    options = {"local_queue_capacity": 1, "queue_backpressure_watermark_ratio": "1.0", "queue_full_wait_ms": 5000}
    with ListeningRig(tmp_path / "job-1", **options) as rig, rig.collector() as peer:
        assert peer.ask("__BATCH__:1:a") == "RECEIVED"
        peer.send(b"__BATCH__:2:b\n")
        while not rig.take():
            pass
        assert peer.line() == "RECEIVED"


def test_a_graceful_stop_loses_nothing_that_it_deleted(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "job-1", ListStorage()).start()
    assert [rig.offer(n, b"%d" % n) for n in (1, 2, 3)] == ["RECEIVED"] * 3
    rig.stop()
    assert rig.storage.pairs == [(1, b"1"), (2, b"2"), (3, b"3")]


# ---- what does not ---------------------------------------------------------------------------------------------------


def test_a_row_that_is_refused_for_good_costs_sixteen_connections_an_attempt(tmp_path: Path, agents: MakeAgent) -> None:
    """Here because the two `packet-mode` differ. It knows no DECODE_FAILED: to it the connection is broken."""
    with ListeningRig(tmp_path / "job-1", packet_mode="PACKET") as rig:
        agent = agents(rig)
        agent.tail(b"not a packet", b"neither")
        agent.loop_once()
        assert agent.replies == ["DECODE_FAILED"] * RECONNECT_CYCLES
        assert sorted(agent.sending) == [1, 2], "the row behind it is stranded with it"


def test_a_row_that_is_refused_for_good_ends_as_dead_and_leaves_nothing_behind(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "job-1", ListStorage(), options={"packet_mode": "PACKET"}).start()
    agent = EdgeAgent(lambda: RigDoor(rig, random.Random(0), 0.0))
    agent.tail(b"not a packet")
    for _ in range(MOST_ATTEMPTS):
        agent.loop_once()
        agent.minute()
    assert agent.dead == {1: b"not a packet"}
    assert len(agent.replies) == MOST_ATTEMPTS * RECONNECT_CYCLES
    assert rig.source.status()["holder"] is None, "an id that was refused for good holds nothing"


@pytest.mark.parametrize(("repeated_id", "kept"), [("record", True), ("resend", False)])
def test_after_a_new_database_old_ids_beyond_the_memory_are_rows_only_as_records(
    tmp_path: Path, repeated_id: str, kept: bool
) -> None:
    """`resend`, the default with a sink that is exactly once, takes new rows under old ids for resends."""
    rig = Rig(tmp_path / "job-1", ListStorage(), options={"repeated_id": repeated_id}).start()
    rig.source._service.fingerprints = FingerprintMemory(limit=2)  # 65,536 otherwise
    for n in (1, 2, 3, 4):
        assert rig.offer(n, b"old %d" % n) == "RECEIVED"
    rig.pump()
    assert rig.checkpoint().completed
    rig.reconnect()
    assert rig.offer(1, b"new 1") == "RECEIVED"
    rig.pump()
    assert rig.checkpoint().completed
    assert ((1, b"new 1") in rig.storage.pairs) is kept


# ---- any order of events ---------------------------------------------------------------------------------------------


class RigDoor:
    """A connection to a source without sockets, which breaks at times: before the line arrives, or before the reply."""

    def __init__(self, rig: Rig, dice: random.Random, losses: float, accepted: Callable[[int], object] = int) -> None:
        self._rig, self._dice, self._losses, self._accepted = rig, dice, losses, accepted
        rig.reconnect()

    def ask(self, batch_id: int, payload: bytes) -> str:
        if self._dice.random() < self._losses:
            raise ConnectionEndedError
        reply = self._rig.offer(batch_id, payload)
        if reply == "RECEIVED":
            self._accepted(batch_id)
        if self._dice.random() < self._losses:
            raise ConnectionEndedError
        return reply

    def close(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_the_rows_lost_are_those_received_since_the_last_checkpoint_and_no_row_is_doubled(
    tmp_path: Path, seed: int
) -> None:
    """Connections break, either side dies, checkpoints come and go, rows go out of order."""
    dice = random.Random(seed)
    rig = Rig(tmp_path / "job-1", ListStorage(), options={"local_queue_capacity": 16}).start()
    fresh: set[int] = set()  # accepted, and not yet in a completed checkpoint
    safe: set[int] = set()
    lost: set[int] = set()
    # With a loss at every second line some rows fail for all sixteen cycles, and strand what was claimed with them.
    agent = EdgeAgent(lambda: RigDoor(rig, dice, 0.5, fresh.add), wait=lambda: rig.pump())
    agent_tails = agent.tail

    def checkpoint() -> None:
        assert rig.checkpoint().completed
        safe.update(fresh)
        fresh.clear()

    def kill_the_source() -> None:
        nonlocal rig
        lost.update((fresh - safe) & set(agent.deleted))
        fresh.clear()
        agent.hang_up()
        rig.crash()
        rig.start()

    def stop_the_source() -> None:
        agent.hang_up()
        rig.stop()
        safe.update(fresh)
        fresh.clear()
        rig.start()

    happenings: list[Callable[[], object]] = [
        *[lambda: agent_tails(*[b"%d" % dice.getrandbits(32) for _ in range(dice.randrange(12))])] * 4,
        *[agent.loop_once] * 6,
        *[agent.minute] * 2,
        agent.die,
        *[lambda: rig.pump()] * 3,
        *[checkpoint] * 2,
        kill_the_source,
        stop_the_source,
    ]
    for _ in range(60):
        dice.choice(happenings)()
    while agent.pending or agent.sending:
        agent.minute()
        agent.loop_once()
    rig.pump()
    checkpoint()

    every = agent.deleted | agent.dead
    assert sorted(batch_id for batch_id, _ in rig.storage.pairs) == sorted(set(every) - lost - (set(agent.dead) - safe))
    assert all(every[batch_id] == payload for batch_id, payload in rig.storage.pairs)
    assert {rig.poll(batch_id) for batch_id in lost} <= {"RESEND"}
