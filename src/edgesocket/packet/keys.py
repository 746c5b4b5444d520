"""Keys of encrypted packets: several at a time, so that an old one and a new one are good together while they change.

A key may have an id, and a packet may say which one it is encrypted with (`"key_id"`, a field that readers which do not
know it ignore). Written down, a key is base64 of 32 bytes, with its id and a colon before it if it has one:
`2026-11:mJ0c...=`. In a file there is one a line; blank lines and lines that begin with `#` do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edgesocket.errors import DecryptError
from edgesocket.packet.cipher import PacketCipher, parse_secret_key

MAX_KEYS = 16
"""A packet without an id is tried with all keys, so there must not be many."""

MAX_KEY_ID_CHARS = 64

_KEY_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_KEY_ID_CHARS}}}\Z")
_MARK_BYTES = 8


@dataclass(frozen=True, slots=True)
class PacketKey:
    """One key. Attributes: its 32 bytes, not part of `repr`, and its id, "" where it has none."""

    key: bytes = field(repr=False)
    id: str = ""


def parse_key(text: str) -> PacketKey:
    """Read one key as written down.

    Raises:
        ValueError: it is none. The text never quotes the key.
    """
    key_id, colon, key = text.strip().rpartition(":")
    if colon and not _KEY_ID.match(key_id):
        raise ValueError(f"the id of a key has 1 to {MAX_KEY_ID_CHARS} letters, digits, dots, dashes and underscores")
    return PacketKey(parse_secret_key(key), key_id)


def parse_keys(texts: Iterable[str]) -> tuple[PacketKey, ...]:
    """Read several keys, at most `MAX_KEYS`; the first one is tried first.

    Raises:
        ValueError: one of them is none, or two have one id.
    """
    keys = tuple(map(parse_key, texts))
    if len(keys) > MAX_KEYS:
        raise ValueError(f"there are {len(keys)} keys, and at most {MAX_KEYS} can be used")
    ids = [key.id for key in keys if key.id]
    if len(ids) != len(set(ids)):
        raise ValueError("two keys have the same id")
    return keys


def parse_key_file(data: bytes) -> tuple[PacketKey, ...]:
    """Read a file of keys.

    Raises:
        ValueError: a line is no key, or there is none.
    """
    lines = [line.strip() for line in data.decode("ascii", "replace").splitlines()]
    keys = parse_keys(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise ValueError("there is no key in it")
    return keys


def _mark(key: bytes) -> bytes:
    """The same for one key as long as the process lives, and of no use outside of it."""
    return hash(key).to_bytes(_MARK_BYTES, "big", signed=True)


class KeyRing:
    """Decrypts with whichever key fits. Thread-safe; no key is in a text it gives."""

    __slots__ = ("_by_id", "_order", "_unnamed")

    def __init__(self, keys: Sequence[PacketKey]) -> None:
        """Get ready.

        Raises:
            ValueError: a key does not have 32 bytes.
            ComponentError: there is a key but `cryptography` is not installed.
        """
        entries = [(key.id, PacketCipher(key.key), _mark(key.key)) for key in keys]
        self._order = tuple((cipher, mark) for _, cipher, mark in entries)
        self._unnamed = tuple((cipher, mark) for key_id, cipher, mark in entries if not key_id)
        self._by_id = {key_id: ((cipher, mark),) for key_id, cipher, mark in entries if key_id}

    def __bool__(self) -> bool:
        return bool(self._order)

    def decrypt(self, ciphertext: bytes, iv: bytes | None, key_id: str | None) -> tuple[bytes, bytes]:
        """What was encrypted, and a mark of the key (8 bytes, the same for one key as long as the process lives).

        A known id means that key. An unknown one means those that have none, as a source with one plain `secret_key`
        does not know ids. Without an id all are tried, the one that fitted last first.

        Raises:
            DecryptError: no key fits, or the iv cannot be right.
        """
        candidates = self._order if key_id is None else self._by_id.get(key_id, self._unnamed)
        problem = DecryptError("the packet names a key that is not here")
        for entry in candidates:
            cipher, mark = entry
            try:
                plain = cipher.decrypt(ciphertext, iv)
            except DecryptError as error:
                problem = error
                continue
            if key_id is None and entry is not self._order[0]:
                self._order = (entry, *(other for other in self._order if other is not entry))
            return plain, mark
        raise problem
