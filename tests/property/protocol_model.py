"""What a request stream means, written a second time and in another way than the product does it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from edgesocket.protocol.commands import Batch, Commit, Invalid
from edgesocket.protocol.session import ServerEvent, ServerSession
from edgesocket.records import RecordBlock

Meaning = tuple[str, object, object]

AUTH_LINE = b"__AUTH__:secret\n"

_BATCH = re.compile(rb"__BATCH__:([^:]*):(.*)", re.DOTALL)
_COMMIT = re.compile(rb"__COMMIT__:(.*)", re.DOTALL)
_ID = re.compile(rb"0*([1-9][0-9]{0,18})")


def meaning_of_line(line: bytes, max_line_bytes: int) -> Meaning:
    if len(line) > max_line_bytes:
        return ("invalid", "BAD_REQUEST", None)
    batch, commit = _BATCH.fullmatch(line), _COMMIT.fullmatch(line)
    if batch is None and commit is None:
        return ("invalid", "BAD_REQUEST", None)
    number = _ID.fullmatch((batch or commit)[1])  # type: ignore[index]
    if number is None or int(number[1]) > 2**63 - 1:
        return ("invalid", "INVALID_PARAM", None)
    return ("record", int(number[1]), batch[2]) if batch else ("commit", int(number[1]), None)


def meaning_of(stream: bytes, max_line_bytes: int = 10**9) -> list[Meaning]:
    """The meaning of every complete line of `stream`."""
    lines = [re.sub(rb"\r\Z", b"", line) for line in stream.split(b"\n")[:-1]]
    return [meaning_of_line(line, max_line_bytes) for line in lines]


def flatten(events: Iterable[ServerEvent], check_utf8: bool = True) -> list[Meaning]:
    """Events line by line. Also checks what holds of every event: blocks are UTF-8, single batches are not."""
    flat: list[Meaning] = []
    for event in events:
        if isinstance(event, RecordBlock):
            assert event.count >= 1
            payloads = event.payloads()
            assert len(payloads) == event.count
            assert event.payload_bytes == sum(map(len, payloads))
            for index, payload in enumerate(payloads):
                assert not check_utf8 or payload.decode("utf-8") is not None
                flat.append(("record", event.id_at(index), payload))
        elif isinstance(event, Batch):
            assert check_utf8 and not is_text(event.payload)
            flat.append(("record", event.batch_id, event.payload))
        elif isinstance(event, Commit):
            flat.append(("commit", event.batch_id, None))
        elif isinstance(event, Invalid):
            flat.append(("invalid", str(event.reply), None))
        else:
            raise AssertionError(event)
    return flat


def is_text(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def feed(session: ServerSession, data: bytes) -> list[ServerEvent]:
    """Give `data` to a session as a socket would: never more than there is room for."""
    events: list[ServerEvent] = []
    while data:
        room = session.writable()
        assert len(room) > 0
        piece, data = data[: len(room)], data[len(room) :]
        room[: len(piece)] = piece
        events += session.received(len(piece))
    return events


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """`data` in pieces, cut at `places`."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]
