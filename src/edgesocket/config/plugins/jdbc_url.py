"""Addresses of databases as JDBC writes them, read without a database library.

Nothing here puts the address into a message: it may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, unquote_plus

from edgesocket.config.convert import Refused

POSTGRESQL = "postgresql"
MYSQL = "mysql"
MARIADB = "mariadb"
SQLITE = "sqlite"
KINDS = (POSTGRESQL, MYSQL, MARIADB, SQLITE)
"""Databases there is support for, by the name after `jdbc:`."""

DEFAULT_PORTS = {POSTGRESQL: 5432, MYSQL: 3306, MARIADB: 3306}

DRIVERS = {
    "org.postgresql.driver": (POSTGRESQL,),
    "com.mysql.jdbc.driver": (MYSQL, MARIADB),
    "com.mysql.cj.jdbc.driver": (MYSQL, MARIADB),
    "org.mariadb.jdbc.driver": (MARIADB, MYSQL),
    "org.sqlite.jdbc": (SQLITE,),
}
"""Java classes job files name, in lower case, and the databases they fit."""

PARAMETERS: Mapping[str, frozenset[str]] = {
    POSTGRESQL: frozenset({"user", "password", "currentschema", "ssl", "sslmode", "sslrootcert", "applicationname"}),
    MYSQL: frozenset({"user", "password", "usessl", "requiressl", "sslmode"}),
    MARIADB: frozenset({"user", "password", "usessl", "requiressl", "sslmode"}),
    SQLITE: frozenset({"busy_timeout", "journal_mode"}),
}
"""What is understood of the part after `?` and of `properties`, in lower case. The rest has no effect."""

_PREFIX = re.compile(r"jdbc:([A-Za-z][A-Za-z0-9_-]*):", re.IGNORECASE)
_SERVER = re.compile(
    r"//(?:(?P<account>[^@/?]*(?:@[^@/?]*)*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/?\[\]]*)(?::(?P<port>[0-9]{1,5}))?"
    r"(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?\Z",
    re.DOTALL,
)
_FIX = 'url = "jdbc:postgresql://host:5432/database"'


@dataclass(frozen=True, slots=True)
class JdbcUrl:
    """Where a database is.

    Attributes:
        kind: one of KINDS.
        host, port: of its server; empty and 0 for SQLite.
        database: its name, may be empty; the file for SQLite.
        parameters: what stood after `?`, names in lower case; `user` and `password` also where they stood before `@`.
    """

    kind: str
    host: str
    port: int
    database: str
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown(self) -> str:
        """For messages: without account and parameters."""
        if self.kind == SQLITE:
            return f"sqlite {self.database}"
        return f"{self.kind} {self.host}:{self.port}/{self.database}"


def parse_jdbc_url(text: str) -> JdbcUrl:
    """Read an address such as `jdbc:postgresql://host:5432/database?currentSchema=x`.

    Raises:
        Refused: it is no such address, or the database is not supported; never says what it is.
    """
    match = _PREFIX.match(text)
    if match is None:
        raise Refused("the address does not begin with jdbc: and the kind of database", _FIX)
    kind, rest = match[1].lower(), text[match.end() :]
    if kind not in KINDS:
        raise Refused(f"jdbc:{kind} is not supported, only {', '.join(KINDS)}", _FIX)
    return _sqlite(rest) if kind == SQLITE else _server(kind, rest)


def _sqlite(rest: str) -> JdbcUrl:
    path, _, query = rest.partition("?")
    if not path or path.startswith(":") or path.lower().startswith("file:"):
        fix = 'url = "jdbc:sqlite:/var/lib/edge/rows.db"'
        raise Refused("SQLite needs the path of a file; a database in memory ends with its connection", fix)
    return JdbcUrl(SQLITE, "", 0, path, _parameters(query))


def _server(kind: str, rest: str) -> JdbcUrl:
    match = _SERVER.match(rest)
    if match is None and rest.startswith("//") and "," in rest.split("/")[2]:
        raise Refused("the address names several hosts; name one", _FIX)
    if match is None or "," in match["host"]:
        raise Refused(f"the address is not of the form jdbc:{kind}://host:port/database", _FIX)
    port = int(match["port"] or DEFAULT_PORTS[kind])
    if not 1 <= port <= 65535:
        raise Refused("the port of the address is not a TCP port (1..65535)", _FIX)
    parameters = _parameters(match["query"] or "")
    if match["account"]:
        user, colon, password = match["account"].partition(":")
        parameters.setdefault("user", unquote(user))
        if colon:
            parameters.setdefault("password", unquote(password))
    host = match["host"].strip("[]") or "localhost"
    return JdbcUrl(kind, host, port, unquote(match["database"] or ""), parameters)


def _parameters(query: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in query.split("&") if part)
    return {unquote_plus(name).lower(): unquote_plus(value) for name, _, value in pairs}
