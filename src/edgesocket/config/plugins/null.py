"""The options of the Null sink: only those that every sink has."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.config.options import OptionTable
from edgesocket.config.plugins.common import COMMON

NULL = OptionTable(*COMMON)


@dataclass(frozen=True, slots=True, kw_only=True)
class NullOptions:
    """What the Null sink is made with: nothing."""
