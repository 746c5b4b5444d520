"""The options of the Jdbc sink: what is read, refused and noted, without showing a secret."""

from __future__ import annotations

import pytest

from edgesocket.config.convert import Refused
from edgesocket.config.document import Surroundings, no_files, read_document
from edgesocket.config.nodes import ObjectNode, Report
from edgesocket.config.options import ParsedOptions, parse_options
from edgesocket.config.plugins.jdbc import JDBC, JdbcOptions, check_jdbc, claims_exactly_once, is_deciding
from edgesocket.config.plugins.jdbc_url import parse_jdbc_url

URL = 'url = "jdbc:postgresql://db/edge"\n'
TABLE = "generate_sink_sql = true, table = visits\n"


def read(text: str) -> tuple[ParsedOptions, Report]:
    report = Report()
    document = read_document(f"x {{ {text} }}", "job.conf", Surroundings(no_files, {}, {}), report)
    block = document.root.fields["x"].node
    assert isinstance(block, ObjectNode)
    parsed = parse_options(JDBC, block, "sink.Jdbc", report)
    check_jdbc(parsed, "sink.Jdbc", report)
    return parsed, report


def options(text: str) -> JdbcOptions:
    parsed, report = read(text)
    assert not report.problems
    own = {key: value for key, value in parsed.values.items() if key in JdbcOptions.__dataclass_fields__}
    return JdbcOptions(**own)


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read(text)[1].sorted_problems("job.conf")]


def notes(text: str) -> list[str]:
    return read(text)[1].notes


def test_the_defaults_are_seatunnels() -> None:
    made = options(URL + TABLE)
    assert (made.batch_size, made.batch_interval_ms, made.max_retries, made.max_commit_attempts) == (1000, 0, 0, 3)
    assert (made.enable_upsert, made.is_exactly_once, made.use_copy_statement, made.create_index) == (
        True, False, False, True,
    )  # fmt: skip
    assert (made.field_ide, made.schema_save_mode, made.data_save_mode) == (
        "ORIGINAL", "CREATE_SCHEMA_WHEN_NOT_EXIST", "APPEND_DATA",
    )  # fmt: skip
    assert (made.connection_check_timeout_sec, made.transaction_timeout_sec) == (30, -1)
    assert (made.username, made.password, made.query, made.database, made.primary_keys) == ("", "", "", "", ())


def test_the_old_name_of_username_is_read() -> None:
    assert options(URL + TABLE + "user = edge").username == "edge"
    assert any("user is an old name, write username" in note for note in notes(URL + TABLE + "user = edge"))


@pytest.mark.parametrize(
    ("text", "kind", "host", "port", "database"),
    [
        ("jdbc:postgresql://db.example.com:6543/edge?currentSchema=x", "postgresql", "db.example.com", 6543, "edge"),
        ("JDBC:PostgreSQL://[::1]/edge", "postgresql", "::1", 5432, "edge"),
        ("jdbc:postgresql:///edge", "postgresql", "localhost", 5432, "edge"),
        ("jdbc:mysql://h:1/", "mysql", "h", 1, ""),
        ("jdbc:mysql://h", "mysql", "h", 3306, ""),
        ("jdbc:mariadb://u:p%40@h/a%20b?x=1&y=%20", "mariadb", "h", 3306, "a b"),
        ("jdbc:sqlite:/var/lib/rows.db?journal_mode=WAL", "sqlite", "", 0, "/var/lib/rows.db"),
        ("jdbc:sqlite:rows.db", "sqlite", "", 0, "rows.db"),
    ],
)
def test_addresses_are_read_as_jdbc_writes_them(text: str, kind: str, host: str, port: int, database: str) -> None:
    url = parse_jdbc_url(text)
    assert (url.kind, url.host, url.port, url.database) == (kind, host, port, database)


def test_an_address_may_hold_account_and_parameters() -> None:
    assert parse_jdbc_url("jdbc:mysql://u:p%40:w@h/d?useSSL=true").parameters == {
        "user": "u", "password": "p@:w", "usessl": "true",
    }  # fmt: skip
    assert parse_jdbc_url("jdbc:mysql://u:p@ss@h/d").parameters == {"user": "u", "password": "p@ss"}
    assert parse_jdbc_url("jdbc:postgresql://h/d?user=a+b&password=c%26d").parameters == {
        "user": "a b", "password": "c&d",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql://u:hush@h/d", "does not begin with jdbc:"),
        ("jdbc:oracle:thin:u/hush@h:1521:d", "jdbc:oracle is not supported, only postgresql, mysql, mariadb, sqlite"),
        ("jdbc:sqlserver://h;password=hush", "jdbc:sqlserver is not supported"),
        ("jdbc:postgresql://u:hush@h:99999/d", r"not a TCP port"),
        ("jdbc:postgresql://u:hush@h:port/d", "not of the form jdbc:postgresql://host:port/database"),
        ("jdbc:postgresql://u:hush@a:1,b:2/d", "names several hosts"),
        ("jdbc:mysql:loadbalance://a/hush", "not of the form"),
        ("jdbc:postgresql:hush", "not of the form"),
        ("jdbc:sqlite::memory:", "SQLite needs the path of a file"),
        ("jdbc:sqlite:", "SQLite needs the path of a file"),
        ("jdbc:sqlite:file:x?mode=memory", "SQLite needs the path of a file"),
        ("", "does not begin with jdbc:"),
    ],
)
def test_other_addresses_are_refused_without_showing_them(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message) as caught:
        parse_jdbc_url(text)
    assert "hush" not in caught.value.message + caught.value.fix
    assert "hush" not in " ".join(problems(f'url = "{text}"\n{TABLE}'))


def test_secrets_are_not_in_messages_notes_or_the_repr() -> None:
    text = 'url = "jdbc:mysql://u:hush@h/d?password=hush&odd=hush", password = hush, properties { password = hush }\n'
    made = options(text + TABLE)
    assert "hush" not in repr(made)
    assert "hush" not in " ".join(notes(text + TABLE))
    assert any("parameters without effect here: odd" in note for note in notes(text + TABLE))
    assert "hush" not in " ".join(problems(text + "driver = org.postgresql.Driver"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "sink.Jdbc.query: nothing says what is run for a row"),
        ("generate_sink_sql = true", "sink.Jdbc.table: is required with generate_sink_sql, and missing"),
        (TABLE + 'query = "insert into t values (?)"', "sink.Jdbc.query: stands beside generate_sink_sql = true"),
        ('query = "insert", table = t', "sink.Jdbc.table: only works with generate_sink_sql = true"),
        ('query = "insert", primary_keys = [a]', "sink.Jdbc.primary_keys: only works with generate_sink_sql"),
        ('query = "insert", use_copy_statement = true', "sink.Jdbc.use_copy_statement: only works with"),
        ('query = " "', "sink.Jdbc.query: the statement is blank"),
        (TABLE + "database = other", "sink.Jdbc.database: is another database than the url's"),
        (
            'generate_sink_sql = true, table = "a.b.c"',
            "sink.Jdbc.table: has 3 parts, where postgresql has schema.table",
        ),
        ('generate_sink_sql = true, table = "a."', "sink.Jdbc.table: a part of the table's name is empty"),
        (TABLE + "primary_keys = [a, b, a]", "sink.Jdbc.primary_keys: a stands there twice"),
        (TABLE + "is_exactly_once = true, max_retries = 1", "sink.Jdbc.max_retries: with is_exactly_once"),
        (TABLE + "driver = com.mysql.cj.jdbc.Driver", "is for mysql, and the url names postgresql"),
        (TABLE + "transaction_timeout_sec = 0", "0 would end every transaction at once"),
        (TABLE + "data_save_mode = DROP_DATA", "would delete confirmed rows at every restart"),
        (TABLE + "schema_save_mode = RECREATE_SCHEMA", "would drop the table at every restart"),
        (TABLE + "support_upsert_by_query_primary_key_exist = true", "the database's own upsert is used"),
        (TABLE + 'custom_sql = "x"', "run your statement before the job starts"),
        (TABLE + "batch_sise = 1", "did you mean batch_size?"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(text: str, message: str) -> None:
    found = problems(URL + text)
    assert len(found) == 1, found
    assert message in found[0]


def test_copy_is_for_postgresql_only() -> None:
    found = problems('url = "jdbc:mysql://h/d"\nuse_copy_statement = true, ' + TABLE)
    assert "COPY is a statement of PostgreSQL, and the url names mysql" in found[0]


def test_what_has_no_effect_is_noted() -> None:
    text = "xa_data_source_class_name = org.postgresql.xa.PGXADataSource, auto_commit = true, driver = my.Driver\n"
    said = " ".join(notes(URL + TABLE + text))
    assert "xa_data_source_class_name is ignored: exactly once needs no XA here" in said
    assert "auto_commit is ignored" in said
    assert "driver is ignored: no Java class is loaded" in said
    refuses = " ".join(notes(URL + TABLE + "primary_keys = [id], enable_upsert = false"))
    assert "rows given again after a crash are refused by the primary key" in refuses
    assert notes(URL + TABLE + "driver = org.postgresql.Driver, primary_keys = [id]") == []


def test_who_claims_exactly_once_and_who_decides() -> None:
    plain, keys = options(URL + TABLE), options(URL + TABLE + "primary_keys = [id]")
    inserts = options(URL + TABLE + "primary_keys = [id], enable_upsert = false")
    once = options(URL + TABLE + "is_exactly_once = true")
    by_query = options(URL + 'query = "insert into t values (?)", is_exactly_once = true')
    assert [claims_exactly_once(one) for one in (plain, keys, inserts, once, by_query)] == [
        False, True, False, True, True,
    ]  # fmt: skip
    assert [is_deciding(one) for one in (plain, keys, inserts, once, by_query)] == [False, False, False, True, True]
