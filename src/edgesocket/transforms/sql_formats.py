"""Patterns of dates and times: from Java's letters to the percent signs of strftime."""

from __future__ import annotations

from edgesocket.transforms.java_regex import Untranslatable

_LETTERS = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "uu": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%-m",
    "dd": "%d",
    "d": "%-d",
    "DDD": "%j",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "m": "%-M",
    "ss": "%S",
    "s": "%-S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "SSSSSSSSS": "%n",
    "a": "%p",
    "EEE": "%a",
    "EEEE": "%A",
}
_DATE_LETTERS = "yuMdDE"
_TIME_LETTERS = "HhmsSa"


def strftime_pattern(pattern: str) -> str:
    """A pattern of `java.time.format.DateTimeFormatter` for strftime and strptime.

    Raises:
        Untranslatable: it uses a letter that has no counterpart, or a quote is open.
    """
    return "".join(_escaped(run) if quoted else _translated(run) for run, quoted in _runs(pattern))


def holds(pattern: str) -> tuple[bool, bool]:
    """Whether a pattern has a part of a date, and of a time of day."""
    letters = "".join(run for run, quoted in _runs(pattern) if not quoted)
    return any(letter in letters for letter in _DATE_LETTERS), any(letter in letters for letter in _TIME_LETTERS)


def _runs(pattern: str) -> list[tuple[str, bool]]:
    """Runs of one letter, and text that stands for itself (True)."""
    runs: list[tuple[str, bool]] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if pattern.startswith("''", at):
            runs.append(("'", True))
            at += 2
        elif letter == "'":
            text, at = _quoted(pattern, at + 1)
            runs.append((text, True))
        elif letter.isascii() and letter.isalpha():
            end = at
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            runs.append((pattern[at:end], False))
            at = end
        elif letter in "[]{}#":
            raise Untranslatable(f"uses {letter}, which cannot be translated")
        else:
            runs.append((letter, True))
            at += 1
    return runs


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    text = ""
    at = start
    while at < len(pattern):
        if pattern.startswith("''", at):
            text += "'"
            at += 2
        elif pattern[at] == "'":
            return text, at + 1
        else:
            text += pattern[at]
            at += 1
    raise Untranslatable("has a quote that is not closed")


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _translated(run: str) -> str:
    if run not in _LETTERS:
        raise Untranslatable(f"uses {run}, which cannot be translated; there are {', '.join(_LETTERS)}")
    return _LETTERS[run]
