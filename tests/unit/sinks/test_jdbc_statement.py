"""The text of SQL statements of the Jdbc sink."""

from __future__ import annotations

import pytest

from edgesocket.sinks.jdbc_statement import insert_text, quoted, target_of, with_driver_marks


@pytest.mark.parametrize(
    ("query", "expected", "count"),
    [
        ("insert into t values (?, ?)", "insert into t values (%s, %s)", 2),
        ("insert into t values ('?', ?)", "insert into t values ('?', %s)", 1),
        ("insert into t values ('it''s ?', ?)", "insert into t values ('it''s ?', %s)", 1),
        ('insert into "t?" values (?)', 'insert into "t?" values (%s)', 1),
        ("insert into `t?` values (?)", "insert into `t?` values (%s)", 1),
        ("insert /* ? */ into t -- ?\n values (?)", "insert /* ? */ into t -- ?\n values (%s)", 1),
        ("values (? % 2, '100%')", "values (%s %% 2, '100%%')", 1),
        ("select a ?? 'k', ?", "select a ? 'k', %s", 1),
        ("values ($$?$$, $x$ ? $$ $x$, ?)", "values ($$?$$, $x$ ? $$ $x$, %s)", 1),
        (r"values ('\', ?)", r"values ('\', %s)", 1),
        (r"values (E'\'?', ?)", r"values (E'\'?', %s)", 1),
        (r"values (name'\', ?)", r"values (name'\', %s)", 1),
        ("", "", 0),
        ("insert into t values ('?", "insert into t values ('%s", 1),
    ],
)
def test_marks_become_the_drivers_but_not_inside_quotes_and_comments(query: str, expected: str, count: int) -> None:
    assert with_driver_marks(query, "%s", backslash_escapes=False) == (expected, count)


def test_a_backslash_hides_a_quote_where_the_database_says_so() -> None:
    assert with_driver_marks(r"values ('\'?', ?)", "%s", backslash_escapes=True) == (r"values ('\'?', %s)", 1)


def test_a_driver_with_question_marks_gets_percent_signs_as_they_are() -> None:
    assert with_driver_marks("values (? % 2, ?)", "?", backslash_escapes=False) == ("values (? % 2, ?)", 2)


def test_quotes_in_names_are_doubled() -> None:
    assert quoted('a"b', '"') == '"a""b"'
    assert quoted("a`b", "`") == "`a``b`"


def test_a_percent_sign_in_a_name_survives_the_driver() -> None:
    assert insert_text('"t"', ['"a%"', '"b"'], "%s") % (1, 2) == 'INSERT INTO "t" ("a%", "b") VALUES (1, 2)'
    assert insert_text('"t"', ['"a%"'], "?") == 'INSERT INTO "t" ("a%") VALUES (?)'


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("insert into t values (?)", ("t",)),
        ("  INSERT IGNORE INTO `my db`.`t` (a) values (?)", ("my db", "t")),
        ("replace t set a = ?", ("t",)),
        ("insert or replace into main . t values (?)", ("main", "t")),
        ("update t set a = ?", ()),
        ("call p(?)", ()),
    ],
)
def test_the_table_an_insert_names_is_found(query: str, target: tuple[str, ...]) -> None:
    assert target_of(query) == target
