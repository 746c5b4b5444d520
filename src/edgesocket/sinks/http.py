"""The sink that posts rows to an HTTP server as JSON: at least once; a row that is accepted may come again.

A row is accepted when the server answers 2xx, and a checkpoint completes when that has happened to every row before
it. A row can come twice: after a crash, and where an answer was lost, because then nobody knows whether the server
took the request. Rows come in order, one request at a time.

What other answers mean. 408, 429, 5xx and no answer at all may heal: the request is repeated `retry` times with a
growing pause that is drawn at random, or the one the server asks for with Retry-After. Then the write fails and the
rows wait with the engine, which tries again for as long as the job allows. Every other answer, a redirect too, is for
good: the row is refused. Nothing is skipped without a word.

A write that fails remembers how far it came. The engine gives the same rows again, the same object, and the write
goes on behind the rows that were accepted. What is in the array that is being filled waits for the next checkpoint.
"""

from __future__ import annotations

import json
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from edgesocket.components.sink import CommitRole, Manifest, RejectedRow, SinkContext
from edgesocket.errors import ComponentError
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_rows
from edgesocket.sinks.http_post import Answer, NoAnswerError, Poster, Verdict

PATIENCE_S = 10.0
"""A call that has gone on for this long without an accepted request begins no other attempt and does not wait for one.

It bounds how long the pump can be held up by a server that is ill: this, and the timeouts of one request.
"""

MAX_ARRAY_BYTES = 8 * 1024 * 1024
"""An array of this many bytes is sent although it has room for more rows."""

ABOUT_THE_ROWS = (400, 409, 413, 422)
"""Statuses by which a server may mean one row of an array; the others are about the request as such."""


class _Row(NamedTuple):
    """One row on its way. `is_payload`: it is a payload in one column, and not a typed row."""

    batch_id: int
    text: bytes
    is_payload: bool


class HttpSink:
    """Posts each row, or arrays of them.

    Guarantees: at least once, in order; rows are out when `prepare` returns. A call ends after PATIENCE_S and the
    timeouts of one request, unless requests are accepted meanwhile. Memory: the rows of one write and one array.
    One thread.
    """

    commit_role = CommitRole.NONE

    def __init__(
        self,
        *,
        url: str,
        headers: Mapping[str, str] | None = None,
        retry: int = 3,
        retry_backoff_multiplier_ms: int = 100,
        retry_backoff_max_ms: int = 10_000,
        connect_timeout_ms: int = 12_000,
        socket_timeout_ms: int = 60_000,
        array_mode: bool = False,
        batch_size: int = 1,
        request_interval_ms: int = 0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """Take checked options (see `config.plugins.http`); nothing is connected.

        Args:
            url: where to post to.
            headers: of every request.
            retry: repetitions inside one write, 0 or more.
            retry_backoff_multiplier_ms: bound of the first pause; it doubles with every failure in a row.
            retry_backoff_max_ms: bound of every pause.
            connect_timeout_ms: for a connection to one address.
            socket_timeout_ms: for the head of an answer, and again for its body.
            array_mode: whether a body is an array of rows.
            batch_size: rows in one array.
            request_interval_ms: pause after each answered request.
            sleep: waits so many seconds.
            clock: monotonic seconds.
            draw: a number from 0 to 1, for the pauses.
        """
        self._poster = Poster(url, headers or {}, connect_timeout_ms / 1000, socket_timeout_ms / 1000, clock=clock)
        self._retry = retry
        self._first_pause_s = retry_backoff_multiplier_ms / 1000
        self._longest_pause_s = retry_backoff_max_ms / 1000
        self._array_mode = array_mode
        self._rows_a_request = batch_size if array_mode else 1
        self._interval_s = request_interval_ms / 1000
        self._sleep, self._clock, self._draw = sleep, clock, draw
        self._context: SinkContext | None = None
        self._unfinished: Rows | None = None  # what the last write was given, where it failed
        self._texts: list[bytes] = []  # its rows
        self._taken = 0  # how many of them are in one of the three below, or done
        self._filling: list[_Row] = []  # the next array
        self._filling_bytes = 0
        self._sending: list[list[_Row]] = []  # arrays to send, the first one last
        self._refused: deque[tuple[_Row, str]] = deque()  # rows to reject, with the reason
        self._failures = 0  # in a row, over all writes
        self._due = 0.0  # no attempt before this moment
        self._last_failure = ""
        self._give_up = 0.0  # the end of this call's patience

    def open(self, context: SinkContext) -> None:
        """Nothing is asked of the server: where it is down, rows wait."""
        self._context = context

    def write(self, rows: Rows) -> None:
        """Send the rows; the last ones of them may wait for their array to be full.

        Raises:
            ComponentError: the server does not take them for now. The same `rows` are continued where they stopped.
            BadRecordError: a row is refused for good, and the job says that this ends it.
        """
        self._give_up = self._clock() + PATIENCE_S
        self._settle()
        if rows is not self._unfinished:
            self._unfinished, self._texts, self._taken = rows, json_rows(rows), 0
        while self._taken < rows.count:
            self._fill(rows)
            if self._is_full():
                self._send_filled()
        self._unfinished, self._texts = None, []

    def prepare(self, checkpoint: int) -> Manifest:  # noqa: ARG002  the contract
        """Send what waits, and see that all of it is accepted.

        Raises:
            ComponentError: the server does not take it for now; it stays here.
            BadRecordError: see `write`.
        """
        self.flush()
        return {}

    def flush(self) -> None:
        """Send what waits for a full array. Raises as `prepare`."""
        self._give_up = self._clock() + PATIENCE_S
        self._settle()
        if self._filling:
            self._send_filled()

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Nothing to publish: a row is visible when the server takes it."""

    def close(self) -> None:
        """Close the connection. Rows that wait for an array are not in a checkpoint: they come again."""
        self._poster.close()

    # ---- arrays --------------------------------------------------------------------------------------------------

    def _fill(self, rows: Rows) -> None:
        """Take the next row into the array that is being filled."""
        text = self._texts[self._taken]
        self._filling.append(_Row(rows.id_at(self._taken), text, rows.records is not None))
        self._filling_bytes += len(text) + 1
        self._taken += 1

    def _is_full(self) -> bool:
        return len(self._filling) >= self._rows_a_request or self._filling_bytes >= MAX_ARRAY_BYTES

    def _send_filled(self) -> None:
        self._sending.append(self._filling)
        self._filling, self._filling_bytes = [], 0
        self._settle()

    def _settle(self) -> None:
        """Send every array and reject every row that is refused. What raises loses nothing: call it again."""
        while self._refused or self._sending:
            if self._refused:
                self._reject(*self._refused[0])
                self._refused.popleft()
                continue
            array = self._sending[-1]
            answer = self._deliver(array)
            self._sending.pop()
            if answer.verdict is Verdict.ACCEPTED:
                self._give_up = self._clock() + PATIENCE_S
            elif len(array) > 1 and answer.status in ABOUT_THE_ROWS:
                half = len(array) // 2
                self._sending += [array[half:], array[:half]]
            else:
                reason = f"{self._poster.shown_url} answered {answer}"
                self._refused.extend((row, reason) for row in array)

    def _reject(self, row: _Row, reason: str) -> None:
        assert self._context is not None, "open first"
        text = row.text
        if row.is_payload:
            text = json.loads(text)[self._context.schema.names[0]].encode()
        self._context.reject(RejectedRow(row.batch_id, reason, text))

    # ---- requests ------------------------------------------------------------------------------------------------

    def _deliver(self, array: list[_Row]) -> Answer:
        """Post one array until it is accepted or refused.

        Raises:
            ComponentError: neither within this call's attempts and patience.
        """
        texts = [row.text for row in array]
        body = b"[" + b",".join(texts) + b"]" if self._array_mode else texts[0]
        attempts = 0
        while True:
            self._wait_until_due()
            try:
                answer = self._poster.post(body)
            except NoAnswerError as error:
                self._note_failure(f"no answer: {error}", None)
            else:
                if answer.verdict is not Verdict.MAY_HEAL:
                    self._failures = 0
                    if self._interval_s:
                        self._sleep(self._interval_s)
                    return answer
                self._note_failure(f"it answered {answer}", answer.retry_after_s)
            attempts += 1
            if attempts > self._retry:
                raise self._failed(f"{attempts} attempts")

    def _note_failure(self, failure: str, retry_after_s: float | None) -> None:
        """Remember what happened and when to try again."""
        bound = min(self._first_pause_s * 2 ** min(self._failures, 30), self._longest_pause_s)
        pause = self._draw() * bound if retry_after_s is None else retry_after_s
        self._failures += 1
        self._due = self._clock() + pause
        self._last_failure = failure

    def _wait_until_due(self) -> None:
        now = self._clock()
        if not self._failures:
            return
        if max(self._due, now) > self._give_up:
            raise self._failed(f"the next attempt is due in {max(self._due - now, 0):.1f} s")
        if self._due > now:
            self._sleep(self._due - now)

    def _failed(self, why_now: str) -> ComponentError:
        return ComponentError(
            f"Http sink: {self._poster.shown_url} does not take rows: {self._last_failure} ({why_now})"
        )
