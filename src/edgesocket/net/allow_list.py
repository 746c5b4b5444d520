"""Which addresses may connect at all, without sockets."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_REMEMBERED = 256


class AllowList:
    """Networks whose addresses may connect; with none of them everybody may.

    An IPv4 address that a kernel writes as IPv6 (`::ffff:10.0.0.1`) is the IPv4 address it is.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)
        self._looked_up = functools.lru_cache(maxsize=_REMEMBERED)(self._look_up)

    def allows(self, address: str) -> bool:
        """Whether a connection from there may stay. What is no address may not."""
        return not self._networks or self._looked_up(address)

    def _look_up(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self._networks)
