"""The options of the FilterRowKind transform."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.choices import check_one_of
from edgesocket.config.plugins.common import COMMON_TRANSFORM

ROW_KINDS = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")


def _check_kinds(kinds: tuple[str, ...]) -> tuple[str, ...]:
    for kind in kinds:
        if kind.upper() not in ROW_KINDS:
            raise Refused(f"{shorten(kind, quote=True)} is none of {', '.join(ROW_KINDS)}")
    return tuple(kind.upper() for kind in kinds)


FILTER_ROW_KIND = OptionTable(
    Option(
        name="include_kinds",
        kind=Kind.TEXT_LIST,
        default=(),
        check=_check_kinds,
        example='["INSERT"]',
        description="Kinds of rows to keep: INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE. Either this or exclude_kinds.",
    ),
    Option(
        name="exclude_kinds",
        kind=Kind.TEXT_LIST,
        default=(),
        check=_check_kinds,
        example='["DELETE"]',
        description="Kinds of rows to drop. Either this or include_kinds.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRowKindOptions:
    """What the FilterRowKind transform is made with, checked: one of the two is not empty."""

    include_kinds: tuple[str, ...]
    exclude_kinds: tuple[str, ...]


def check_filter_row_kind(parsed: ParsedOptions, path: str, report: Report) -> None:
    """One of the lists, not both; and say what they come to, as every row is an INSERT."""
    check_one_of(parsed, path, report, "include_kinds", "exclude_kinds")
    if not parsed.has("include_kinds", "exclude_kinds"):
        return
    include, exclude = parsed.values["include_kinds"], parsed.values["exclude_kinds"]
    if (include and "INSERT" not in include) or "INSERT" in exclude:
        report.note(f"{parsed.location}: {path} drops every row: collectors only send INSERT rows")
