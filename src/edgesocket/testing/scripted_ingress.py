"""An ingress that plays a script, for tests of collectors.

::

    with ScriptedIngress(
        [auth("secret"), expect(b"__BATCH__:1:a"), reply("QUEUE_FULL:50"), expect(b"__BATCH__:1:a"), reply("RECEIVED")],
        [auth("secret"), *answer_batches()],
    ) as ingress:
        ...  # a collector talks to ("127.0.0.1", ingress.port)
    # leaving the block waits for the end of the scripts and raises ScriptError where the collector left one

One list a connection, played in order; a connection more than there are scripts is refused. After its last step a
conversation is closed, unless the step before closed it otherwise. Real sockets on loopback, one thread.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

RECV_BYTES = 64 * 1024


class ScriptError(AssertionError):
    """The collector did not do what the script says, or did not come."""


class Conversation:
    """One accepted connection, as the steps of a script see it.

    Attributes:
        requests: every line received so far, without line ends.
    """

    def __init__(self, connection: socket.socket, timeout_s: float, requests: list[bytes]) -> None:
        self.socket = connection
        self.requests = requests
        self._timeout_s = timeout_s
        self._lines: deque[bytes] = deque()
        self._partial = bytearray()
        connection.settimeout(timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def read_line(self) -> bytes | None:
        """The next request line without its LF; None at the end of the stream (a cut line is dropped)."""
        while not self._lines:
            try:
                data = self.socket.recv(RECV_BYTES)
            except TimeoutError:
                raise ScriptError(f"no request within {self._timeout_s} s, only {self._partial[:100]!r}") from None
            except ConnectionError:
                return None
            if not data:
                return None
            self.take(data)
        line = self._lines.popleft()
        self.requests.append(line)
        return line

    def is_quiet(self, seconds: float) -> bool:
        """Whether nothing comes for that long."""
        if self._lines or self._partial:
            return False
        self.socket.settimeout(seconds)
        try:
            self.take(self.socket.recv(RECV_BYTES))
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(self._timeout_s)
        return False

    def take(self, data: bytes) -> None:
        """Add bytes a step has read by itself to what `read_line` reads."""
        first, *others = data.split(b"\n")
        self._partial += first
        for piece in others:
            self._lines.append(bytes(self._partial))
            self._partial[:] = piece

    def write(self, data: bytes) -> None:
        """Send all of `data`."""
        self.socket.sendall(data)


Step = Callable[[Conversation], object]
"""Something to do in a conversation; raises ScriptError where it does not go as it should."""

Script = Sequence[Step]


def expect(*lines: bytes | str) -> Step:
    """Wait for exactly these request lines."""
    wanted = [_encoded(line) for line in lines]

    def step(talk: Conversation) -> None:
        for line in wanted:
            got = talk.read_line()
            if got != line:
                raise ScriptError(f"expected {line[:200]!r}, got {got if got is None else got[:200]!r}")

    return step


def expect_batches(first_id: int, last_id: int) -> Step:
    """Wait for one batch line of each id of the range, rising, whatever the payloads."""

    def step(talk: Conversation) -> None:
        for batch_id in range(first_id, last_id + 1):
            got = talk.read_line()
            if got is None or not got.startswith(b"__BATCH__:%d:" % batch_id):
                raise ScriptError(f"expected batch {batch_id}, got {got if got is None else got[:200]!r}")

    return step


def reply(*lines: bytes | str) -> Step:
    """Send these reply lines in one write; the line ends are added."""
    data = b"".join(_encoded(line) + b"\n" for line in lines)
    return lambda talk: talk.write(data)


def send(data: bytes, piece_bytes: int = 0, pause_s: float = 0.002) -> Step:
    """Send bytes as they are, where `piece_bytes` is given in pieces with pauses between them."""

    def step(talk: Conversation) -> None:
        size = piece_bytes or max(1, len(data))
        for start in range(0, len(data), size):
            talk.write(data[start : start + size])
            if start + size < len(data):
                time.sleep(pause_s)

    return step


def auth(token: str) -> Step:
    """Expect the token and answer ACK."""

    def step(talk: Conversation) -> None:
        expect(f"__AUTH__:{token}")(talk)
        reply("ACK")(talk)

    return step


def pause(seconds: float) -> Step:
    """Neither read nor write for a while."""
    return lambda _talk: time.sleep(seconds)


def quiet(seconds: float) -> Step:
    """Nothing may come for that long."""

    def step(talk: Conversation) -> None:
        if not talk.is_quiet(seconds):
            raise ScriptError(f"expected nothing for {seconds} s, got {talk.read_line()!r}")

    return step


def answer(respond: Callable[[bytes], bytes | str | None]) -> Step:
    """Answer every line with what `respond` says (None: no reply) until the collector ends the connection.

    It may end it while replies are on their way.
    """

    def step(talk: Conversation) -> None:
        while (line := talk.read_line()) is not None:
            word = respond(line)
            if word is not None:
                try:
                    talk.write(_encoded(word) + b"\n")
                except ConnectionError:
                    return

    return step


def expect_eof() -> Step:
    """The collector ends the connection without another request."""

    def step(talk: Conversation) -> None:
        line = talk.read_line()
        if line is not None:
            raise ScriptError(f"expected the end, got {line[:200]!r}")

    return step


def reset() -> Step:
    """Cut the connection with RST."""

    def step(talk: Conversation) -> None:
        talk.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        talk.socket.close()

    return step


class ScriptedIngress:
    """Plays scripts on a port of its own on 127.0.0.1. Not for use by several threads."""

    def __init__(self, *scripts: Script, timeout_s: float = 10.0) -> None:
        """Listen at once; the scripts start with `start` or the `with` statement.

        Args:
            scripts: the steps of the first, second, ... connection.
            timeout_s: how long the collector may take for each thing that is expected of it.
        """
        self._scripts = scripts
        self._timeout_s = timeout_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(timeout_s)
        self._thread = threading.Thread(target=self._play, name="scripted-ingress", daemon=True)
        self._problem: BaseException | None = None
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[list[bytes]] = []
        """The lines received, one list a connection."""

    def start(self) -> None:
        """Start to play."""
        self._thread.start()

    def finish(self) -> None:
        """Wait for the scripts to end.

        Raises:
            ScriptError: a script was left, or is still waiting.
        """
        # Each step has a deadline of its own; this one only guards against a script without end.
        self._thread.join(60)
        problem, self._problem = self._problem, None  # told once
        if problem is not None:
            raise problem
        if self._thread.is_alive():
            raise ScriptError("the script does not end")

    def __enter__(self) -> ScriptedIngress:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        elif error is not None and self._problem is not None:
            error.add_note(f"the script: {self._problem}")
        self._listener.close()

    def _play(self) -> None:
        try:
            for number, script in enumerate(self._scripts, 1):
                connection = self._accept(number)
                if number == len(self._scripts):
                    self._listener.close()
                self._converse(connection, script, number)
        except BaseException as problem:
            self._problem = problem
        finally:
            self._listener.close()

    def _accept(self, number: int) -> socket.socket:
        try:
            return self._listener.accept()[0]
        except TimeoutError:
            raise ScriptError(f"connection {number} did not come within {self._timeout_s} s") from None

    def _converse(self, connection: socket.socket, script: Script, number: int) -> None:
        with connection:
            self.requests.append([])
            talk = Conversation(connection, self._timeout_s, self.requests[-1])
            for place, step in enumerate(script, 1):
                try:
                    step(talk)
                except (ScriptError, OSError) as problem:
                    raise ScriptError(f"connection {number}, step {place}: {problem}") from problem


def _encoded(line: bytes | str) -> bytes:
    return line.encode() if isinstance(line, str) else line
