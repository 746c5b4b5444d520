"""What a server knows of strangers from one opening of its port to the next: rules, failures, certificates."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgesocket.net.allow_list import AllowList
from edgesocket.net.backoff import Backoff
from edgesocket.net.channel import Channel, PlainChannel
from edgesocket.net.control import Control
from edgesocket.net.departures import Departures
from edgesocket.net.events import NetEvent
from edgesocket.net.farewells import Farewells
from edgesocket.net.options import ListenOptions

if TYPE_CHECKING:
    from edgesocket.net.tls import ServerTls

_PART_OF_PATIENCE = 2
"""Nobody waits for a refusal longer than this part (1/n) of the time it has for its first line."""


class Security:
    """Used by the receiver thread, and by the one that starts it before that.

    Attributes:
        allow_list: who may connect.
        backoff: who has to wait.
        farewells: who is still owed a REJECTED.
    """

    def __init__(
        self, options: ListenOptions, control: Control, departures: Departures, emit: Callable[[NetEvent], None]
    ) -> None:
        """Get ready; reads the certificates where TLS is asked for.

        Raises:
            ConfigError: they cannot be used.
        """
        self.allow_list = AllowList(options.allow)
        self.backoff = Backoff(min(options.auth_backoff_max_ms, options.auth_timeout_ms // _PART_OF_PATIENCE) / 1000)
        self.farewells = Farewells(departures)
        self._control = control
        self._tls: ServerTls | None = None
        if options.tls is not None:
            from edgesocket.net.tls import ServerTls

            self._tls = ServerTls(options.tls, emit)

    def channel(self, sock: socket.socket) -> Channel:
        """What to talk to a new connection through."""
        return PlainChannel(sock, self._control) if self._tls is None else self._tls.channel(sock, self._control)

    @property
    def certificate_expires(self) -> int | None:
        """When the certificate in use expires, as Unix time; None: there is none, or it is not known."""
        return None if self._tls is None or self._tls.expires is None else int(self._tls.expires)

    def unwanted_names(self, channel: Channel) -> str | None:
        """The names of a client's certificate where none of them is wanted; None: it is welcome."""
        return None if self._tls is None else self._tls.refuses(channel)
