"""Agent and ingress in network namespaces of their own, and a wire between them that goes dead without a word."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Self

from tests.support.namespaces import ADDRESSES, Network

_SIDES = {"agent": 0, "ingress": 1}


def why_no_wire() -> str:
    """Why there can be none here; "" where there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces take root and the ip command (iproute2)"
    return ""


class Wire:
    """A context manager."""

    ingress_host = ADDRESSES[1]

    def __init__(self) -> None:
        self._network = Network()
        for name in self._network.names:
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True, capture_output=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._network.remove()

    def cut(self) -> None:
        """What is sent is lost, and nobody is told."""
        self._network.cut()

    def mend(self) -> None:
        """Undo it."""
        self._network.mend()

    def inside(self, side: str) -> contextlib.AbstractContextManager[None]:
        """Sockets, threads and processes that are made meanwhile stand at that end."""
        return self._network.inside(_SIDES[side])


@contextlib.contextmanager
def inside(wire: Wire | None, side: str) -> Iterator[None]:
    """At that end of the wire, or here where there is none."""
    if wire is None:
        yield
        return
    with wire.inside(side):
        yield
