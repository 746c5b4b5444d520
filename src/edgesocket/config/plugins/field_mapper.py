"""The options of the FieldMapper transform."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgesocket.config.convert import Refused
from edgesocket.config.options import Kind, Option, OptionTable
from edgesocket.config.plugins.common import COMMON_TRANSFORM


def _check_map(names: dict[str, str]) -> dict[str, str]:
    if not names:
        raise Refused("the map is empty")
    if "" in names.values():
        raise Refused("a field would have no name")
    return names


FIELD_MAPPER = OptionTable(
    Option(
        name="field_mapper",
        kind=Kind.TEXT_MAP,
        required=True,
        check=_check_map,
        example="{ id = id, device_name = name }",
        description="Field before = name after. The result has these fields only, in this order.",
    ),
    *COMMON_TRANSFORM,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMapperOptions:
    """What the FieldMapper transform is made with, checked."""

    field_mapper: Mapping[str, str]
