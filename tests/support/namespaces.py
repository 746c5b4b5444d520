"""Two hosts on one machine: network namespaces that a test can cut off from each other. Linux, root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ADDRESSES = ("10.99.0.1", "10.99.0.2")


class Network:
    """Two ends of a wire in network namespaces of their own; `cut` makes everything vanish without a FIN."""

    def __init__(self) -> None:
        self.names = [f"edgesocket-{os.getpid()}-{side}" for side in "ab"]
        a, b = self.names
        for name in self.names:
            _ip("netns", "add", name)
        _ip("-n", a, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", b)
        for name, address in zip(self.names, ADDRESSES, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "veth0")
            _ip("-n", name, "link", "set", "veth0", "up")

    @contextlib.contextmanager
    def inside(self, side: int) -> Iterator[None]:
        """Sockets that this thread makes belong to that end, and so do threads that it starts."""
        libc = ctypes.CDLL(None, use_errno=True)
        clone_newnet = 0x40000000
        with Path("/proc/thread-self/ns/net").open() as home, Path(f"/run/netns/{self.names[side]}").open() as away:
            assert libc.setns(away.fileno(), clone_newnet) == 0
            try:
                yield
            finally:
                assert libc.setns(home.fileno(), clone_newnet) == 0

    def cut(self) -> None:
        """Both ends stay up and routed; what is sent is lost, as behind a dead router."""
        _ip("-n", self.names[1], "addr", "del", f"{ADDRESSES[1]}/24", "dev", "veth0")

    def mend(self) -> None:
        """What `cut` did is undone."""
        _ip("-n", self.names[1], "addr", "add", f"{ADDRESSES[1]}/24", "dev", "veth0")

    def remove(self) -> None:
        """Take both ends away."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def network_or_skip() -> Iterator[Network]:
    """A network, or the test is skipped with the reason why there is none."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and the ip command for network namespaces")
    try:
        network = Network()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr!r}")
    try:
        yield network
    finally:
        network.remove()
