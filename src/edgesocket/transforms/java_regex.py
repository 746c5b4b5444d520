r"""Regular expressions of job files: Java's dialect, run by Python's `re`.

Job files are written for SeaTunnel, so their patterns mean what `java.util.regex` says. Most of the two dialects is
the same. What is spelled differently is translated here (`\p{Alpha}`, `\h`, `\R`, `\Q..\E`, `(?<name>..)`, `$1`), what
means something else is made to mean the same (`.` and `$` know Java's line ends, `\d` and `\w` are ASCII), and what
Python cannot do is refused with the reason, so that no pattern quietly matches something else.
"""

from __future__ import annotations

import re

MAX_PATTERN_CHARACTERS = 10_000
"""A longer pattern is no pattern anybody wrote."""

_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_SETS = {
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
    "s": r" \t\n\x0b\f\r",
}
_OUTSIDE = {"z": r"\Z", "R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])", "e": r"\x1b", "A": r"\A"}
_END = r"(?=(?:\r\n|[\r\x85\u2028\u2029]|(?<!\r)\n)?\Z)"
_HEX = re.compile(r"u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}|0([0-3]?[0-7]{1,2})|c(.)", re.DOTALL)
_PROPERTY = re.compile(r"([pP])\{(?:Is)?(\w+)\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_NAMED = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_KEPT_ESCAPES = "dDwWbBtnrfa"


class Untranslatable(Exception):  # noqa: N818 - never leaves the package; it becomes a ConfigProblem
    """The pattern is wrong, or uses what Python cannot do. The text completes "the pattern ..."."""


def compile_java(pattern: str) -> re.Pattern[str]:
    """A pattern of Java's dialect as a Python pattern that matches the same.

    Raises:
        Untranslatable: it cannot be.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise Untranslatable(f"has more than {MAX_PATTERN_CHARACTERS} characters")
    try:
        return re.compile(_Translator(pattern).translated(), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise Untranslatable(f"is not a regular expression: {error}") from None


def java_replacement(replacement: str, pattern: re.Pattern[str]) -> str:
    r"""A replacement of Java's dialect (`$1`, `${name}`, `\$`) as a template for `re.Match.expand`.

    Raises:
        Untranslatable: it names a group that the pattern does not have, or ends in the middle of something.
    """
    made: list[str] = []
    at = 0
    while at < len(replacement):
        character = replacement[at]
        at += 1
        if character == "\\":
            if at == len(replacement):
                raise Untranslatable(r"has a replacement that ends with \; write \\ for one")
            made.append(_literal(replacement[at]))
            at += 1
        elif character == "$":
            group, at = _group_reference(replacement, at, pattern)
            made.append(rf"\g<{group}>")
        else:
            made.append(_literal(character))
    return "".join(made)


def is_literal(pattern: str) -> bool:
    """Whether a pattern has no character with a meaning of its own."""
    return not re.search(r"[\\\[\](){}.*+?^$|]", pattern)


def _literal(character: str) -> str:
    return r"\\" if character == "\\" else character


def _group_reference(text: str, at: int, pattern: re.Pattern[str]) -> tuple[str, int]:
    """The group that stands after a `$`, and where the text goes on. As in Java, digits are taken while they fit."""
    named = re.compile(r"\{([a-zA-Z][a-zA-Z0-9]*)\}").match(text, at)
    if named:
        if named[1] not in pattern.groupindex:
            raise Untranslatable(f"has no group called {named[1]}, which the replacement names")
        return named[1], named.end()
    if at == len(text) or not text[at].isascii() or not text[at].isdigit():
        raise Untranslatable(r"has a replacement with a $ that names no group; write \$ for a dollar sign")
    group = int(text[at])
    if group > pattern.groups:
        raise Untranslatable(f"has no group {group}, which the replacement names")
    at += 1
    while at < len(text) and text[at].isascii() and text[at].isdigit():
        longer = group * 10 + int(text[at])
        if longer > pattern.groups:
            break
        group, at = longer, at + 1
    return str(group), at


class _Translator:
    """One walk over a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._made: list[str] = []
        flags = "".join(found[1] for found in _FLAGS.finditer(pattern))
        self._dot_takes_all = "s" in flags
        self._many_lines = "m" in flags

    def translated(self) -> str:
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == "\\":
                self._escape()
            elif character == "[":
                self._character_class()
            elif character == "(":
                self._group()
            else:
                self._at += 1
                self._made.append(self._plain(character))
        return "".join(self._made)

    def _plain(self, character: str) -> str:
        if character == "." and not self._dot_takes_all:
            return f"[^{_LINE_ENDS}]"
        if character == "$" and not self._many_lines:
            return _END
        return character

    def _escape(self) -> None:
        if self._pattern.startswith("\\Q", self._at):
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at + 2 : end if end >= 0 else None]
            self._made.append(re.escape(quoted))
            self._at = end + 2 if end >= 0 else len(self._pattern)
            return
        back = re.compile(r"\\k<(\w+)>").match(self._pattern, self._at)
        if back:
            self._made.append(f"(?P={back[1]})")
            self._at = back.end()
            return
        if self._pattern.startswith("\\Z", self._at):
            self._at += 2
            self._made.append(_END)
            return
        text, members = self._escaped()
        self._made.append(f"[{text}]" if members else text)

    def _escaped(self, *, inside: bool = False) -> tuple[str, bool]:
        """One escape, and whether it stands for the members of a set."""
        at = self._at + 1
        if at == len(self._pattern):
            raise Untranslatable(r"ends with \; write \\ for one")
        found = _PROPERTY.match(self._pattern, at)
        if found:
            self._at = found.end()
            return self._property(found, inside=inside)
        code = _HEX.match(self._pattern, at)
        if code:
            self._at = code.end()
            return _code_point(code), False
        character = self._pattern[at]
        self._at += 2
        if character in _SETS:
            return _SETS[character], True
        if character.lower() in _SETS:
            if inside:
                raise Untranslatable(rf"uses \{character} inside [..], which cannot be translated")
            return f"[^{_SETS[character.lower()]}]", False
        if not inside and character in _OUTSIDE:
            return _OUTSIDE[character], False
        if character in _KEPT_ESCAPES or not character.isascii() or not character.isalnum():
            return rf"\{character}", False
        if character.isdigit() and not inside:
            return rf"\{character}", False
        raise Untranslatable(rf"uses \{character}, which cannot be translated")

    def _property(self, found: re.Match[str], *, inside: bool) -> tuple[str, bool]:
        kind, name = found[1], found[2]
        if name not in _CLASSES:
            known = ", ".join(_CLASSES)
            raise Untranslatable(rf"uses \{kind}{{{name}}}, which cannot be translated; there are {known}")
        if kind == "p":
            return _CLASSES[name], True
        if inside:
            raise Untranslatable(rf"uses \P{{{name}}} inside [..], which cannot be translated")
        return f"[^{_CLASSES[name]}]", False

    def _character_class(self) -> None:
        start = self._at
        self._made.append("[")
        self._at += 1
        if self._pattern.startswith("^", self._at):
            self._made.append("^")
            self._at += 1
        first = True
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == "]" and not first:
                self._made.append("]")
                self._at += 1
                return
            if character == "[" or self._pattern.startswith("&&", self._at):
                raise Untranslatable("uses a set inside a set ([a[b]] or [a&&b]), which cannot be translated")
            if character == "\\":
                self._made.append(self._escaped(inside=True)[0])
            else:
                self._made.append(rf"\{character}" if character in "|~&-" and self._doubled(character) else character)
                self._at += 1
            first = False
        raise Untranslatable(f"has a [ without its ], at character {start + 1}")

    def _doubled(self, character: str) -> bool:
        """Python reserves `||`, `~~` and `--` inside sets."""
        return self._pattern[self._at - 1] == character or self._pattern.startswith(character * 2, self._at)

    def _group(self) -> None:
        named = _NAMED.match(self._pattern, self._at)
        flags = _FLAGS.match(self._pattern, self._at)
        if named:
            self._made.append(f"(?P<{named[1]}>")
            self._at = named.end()
        elif flags and (flags[1] or flags[2]):
            self._flags(flags)
        elif self._pattern.startswith("(?P", self._at) or self._pattern.startswith("(?(", self._at):
            raise Untranslatable("uses a group that Java does not have")
        else:
            self._made.append("(")
            self._at += 1

    def _flags(self, found: re.Match[str]) -> None:
        wrong = sorted(set(found[1] + (found[2] or "")) - set("ismx"))
        if wrong:
            raise Untranslatable(f"uses the flag {wrong[0]}, which cannot be translated; there are i, s, m and x")
        if found[3] == ")" and (self._made or found[2]):
            raise Untranslatable(f"has the flags {found[0]} in its middle; put them at the beginning, or write (?i:..)")
        if "s" in found[1] + (found[2] or "") and found[3] == ":":
            raise Untranslatable("sets the flag s for a part; put (?s) at the beginning")
        if "m" in found[1] + (found[2] or "") and found[3] == ":":
            raise Untranslatable("sets the flag m for a part; put (?m) at the beginning")
        self._made.append(found[0])
        self._at = found.end()


def _code_point(code: re.Match[str]) -> str:
    four, two, braces, octal, control = code.groups()
    if control is not None:
        number = ord(control) ^ 64
    elif octal is not None:
        number = int(octal, 8)
    else:
        number = int(four or two or braces, 16)
    if number > 0x10FFFF:
        raise Untranslatable(f"names the character {number:x}, which does not exist")
    return rf"\U{number:08x}"
