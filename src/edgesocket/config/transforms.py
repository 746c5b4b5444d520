"""The transforms that a job file may name, and what their options become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgesocket.config.nodes import Report
from edgesocket.config.options import OptionTable, ParsedOptions
from edgesocket.config.plugins.copy import COPY, CopyOptions, check_copy
from edgesocket.config.plugins.field_mapper import FIELD_MAPPER, FieldMapperOptions
from edgesocket.config.plugins.field_rename import FIELD_RENAME, FieldRenameOptions, check_field_rename
from edgesocket.config.plugins.filter import FILTER, FilterOptions, check_filter
from edgesocket.config.plugins.filter_row_kind import FILTER_ROW_KIND, FilterRowKindOptions, check_filter_row_kind
from edgesocket.config.plugins.json_path import JSON_PATH, JsonPathOptions
from edgesocket.config.plugins.replace import REPLACE, ReplaceOptions, check_replace
from edgesocket.config.plugins.split import SPLIT, SplitOptions
from edgesocket.config.plugins.sql import SQL, SqlOptions, check_sql


@dataclass(frozen=True, slots=True)
class TransformPlugin:
    """A transform as the job file knows it: its table, and the dataclass its own options go into.

    Attributes:
        table: every option, the common ones (`plugins.common.COMMON_TRANSFORM`) last.
        build: makes the options of checked values.
        check: checks across options; reports problems and notes.
    """

    table: OptionTable
    build: type[Any]
    check: Callable[[ParsedOptions, str, Report], None] | None = None


TRANSFORMS: Mapping[str, TransformPlugin] = {
    "Copy": TransformPlugin(COPY, CopyOptions, check_copy),
    "FieldMapper": TransformPlugin(FIELD_MAPPER, FieldMapperOptions),
    "FieldRename": TransformPlugin(FIELD_RENAME, FieldRenameOptions, check_field_rename),
    "Filter": TransformPlugin(FILTER, FilterOptions, check_filter),
    "FilterRowKind": TransformPlugin(FILTER_ROW_KIND, FilterRowKindOptions, check_filter_row_kind),
    "JsonPath": TransformPlugin(JSON_PATH, JsonPathOptions),
    "Replace": TransformPlugin(REPLACE, ReplaceOptions, check_replace),
    "Split": TransformPlugin(SPLIT, SplitOptions),
    "Sql": TransformPlugin(SQL, SqlOptions, check_sql),
}
"""The transforms there are, under the names job files use (in any letter case)."""

TRANSFORMS_TO_COME = (
    "DataValidator",
    "DynamicCompile",
    "Embedding",
    "LLM",
    "Metadata",
    "Python",
    "RowKindExtractor",
)
"""Transforms that SeaTunnel has. Naming one says so, where an unknown name gets a list of those that exist."""
