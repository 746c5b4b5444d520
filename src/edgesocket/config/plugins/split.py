"""The options of the Split transform."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.config.options import Kind, Option, OptionTable
from edgesocket.config.plugins.choices import not_empty, some_names
from edgesocket.config.plugins.common import COMMON_TRANSFORM

SPLIT = OptionTable(
    Option(
        name="separator",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='","',
        description="What separates the parts: a regular expression of Java's dialect.",
    ),
    Option(
        name="split_field",
        kind=Kind.TEXT,
        required=True,
        check=not_empty,
        example='"name"',
        description="The field to cut. It stays.",
    ),
    Option(
        name="output_fields",
        kind=Kind.TEXT_LIST,
        required=True,
        check=some_names,
        example='["first_name", "last_name"]',
        description="Names of the parts. The last one takes the rest of the text.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """What the Split transform is made with, checked."""

    separator: str
    split_field: str
    output_fields: tuple[str, ...]
