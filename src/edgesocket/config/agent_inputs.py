"""The inputs of the edge agent: one table of options each, and what they become."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from edgesocket.config.agent_options import (
    KIB,
    MIB,
    AgentOption,
    check_name,
    check_regular_expression,
    check_variable,
    choice,
    number,
    port,
    size,
    switch,
    text,
    time,
)
from edgesocket.config.convert import Refused
from edgesocket.config.nodes import BrokenNode, ListNode, Node, Report, Scalar, describe
from edgesocket.config.options import Kind, OptionTable

MOST_LINE_BYTES = 15 * MIB
"""A record has to fit into a request line of the ingress, whose default is 16 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MultilineSpec:
    """Which lines make one record. Attributes: the options of `multiline`."""

    start: str | None
    continuation: str | None
    end: str | None
    indented: bool
    joiner: str
    max_lines: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """What every input has. Attributes: the options of every input."""

    type: str
    name: str
    envelope: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesSpec(InputSpec):
    """An input of lines. Attributes: the options that say how bytes become records."""

    encoding: str
    invalid: str
    skip_empty: bool
    max_line_bytes: int
    long_lines: str
    multiline: MultilineSpec | None
    idle_flush_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSpec(LinesSpec):
    """Files that are followed. Attributes: the options of the input."""

    paths: tuple[str, ...]
    exclude: tuple[str, ...]
    from_beginning: bool
    read_gzip: bool
    poll_ms: int
    discover_ms: int
    rotated_idle_s: int
    forget_after_s: int
    max_open_files: int
    watch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StdinSpec(LinesSpec):
    """The standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyslogSpec(InputSpec):
    """Syslog over TCP or UDP. Attributes: the options of the input."""

    protocol: str
    address: str
    port: int
    parse: bool
    max_message_bytes: int
    max_connections: int
    receive_buffer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSpec(InputSpec):
    """Records in the bodies of HTTP requests. Attributes: the options of the input."""

    address: str
    port: int
    path: str
    body: str
    skip_empty: bool
    token_file: str | None
    token_env: str | None
    max_body_bytes: int
    max_connections: int
    busy_after_ms: int
    retry_after_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSpec(LinesSpec):
    """The output of a command. Attributes: the options of the input."""

    command: tuple[str, ...]
    every_s: int | None
    timeout_s: int | None
    directory: str | None
    environment: Mapping[str, str]
    stderr_lines_a_minute: int


def read_command(node: Node, path: str, report: Report) -> tuple[str, ...]:
    """A command: a list of words, or one text that is split as a shell splits words. No shell runs it."""
    words: list[str] = []
    if isinstance(node, Scalar) and not node.is_null:
        try:
            words = shlex.split(node.text)
        except ValueError as error:
            report.problem(node.location, path, f"cannot be split into words: {error}", 'command: [df, "-h"]')
            return ()
    elif isinstance(node, ListNode):
        for item in node.items:
            if not isinstance(item, Scalar | BrokenNode):
                report.problem(item.location, path, f"needs words, and {describe(item)} is among them")
            elif isinstance(item, Scalar):
                words.append(item.text)
    elif not isinstance(node, BrokenNode):
        report.problem(node.location, path, f"needs a command, not {describe(node)}", "command: df -h")
        return ()
    if not words or not words[0]:
        report.problem(node.location, path, "names no program", "command: df -h")
    return tuple(words)


def _check_path(path: str) -> str:
    if not path.startswith("/") or any(char.isspace() or char in "?#" for char in path):
        raise Refused("is not the path of a URL", "path: /logs")
    return path


def _check_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    if not paths or not all(paths):
        raise Refused("names no file")
    return paths


def _check_encoding(name: str) -> str:
    try:
        known = "".encode(name) == b"" or name.lower().startswith("utf")
    except (LookupError, ValueError):
        known = False
    if not known:
        raise Refused(f"there is no encoding {name[:40]!r}", "utf-8, utf-16, gbk, latin-1 and Python's others")
    return name


def _check_joiner(joiner: str) -> str:
    if "\n" in joiner:
        raise Refused("holds a line feed, which a record cannot", "joiner: ' | '")
    return joiner


def _input(kind: str) -> tuple[AgentOption, ...]:
    return (
        AgentOption(
            name="type", kind=Kind.CHOICE, choices=(kind,), required=True, example=kind, description="This input."
        ),
        text(
            "name",
            "Its name in messages and metrics, and for the positions that are kept; no other input has it.",
            default=kind,
            check=check_name,
            example="app-logs",
        ),
        switch("envelope", False, "Send each record as a JSON object that says where it comes from, not alone."),
    )


MULTILINE = OptionTable(
    text(
        "start",
        "Regular expression of the first line of a record; lines that do not match belong to the one before.",
        check=check_regular_expression,
        example="'^\\d{4}-'",
    ),
    text(
        "continuation",
        "Or of its further lines: lines that match belong to the one before.",
        check=check_regular_expression,
        example="'^\\s+at '",
    ),
    text(
        "end",
        "Regular expression of its last line.",
        check=check_regular_expression,
        example="';$'",
    ),
    switch("indented", False, "Lines that begin with a blank or a tab belong to the one before."),
    text("joiner", "What stands between the lines in a record.", default="\\n", check=_check_joiner, example="' | '"),
    number("max_lines", 1000, "A record has no more lines; the next one begins another."),
    size("max_bytes", MIB, "Nor more bytes.", maximum=MOST_LINE_BYTES),
)
"""Which lines make one record."""

LINES = (
    text(
        "encoding",
        "Encoding of the text; records are sent in UTF-8.",
        default="utf-8",
        check=_check_encoding,
        example="gbk",
    ),
    choice(
        "invalid",
        "keep",
        ("keep", "replace"),
        "Bytes that are no text of the encoding stay as they are, or become U+FFFD. (An ingress that was not told to "
        "take them refuses such a record, and it goes to the dead letters.)",
    ),
    switch("skip_empty", False, "Leave out lines without any character. Otherwise they are records."),
    size("max_line_bytes", MIB, "The longest line that is a record as it is.", minimum=64, maximum=MOST_LINE_BYTES),
    choice(
        "long_lines",
        "split",
        ("split", "cut", "skip"),
        "A longer line becomes several records, its beginning is one, or it is left out; each time it is counted.",
    ),
    AgentOption(
        name="multiline",
        kind=Kind.BLOCK,
        table=MULTILINE,
        build=MultilineSpec,
        description="Make one record of several lines, joined by `joiner`.",
        example="{ start: '^\\d{4}-' }",
    ),
    time(
        "idle_flush_ms",
        5000,
        "A line without its line end, or a record of several lines, is complete when nothing has come for so long.",
    ),
)
"""How bytes become records."""

FILE = OptionTable(
    *_input("file"),
    AgentOption(
        name="paths",
        kind=Kind.TEXT_LIST,
        required=True,
        check=_check_paths,
        example="[/var/log/*.log]",
        description="Files to follow; `*`, `?`, `[...]` and `**` stand for any of them, also for later ones.",
    ),
    AgentOption(
        name="exclude",
        kind=Kind.TEXT_LIST,
        default=(),
        example="['*.gz']",
        description="Files to leave out, among those.",
    ),
    switch("from_beginning", False, "Send what the files hold at the first start. Files that appear later are always."),
    *LINES,
    switch(
        "read_gzip", False, "Read gzip files that match, from their start. Otherwise compressed files are passed over."
    ),
    time("poll_ms", 500, "How often followed files are looked at."),
    time("discover_ms", 1000, "How often new files and rotations are looked for."),
    time(
        "rotated_idle_s",
        60,
        "A file that the paths find no more (renamed, deleted) is let go when nothing has come for so long.",
        unit="s",
    ),
    time("forget_after_s", 86_400, "The position in a file that is gone is forgotten after so long.", unit="s"),
    number("max_open_files", 512, "Files that are open at a time; idle ones are closed first, and still looked at."),
    switch("watch", True, "Let the system tell of changes, where the package `watchfiles` is installed."),
)

STDIN = OptionTable(*_input("stdin"), *LINES)

SYSLOG = OptionTable(
    *_input("syslog"),
    choice("protocol", "tcp", ("tcp", "udp"), "How the messages come."),
    text("address", "Address to listen on.", default="0.0.0.0", example="127.0.0.1"),
    port("port", "Port to listen on.", required=True),
    switch("parse", False, "Send a JSON object with the fields of the message. Otherwise it is sent as it came."),
    size(
        "max_message_bytes",
        64 * KIB,
        "What a message has beyond that is cut off and counted.",
        minimum=480,
        maximum=MOST_LINE_BYTES,
    ),
    number("max_connections", 256, "TCP: connections at a time; another one is closed at once, and counted."),
    size("receive_buffer_bytes", MIB, "UDP: what the system shall hold while the agent is busy.", minimum=4 * KIB),
)

HTTP = OptionTable(
    *_input("http"),
    text("address", "Address to listen on.", default="127.0.0.1", example="0.0.0.0"),
    port("port", "Port to listen on.", required=True, example="8080"),
    text("path", "Path of the requests; any other is answered 404.", default="/", check=_check_path, example="/logs"),
    choice("body", "lines", ("lines", "record"), "Each line of a body is a record, or the whole body is one."),
    switch("skip_empty", False, "Leave out records without any character."),
    text("token_file", "File with a token; requests must send it as `Authorization: Bearer`.", example="/etc/t"),
    text(
        "token_env", "Environment variable with that token, instead of a file.", check=check_variable, example="TOKEN"
    ),
    size("max_body_bytes", MIB, "A larger body is answered 413.", maximum=MOST_LINE_BYTES),
    number("max_connections", 128, "Connections at a time; another one is answered 503 and closed."),
    time("busy_after_ms", 500, "A request that the spool does not take within that time is answered 503."),
    time("retry_after_s", 5, "What `Retry-After` says then.", unit="s"),
)

EXEC = OptionTable(
    *_input("exec"),
    AgentOption(
        name="command",
        kind=Kind.STRUCTURE,
        required=True,
        read=read_command,
        example="df -h",
        description="Program and arguments: a list, or a text that is split as a shell would. No shell runs it.",
    ),
    time(
        "every_s",
        None,
        "Run it again when so much time has passed since it was started, and it has ended. Otherwise it runs once.",
        unit="s",
        example="60",
        default_text="once",
    ),
    time("timeout_s", None, "Stop a run that takes longer.", unit="s", example="30", default_text="no limit"),
    text("directory", "Where it runs.", default_text="where the agent runs", example="/srv"),
    AgentOption(
        name="environment",
        kind=Kind.TEXT_MAP,
        default={},
        example="{ LANG: C }",
        description="Variables it gets beside those of the agent.",
    ),
    number("stderr_lines_a_minute", 60, "So many lines of its standard error are logged; the rest is counted."),
    *LINES,
)


@dataclass(frozen=True, slots=True)
class InputType:
    """One type of input: its options, and what is made of them."""

    table: OptionTable
    spec: type[InputSpec]


INPUTS: Mapping[str, InputType] = {
    "file": InputType(FILE, FileSpec),
    "stdin": InputType(STDIN, StdinSpec),
    "syslog": InputType(SYSLOG, SyslogSpec),
    "http": InputType(HTTP, HttpSpec),
    "exec": InputType(EXEC, ExecSpec),
}
"""Every type of input by its name in the file."""


def check_together(spec: InputSpec) -> tuple[str, str, str] | None:
    """Checks that need more than one option: the option, what is wrong, and the fix; None if nothing is."""
    if isinstance(spec, HttpSpec) and spec.token_file is not None and spec.token_env is not None:
        return "token_env", "there is a token_file too", "keep one of them"
    if isinstance(spec, LinesSpec) and spec.multiline is not None:
        rule = spec.multiline
        beginnings = (rule.start is not None) + (rule.continuation is not None) + rule.indented
        if beginnings == 0 and rule.end is None:
            return "multiline", "does not say which lines belong together", "multiline: { indented: true }"
        if beginnings > 1:
            return "multiline", "start, continuation and indented exclude each other", "keep one of them"
    return None
