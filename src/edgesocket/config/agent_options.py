"""Kinds of options that only the edge agent's file has, and checks that several of its tables share.

Everything under this name, and what it imports, runs on the standard library alone: the agent lives on small boxes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.options import INT_MAX, Kind, Option

KIB = 1024
MIB = 1024 * 1024
GIB = 1024 * MIB

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOption(Option):
    """An option whose examples are written as YAML has them."""

    @property
    def suggestion(self) -> str:
        """A line that would be right."""
        return f"{self.name}: {self.example}" if self.example else ""


def text(name: str, description: str, **more: Any) -> AgentOption:
    """A TEXT option."""
    return AgentOption(name=name, kind=Kind.TEXT, description=description, **more)


def switch(name: str, default: bool, description: str, **more: Any) -> AgentOption:
    """A BOOLEAN option; its example is the other value."""
    example = str(not default).lower()
    return AgentOption(name=name, kind=Kind.BOOLEAN, default=default, description=description, example=example, **more)


def choice(name: str, default: str, choices: tuple[str, ...], description: str) -> AgentOption:
    """A CHOICE option."""
    return AgentOption(
        name=name, kind=Kind.CHOICE, default=default, choices=choices, description=description, example=default
    )


def number(
    name: str, default: int, description: str, *, minimum: int = 1, maximum: int = INT_MAX, **more: Any
) -> AgentOption:
    """An INTEGER option."""
    return AgentOption(
        name=name,
        kind=Kind.INTEGER,
        default=default,
        minimum=minimum,
        maximum=maximum,
        description=description,
        example=str(default),
        **more,
    )


def size(
    name: str, default: int, description: str, *, minimum: int = 1, maximum: int | None = None, **more: Any
) -> AgentOption:
    """A SIZE option, in bytes."""
    return AgentOption(
        name=name,
        kind=Kind.SIZE,
        unit="bytes",
        default=default,
        minimum=minimum,
        maximum=maximum,
        description=description,
        **{"example": _shown_size(default), **more},
    )


def time(
    name: str,
    default: int | None,
    description: str,
    *,
    unit: str = "ms",
    minimum: int = 1,
    maximum: int = INT_MAX,
    **more: Any,
) -> AgentOption:
    """A DURATION option, in `unit`."""
    more.setdefault("example", str(default))
    return AgentOption(
        name=name,
        kind=Kind.DURATION,
        unit=unit,
        default=default,
        minimum=minimum,
        maximum=maximum,
        description=description,
        **more,
    )


def port(name: str, description: str, **more: Any) -> AgentOption:
    """A TCP or UDP port."""
    more.setdefault("example", "5140")
    return AgentOption(
        name=name, kind=Kind.INTEGER, minimum=1, maximum=65535, noun="a port", description=description, **more
    )


def check_name(name: str) -> str:
    """The name of an input: it stands in marks, metrics and messages."""
    if not _NAME.match(name):
        raise Refused("is not a name: up to 64 letters, digits, dots, dashes and underscores", "name: app-logs")
    return name


def check_key_id(name: str) -> str:
    """The id of a key. What is none may be the key itself: it is not shown."""
    if not _KEY_ID.match(name):
        raise Refused(
            "is not the id of a key: up to 64 letters, digits, dots, dashes and underscores", "key_id: 2026-11"
        )
    return name


def check_variable(name: str) -> str:
    """The name of an environment variable. What is none may be the secret itself: it is not shown."""
    if not _VARIABLE.match(name):
        raise Refused("is not the name of an environment variable (the secret itself does not belong here)")
    return name


def check_regular_expression(pattern: str) -> str:
    """A regular expression, as text."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise Refused(f"{shorten(pattern, quote=True)} is not a regular expression: {error}") from None
    return pattern


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[IPv6]:port` as host and port.

    Raises:
        Refused: it is neither.
    """
    host, colon, digits = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    good_port = digits.isascii() and digits.isdigit() and len(digits) <= 5 and 0 < int(digits) < 65536
    if not (colon and host and good_port) or any(char.isspace() or char in "/@?#" for char in host):
        raise Refused(f"{shorten(address, quote=True)} is not host:port", "edge.example.com:9999, or [::1]:9999")
    return host, int(digits)


def check_lookup_url(url: str) -> str:
    """The address of a lookup: `http://HOST:PORT` or https. Raises Refused."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused("is not the address of a lookup", "http://lookup.example.com:8090")
    if parts.username or parts.password:
        raise Refused("holds a name or a password, which the lookup does not ask for", "leave them out")
    return url.rstrip("/")


def _shown_size(value: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if value and value % unit == 0:
            return f"{value // unit} {name}"
    return str(value)
