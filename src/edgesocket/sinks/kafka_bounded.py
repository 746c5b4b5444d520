"""Calls into the Kafka client that must end, whatever the client does.

librdkafka bounds its calls itself, but one. `send_offsets_to_transaction` asks which broker keeps the group, and where
that question is refused because a broker that came back is still loading the group, it asks again when the next
connection opens or closes: its own timeout is not looked at. With one broker that is when the broker ends an idle
connection, ten minutes later. `Transactions` waits for the group first where a connection broke, which avoids it; here
is the limit that holds where that was not seen in time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from edgesocket.errors import ComponentError

CALL_THREAD = "edgesocket-kafka-call"
"""The name of each call's thread."""


def bounded(what: str, call: Callable[[], Any], limit_s: float) -> Any:
    """Call on a thread of its own, and wait for it so long.

    A call that is left behind goes on alone: whoever made it must not use its producer again, except to close it.

    Args:
        what: in the words of an error message.
        call: what to do.
        limit_s: seconds.

    Returns:
        what the call returns.

    Raises:
        ComponentError: it has not returned; its outcome is not known, so the sink must be opened again.
        BaseException: what the call raises.
    """
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:  # it belongs to the caller's thread
            outcome.append((None, error))

    thread = threading.Thread(target=run, name=CALL_THREAD, daemon=True)
    thread.start()
    thread.join(limit_s)
    if not outcome:
        message = f"Kafka sink: cannot {what}: the client has not answered for {limit_s:g} s"
        raise ComponentError(message, reopen=True)
    result, error = outcome.pop()
    if error is not None:
        raise error
    return result
