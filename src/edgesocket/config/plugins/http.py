"""The options of the Http sink."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions, duration, whole_number
from edgesocket.config.plugins.common import COMMON

MAX_BATCH_SIZE = 100_000
"""Most rows in one array: they are kept in memory until it is sent."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NOT_IN_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HEADERS_OF_THE_SINK = ("content-length", "transfer-encoding", "connection", "host", "expect")
_CONTROLS_AND_BLANKS = re.compile(r"[\x00-\x20\x7f]")


def _check_url(url: str) -> str:
    """A URL without a user in it. Nothing of it is shown: its query may hold a key."""
    if _CONTROLS_AND_BLANKS.search(url):
        raise Refused("the URL holds a blank or a control character", "write it in percent-encoding: %20")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("this is not a URL") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or port == 0:
        raise Refused("this is not the URL of an HTTP server: http://host[:port]/path or https://...")
    if not parts.hostname.isascii():
        raise Refused("the name of the host is not ASCII", "write it as it is in the DNS: xn--...")
    if parts.username is not None or parts.password is not None:
        raise Refused(
            "a user and password in the URL are not sent",
            'put them into headers { Authorization = "Basic ..." }',
        )
    return url


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        shown = shorten(name, quote=True)
        if not _HEADER_NAME.match(name):
            raise Refused(f"{shown} cannot be the name of a header")
        if name.lower() in _HEADERS_OF_THE_SINK:
            raise Refused(f"the sink sets {shown} itself", f"leave {name} out")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise Refused(f"the value of {shown} holds a character that a header cannot carry") from None
        if _NOT_IN_A_HEADER.search(value):
            raise Refused(f"the value of {shown} holds a line end or a control character")
    return headers


HTTP = OptionTable(
    Option(
        name="url",
        kind=Kind.TEXT,
        required=True,
        secret=True,
        check=_check_url,
        example='"https://collect.example.com/rows"',
        description="Where rows are posted to. Messages show it without its query.",
    ),
    Option(
        name="headers",
        kind=Kind.TEXT_MAP,
        default={},
        default_text="none",
        secret=True,
        check=_check_headers,
        example='{ Authorization = "Bearer my-token" }',
        description="Headers of every request. Content-Type is application/json unless it is set here.",
    ),
    whole_number(
        "retry",
        3,
        "How often a request that may heal is repeated before its rows wait for the engine to try again.",
        minimum=0,
        maximum=1000,
    ),
    duration(
        "retry_backoff_multiplier_ms",
        100,
        "The first repetition comes after at most this; each one after that may take twice as long.",
    ),
    duration("retry_backoff_max_ms", 10_000, "No pause before a repetition is longer than this."),
    duration("connect_timeout_ms", 12_000, "Longest wait for a connection to one address."),
    duration("socket_timeout_ms", 60_000, "Longest wait for an answer, and for all of its body."),
    Option(
        name="array_mode",
        kind=Kind.BOOLEAN,
        default=False,
        example="true",
        description="Whether a request holds an array of rows; otherwise it holds one row, an object.",
    ),
    whole_number(
        "batch_size",
        1,
        "Rows in one array; a checkpoint sends what there is. With array_mode only.",
        maximum=MAX_BATCH_SIZE,
    ),
    duration("request_interval_ms", 0, "Pause after each request that is answered.", minimum=0, maximum=60_000),
    *COMMON,
    ignored={"params.": "SeaTunnel's Http sink never sends them either; write them into url: ?name=value"},
)


def check_http(options: ParsedOptions, path: str, report: Report) -> None:
    """Note what has no effect."""
    if not options.has("array_mode", "batch_size") or options.values["array_mode"]:
        return
    if options.values["batch_size"] > 1:
        report.note(f"{options.place('batch_size')}: {path}.batch_size has no effect without array_mode = true")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """What the Http sink is made with, checked."""

    url: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    retry: int
    retry_backoff_multiplier_ms: int
    retry_backoff_max_ms: int
    connect_timeout_ms: int
    socket_timeout_ms: int
    array_mode: bool
    batch_size: int
    request_interval_ms: int
