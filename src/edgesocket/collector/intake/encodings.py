"""What is known about an encoding to find lines in raw bytes and turn them into UTF-8.

Lines are found in the raw bytes, before anything is decoded: so a broken character can never swallow a line end, and
an offset in a file is always one in its own bytes. That needs encodings in which a line feed looks the same wherever
it stands, which is checked here once, when the options are read.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_UTF_8 = "utf-8"
_WIDE = {"utf-16-le": 2, "utf-16-be": 2, "utf-32-le": 4, "utf-32-be": 4}
_BY_BOM = {
    "utf-16": {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"},
}
_MULTI_BYTE = frozenset(
    (
        "gbk",
        "gb2312",
        "gb18030",
        "big5",
        "big5hkscs",
        "cp950",
        "shift_jis",
        "cp932",
        "shift_jis_2004",
        "euc_jp",
        "euc_jis_2004",
        "euc_kr",
        "cp949",
    )
)
"""More than one byte a character, none of which is ever a line feed or a carriage return except the first."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """One encoding, its byte order settled.

    Attributes:
        name: Python's name of the codec.
        unit: bytes of its smallest character; characters begin at multiples of it.
        line_feed, carriage_return: as they look in raw bytes.
        bom: the byte order mark, dropped where it stands at the very start; empty: there is none.
    """

    name: str
    unit: int
    line_feed: bytes
    carriage_return: bytes
    bom: bytes

    @property
    def is_utf8(self) -> bool:
        """Whether the raw bytes are what goes out."""
        return self.name == _UTF_8

    def end_of_lines(self, data: bytes) -> int:
        """Where the last line that has its line feed ends, behind it; 0: no line ends in `data`."""
        found = data.rfind(self.line_feed)
        while found % self.unit and found >= 0:
            found = data.rfind(self.line_feed, 0, found + self.unit - 1)
        return found + self.unit if found >= 0 else 0

    def find_line_feed(self, data: bytes, start: int) -> int:
        """Where the next line feed at or behind `start` (a multiple of `unit`) begins; -1: there is none."""
        found = data.find(self.line_feed, start)
        while found % self.unit and found >= 0:
            found = data.find(self.line_feed, found + 1)
        return found

    def strict(self, data: bytes) -> bytes:
        """The same text in UTF-8.

        Raises:
            UnicodeError: some of it is not text of this encoding.
        """
        return data.decode(self.name).encode()

    def replaced(self, data: bytes) -> bytes:
        """The same text in UTF-8, U+FFFD for what is none."""
        return data.decode(self.name, "replace").encode("utf-8", "replace")

    def kept(self, data: bytes) -> bytes:
        """The same text in UTF-8, with what is none left as it was: raw bytes; in UTF-16 and UTF-32 lone surrogates
        as if they were characters. What cannot be left like that becomes U+FFFD."""
        handler = "surrogateescape" if self.unit == 1 else "surrogatepass"
        try:
            return data.decode(self.name, handler).encode("utf-8", handler)
        except UnicodeError:
            return self.replaced(data)

    def whole_characters(self, data: bytes) -> int:
        """How many bytes of `data` are left when the beginning of a character at its end is taken off."""
        decoder = codecs.getincrementaldecoder(self.name)("replace")
        decoder.decode(data)
        return len(data) - len(decoder.getstate()[0])


def _made(name: str) -> Encoding:
    unit = _WIDE.get(name, 1)
    bom = "\ufeff".encode(name) if name == _UTF_8 or unit > 1 else b""
    if name == "gb18030":
        bom = "\ufeff".encode(name)
    return Encoding(name, unit, "\n".encode(name), "\r".encode(name), bom)


def _canonical(name: str) -> str:
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        raise ValueError(f"no encoding is called {name!r}; some that are: utf-8, utf-16, gbk, latin-1") from None
    return {"utf-8-sig": _UTF_8, "ascii": _UTF_8}.get(found, found)


def encoding_name(name: str) -> str:
    """Python's name of an encoding that lines can be read in.

    `utf-16` and `utf-32` stand for "as the byte order mark says, little endian without one". ASCII is read as UTF-8.

    Raises:
        ValueError: there is no such encoding, or a line feed cannot be told in it; says what to do.
    """
    found = _canonical(name)
    if found in _BY_BOM or found in _WIDE or found in _MULTI_BYTE or found == _UTF_8 or _is_single_byte(found):
        return found
    raise ValueError(f"lines cannot be read in the encoding {name!r}; convert the file, or read it as latin-1")


def _is_single_byte(name: str) -> bool:
    """One byte a character, and line ends where ASCII has them (which EBCDIC has not)."""
    try:
        text = bytes(range(256)).decode(name, "replace")
    except (LookupError, UnicodeError, ValueError):
        return False
    if name.startswith(("hz", "iso2022", "utf-7")):
        return False  # what a byte means depends on those before it
    return len(text) == 256 and text[10] == "\n" and text[13] == "\r" and text.count("\n") == text.count("\r") == 1


def needs_start(name: str) -> int:
    """How many bytes from the start settle the byte order; 0: it is settled."""
    return {"utf-16": 2, "utf-32": 4}.get(name, 0)


def settled(name: str, start: bytes) -> Encoding:
    """An encoding with its byte order.

    Args:
        name: from `encoding_name`.
        start: the first bytes of the text, at least `needs_start(name)` of them (fewer: little endian).
    """
    for bom, exact in _BY_BOM.get(name, {}).items():
        if start.startswith(bom):
            return _made(exact)
    return _made(f"{name}-le" if name in _BY_BOM else name)
