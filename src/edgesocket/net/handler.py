"""What the network side asks of the source behind it."""

from __future__ import annotations

from typing import Protocol

from edgesocket.net.events import DisconnectReason
from edgesocket.protocol.reply_queue import ReplyQueue
from edgesocket.protocol.session import ServerEvent


class ConversationHandler(Protocol):
    """Decides about tokens, requests and silence. All calls come from the receiver thread, never two at a time.

    An exception from any of them ends the conversation and the server, and is what `IngressServer.failure` then holds;
    `handle` has one that ends the conversation only.
    """

    def accepts_token(self, token: bytes) -> bool:
        """Whether the token is the right one, compared in constant time. The token goes nowhere else."""

    def session_started(self, peer: str) -> None:
        """A collector (`address:port`) was elected. Its ACK is sent after this returns."""

    def handle(self, events: list[ServerEvent], replies: ReplyQueue) -> None:
        """Take requests, in order, and add exactly one reply for each.

        Whatever a reply promises must be true when this returns: it can be sent at once. It may wait for room a little
        while, and then holds up this collector and a graceful stop for that long.

        Raises:
            StoreError: what was handed over could not be recorded. The conversation is closed, no reply that is still
                owed is sent, and the port is opened again. (A FencedError ends the server like any other exception.)
        """

    def session_ended(self, reason: DisconnectReason) -> None:
        """The conversation is over; called once for each `session_started`, also after a failure."""

    def may_send(self) -> bool:
        """Whether this incarnation may still answer; asked before each send. False closes everything without a byte."""
