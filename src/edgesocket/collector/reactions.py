"""What a collector does about each reply: one table a request kind, nothing else decides.

A reply that is not in the table of its request is no answer to it (so is a line that is no reply at all, and the end
of the connection): the batch counts as not received and goes out again on another connection.

AUTH_FAILED and REJECTED answer the connection rather than a request; they end the client.
"""

from __future__ import annotations

import enum

from edgesocket.protocol.replies import Reply, ReplyKind


class Reaction(enum.Enum):
    """The next action after a reply."""

    RECEIVED = "received"
    """The batch is queued at the ingress. With commit polls it is kept until confirmed, else forgotten."""
    WAIT_AS_TOLD = "wait as told"
    """Send it again unchanged after the milliseconds in the reply; until then nothing above it."""
    BACK_OFF = "back off"
    """Send it again unchanged after a growing wait; until then nothing above it."""
    REFUSED = "refused"
    """This batch will never be accepted as it is: hand it to the caller, its id is spent."""
    STOP = "stop"
    """No batch will be accepted before somebody corrects the set-up: stop sending."""
    EVICT = "evict"
    """Forget the batches up to the watermark whose last reply was RECEIVED."""
    KEEP = "keep"
    """Keep everything and poll again later."""
    SEND_AGAIN = "send again"
    """The ingress does not have the batch (any more)."""
    DISTRUST = "distrust"
    """Not an answer: drop the connection, everything unanswered is not received."""


BATCH_REACTIONS = {
    ReplyKind.RECEIVED: Reaction.RECEIVED,
    ReplyKind.QUEUE_FULL: Reaction.WAIT_AS_TOLD,
    ReplyKind.RETRY: Reaction.BACK_OFF,
    ReplyKind.DECODE_FAILED: Reaction.REFUSED,
    ReplyKind.BAD_REQUEST: Reaction.REFUSED,
    ReplyKind.INVALID_PARAM: Reaction.REFUSED,
    ReplyKind.DECRYPT_FAILED: Reaction.STOP,
}
"""Reactions to the replies that answer `__BATCH__`."""

POLL_REACTIONS = {
    ReplyKind.ACK: Reaction.EVICT,
    ReplyKind.PENDING: Reaction.KEEP,
    ReplyKind.RESEND: Reaction.SEND_AGAIN,
    ReplyKind.RETRY: Reaction.SEND_AGAIN,
    ReplyKind.BAD_REQUEST: Reaction.STOP,
    ReplyKind.INVALID_PARAM: Reaction.STOP,
}
"""Reactions to the replies that answer `__COMMIT__`.

A poll has one correct form, so BAD_REQUEST or INVALID_PARAM say that this ingress takes no polls: nothing would ever be
confirmed.
"""


def reaction_to_batch(reply: Reply | None) -> Reaction:
    """What to do about the reply to a batch; None is a line that is no reply."""
    return Reaction.DISTRUST if reply is None else BATCH_REACTIONS.get(reply.kind, Reaction.DISTRUST)


def reaction_to_poll(reply: Reply | None) -> Reaction:
    """What to do about the reply to a commit poll; None is a line that is no reply."""
    return Reaction.DISTRUST if reply is None else POLL_REACTIONS.get(reply.kind, Reaction.DISTRUST)
