"""Server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from edgesocket.web.call import MAX_STREAMS, Call, Shared
from edgesocket.web.endpoint import EVENTS, Fail

HEADERS = {"X-Accel-Buffering": "no"}
"""A proxy is not to gather events."""

RETRY_MS = 2000
"""When a browser comes back after the stream was cut."""


def event(data: bytes, name: str = "") -> bytes:
    """One event. `data` is one line."""
    return (b"event: " + name.encode() + b"\n" if name else b"") + b"data: " + data + b"\n\n"


async def pause(shared: Shared, seconds: float) -> bool:
    """Wait, for less time if the server ends. Returns whether it goes on."""
    try:
        await asyncio.wait_for(shared.closing.wait(), seconds)
    except TimeoutError:
        return True
    return False


class EventStream(StreamingResponse):
    """An answer that goes on for as long as its events, the peer and the server do.

    `ended` is called at its end, also where `events` never began as the peer was gone by then.

    Raises Fail when made while there are too many already.
    """

    def __init__(self, call: Call, events: AsyncIterator[bytes], ended: Callable[[], None] = lambda: None) -> None:
        if call.shared.streams >= MAX_STREAMS:
            raise Fail(503, f"there are {MAX_STREAMS} event streams already", {"Retry-After": "5"})
        self._shared = call.shared
        self._ended = ended
        super().__init__(events, headers=HEADERS, media_type=EVENTS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        self._shared.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._shared.streams -= 1
            self._ended()
