"""The options of the Replace transform."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.choices import not_empty
from edgesocket.config.plugins.common import COMMON_TRANSFORM

REPLACE = OptionTable(
    Option(
        name="replace_field",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='"name"',
        description="The field to replace in.",
    ),
    Option(
        name="pattern",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='" "',
        description="What is replaced: a text, or a regular expression of Java's dialect.",
    ),
    Option(
        name="replacement",
        kind=Kind.TEXT,
        required=True,
        example='"_"',
        description="What takes its place. With is_regex, $1 is the first group of the pattern.",
    ),
    Option(
        name="is_regex",
        kind=Kind.BOOLEAN,
        default=False,
        example="true",
        description="Whether pattern is a regular expression.",
    ),
    Option(
        name="replace_first",
        kind=Kind.BOOLEAN,
        default=False,
        example="true",
        description="Replace the first match only. Works with is_regex = true.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceOptions:
    """What the Replace transform is made with, checked."""

    replace_field: str
    pattern: str
    replacement: str
    is_regex: bool
    replace_first: bool


def check_replace(parsed: ParsedOptions, path: str, report: Report) -> None:
    """Say when replace_first has no effect."""
    if parsed.has("is_regex", "replace_first") and parsed.values["replace_first"] and not parsed.values["is_regex"]:
        place = parsed.place("replace_first")
        report.note(f"{place}: {path}.replace_first has no effect without is_regex = true: every match is replaced")
