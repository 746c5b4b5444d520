"""Reads job files: SeaTunnel's dialect of HOCON, and JSON.

How the dialect differs from HOCON as its specification has it:

- a dotted key stays one key (`nodes` says how options are found under both spellings); `a->b = 1` is the nested form;
- the children of a top-level `source`, `transform` or `sink` block are an ordered list, repeats kept;
- `${name}` and `${name:default}` inside quotes are variables (`variables`).

Everything else follows the specification: comments, optional commas, `=`, `:` or nothing before `{`, text without
quotes, joined values, `+=`, triple quotes, `include`, `${name}` and `${?name}`. Forbidden characters outside quotes are
errors, never cut or kept: half a key that looks whole is the worst outcome.

Messages name the key and the character, never the value: it may be a secret. A forbidden character costs only its own
value, so one run reports all of them; any other fault of syntax ends the reading.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple, Protocol

from edgesocket.config.nodes import Location
from edgesocket.config.syntax import Array, Broken, Expression, Join, Object, Statement, Substitution, Text

PLUGIN_BLOCKS = ("source", "transform", "sink")
MAX_NESTING = 40
"""Blocks and lists inside each other. Real job files need five; the limit keeps hostile ones from the stack's end."""

_BLANK = re.compile(r"(?:[^\S\n]|\ufeff)+")
_GAP = re.compile(r"(?:\s|\ufeff|(?:#|//)[^\n]*)*")
_WORD = r"""(?: -?[0-9]+(?:\.[0-9]+)?[eE]\+[0-9]+ | (?: (?!//) [^\s\ufeff$"{}\[\]:=,+#`^?!@*&\\] )+ )"""
_BARE = re.compile(_WORD, re.VERBOSE)
_BARE_WORDS = re.compile(rf"{_WORD} (?: (?:[^\S\n]|\ufeff)+ {_WORD} )*", re.VERBOSE)
_REST_OF_VALUE = re.compile(r'(?:"(?:[^"\\\n]|\\.)*"|[^\n,}\]"]|"(?=[^"\n]*$))*', re.MULTILINE)
_TRIPLE = re.compile(r'"""(.*?"*)"""(?!")', re.DOTALL)
_QUOTED = re.compile(r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SUBSTITUTION = re.compile(r"\$\{(\??)")
_INCLUDE = re.compile(
    r"""include (?= [^\S\n]* " | [^\S\n]+ (?:required|file|url|classpath) [^\S\n]* \( )""", re.VERBOSE
)
_INCLUDE_TARGET = re.compile(
    r"""[^\S\n]* (required[^\S\n]*\()? [^\S\n]* (?:(file|url|classpath)[^\S\n]*\()? [^\S\n]*""", re.VERBOSE
)
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class SyntaxStop(Exception):  # noqa: N818 - it ends the reading; the problem itself has been reported
    """Reading cannot go on."""


class Include(NamedTuple):
    """An `include` that was met.

    Attributes:
        target: the object it stands in, which takes the other file's settings.
        path: path of that object, "" at the root.
        depth: how deep it lies.
        name: the file, as written.
        required: whether its absence is a problem.
        location: of the statement.
    """

    target: Object
    path: str
    depth: int
    name: str
    required: bool
    location: Location


class Reading(Protocol):
    """What a parser needs from whoever reads a whole job file."""

    def next_order(self) -> int:
        """The number of the next assignment, over all files."""

    def substitute(self, text: str) -> str:
        """Text from inside quotes with its variables put in."""

    def problem(self, location: Location, path: str, message: str, fix: str = "") -> None:
        """Take a problem."""

    def include(self, include: Include) -> None:
        """Read another file into an object."""


class Parser:
    """Recursive descent over one file. Positions are offsets; lines are looked up only for what keeps a location.

    Args:
        text: the file, without byte order mark.
        name: its name for messages.
        reading: see Reading.
        path: path of the object it is read into, "" at the root.
        depth: how deep that object lies.
    """

    def __init__(self, text: str, name: str, reading: Reading, *, path: str = "", depth: int = 0) -> None:
        self._text = text
        self._end = len(text)
        self._name = name
        self._reading = reading
        self._prefix = path
        self._depth = depth
        self._pos = 0
        self._path = [path] if path else []
        self._line_ends = [match.start() for match in re.finditer("\n", text)]

    # Structure

    def document(self, target: Object) -> None:
        """Parse the file into `target`.

        Raises:
            SyntaxStop: a fault that leaves the rest unreadable; it has been reported.
        """
        self._skip(_GAP)
        if self._pos == self._end:
            return
        if self._text[self._pos] == "[":
            raise self._fault(self._pos, "a job file is a block of settings, not a list")
        if self._text[self._pos] != "{":
            self._fields(target, closer="")
            return
        opened = self._pos
        self._pos += 1
        self._fields(target, closer="}", opened=opened)
        self._skip(_GAP)
        if self._pos < self._end:
            raise self._fault(self._pos, "something follows the closing } of the file")

    def _fields(self, target: Object, *, closer: str, opened: int = 0) -> None:
        while True:
            self._skip(_GAP)
            char = self._peek()
            if char == "" or char == "}":
                self._close(char, closer, opened)
                return
            if char == ",":
                raise self._fault(self._pos, "a comma without a setting before it")
            self._field(target)
            self._separator("}" if closer else "")

    def _close(self, char: str, closer: str, opened: int) -> None:
        if char == closer:
            self._pos += len(char)
        elif char:
            raise self._fault(self._pos, "a } without the { it closes")
        else:
            raise self._fault(opened, "the { here is never closed", "add the missing }")

    def _separator(self, closer: str) -> None:
        """Step over what ends an entry: a comma, a new line, or (not over it) the closing bracket."""
        start = self._pos
        self._skip(_GAP)
        char = self._peek()
        if char == ",":
            self._pos += 1
        elif char in ("", closer) or "\n" in self._text[start : self._pos]:
            return
        elif char in "]}":
            raise self._fault(self._pos, f"a {char} without its opening bracket")
        else:
            raise self._fault(self._pos, "a comma or a new line is missing here")

    def _field(self, target: Object) -> None:
        include = _INCLUDE.match(self._text, self._pos)
        if include is not None:
            self._pos = include.end()
            self._include(target)
            return
        start = self._pos
        names = self._key()
        location = self._location(start)
        self._path.extend(names)
        append = self._assignment(start)
        plugins = len(self._path) == 1 and names[0] in PLUGIN_BLOCKS and not append
        value = self._value(plugins=plugins)
        del self._path[-len(names) :]
        order = self._reading.next_order()
        for name in reversed(names[1:]):
            nested = Object(location)
            nested.add(Statement(name, value, order, location, append))
            value, append = nested, False
        target.add(Statement(names[0], value, order, location, append))

    def _key(self) -> list[str]:
        """Read a name: one element, or more where `->` stands between them. Its words keep the blanks between them."""
        start = self._pos
        names = [""]
        shape = ""  # the name with every quoted part as a letter: what is quoted may look like anything
        while True:
            blank = self._skip(_BLANK)
            match = _BARE.match(self._text, self._pos)
            if match is None and self._peek() != '"':
                break
            if shape:
                names[-1] += blank
            if match is None:
                names[-1] += self._quoted(variables=False)
                shape += "q"
                continue
            self._pos = match.end()
            first, *others = match.group().split("->")
            names[-1] += first
            names += others
            shape += match.group().replace("->", ".")
        if not shape:
            raise self._fault(self._pos, f"a setting's name was expected, not {_show(self._peek())}")
        if "" in shape.split("."):
            raise self._fault(start, "this name has an empty part", "dots stand between two words")
        return names

    def _assignment(self, key_start: int) -> bool:
        """Step over `=`, `:`, `+=` or nothing before `{`. Returns whether it is `+=`."""
        end_of_key = self._pos
        self._skip(_GAP)
        char = self._peek()
        if char == "{":
            return False
        if char in ("=", ":"):
            self._pos += 1
            return False
        if self._text.startswith("+=", self._pos):
            self._pos += 2
            return True
        word = _first_word(self._path[-1])
        if char in ("", "}", ",") or "\n" in self._text[end_of_key : self._pos]:
            raise self._fault(key_start, f"{word} has no value", f"{word} = ...")
        raise self._fault(
            self._pos,
            f"{_show(char)} may not stand in a name without quotes",
            f"write {word} = ... or put the name in double quotes",
        )

    # Values

    def _value(self, *, plugins: bool = False) -> Expression:
        before = self._pos
        self._skip(_GAP)
        start = self._pos
        pieces: list[Expression] = []
        while True:
            blank_at = self._pos
            blank = self._skip(_BLANK)
            char = self._peek()
            comment = char == "#" or self._text.startswith("//", self._pos)
            if char == "" or char in "\n,}]" or comment:
                break
            if blank and pieces:
                pieces.append(Text(blank, self._location(blank_at), blank=True))
            piece = self._piece(char, plugins)
            if piece is None:
                return self._forbidden(start, new_line="\n" in self._text[before:start])
            pieces.append(piece)
        if not pieces:
            name = _first_word(self._path[-1]) if self._path else "this list"
            raise self._fault(max(before - 1, 0), f"{name} has no value", f'an empty text is written {name} = ""')
        return self._join(pieces, cut=comment and not blank)

    def _join(self, pieces: list[Expression], *, cut: bool) -> Expression:
        """One expression of the pieces of a value. Plain text is joined at once."""
        first = pieces[0]
        texts = [piece for piece in pieces if isinstance(piece, Text)]
        if len(texts) == len(pieces):
            text = "".join(piece.text for piece in texts)
            quoted = any(piece.quoted for piece in texts)
            return Text(text, first.location, quoted, cut=cut and not texts[-1].quoted)
        return first if len(pieces) == 1 else Join(tuple(pieces), first.location, self._where())

    def _piece(self, char: str, plugins: bool) -> Expression | None:
        """One piece of a value. None: a character that may not stand here."""
        start = self._pos
        if char == '"':
            return Text(self._quoted(variables=True), self._location(start), quoted=True)
        if char == "{":
            return self._nested(lambda: self._object(plugins))
        if char == "[":
            return self._nested(self._array)
        if char == "$":
            return self._substitution()
        match = _BARE_WORDS.match(self._text, self._pos)
        if match is None:
            return None
        self._pos = match.end()
        return Text(match.group(), self._location(start))

    def _nested(self, read: Callable[[], Expression]) -> Expression:
        if self._depth == MAX_NESTING:
            raise self._fault(self._pos, f"blocks and lists nest deeper than {MAX_NESTING}")
        self._depth += 1
        expression = read()
        self._depth -= 1
        return expression

    def _object(self, plugins: bool) -> Object:
        start = self._pos
        result = Object(self._location(start), plugins)
        self._pos += 1
        self._fields(result, closer="}", opened=start)
        return result

    def _array(self) -> Array:
        start = self._pos
        self._pos += 1
        items: list[Expression] = []
        while True:
            self._skip(_GAP)
            char = self._peek()
            if char == "]":
                self._pos += 1
                return Array(tuple(items), self._location(start))
            if char == "":
                raise self._fault(start, "the [ here is never closed", "add the missing ]")
            if char == ",":
                raise self._fault(self._pos, "a comma without an element before it")
            items.append(self._value())
            self._separator("]")

    def _substitution(self) -> Substitution | None:
        start = self._pos
        match = _SUBSTITUTION.match(self._text, start)
        if match is None:
            return None
        self._pos = match.end()
        self._skip(_BLANK)
        name = "" if self._peek() == "}" else ".".join(self._key())
        if self._peek() != "}":
            fix = "close it with }"
            if self._peek() == ":":
                fix = f'a default needs quotes: "${{{name}:...}}"; or assign the default first, then ${{?{name}}}'
            raise self._fault(start, f"the substitution is not closed before {_show(self._peek())}", fix)
        if not name:
            raise self._fault(start, "the substitution names nothing", "${name}")
        self._pos += 1
        return Substitution(name, bool(match.group(1)), self._prefix, self._location(start), self._where())

    def _quoted(self, *, variables: bool) -> str:
        """Text in double or triple quotes, escapes and variables resolved."""
        start = self._pos
        if self._text.startswith('"""', start):
            match = _TRIPLE.match(self._text, start)
            if match is None:
                raise self._fault(start, 'the """ here is never closed', 'add the missing """')
            raw = match.group(1)
        else:
            match = _QUOTED.match(self._text, start)
            if match is None:
                raise self._fault(start, "the text in quotes is not closed on its line", 'add the missing "')
            raw = self._unescape(match.group(1), start + 1)
        self._pos = match.end()
        return self._reading.substitute(raw) if variables else raw

    def _unescape(self, raw: str, start: int) -> str:
        if "\\" not in raw:
            return raw

        def character(match: re.Match[str]) -> str:
            code, letter = match.groups()
            if code is not None:
                return chr(int(code, 16))
            if letter not in _ESCAPES:
                raise self._fault(
                    start + match.start(), f"the escape \\{letter} does not exist", "a backslash itself is written \\\\"
                )
            return _ESCAPES[letter]

        text = _ESCAPE.sub(character, raw)
        try:
            # Joins the two halves of a surrogate pair; half a pair is no character.
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._fault(start, "a \\u escape is half of a surrogate pair, which is no character") from None

    def _forbidden(self, start: int, *, new_line: bool) -> Broken:
        """Report a character that needs quotes, and go on behind this value."""
        char = self._peek()
        name = _first_word(self._path[-1]) if self._path else "value"
        if new_line and char in "=:":
            raise self._fault(start, f"{name} has no value on its line", f'{name} = "..."')
        message = f"{_show(char)} may not stand in a value without quotes"
        fix = f'put the whole value in double quotes: {name} = "..."'
        if char in "=:" and len(self._text[start : self._pos].split()) > 1:
            fix += ", or a comma between two settings"
        self._problem(self._pos, message, fix)
        self._skip(_REST_OF_VALUE)
        return Broken(self._location(start))

    # Includes

    def _include(self, target: Object) -> None:
        start = self._pos
        match = _INCLUDE_TARGET.match(self._text, start)
        assert match is not None, "every part of the pattern is optional"
        self._pos = match.end()
        required, kind = bool(match.group(1)), match.group(2) or ""
        if self._peek() != '"':
            raise self._fault(self._pos, "include needs the file's name in quotes", 'include "base.conf"')
        name = self._quoted(variables=True)
        for _ in range(bool(match.group(1)) + bool(kind)):
            self._skip(_BLANK)
            if self._peek() != ")":
                raise self._fault(self._pos, "a ) is missing after the included file's name")
            self._pos += 1
        if kind in ("url", "classpath"):
            self._problem(start, f"include {kind}(...) is not supported", 'copy the file here and include "file.conf"')
            return
        self._reading.include(Include(target, ".".join(self._path), self._depth, name, required, self._location(start)))

    # Small things

    def _peek(self) -> str:
        return self._text[self._pos] if self._pos < self._end else ""

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._pos)
        if match is None:
            return ""
        self._pos = match.end()
        return match.group()

    def _location(self, pos: int) -> Location:
        line = bisect_left(self._line_ends, pos)
        before = self._line_ends[line - 1] if line else -1
        return Location(self._name, line + 1, pos - before)

    def _where(self) -> str:
        return ".".join(_first_word(part) for part in self._path) or "top level"

    def _problem(self, pos: int, message: str, fix: str = "") -> None:
        self._reading.problem(self._location(pos), self._where(), message, fix)

    def _fault(self, pos: int, message: str, fix: str = "") -> SyntaxStop:
        """Report what ends the reading. The caller raises the result."""
        self._problem(pos, message, fix)
        return SyntaxStop()


def _first_word(key: str) -> str:
    """A key for a message. Only its first word: where a `=` was forgotten, the value stands behind the name."""
    word = key.split(None, 1)[0] if key.strip() else "this setting"
    return word if len(word) <= 40 else word[:40] + "..."


def _show(char: str) -> str:
    return {"": "the end of the file", "\n": "the end of the line"}.get(char, f"'{char}'")
