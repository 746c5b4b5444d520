"""What tells one file from another, and what is remembered of it. Pure.

A path does not: rotation renames. An inode alone does not: file systems use it again. So a file is its device and
inode, confirmed by what it holds: its first bytes, as far as they were read, and the bytes just before the place up to
which it was read. If one of them is no longer what it was, the file was cut and written anew.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import PurePath

from edgesocket.collector.intake.framing import FramingState

PREFIX_BYTES = 1024
"""First bytes of a file that identify it. A shorter file is identified by what it has; that grows with it."""

ANCHOR_BYTES = 256
"""Bytes before the place up to which a file was read, that are compared too."""

COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".Z", ".zip")
_MAGIC = {
    b"\x1f\x8b\x08": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"\x04\x22\x4d\x18": ".lz4",
    b"PK\x03\x04": ".zip",
}
_TEXT_BEGINS = re.compile(rb"[\t\n\r\x20-\x7e]{16}")
_ROTATION = re.compile(r"[._-](?:\d[\d._T:-]*|old|bak|orig|prev)", re.IGNORECASE)


def digest(data: bytes) -> str:
    """A short text that stands for some bytes."""
    return blake2b(data, digest_size=8).hexdigest()


def compression_of(path: str, head: bytes) -> str:
    """The ending that stands for the compression of a file, by its first bytes or its name; empty: it has none."""
    for magic, ending in _MAGIC.items():
        if head.startswith(magic) and not _TEXT_BEGINS.match(head):
            return ending
    return next((ending for ending in COMPRESSED if path.endswith(ending)), "")


def is_rotation_of(path: str, other: str) -> bool:
    """Whether `other` is what a rotation calls the file at `path`: app.log.1, app.log-20261130, app-1.log and so on."""
    one, two = PurePath(path), PurePath(other)
    if one.parent != two.parent or one.name == two.name:
        return False
    name = two.name
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    if name == one.name:
        return True
    if name.startswith(one.name) and _ROTATION.fullmatch(name[len(one.name) :]):
        return True
    stem, suffix = one.stem, one.suffix
    middle = name[len(stem) : len(name) - len(suffix)]
    return bool(suffix and name.startswith(stem) and name.endswith(suffix) and _ROTATION.fullmatch(middle))


@dataclass(frozen=True, slots=True)
class FileMark:
    """What is durable of one file.

    Attributes:
        device, inode: of the file.
        path: where it was seen last.
        prefix_bytes, prefix: how many of its first bytes identify it, and their digest.
        anchor_bytes, anchor: the same of the bytes before the offset.
        state: how far it is done with.
        ended: it was cut, or is gone: it no longer is the file of that inode.
    """

    device: int
    inode: int
    path: str
    prefix_bytes: int
    prefix: str
    anchor_bytes: int
    anchor: str
    state: FramingState
    ended: bool = False

    @property
    def is_blank(self) -> bool:
        """Whether nothing was read of it: whatever has its inode could be it."""
        return not (self.prefix_bytes or self.state.offset)

    def text(self) -> str:
        """As the text of a mark."""
        state = self.state
        fields: dict[str, object] = {
            "device": self.device,
            "inode": self.inode,
            "path": self.path,
            "prefix": [self.prefix_bytes, self.prefix],
            "anchor": [self.anchor_bytes, self.anchor],
            "offset": state.offset,
        }
        optional = {"encoding": state.encoding, "in_line": state.in_line, "skipping": state.skipping}
        fields |= {name: value for name, value in (optional | {"ended": self.ended}).items() if value}
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> FileMark:
        """Back from its text.

        Raises:
            ValueError: it is none.
        """
        try:
            fields = json.loads(text)
            state = FramingState(
                int(fields["offset"]),
                str(fields.get("encoding", "")),
                bool(fields.get("in_line")),
                bool(fields.get("skipping")),
            )
            prefix_bytes, prefix = fields["prefix"]
            anchor_bytes, anchor = fields["anchor"]
            device, inode, path = int(fields["device"]), int(fields["inode"]), str(fields["path"])
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise ValueError(f"not the mark of a file: {problem}") from None
        return cls(
            device,
            inode,
            path,
            int(prefix_bytes),
            str(prefix),
            int(anchor_bytes),
            str(anchor),
            state,
            bool(fields.get("ended")),
        )
