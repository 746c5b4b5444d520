"""The options of the FieldRename transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.choices import not_empty
from edgesocket.config.plugins.common import COMMON_TRANSFORM

REPLACEMENT = OptionTable(
    Option(
        name="replace_from",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='"create_(.*)"',
        description="What is replaced in the name as it was.",
    ),
    Option(
        name="replace_to",
        kind=Kind.TEXT,
        required=True,
        example='"created"',
        description="What takes its place, as it is written.",
    ),
    Option(
        name="is_regex",
        kind=Kind.BOOLEAN,
        default=True,
        example="false",
        description="Whether replace_from is a regular expression; otherwise it is a whole name.",
    ),
)
SPECIFIC = OptionTable(
    Option(
        name="field_name",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='"ts"',
        description="The field.",
    ),
    Option(
        name="target_name",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='"event_time"',
        description="Its new name.",
    ),
)
FIELD_RENAME = OptionTable(
    Option(
        name="convert_case",
        kind=Kind.CHOICE,
        choices=("UPPER", "LOWER"),
        example="UPPER",
        description="Letter case of the names.",
    ),
    Option(name="prefix", kind=Kind.TEXT, example='"F_"', description="Put before every name."),
    Option(name="suffix", kind=Kind.TEXT, example='"_S"', description="Put after every name."),
    Option(
        name="replacements_with_regex",
        kind=Kind.BLOCKS,
        default=(),
        table=REPLACEMENT,
        example='[{ replace_from = "create_time", replace_to = "created" }]',
        description="Rules that replace parts of names. Where several match, the last one counts.",
    ),
    Option(
        name="specific",
        kind=Kind.BLOCKS,
        default=(),
        table=SPECIFIC,
        example='[{ field_name = "ts", target_name = "event_time" }]',
        description="Names for single fields. They win over every rule.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRenameOptions:
    """What the FieldRename transform is made with, checked."""

    convert_case: str | None
    prefix: str | None
    suffix: str | None
    replacements_with_regex: tuple[Mapping[str, Any], ...]
    specific: tuple[Mapping[str, str], ...]


def check_field_rename(parsed: ParsedOptions, path: str, report: Report) -> None:
    """Say when there is no rule at all."""
    keys = ("convert_case", "prefix", "suffix", "replacements_with_regex", "specific")
    if parsed.has(*keys) and not any(parsed.values[key] for key in keys):
        report.note(f"{parsed.location}: {path} has no rule, so it renames nothing")
