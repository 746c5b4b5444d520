"""Java's regular expressions by Python's: what matches, what is written differently, what is refused."""

from __future__ import annotations

import pytest

from edgesocket.transforms.java_regex import Untranslatable, compile_java, is_literal, java_replacement

MATCHES = [
    (r"\p{Alpha}+", "éab1", "ab"),
    (r"\P{Digit}+", "12ab", "ab"),
    (r"[\p{Upper}\d]+", "aB2c", "B2"),
    (r"\d+", "٣12", "12"),
    (r"\w+", "éab", "ab"),
    (r"\s", "\x0b", "\x0b"),
    (r"\S+", " ab ", "ab"),
    (r"\h+", "a\xa0\tb", "\xa0\t"),
    (r"\v", "a\x0bb", "\x0b"),
    (r"\H+", " ab\t", "ab"),
    (r"\R", "a\r\nb", "\r\n"),
    (r"\Qa.b\E+", "axb a.bb", "a.bb"),
    (r"\Q*", "a*", "*"),
    (r"(?<x>a)\k<x>", "aa", "aa"),
    (r"(a)\1", "aa", "aa"),
    (r"a++b", "aab", "aab"),
    (r"(?>a+)b", "aab", "aab"),
    (r"a.b", "a\nb axb", "axb"),
    (r"a.b", "a\x85b axb", "axb"),
    (r"(?s)a.b", "a\nb", "a\nb"),
    (r"(?i)AB", "ab", "ab"),
    (r"x(?i:AB)", "xab", "xab"),
    (r"b$", "ab\n", "b"),
    (r"b$", "ab\r\n", "b"),
    (r"b\z", "b\nb", "b"),
    (r"b\Z", "b\n", "b"),
    (r"(?m)^b$", "a\nb\nc", "b"),
    (r"\x41\u0042\x{43}\0104\cA", "ABCD\x01", "ABCD\x01"),
    (r"[a\-z]+", "b-a", "-a"),
    (r"[]a]+", "b]a", "]a"),
    (r"[^\h]+", " a", "a"),
    (r"[a||b]+", "x|a", "|a"),
    (r"\$\.\-", "$.-", "$.-"),
    (r"a{2,3}?", "aaa", "aa"),
    (r"(?=b)b", "ab", "b"),
    (r"(?<!a)b", "abcb", "b"),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), MATCHES)
def test_it_matches_what_java_matches(pattern: str, text: str, expected: str) -> None:
    found = compile_java(pattern).search(text)
    assert found is not None
    assert found[0] == expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"b$", "b\rx"), (r"b\z", "b\n"), (r"^\d$", "٣"), (r"\Qa.b\E", "axb"), (r"(?i)é", "É"), (r"a.b", "a\u2028b")],
)
def test_it_does_not_match_what_java_does_not(pattern: str, text: str) -> None:
    assert compile_java(pattern).search(text) is None


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[a&&[^b]]", "a set inside a set"),
        ("[a[bc]]", "a set inside a set"),
        (r"\p{Greek}", r"uses \p{Greek}"),
        (r"[\P{Alpha}]", "inside [..]"),
        (r"\G", r"uses \G"),
        (r"\X", r"uses \X"),
        ("a(?i)b", "in its middle"),
        ("(?u)a", "the flag u"),
        ("(?s:a.)", "put (?s) at the beginning"),
        ("(", "is not a regular expression"),
        ("[a", "without its ]"),
        ("a\\", "ends with"),
        ("(?<=a+)b", "is not a regular expression"),
        ("(?P<x>a)", "a group that Java does not have"),
        (r"\x{110000}", "does not exist"),
        ("a" * 10_001, "more than 10000"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(Untranslatable) as caught:
        compile_java(pattern)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "replacement", "expected"),
    [
        ("(a)(b)", "$2$1", "ba"),
        ("(a)(b)", "$12", "a2"),
        ("(a)(b)", r"\$1\\", "$1\\"),
        ("(a)(b)", r"\n", "n"),
        ("(?<x>a)(b)", "<${x}>", "<a>"),
        ("(a)|(b)", "[$2]", "[][b]"),
        ("(a)(b)", "$0$0", "abab"),
        ("ab", r"\g<0>", "g<0>"),
    ],
)
def test_a_replacement_means_what_it_means_in_java(pattern: str, replacement: str, expected: str) -> None:
    compiled = compile_java(pattern)
    template = java_replacement(replacement, compiled)
    assert compiled.sub(lambda match: match.expand(template), "ab") == expected


@pytest.mark.parametrize("replacement", ["$", "$x", "$3", "${y}", "a\\", "$٣"])
def test_a_replacement_that_java_would_refuse_is_refused(replacement: str) -> None:
    with pytest.raises(Untranslatable):
        java_replacement(replacement, compile_java("(a)(b)"))


def test_a_pattern_without_special_characters_is_a_literal() -> None:
    assert is_literal("; ")
    assert not any(
        is_literal(text) for text in ("a.b", "a|b", "a+", "[a]", "\\d", "a{2}", "^a", "a$", "(a)", "a?", "a*")
    )
