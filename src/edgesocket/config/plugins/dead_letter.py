"""The options of the DeadLetter sink."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.config.convert import Refused
from edgesocket.config.options import Kind, Option, OptionTable
from edgesocket.config.plugins.common import COMMON


def _check_path(path: str) -> str:
    if not path.strip():
        raise Refused("the path is blank")
    if "\0" in path:
        raise Refused("the path holds a NUL character")
    return path


DEAD_LETTER = OptionTable(
    Option(
        name="path",
        kind=Kind.TEXT,
        required=True,
        check=_check_path,
        example='"/var/lib/edge/dead"',
        description="Directory the files are published in.",
    ),
    Option(
        name="tmp_path",
        kind=Kind.TEXT,
        default_text="a hidden directory in path",
        check=_check_path,
        example='"/var/lib/edge/staged"',
        description="Directory files are staged in until their checkpoint completes; on the same device as path.",
    ),
    *COMMON,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterOptions:
    """What the DeadLetter sink is made with, checked. `tmp_path`: None stages inside `path`."""

    path: str
    tmp_path: str | None
