"""`/api/jobs/NAME/tail`: sample rows in flight, as server-sent events.

Samples are what `engine.tap` gives: they cost the job next to nothing, and are not all rows. A filter looks at the
rows of each sample, so a rare row may take a while to be met.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from starlette.responses import Response

from edgesocket.engine.tap import TapListener, TooManyListeners
from edgesocket.rows import Rows
from edgesocket.sinks.encoding import json_rows
from edgesocket.web.call import Call, Shared
from edgesocket.web.endpoint import EVENTS, JOB_NAME, Access, Endpoint, Fail, Parameter
from edgesocket.web.streams import EventStream, event, pause

DEFAULT_ROWS = 20
MAX_ROWS = 1_000

LOOK_S = 0.1
"""How often a stream looks whether there is a new sample."""

QUIET_S = 2.0
"""After so long without a row a comment is sent, so that a connection that is gone is noticed."""

MAX_ROW_BYTES = 64 * 1024
"""A longer row is shown as the beginning of its text."""

SHOWN_CHARACTERS = 4_000

BATCH_ID = "batch_id"
"""The name under which a filter knows the batch of a row, unless a column is called so."""

Matches = Callable[[dict[str, Any], int], bool]


def filter_of(text: str) -> Matches:
    """Whether a row is wanted: `FIELD=VALUE` compares, `FIELD~TEXT` looks for a part; a.b is field b inside a.

    Values are compared as text: `user=7` finds the number 7 and the text "7", `ok=true`, `gone=null`.

    Raises:
        ValueError: it is no filter.
    """
    signs = [at for sign in "=~" if (at := text.find(sign)) > 0]
    if not signs:
        raise ValueError(f"{text!r} is no filter: write FIELD=VALUE, or FIELD~TEXT for a part of a value")
    place = min(signs)
    name, sign, wanted = text[:place], text[place], text[place + 1 :]

    def matches(row: dict[str, Any], batch_id: int) -> bool:
        found = _field(row, name)
        if found is _ABSENT and name == BATCH_ID:
            found = batch_id
        if found is _ABSENT:
            return False
        shown = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
        return wanted in shown if sign == "~" else wanted == shown

    return matches


_ABSENT: Any = object()


def _field(row: Any, name: str) -> Any:
    """A field by its name, or by the names of the rows it is in, joined by points."""
    if not isinstance(row, dict):
        return _ABSENT
    if name in row:
        return row[name]
    outer, point, inner = name.partition(".")
    return _field(row.get(outer), inner) if point else _ABSENT


def sample_events(rows: Rows, matches: Matches | None) -> Iterator[bytes]:
    """The rows of a sample that are wanted, each as the data of an event."""
    for index, text in enumerate(json_rows(rows)):
        batch_id = rows.id_at(index)
        if matches is not None and not matches(json.loads(text), batch_id):
            continue
        if len(text) > MAX_ROW_BYTES:
            begin = json.dumps(text.decode(errors="replace")[:SHOWN_CHARACTERS], ensure_ascii=False)
            yield f'{{"batch_id": {batch_id}, "row": null, "bytes": {len(text)}, "text": {begin}}}'.encode()
        else:
            yield b'{"batch_id": %d, "row": %b}' % (batch_id, text)


async def tail(call: Call) -> Response:
    """Sample rows."""
    job, most, where = call.job(), call.values["rows"], call.values["where"]
    try:
        matches = filter_of(where) if where else None
        listener = job.job.tap.listen()
    except ValueError as error:
        raise Fail(400, str(error)) from None
    except TooManyListeners as error:
        raise Fail(503, str(error), {"Retry-After": "5"}) from None
    try:
        return EventStream(call, _events(call.shared, listener, matches, most), listener.close)
    except BaseException:
        listener.close()
        raise


async def _events(shared: Shared, listener: TapListener, matches: Matches | None, most: int) -> AsyncIterator[bytes]:
    with listener:
        yield b": rows come as they are met\n\n"
        sent, quiet_s = 0, 0.0
        while sent < most:
            sample = listener.take(0.0)
            if sample is None:
                quiet_s += LOOK_S
                if quiet_s >= QUIET_S:
                    quiet_s = 0.0
                    yield b": nothing yet\n\n"
            else:
                for data in sample_events(sample, matches):
                    yield event(data)
                    sent, quiet_s = sent + 1, 0.0
                    if sent >= most:
                        return
            if not await pause(shared, LOOK_S):
                return


TAIL_ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/jobs/{name}/tail",
        "tail",
        "Sample rows in flight, as server-sent events: data is {batch_id, row}. It ends after `rows` of them.",
        tail,
        media=(EVENTS,),
        access=Access.READ,
        parameters=(
            JOB_NAME,
            Parameter("rows", "Most rows.", "whole", default=DEFAULT_ROWS, minimum=1, maximum=MAX_ROWS),
            Parameter("where", "Only rows with FIELD=VALUE, or with TEXT in FIELD: FIELD~TEXT."),
        ),
        fails=(404, 503),
    ),
)
