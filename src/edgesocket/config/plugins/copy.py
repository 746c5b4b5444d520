"""The options of the Copy transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.choices import not_empty
from edgesocket.config.plugins.common import COMMON_TRANSFORM

COPY = OptionTable(
    Option(
        name="fields",
        kind=Kind.TEXT_MAP,
        default={},
        default_text="none",
        example="{ name_copy = name }",
        description="Name of the copy = field to copy.",
    ),
    Option(
        name="src_field",
        kind=Kind.TEXT,
        check=not_empty,
        example='"name"',
        description="The field to copy, in the older form with one field.",
    ),
    Option(
        name="dest_field",
        kind=Kind.TEXT,
        check=not_empty,
        example='"name_copy"',
        description="The name of the copy, in the older form with one field.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """What the Copy transform is made with, checked: either `fields`, or both others."""

    fields: Mapping[str, str]
    src_field: str | None
    dest_field: str | None


def check_copy(parsed: ParsedOptions, path: str, report: Report) -> None:
    """Either the map, or both options of the older form."""
    if not parsed.has("fields", "src_field", "dest_field"):
        return
    fields, source, copy = (parsed.values[key] for key in ("fields", "src_field", "dest_field"))
    if fields and (source or copy):
        message = "is given, and so is the older form with src_field and dest_field"
        report.problem(parsed.place("fields"), f"{path}.fields", message, "delete src_field and dest_field")
    elif not fields and not (source and copy):
        message = "is required, and missing"
        report.problem(parsed.location, f"{path}.fields", message, "fields { name_copy = name }")
    elif "" in fields:
        report.problem(parsed.place("fields"), f"{path}.fields", "a copy would have no name")
