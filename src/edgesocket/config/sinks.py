"""The options of the sinks, and what they become. The sinks themselves only ever see checked values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgesocket.config.convert import Refused
from edgesocket.config.options import Kind, Option, OptionTable, duration, whole_number

_NOT_YET = "is not supported yet"
COMMON = (
    Option(
        name="plugin_input",
        kind=Kind.TEXT_LIST,
        default=(),
        aliases=("source_table_name",),
        example='"edge"',
        description="Name of the rows this sink takes; may be left out, there is one source.",
    ),
    Option(
        name="on_rejected_row",
        kind=Kind.CHOICE,
        default="fail",
        choices=("fail",),
        refused={"dead_letter": f"{_NOT_YET}: there is no dead_letter block so far"},
        example="fail",
        description="What happens to a row the sink refuses for good.",
    ),
    Option(
        name="parallelism",
        kind=Kind.LATER,
        harmless=("1",),
        description="a job has one source, and its sinks run with it",
    ),
    Option(
        name="multi_table_sink_replica",
        kind=Kind.LATER,
        harmless=("1",),
        description="there is one table",
    ),
)
"""Options of every sink. They are part of `SinkSpec`, the others make the sink."""


def _check_path(path: str) -> str:
    if not path.strip():
        raise Refused("the path is blank")
    if "\0" in path:
        raise Refused("the path holds a NUL character")
    return path


def _check_delimiter(delimiter: str) -> str:
    if not delimiter:
        raise Refused("an empty text ends no row")
    return delimiter


CONSOLE = OptionTable(
    Option(
        name="format",
        kind=Kind.CHOICE,
        default="text",
        choices=("text", "json"),
        example="json",
        description="text prints the payload, json an object with its fields.",
    ),
    Option(
        name="log.print.data",
        kind=Kind.BOOLEAN,
        default=True,
        example="false",
        description="Whether rows are printed at all.",
    ),
    duration("log.print.delay.ms", 0, "Pause after each block of rows.", minimum=0),
    *COMMON,
)

_FILE_LATER = {
    "custom_filename": (("false",), "files are named by job and checkpoint"),
    "file_name_expression": ((), "files are named by job and checkpoint"),
    "filename_time_format": ((), "files are named by job and checkpoint"),
    "filename_extension": ((), "the ending follows file_format_type"),
    "field_delimiter": ((), "rows have one field for now"),
    "have_partition": (("false",), "all files go to path"),
    "partition_by": ((), "all files go to path"),
    "partition_dir_expression": ((), "all files go to path"),
    "is_partition_field_write_in_file": (("false",), "all files go to path"),
    "sink_columns": ((), "rows have one field for now"),
    "is_enable_transaction": (("true",), "files are always published with their checkpoint"),
    "compress_codec": (("none",), "files are written as they are"),
    "enable_header_write": (("false",), "rows have one field for now"),
    "encoding": (("utf-8", "utf8"), "files are written in UTF-8"),
    "date_format": ((), "rows have one text field for now"),
    "datetime_format": ((), "rows have one text field for now"),
    "time_format": ((), "rows have one text field for now"),
    "schema_save_mode": (("create_schema_when_not_exist",), "a missing directory is made"),
    "data_save_mode": (("append_data",), "files that are there stay"),
    "single_file_mode": (("false",), "there is one file a checkpoint"),
    "create_empty_file_when_no_data": (("false",), "a checkpoint without rows makes no file"),
    "csv_string_quote_mode": ((), "there is no csv yet"),
}
_FILE_FORMATS_LATER = ("csv", "parquet", "orc", "excel", "xml", "binary", "canal_json", "debezium_json", "maxwell_json")

LOCAL_FILE = OptionTable(
    Option(
        name="path",
        kind=Kind.TEXT,
        required=True,
        check=_check_path,
        example='"/var/lib/edge/out"',
        description="Directory the files are published in.",
    ),
    Option(
        name="file_format_type",
        kind=Kind.CHOICE,
        required=True,
        choices=("json", "text"),
        refused=dict.fromkeys(_FILE_FORMATS_LATER, _NOT_YET),
        example="text",
        description="json: one object a row. text: the payload as it came. SeaTunnel's default, csv, is to come.",
    ),
    Option(
        name="row_delimiter",
        kind=Kind.TEXT,
        default="\n",
        default_text="a line feed",
        check=_check_delimiter,
        example='"\\n"',
        description="What ends a row in format text.",
    ),
    whole_number("batch_size", 1_000_000, "Most rows in one file. Every checkpoint begins a new file anyway."),
    Option(
        name="tmp_path",
        kind=Kind.TEXT,
        default_text="a hidden directory in path",
        check=_check_path,
        example='"/var/lib/edge/staged"',
        description="Directory files are staged in until their checkpoint completes; on the same device as path.",
    ),
    *(
        Option(name=name, kind=Kind.LATER, harmless=harmless, description=reason)
        for name, (harmless, reason) in _FILE_LATER.items()
    ),
    *COMMON,
)

NULL = OptionTable(*COMMON)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """What the Console sink is made with, checked."""

    format: Literal["text", "json"]
    log_print_data: bool
    log_print_delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFileOptions:
    """What the LocalFile sink is made with, checked. `tmp_path`: None stages inside `path`."""

    path: str
    file_format_type: Literal["json", "text"]
    row_delimiter: str
    batch_size: int
    tmp_path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NullOptions:
    """What the Null sink is made with: nothing."""


SinkOptions = ConsoleOptions | LocalFileOptions | NullOptions


@dataclass(frozen=True, slots=True)
class SinkPlugin:
    """A sink as the job file knows it: its table, and the dataclass its own options go into.

    The dataclass has one field for each option of the table that is not common to all sinks.
    """

    table: OptionTable
    build: type[SinkOptions]


SINKS: Mapping[str, SinkPlugin] = {
    "Console": SinkPlugin(CONSOLE, ConsoleOptions),
    "LocalFile": SinkPlugin(LOCAL_FILE, LocalFileOptions),
    "Null": SinkPlugin(NULL, NullOptions),
}
"""The sinks there are, under the names job files use (in any letter case)."""

SINKS_TO_COME = (
    "Assert",
    "Clickhouse",
    "Doris",
    "HdfsFile",
    "Http",
    "Jdbc",
    "Kafka",
    "S3File",
    "StarRocks",
)
"""Sinks that SeaTunnel has. Naming one says so, where an unknown name gets a list of those that exist."""
