"""The options of the Console sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgesocket.config.options import Kind, Option, OptionTable, duration
from edgesocket.config.plugins.common import COMMON

CONSOLE = OptionTable(
    Option(
        name="format",
        kind=Kind.CHOICE,
        default="text",
        choices=("text", "json"),
        example="json",
        description="text prints the payload, json an object with its fields.",
    ),
    Option(
        name="log.print.data",
        kind=Kind.BOOLEAN,
        default=True,
        example="false",
        description="Whether rows are printed at all.",
    ),
    duration("log.print.delay.ms", 0, "Pause after each block of rows.", minimum=0),
    *COMMON,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """What the Console sink is made with, checked."""

    format: Literal["text", "json"]
    log_print_data: bool
    log_print_delay_ms: int
