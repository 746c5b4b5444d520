"""The options of the Jdbc sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions, duration, whole_number
from edgesocket.config.plugins.common import COMMON
from edgesocket.config.plugins.jdbc_url import DRIVERS, PARAMETERS, POSTGRESQL, SQLITE, JdbcUrl, parse_jdbc_url

_SERVER_TIMEOUT_MAX_S = 2_000_000
"""Above this the servers' own settings, in milliseconds, overflow."""


def _check_url(url: str) -> str:
    parse_jdbc_url(url)
    return url


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if "" in names:
        raise Refused("a column name is empty")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Refused(f"{shorten(twice[0], quote=True)} stands there twice")
    return names


def _check_table(table: str) -> str:
    if not all(table.split(".")):
        raise Refused("a part of the table's name is empty")
    return table


def _check_query(query: str) -> str:
    if not query.strip():
        raise Refused("the statement is blank")
    return query


def _check_transaction_timeout(seconds: int) -> int:
    if seconds == 0:
        raise Refused("0 would end every transaction at once", "transaction_timeout_sec = -1")
    return seconds


_CONNECTION = (
    Option(
        name="url",
        kind=Kind.TEXT,
        required=True,
        secret=True,  # it may hold a password
        check=_check_url,
        example='"jdbc:postgresql://db.example.com:5432/edge"',
        description="Address of the database: jdbc:postgresql, jdbc:mysql, jdbc:mariadb or jdbc:sqlite.",
    ),
    Option(
        name="driver",
        kind=Kind.TEXT,
        default="",
        example='"org.postgresql.Driver"',
        description="Java class SeaTunnel would load; must fit the url, and may be left out.",
    ),
    Option(
        name="username",
        kind=Kind.TEXT,
        default="",
        aliases=("user",),
        example='"edge"',
        description="Account; may also stand in the url.",
    ),
    Option(
        name="password",
        kind=Kind.TEXT,
        default="",
        secret=True,
        example='"${JDBC_PASSWORD}"',
        description="Password of the account.",
    ),
    Option(
        name="properties",
        kind=Kind.TEXT_MAP,
        default={},
        secret=True,
        example='{ sslmode = "verify-full" }',
        description="More parameters, as after ? in the url; these win.",
    ),
    duration(
        "connection_check_timeout_sec",
        30,
        "How long connecting may take, and how long a server may be silent before it is given up.",
        unit="s",
        maximum=86_400,
    ),
)

_STATEMENT = (
    Option(
        name="query",
        kind=Kind.TEXT,
        default="",
        check=_check_query,
        example='"insert into visits (page, seen) values (?, ?)"',
        description="Statement run for each row, one ? for each column, in their order.",
    ),
    Option(
        name="generate_sink_sql",
        kind=Kind.BOOLEAN,
        default=False,
        example="true",
        description="Make the statement from database, table and the names of the columns.",
    ),
    Option(
        name="database",
        kind=Kind.TEXT,
        default="",
        example='"edge"',
        description="Database of the table; may be left out where the url names it.",
    ),
    Option(
        name="table",
        kind=Kind.TEXT,
        default="",
        check=_check_table,
        example='"public.visits"',
        description="Table, or schema.table on PostgreSQL.",
    ),
    Option(
        name="primary_keys",
        kind=Kind.TEXT_LIST,
        default=(),
        check=_check_names,
        example='["id"]',
        description="Columns that tell rows apart. The table needs a primary key or unique index on just these.",
    ),
    Option(
        name="enable_upsert",
        kind=Kind.BOOLEAN,
        default=True,
        example="false",
        description="With primary_keys: a row that is there already is overwritten. Without it, it is refused.",
    ),
    Option(
        name="field_ide",
        kind=Kind.CHOICE,
        default="ORIGINAL",
        choices=("ORIGINAL", "UPPERCASE", "LOWERCASE"),
        example="LOWERCASE",
        description="Letter case of table and column names in generated statements.",
    ),
    Option(
        name="use_copy_statement",
        kind=Kind.BOOLEAN,
        default=False,
        example="true",
        description="PostgreSQL only: load rows with COPY, the fastest way. Works with primary_keys too.",
    ),
    Option(
        name="schema_save_mode",
        kind=Kind.CHOICE,
        default="CREATE_SCHEMA_WHEN_NOT_EXIST",
        choices=("CREATE_SCHEMA_WHEN_NOT_EXIST", "ERROR_WHEN_SCHEMA_NOT_EXIST", "IGNORE"),
        refused={"RECREATE_SCHEMA": "would drop the table at every restart of a job that never ends"},
        example="IGNORE",
        description="What to do at the start where the table is missing. Has no effect with query.",
    ),
    Option(
        name="data_save_mode",
        kind=Kind.CHOICE,
        default="APPEND_DATA",
        choices=("APPEND_DATA",),
        refused={
            "DROP_DATA": "would delete confirmed rows at every restart of a job that never ends",
            "ERROR_WHEN_DATA_EXISTS": "would stop the job at its first restart, when it finds its own rows",
            "CUSTOM_PROCESSING": "is not supported: run your statement before the job starts",
        },
        example="APPEND_DATA",
        description="Rows that are in the table stay.",
    ),
    Option(
        name="create_index",
        kind=Kind.BOOLEAN,
        default=True,
        example="false",
        description="Whether a table that is created gets primary_keys as its primary key.",
    ),
)

_DELIVERY = (
    whole_number("batch_size", 1000, "Rows sent in one go. A checkpoint sends what there is."),
    duration(
        "batch_interval_ms", 0, "Longest time rows wait for a full batch while others arrive; 0 is no limit.", minimum=0
    ),
    whole_number("max_retries", 0, "How often a batch is tried again before the job hears of the failure.", minimum=0),
    Option(
        name="is_exactly_once",
        kind=Kind.BOOLEAN,
        default=False,
        example="true",
        description="Keep the rows of a checkpoint in one transaction that commits with it.",
    ),
    whole_number("max_commit_attempts", 3, "How often a lost connection is made again to find out about a commit."),
    whole_number(
        "transaction_timeout_sec",
        -1,
        "With is_exactly_once: the server ends a transaction whose owner is silent so long; -1: as the server is set.",
        minimum=-1,
        maximum=_SERVER_TIMEOUT_MAX_S,
        check=_check_transaction_timeout,
    ),
)

_LATER = {
    "support_upsert_by_query_primary_key_exist": (("false",), "the database's own upsert is used"),
    "custom_sql": ((), "run your statement before the job starts"),
    "multi_table_config": ((), "there is one table"),
    "tablePrefix": ((), "write the whole name in table"),
    "tableSuffix": ((), "write the whole name in table"),
}

JDBC = OptionTable(
    *_CONNECTION,
    *_STATEMENT,
    *_DELIVERY,
    *(
        Option(name=name, kind=Kind.LATER, harmless=harmless, description=reason)
        for name, (harmless, reason) in _LATER.items()
    ),
    *COMMON,
    ignored={
        "xa_data_source_class_name": "exactly once needs no XA here, the checkpoint's number is in the transaction",
        "auto_commit": "the sink commits by itself, batch by batch or with the checkpoint",
        "compatible_mode": "the url names the database",
        "dialect": "the url names the database",
        "is_primary_key_updated": "every row is an insert",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcOptions:
    """What the Jdbc sink is made with, checked. Empty texts stand for what was left out."""

    url: str = field(repr=False)
    driver: str
    username: str
    password: str = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)
    connection_check_timeout_sec: int
    query: str
    generate_sink_sql: bool
    database: str
    table: str
    primary_keys: tuple[str, ...]
    enable_upsert: bool
    field_ide: Literal["ORIGINAL", "UPPERCASE", "LOWERCASE"]
    use_copy_statement: bool
    schema_save_mode: Literal["CREATE_SCHEMA_WHEN_NOT_EXIST", "ERROR_WHEN_SCHEMA_NOT_EXIST", "IGNORE"]
    data_save_mode: Literal["APPEND_DATA"]
    create_index: bool
    batch_size: int
    batch_interval_ms: int
    max_retries: int
    is_exactly_once: bool
    max_commit_attempts: int
    transaction_timeout_sec: int


def is_deciding(options: JdbcOptions) -> bool:
    """Whether the sink's transaction decides checkpoints."""
    return options.is_exactly_once


def claims_exactly_once(options: JdbcOptions) -> bool:
    """Whether every row is meant to be in the table once: by transaction, or by overwriting repeats."""
    return options.is_exactly_once or bool(options.generate_sink_sql and options.primary_keys and options.enable_upsert)


def check_jdbc(parsed: ParsedOptions, path: str, report: Report) -> None:
    """What options say about each other."""
    _check_statement(parsed, path, report)
    if parsed.has("url"):
        url = parse_jdbc_url(parsed.values["url"])
        _check_database(url, parsed, path, report)
        _check_driver(url, parsed, path, report)
        _note_parameters(url, parsed, path, report)
    if (
        parsed.has("is_exactly_once", "max_retries")
        and parsed.values["is_exactly_once"]
        and parsed.values["max_retries"]
    ):
        message = "with is_exactly_once a failed batch takes the transaction with it; the checkpoint is tried again"
        report.problem(parsed.place("max_retries"), f"{path}.max_retries", message, "max_retries = 0")


def _check_statement(parsed: ParsedOptions, path: str, report: Report) -> None:
    """One way to say what is run: query, or generate_sink_sql with a table."""
    if not parsed.has("query", "generate_sink_sql"):
        return
    query, generates = parsed.values["query"], parsed.values["generate_sink_sql"]
    if query and generates:
        message = "stands beside generate_sink_sql = true; one of them says what is run"
        report.problem(parsed.place("query"), f"{path}.query", message, "delete one of them")
    elif not query and not generates:
        fix = 'generate_sink_sql = true with table = "...", or query = "insert into t values (?)"'
        report.problem(parsed.location, f"{path}.query", "nothing says what is run for a row", fix)
    elif generates and parsed.has("table") and not parsed.values["table"]:
        message = "is required with generate_sink_sql, and missing"
        report.problem(parsed.location, f"{path}.table", message, 'table = "visits"')
    elif query:
        for key in ("table", "primary_keys", "use_copy_statement"):
            if parsed.values.get(key):
                message = "only works with generate_sink_sql = true, and query is set"
                report.problem(parsed.place(key), f"{path}.{key}", message, f"delete {key} or query")
    refuses = generates and parsed.values.get("primary_keys") and not parsed.values.get("enable_upsert", True)
    if refuses and not parsed.values.get("is_exactly_once"):
        report.note(
            f"{parsed.place('enable_upsert')}: {path}.enable_upsert = false: rows given again after a crash are "
            "refused by the primary key; is_exactly_once = true keeps them from being given again"
        )


def _check_database(url: JdbcUrl, parsed: ParsedOptions, path: str, report: Report) -> None:
    if parsed.values.get("use_copy_statement") and url.kind != POSTGRESQL:
        message = f"COPY is a statement of PostgreSQL, and the url names {url.kind}"
        report.problem(
            parsed.place("use_copy_statement"), f"{path}.use_copy_statement", message, "use_copy_statement = false"
        )
    database = parsed.values.get("database", "")
    if url.kind == POSTGRESQL and database and url.database and database != url.database:
        message = "is another database than the url's; PostgreSQL sees one database in a connection"
        report.problem(parsed.place("database"), f"{path}.database", message, f"database = {shorten(url.database)}")
    parts = parsed.values.get("table", "").count(".") + 1
    if parts > (1 if url.kind == SQLITE else 2):
        form = "table" if url.kind == SQLITE else "schema.table"
        message = f"has {parts} parts, where {url.kind} has {form}"
        report.problem(parsed.place("table"), f"{path}.table", message, 'table = "visits"')


def _check_driver(url: JdbcUrl, parsed: ParsedOptions, path: str, report: Report) -> None:
    driver = parsed.values.get("driver", "")
    fits = DRIVERS.get(driver.lower())
    if driver and fits is None:
        report.note(f"{parsed.place('driver')}: {path}.driver is ignored: no Java class is loaded")
    elif fits is not None and url.kind not in fits:
        message = f"{shorten(driver)} is for {fits[0]}, and the url names {url.kind}"
        report.problem(parsed.place("driver"), f"{path}.driver", message, "delete driver, or correct the url")


def _note_parameters(url: JdbcUrl, parsed: ParsedOptions, path: str, report: Report) -> None:
    """Names only: a value may be a secret."""
    for key, names in (("url", url.parameters), ("properties", parsed.values.get("properties", {}))):
        unknown = sorted(shorten(name) for name in names if name.lower() not in PARAMETERS[url.kind])
        if unknown:
            report.note(f"{parsed.place(key)}: {path}.{key}: parameters without effect here: {', '.join(unknown)}")
