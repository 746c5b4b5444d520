"""The options of the LocalFile sink."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.config.options import Kind, Option, OptionTable
from edgesocket.config.plugins.common import COMMON
from edgesocket.config.plugins.files import FILE_FORMAT, FileFormatOptions, check_path

LOCAL_FILE = OptionTable(
    Option(
        name="path",
        kind=Kind.TEXT,
        required=True,
        check=check_path,
        example='"/var/lib/edge/out"',
        description="Directory the files are published in.",
    ),
    Option(
        name="tmp_path",
        kind=Kind.TEXT,
        default_text="a hidden directory in path",
        check=check_path,
        example='"/var/lib/edge/staged"',
        description="Directory files are staged in until their checkpoint completes; on the same device as path.",
    ),
    *FILE_FORMAT,
    *COMMON,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFileOptions(FileFormatOptions):
    """What the LocalFile sink is made with, checked. `tmp_path`: None stages inside `path`."""

    path: str
    tmp_path: str | None
