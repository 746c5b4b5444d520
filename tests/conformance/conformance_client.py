"""Plays transcripts on the client: a scripted ingress says the `S:` lines, and the client must send the `C:` lines.

What the client is given to send are the batches of the transcript; all else it does by itself, because the reference
says so: wait, repeat, poll, evict, stop. A batch is given to it when the script comes to its line. A poll too many is
answered PENDING, since how often to ask is the client's choice.

Actions for this level: `client ends with ERROR`, `client has FIELD N` (a count of `WindowCounts`, or `left`),
`client has watermark N`, `client had REPLY for N` (refused for good), `quiet N` (nothing comes for N ms).
What happens at the ingress (`take`, `checkpoint`) is only told by its replies here.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from conformance_transcript import Act, Event, Expect, Send, Transcript

from edgesocket.collector.client import CollectorClient
from edgesocket.collector.options import ClientOptions
from edgesocket.errors import CollectorError, ConnectionLostError
from edgesocket.testing.scripted_ingress import Conversation, ScriptedIngress, ScriptError, Step, expect_eof, quiet

FAST = ClientOptions(
    poll_least_s=0.02,
    poll_most_s=0.05,
    reconnect_least_s=0.01,
    reconnect_most_s=0.03,
    connect_timeout_s=10.0,
)
CONNECTION_ENDS = ("source closes", "connection lost", "kill -9", "host lost", "new job")
PATIENCE_S = 20.0


class ClientPlayer:
    """One client against one script."""

    def __init__(self, transcript: Transcript, patience_s: float = PATIENCE_S) -> None:
        self._who = 2 if "plays 2" in transcript.client else 1
        self._options = replace(FAST, commit="commit" in transcript.client, progress_timeout_s=patience_s)
        self._batches: list[tuple[threading.Event, int, bytes]] = []
        self._offered: set[int] = set()
        self._scripts: list[list[Step]] = [[]]
        self._ending = ""
        self._token = ""
        self._checks: list[str] = []
        self._refused: dict[int, str] = {}
        for event in transcript.events:
            self._write(event)
        if not self._scripts[-1]:
            self._scripts.pop()
        elif not self._ending:
            self._scripts[-1].append(expect_eof())

    # ---- the script ----------------------------------------------------------------------------------------------

    def _write(self, event: Event) -> None:
        script = self._scripts[-1]
        match event:
            case Send(who, _) if who == self._who:
                self._expect(event.lines)
            case Expect(who, replies) if who == self._who:
                data = "".join(f"{reply}\n" for reply in replies).encode()
                script.append(lambda talk: talk.write(data))
            case Act(words):
                if words in CONNECTION_ENDS:
                    self._scripts.append([])
                elif words.startswith("quiet "):
                    script.append(quiet(int(words.split()[1]) / 1000))
                elif words.startswith("client ends with "):
                    self._ending = words.removeprefix("client ends with ")
                elif words.startswith("client ") or words == "2 is refused":
                    self._checks.append(words)

    def _expect(self, lines: list[bytes]) -> None:
        for line in lines:
            batch = re.fullmatch(rb"__BATCH__:(\d+):(.*)", line, re.DOTALL)
            if batch and int(batch[1]) not in self._offered:
                self._offered.add(int(batch[1]))
                asked = threading.Event()
                self._batches.append((asked, int(batch[1]), batch[2]))
                self._place_to_ask().append(lambda _talk, asked=asked: asked.set())
            elif line.startswith(b"__AUTH__:"):
                self._token = line.removeprefix(b"__AUTH__:").decode()
        self._scripts[-1] += [_expect_line(line) for line in lines]

    def _place_to_ask(self) -> list[Step]:
        """Where the script gives the next batch to the client: an idle one connects again only for a new batch."""
        idle = len(self._scripts) > 1 and len(self._scripts[-1]) <= 2 and not self._options.commit
        return self._scripts[-2] if idle else self._scripts[-1]

    # ---- the client ----------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Let both talk; the script must be followed to its end, and the client end as it says."""
        with ScriptedIngress(*self._scripts) as ingress:
            client = CollectorClient(
                "127.0.0.1",
                ingress.port,
                self._token,
                self._options,
                on_refused=lambda batch_id, _, reply: self._refused.__setitem__(batch_id, str(reply)),
                on_notice=lambda _: None,
            )
            ending = ""
            try:
                self._converse(client)
            except CollectorError as error:
                ending = type(error).__name__
                assert self._token not in str(error)
            assert ending == self._ending
            for check in self._checks:
                self._check(client, ingress, check)
            client.close()

    def _converse(self, client: CollectorClient) -> None:
        client.connect()
        for asked, batch_id, payload in self._batches:
            deadline = time.monotonic() + PATIENCE_S
            while not asked.is_set():
                assert time.monotonic() < deadline, f"the script never comes to batch {batch_id}"
                client.step(0.005)
            client.send(batch_id, payload)
        client.flush()

    def _check(self, client: CollectorClient, ingress: ScriptedIngress, words: str) -> None:
        if words == "2 is refused":
            _check_refused(ingress.port, self._token, self._options)
        elif match := re.fullmatch(r"client had (\w+) for (\d+)", words):
            assert self._refused[int(match[2])] == match[1]
        elif match := re.fullmatch(r"client has (\w+) (\d+)", words):
            source: object = client if match[1] in ("left", "watermark") else client.counts
            assert getattr(source, match[1]) == int(match[2]), words
        else:
            raise AssertionError(f"no such check: {words}")


def _check_refused(port: int, token: str, options: ClientOptions) -> None:
    """Nobody listens: the client says why it gives up, after trying for a while."""
    client = CollectorClient(
        "127.0.0.1", port, token, replace(options, connect_timeout_s=0.1), on_notice=lambda _: None
    )
    try:
        client.connect()
    except ConnectionLostError as error:
        assert "Connection refused" in str(error)
        return
    raise AssertionError("the client believes that it is connected")


def _expect_line(wanted: bytes) -> Callable[[Conversation], None]:
    """Wait for this line; a poll that comes first is a poll too many."""

    def step(talk: Conversation) -> None:
        for _ in range(200):
            got = talk.read_line()
            if got == wanted:
                return
            if got is None or not got.startswith(b"__COMMIT__:"):
                break
            talk.write(b"PENDING\n")
        shown = None if got is None else got[:200]
        raise ScriptError(f"expected {wanted[:200]!r}, got {shown!r}")

    return step
