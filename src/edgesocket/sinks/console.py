"""The sink that prints rows on standard output: at least once, where delivered means handed to the terminal or pipe.

So an ACK says "printed", not "kept": what reads the pipe may still lose it. Rows written after the last completed
checkpoint are printed again after a restart.

`format = text` prints payloads as they are, and the values of rows with a comma and a blank between them; on a terminal
their control characters take effect. `format = json` prints objects, in which they are escaped.
"""

from __future__ import annotations

import errno
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.errors import ComponentError, ConfigError, ConfigProblem
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_lines, text_lines

_FORMATS = ("text", "json")
_SEPARATOR = ", "
"""Between the values of a row in format text."""


class ConsoleSink:
    """Prints one line a row, with one write a block.

    Guarantees: at least once; not transactional; a write blocks as long as the reader of the pipe does; one thread.
    """

    commit_role = CommitRole.NONE

    def __init__(
        self,
        *,
        format: str = "text",
        log_print_data: bool = True,
        log_print_delay_ms: int = 0,
        stream: BinaryIO | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Check the options.

        Args:
            format: `text` prints payloads, or values joined by commas; `json` prints objects. Any letter case.
            log_print_data: False takes rows without printing them.
            log_print_delay_ms: pause after each block printed, 0 or more. A pause a row would hold up the
                checkpoint behind a large block.
            stream: where to print instead of standard output.
            sleep: waits so many seconds.

        Raises:
            ConfigError: an option is out of range; names all that are.
        """
        problems = []
        if format.lower() not in _FORMATS:
            problems.append(ConfigProblem("format", f'"{format}" is not a format', f"one of {', '.join(_FORMATS)}"))
        if log_print_delay_ms < 0:
            problems.append(ConfigProblem("log_print_delay_ms", f"{log_print_delay_ms} is less than 0"))
        if problems:
            raise ConfigError(problems)
        self._format = format.lower()
        self._prints = log_print_data
        self._delay_s = log_print_delay_ms / 1000
        self._stream = stream
        self._sleep = sleep
        self._raw: Any = None

    def open(self, context: SinkContext) -> None:  # noqa: ARG002  any rows will do
        """Take over standard output below its buffer, so that no line can wait there unseen.

        Raises:
            ComponentError: there is no standard output, or it is broken.
        """
        stream = self._stream
        if stream is None:
            stream = getattr(sys.stdout, "buffer", None)
            if stream is None:
                raise ComponentError("Console sink: this process has no standard output", retryable=False)
            with _explained():
                sys.stdout.flush()
        with _explained():
            stream.flush()
        self._raw = getattr(stream, "raw", stream)

    def write(self, rows: Rows) -> None:
        """Print the rows.

        Raises:
            ComponentError: printing failed; some of the lines may be out.
        """
        if not self._prints:
            return
        lines = json_lines(rows) if self._format == "json" else text_lines(rows, _SEPARATOR)
        with _explained():
            self._print(memoryview(lines))
        if self._delay_s:
            self._sleep(self._delay_s)

    def prepare(self, checkpoint: int) -> Manifest:  # noqa: ARG002  the contract
        """See that everything written is out and that somebody still reads it.

        Raises:
            ComponentError: the output is broken.
        """
        with _explained():
            self._raw.flush()
            self._check_reader()
        return {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Nothing to publish: a line is visible when it is printed."""

    def close(self) -> None:
        """Standard output is not ours to close."""

    def _print(self, rest: memoryview) -> None:
        while rest:
            taken = self._raw.write(rest)
            if taken is None:  # somebody made our output non-blocking, and it is full
                poll = select.poll()
                poll.register(self._raw, select.POLLOUT)
                poll.poll()
            else:
                rest = rest[taken:]

    def _check_reader(self) -> None:
        try:
            descriptor = self._raw.fileno()
        except OSError:  # not a file: a stream in memory has no reader that could go away
            return
        poll = select.poll()
        poll.register(descriptor, 0)  # asks for nothing, so only a broken end is reported
        if poll.poll(0):
            raise BrokenPipeError(errno.EPIPE, "nobody reads it any more")


@contextmanager
def _explained() -> Iterator[None]:
    """Turn what printing may raise into a ComponentError."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: the stream was closed
        gone = isinstance(error, (BrokenPipeError, ValueError))
        raise ComponentError(f"Console sink: cannot print: {error}", retryable=not gone) from error
