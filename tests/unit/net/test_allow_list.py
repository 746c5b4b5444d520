"""Which addresses may connect."""

import ipaddress

import pytest

from edgesocket.net.allow_list import AllowList

LIST = AllowList([ipaddress.ip_network(text) for text in ("10.0.0.0/8", "192.168.1.7", "2001:db8::/32")])


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "10.255.255.255", "192.168.1.7", "2001:db8::1", "::ffff:10.1.2.3", "2001:db8::1%eth0"]
)
def test_what_is_in_a_network_may(address: str) -> None:
    assert LIST.allows(address)


@pytest.mark.parametrize("address", ["11.0.0.1", "192.168.1.8", "127.0.0.1", "::1", "::ffff:11.0.0.1", "", "nonsense"])
def test_nothing_else_may(address: str) -> None:
    assert not LIST.allows(address)


def test_without_networks_everybody_may() -> None:
    assert AllowList([]).allows("203.0.113.9")
