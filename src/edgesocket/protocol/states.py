"""The states of a conversation, both ends of it, each as one table.

A table maps (state, input) to (next state, action); a pair that is not in it is a bug on our side and raises
LocalProtocolError. What a peer sends never raises: its bytes are always an allowed input.

The ingress end::

    AWAITING_AUTH --TOKEN_ACCEPTED--> AUTHENTICATED --RESUMED--> STREAMING
          |                                |                         |
          +--TOKEN_REFUSED, ENDED------> CLOSED <-----ENDED----------+

AUTHENTICATED exists because the first connection that authenticates becomes *the* collector, and others must be turned
away, before any of its requests (they may have arrived together with the token) is looked at.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar

from edgesocket.errors import LocalProtocolError


class SessionState(enum.Enum):
    """Where a conversation stands, seen from the ingress."""

    AWAITING_AUTH = "awaiting_auth"
    """The first line is not complete yet."""
    AUTHENTICATED = "authenticated"
    """The token was right; requests are held back until the session is resumed."""
    STREAMING = "streaming"
    """Requests are read."""
    CLOSED = "closed"
    """Refused or ended; whatever else arrives is ignored."""


class SessionInput(enum.Enum):
    """What happens to a session."""

    BYTES = "bytes"
    """Bytes arrived."""
    TOKEN_ACCEPTED = "token_accepted"  # noqa: S105 - the name of an input, not a token
    """The first line was complete and right."""
    TOKEN_REFUSED = "token_refused"  # noqa: S105
    """The first line was wrong or too long."""
    RESUMED = "resumed"
    """The connection was elected: go on with what came after the first line."""
    ENDED = "ended"
    """The peer has sent its last byte, or the connection is given up."""


class SessionAction(enum.Enum):
    """What a session does about it."""

    READ_FIRST_LINE = "read_first_line"
    HOLD_BACK = "hold_back"
    """Keep what came after the first line."""
    REFUSE = "refuse"
    READ_HELD_BACK = "read_held_back"
    READ_REQUESTS = "read_requests"
    IGNORE = "ignore"
    RELEASE = "release"
    """Drop an incomplete last line, give memory back."""


TRANSITIONS: Mapping[tuple[SessionState, SessionInput], tuple[SessionState, SessionAction]] = {
    (SessionState.AWAITING_AUTH, SessionInput.BYTES): (SessionState.AWAITING_AUTH, SessionAction.READ_FIRST_LINE),
    (SessionState.AWAITING_AUTH, SessionInput.TOKEN_ACCEPTED): (SessionState.AUTHENTICATED, SessionAction.HOLD_BACK),
    (SessionState.AWAITING_AUTH, SessionInput.TOKEN_REFUSED): (SessionState.CLOSED, SessionAction.REFUSE),
    (SessionState.AWAITING_AUTH, SessionInput.ENDED): (SessionState.CLOSED, SessionAction.RELEASE),
    (SessionState.AUTHENTICATED, SessionInput.BYTES): (SessionState.AUTHENTICATED, SessionAction.HOLD_BACK),
    (SessionState.AUTHENTICATED, SessionInput.RESUMED): (SessionState.STREAMING, SessionAction.READ_HELD_BACK),
    (SessionState.AUTHENTICATED, SessionInput.ENDED): (SessionState.CLOSED, SessionAction.RELEASE),
    (SessionState.STREAMING, SessionInput.BYTES): (SessionState.STREAMING, SessionAction.READ_REQUESTS),
    (SessionState.STREAMING, SessionInput.ENDED): (SessionState.CLOSED, SessionAction.RELEASE),
    (SessionState.CLOSED, SessionInput.BYTES): (SessionState.CLOSED, SessionAction.IGNORE),
    (SessionState.CLOSED, SessionInput.ENDED): (SessionState.CLOSED, SessionAction.IGNORE),
}


class CollectorState(enum.Enum):
    """Where a conversation stands, seen from the collector."""

    CONNECTED = "connected"
    """Nothing was sent yet; the ingress may already have turned the connection away."""
    AUTHENTICATING = "authenticating"
    """The token is out, its answer is not in; requests may follow already."""
    STREAMING = "streaming"
    """Authenticated."""
    CLOSED = "closed"
    """Refused, rejected or ended: nothing can be sent, nothing more will be answered."""


class CollectorInput(enum.Enum):
    """What happens to a collector's session."""

    SEND_AUTH = "send_auth"
    SEND_REQUEST = "send_request"
    BYTES = "bytes"
    AUTH_OK = "auth_ok"
    TURNED_AWAY = "turned_away"
    """AUTH_FAILED, REJECTED, or no reply at all in its place."""
    ENDED = "ended"


class CollectorAction(enum.Enum):
    """What the collector's session does about it."""

    WRITE = "write"
    READ_REPLIES = "read_replies"
    ANSWER = "answer"
    IGNORE = "ignore"
    GIVE_UP_UNANSWERED = "give_up_unanswered"


COLLECTOR_TRANSITIONS: Mapping[tuple[CollectorState, CollectorInput], tuple[CollectorState, CollectorAction]] = {
    (CollectorState.CONNECTED, CollectorInput.SEND_AUTH): (CollectorState.AUTHENTICATING, CollectorAction.WRITE),
    (CollectorState.CONNECTED, CollectorInput.BYTES): (CollectorState.CONNECTED, CollectorAction.READ_REPLIES),
    (CollectorState.CONNECTED, CollectorInput.TURNED_AWAY): (CollectorState.CLOSED, CollectorAction.ANSWER),
    (CollectorState.CONNECTED, CollectorInput.ENDED): (CollectorState.CLOSED, CollectorAction.GIVE_UP_UNANSWERED),
    (CollectorState.AUTHENTICATING, CollectorInput.SEND_REQUEST): (
        CollectorState.AUTHENTICATING,
        CollectorAction.WRITE,
    ),
    (CollectorState.AUTHENTICATING, CollectorInput.BYTES): (
        CollectorState.AUTHENTICATING,
        CollectorAction.READ_REPLIES,
    ),
    (CollectorState.AUTHENTICATING, CollectorInput.AUTH_OK): (CollectorState.STREAMING, CollectorAction.ANSWER),
    (CollectorState.AUTHENTICATING, CollectorInput.TURNED_AWAY): (CollectorState.CLOSED, CollectorAction.ANSWER),
    (CollectorState.AUTHENTICATING, CollectorInput.ENDED): (CollectorState.CLOSED, CollectorAction.GIVE_UP_UNANSWERED),
    (CollectorState.STREAMING, CollectorInput.SEND_REQUEST): (CollectorState.STREAMING, CollectorAction.WRITE),
    (CollectorState.STREAMING, CollectorInput.BYTES): (CollectorState.STREAMING, CollectorAction.READ_REPLIES),
    (CollectorState.STREAMING, CollectorInput.ENDED): (CollectorState.CLOSED, CollectorAction.GIVE_UP_UNANSWERED),
    (CollectorState.CLOSED, CollectorInput.BYTES): (CollectorState.CLOSED, CollectorAction.IGNORE),
    (CollectorState.CLOSED, CollectorInput.ENDED): (CollectorState.CLOSED, CollectorAction.IGNORE),
}

State = TypeVar("State", bound=enum.Enum)
Input = TypeVar("Input", bound=enum.Enum)
Action = TypeVar("Action", bound=enum.Enum)


def transition(
    table: Mapping[tuple[State, Input], tuple[State, Action]], state: State, event: Input
) -> tuple[State, Action]:
    """Look a transition up. Raises LocalProtocolError where the table has none."""
    found = table.get((state, event))
    if found is None:
        raise LocalProtocolError(f"{event.name} is not possible in state {state.name}")
    return found
