"""The options of the Filter transform."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.choices import check_one_of
from edgesocket.config.plugins.common import COMMON_TRANSFORM

FILTER = OptionTable(
    Option(
        name="include_fields",
        kind=Kind.TEXT_LIST,
        default=(),
        aliases=("fields",),
        example='["name", "age"]',
        description="Fields to keep, in the order the result has them. Either this or exclude_fields.",
    ),
    Option(
        name="exclude_fields",
        kind=Kind.TEXT_LIST,
        default=(),
        example='["card"]',
        description="Fields to drop. Either this or include_fields.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """What the Filter transform is made with, checked: one of the two is not empty."""

    include_fields: tuple[str, ...]
    exclude_fields: tuple[str, ...]


def check_filter(parsed: ParsedOptions, path: str, report: Report) -> None:
    """One of the lists, not both."""
    check_one_of(parsed, path, report, "include_fields", "exclude_fields")
