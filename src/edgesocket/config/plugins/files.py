"""The options that sinks of files share: what a file looks like, and what SeaTunnel has that does not fit here."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.config.convert import Refused
from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, ParsedOptions, whole_number

_DATES = ("yyyy-MM-dd", "yyyy.MM.dd", "yyyy/MM/dd")
_FORMATS = ("csv", "json", "text", "parquet", "orc")
_CODECS = {
    "parquet": ("none", "snappy", "lz4", "gzip", "brotli", "zstd"),
    "orc": ("none", "snappy", "lz4", "zlib", "zstd"),
}
_NAMED = "files are named by job run and checkpoint, so that no name comes twice"
_ONE_PLACE = "all files go to path"
_LATER = {
    "custom_filename": (("false",), _NAMED),
    "file_name_expression": ((), _NAMED),
    "filename_time_format": ((), _NAMED),
    "filename_extension": ((), "the ending follows file_format_type"),
    "have_partition": (("false",), _ONE_PLACE),
    "partition_by": ((), _ONE_PLACE),
    "partition_dir_expression": ((), _ONE_PLACE),
    "is_partition_field_write_in_file": (("false",), _ONE_PLACE),
    "is_enable_transaction": (("true",), "files are always published with their checkpoint"),
    "encoding": (("utf-8", "utf8"), "files are written in UTF-8"),
    "schema_save_mode": (("create_schema_when_not_exist",), "a missing directory is made"),
    "data_save_mode": (("append_data",), "files that are there stay"),
    "single_file_mode": (("false",), "a checkpoint makes a file of its own"),
    "create_empty_file_when_no_data": (("false",), "a checkpoint without rows makes no file"),
}
_FORMATS_LATER = ("excel", "xml", "binary", "canal_json", "debezium_json", "maxwell_json")


def check_path(path: str) -> str:
    """A path, unless it is blank.

    Raises:
        Refused: it is, or it holds a NUL character.
    """
    if not path.strip():
        raise Refused("the path is blank")
    if "\0" in path:
        raise Refused("the path holds a NUL character")
    return path


def _check_row_delimiter(delimiter: str) -> str:
    if not delimiter:
        raise Refused("an empty text ends no row")
    return delimiter


def _check_field_delimiter(delimiter: str) -> str:
    if not delimiter:
        raise Refused("an empty text separates nothing")
    return delimiter


FILE_FORMAT = (
    Option(
        name="file_format_type",
        kind=Kind.CHOICE,
        default="csv",
        choices=_FORMATS,
        refused=dict.fromkeys(_FORMATS_LATER, "is not supported yet"),
        example="parquet",
        description="What a file looks like. text: payloads as they came, or values joined by field_delimiter.",
    ),
    Option(
        name="field_delimiter",
        kind=Kind.TEXT,
        default_text='"," in csv, "\\u0001" in text',
        check=_check_field_delimiter,
        example='";"',
        description="What stands between the values of a row in formats csv and text.",
    ),
    Option(
        name="row_delimiter",
        kind=Kind.TEXT,
        default="\n",
        default_text="a line feed",
        check=_check_row_delimiter,
        example='"\\n"',
        description="What ends a row in formats csv and text.",
    ),
    Option(
        name="enable_header_write",
        kind=Kind.BOOLEAN,
        default=False,
        example="true",
        description="Whether csv and text files begin with the names of the columns.",
    ),
    Option(
        name="compress_codec",
        kind=Kind.CHOICE,
        default="none",
        choices=("none", "snappy", "lz4", "gzip", "brotli", "zstd", "zlib"),
        refused={"lzo": "is not supported"},
        example="zstd",
        description="Compression inside the file. parquet: any but zlib; orc: any but gzip and brotli; else none.",
    ),
    Option(
        name="sink_columns",
        kind=Kind.TEXT_LIST,
        default=(),
        default_text="all",
        example='["id", "name"]',
        description="The columns that are written, in this order.",
    ),
    whole_number("batch_size", 1_000_000, "Most rows in one file. Every checkpoint begins a new file anyway."),
    Option(
        name="date_format",
        kind=Kind.CHOICE,
        choices=_DATES,
        default="yyyy-MM-dd",
        example="yyyy-MM-dd",
        description="How csv and text write a date.",
    ),
    Option(
        name="datetime_format",
        kind=Kind.CHOICE,
        choices=(*(f"{date} HH:mm:ss" for date in _DATES), "yyyyMMddHHmmss"),
        default_text="yyyy-MM-dd HH:mm:ss and the fraction there is",
        example='"yyyy/MM/dd HH:mm:ss"',
        description="How csv and text write a timestamp; the fraction of a second is cut off.",
    ),
    Option(
        name="time_format",
        kind=Kind.CHOICE,
        choices=("HH:mm:ss", "HH:mm:ss.SSS"),
        default_text="HH:mm:ss and the fraction there is",
        example='"HH:mm:ss"',
        description="How csv and text write a time of day.",
    ),
    Option(
        name="csv_string_quote_mode",
        kind=Kind.CHOICE,
        choices=("MINIMAL", "ALL", "NONE"),
        default="MINIMAL",
        example="ALL",
        description="Which values a csv file quotes: those that need it, all, or none (then a delimiter reads as two).",
    ),
    *(Option(name=name, kind=Kind.LATER, harmless=ok, description=reason) for name, (ok, reason) in _LATER.items()),
)
"""Options of every sink of files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormatOptions:
    """What a file looks like, checked."""

    file_format_type: str
    field_delimiter: str | None
    row_delimiter: str
    enable_header_write: bool
    compress_codec: str
    sink_columns: tuple[str, ...]
    batch_size: int
    date_format: str
    datetime_format: str | None
    time_format: str | None
    csv_string_quote_mode: str


def check_files(options: ParsedOptions, path: str, report: Report) -> None:
    """Report a compression that the format does not have; note the default format, and what has no effect."""
    if not options.has("file_format_type", "compress_codec", "enable_header_write"):
        return
    kind, codec = options.values["file_format_type"], options.values["compress_codec"]
    if "file_format_type" not in options.places:
        report.note(f"{options.location}: {path}.file_format_type is csv, as in SeaTunnel")
    codecs = _CODECS.get(kind, ("none",))
    if codec not in codecs:
        message = f"{kind} has no {codec}"
        fix = f"one of {', '.join(codecs)}" if len(codecs) > 1 else "leave compress_codec out"
        report.problem(options.place("compress_codec"), f"{path}.compress_codec", message, fix)
    if options.values["enable_header_write"] and kind not in ("csv", "text"):
        report.note(f"{options.place('enable_header_write')}: {path}.enable_header_write has no effect in {kind}")
