"""What a simulated disk is made of, and what it is told to do wrong."""

from __future__ import annotations


class Inode:
    """Bytes of one file.

    Attributes:
        data: what processes see.
        durable: how many of them are on the disk.
        lost: stretches that a failed sync has lost, although processes still see them.
        links: how many names it has.
        host: who wrote what is not durable.
    """

    __slots__ = ("data", "durable", "host", "links", "lost")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = 0
        self.lost: list[tuple[int, int]] = []
        self.links = 0
        self.host = ""


class Trouble:
    """One kind of failure that lasts for some time.

    Args:
        calls: which calls fail: names such as `write` or `fsync`.
        code: errno.
        until: simulated seconds.
        left: how many calls fail at most.
    """

    def __init__(self, calls: frozenset[str], code: int, until: float, left: int) -> None:
        self.calls = calls
        self.code = code
        self.until = until
        self.left = left
