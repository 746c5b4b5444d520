"""An ingress behind a NAT, and a collector in another network: three namespaces on one machine. Linux, root.

    collector  10.99.1.2 --- 10.99.1.1  router  10.99.2.1 --- 10.99.2.2  ingress

The router forwards its outer port to the ingress, and hides the collector's address as a source NAT would: both ends
see nothing but the router. What it knows of connections can be forgotten, as idle timeouts of real ones do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

PORT = 10091
OUTER, INNER = "10.99.1.1", "10.99.2.1"
COLLECTOR, INGRESS = "10.99.1.2", "10.99.2.2"

_CLONE_NEWNET = 0x40000000

_RULES = f"""
table ip nat {{
  chain in {{
    type nat hook prerouting priority dstnat
    iifname "outer" tcp dport {PORT} dnat to {INGRESS}
  }}
  chain out {{
    type nat hook postrouting priority srcnat
    oifname "inner" masquerade
  }}
}}
table ip filter {{
  # What becomes of packets of connections that nobody knows any more; the rule is added.
  chain forgotten {{
  }}
  chain input {{
    type filter hook input priority filter
    meta l4proto tcp jump forgotten
  }}
  chain forward {{
    type filter hook forward priority filter
    ct state invalid jump forgotten
  }}
}}
"""


class NatNetwork:
    """The three namespaces."""

    def __init__(self) -> None:
        self._names = {side: f"edgesocket-{os.getpid()}-{side}" for side in ("collector", "router", "ingress")}

    def probe(self) -> None:
        """Make the namespaces, and see that they can have a NAT. Raises CalledProcessError where this cannot be."""
        for name in self._names.values():
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        self.router("nft", "add", "table", "ip", "nat")
        self.router("conntrack", "-L")

    def build(self, *, silent: bool) -> None:
        """Wire them. `silent`: packets of forgotten connections vanish; else they are answered with a reset."""
        self._wire("collector", COLLECTOR, "outer", OUTER)
        self._wire("ingress", INGRESS, "inner", INNER)
        # What is not known any more is not picked up in the middle, as the kernel would by itself.
        for setting in ("net.ipv4.ip_forward=1", "net.netfilter.nf_conntrack_tcp_loose=0"):
            self.set(setting)
        self.router("nft", "-f", "-", stdin=_RULES)
        self.router("nft", "add", "rule", "ip", "filter", "forgotten", *("drop",) if silent else _RESET)

    def _wire(self, side: str, address: str, port: str, gateway: str) -> None:
        name, router = self._names[side], self._names["router"]
        _run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", router)
        _run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        _run("ip", "-n", name, "link", "set", "eth0", "up")
        _run("ip", "-n", router, "addr", "add", f"{gateway}/24", "dev", port)
        _run("ip", "-n", router, "link", "set", port, "up")

    @contextlib.contextmanager
    def inside(self, side: str) -> Iterator[None]:
        """Processes and sockets that this thread makes belong to that namespace."""
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/proc/thread-self/ns/net").open() as home, Path(f"/run/netns/{self._names[side]}").open() as away:
            assert libc.setns(away.fileno(), _CLONE_NEWNET) == 0
            try:
                yield
            finally:
                assert libc.setns(home.fileno(), _CLONE_NEWNET) == 0

    def router(self, *command: str, stdin: str | None = None) -> str:
        """Run a command on the router; returns what it printed."""
        return _run("ip", "netns", "exec", self._names["router"], *command, stdin=stdin)

    def set(self, setting: str) -> None:
        """Set a kernel setting of the router."""
        self.router("sysctl", "-qw", setting)

    def forget(self) -> None:
        """Every connection is forgotten, as when the idle timeout of a NAT has passed, or the NAT was restarted."""
        self.router("conntrack", "-F")

    def known(self) -> int:
        """Established connections that the router knows."""
        return self.router("conntrack", "-L", "-p", "tcp", "--dport", str(PORT)).count("ESTABLISHED")

    def remembers_for_s(self) -> int:
        """How long it will know the connection if no packet comes."""
        return int(self.router("conntrack", "-L", "-p", "tcp", "--dport", str(PORT)).split()[2])

    def remove(self) -> None:
        """Take everything away."""
        for name in self._names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


_RESET = ("meta", "l4proto", "tcp", "reject", "with", "tcp", "reset")


def _run(*command: str, stdin: str | None = None) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin).stdout


@contextlib.contextmanager
def nat_or_skip(*, silent: bool = False) -> Iterator[NatNetwork]:
    """The network, or the test is skipped with the reason why there is none."""
    missing = [tool for tool in ("ip", "nft", "conntrack", "sysctl") if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"needs root, and the commands {', '.join(missing) or 'that are here'}, for a NAT in namespaces")
    network = NatNetwork()
    try:
        try:
            network.probe()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no NAT in namespaces here: {error.stderr!r}")
        network.build(silent=silent)
        yield network
    finally:
        network.remove()
