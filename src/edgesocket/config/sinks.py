"""The sinks that a job file may name, and what their options become. Sinks only ever see checked values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgesocket.config.nodes import Report
from edgesocket.config.options import OptionTable, ParsedOptions
from edgesocket.config.plugins.assert_ import ASSERT, AssertOptions, check_assert
from edgesocket.config.plugins.common import COMMON
from edgesocket.config.plugins.console import CONSOLE, ConsoleOptions
from edgesocket.config.plugins.dead_letter import DEAD_LETTER, DeadLetterOptions
from edgesocket.config.plugins.files import check_files
from edgesocket.config.plugins.http import HTTP, HttpOptions, check_http
from edgesocket.config.plugins.jdbc import JDBC, JdbcOptions, check_jdbc, claims_exactly_once, is_deciding
from edgesocket.config.plugins.kafka import KAFKA, KafkaOptions, check_kafka, check_transaction_timeout, is_exactly_once
from edgesocket.config.plugins.local_file import LOCAL_FILE, LocalFileOptions
from edgesocket.config.plugins.null import NULL, NullOptions
from edgesocket.config.plugins.s3_file import S3_FILE, S3FileOptions, check_s3_file

__all__ = ["COMMON", "SINKS", "SINKS_TO_COME", "SinkPlugin"]


def _no(_: object) -> bool:
    return False


def _yes(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class SinkPlugin:
    """A sink as the job file knows it: its table, and the dataclass its own options go into.

    The dataclass has one field for each option of the table that is not common to all sinks.

    Attributes:
        table: every option, the common ones last.
        build: makes the options of checked values.
        check: checks across options; reports problems and notes.
        claims_exactly_once: whether a sink with these options is meant to show every row exactly once.
        check_times: what is wrong with (options, checkpoint interval, checkpoint timeout in milliseconds), or None.
        deciding: whether a sink with these options decides checkpoints in its own transaction.
    """

    table: OptionTable
    build: type[Any]
    check: Callable[[ParsedOptions, str, Report], None] | None = None
    claims_exactly_once: Callable[[Any], bool] = _no
    deciding: Callable[[Any], bool] = _no
    check_times: Callable[[Any, int, int], str | None] | None = None


SINKS: Mapping[str, SinkPlugin] = {
    "Assert": SinkPlugin(ASSERT, AssertOptions, check_assert),
    "Console": SinkPlugin(CONSOLE, ConsoleOptions),
    "DeadLetter": SinkPlugin(DEAD_LETTER, DeadLetterOptions, claims_exactly_once=_yes),
    "Http": SinkPlugin(HTTP, HttpOptions, check_http),
    "Jdbc": SinkPlugin(JDBC, JdbcOptions, check_jdbc, claims_exactly_once, is_deciding),
    "Kafka": SinkPlugin(KAFKA, KafkaOptions, check_kafka, is_exactly_once, is_exactly_once, check_transaction_timeout),
    "LocalFile": SinkPlugin(LOCAL_FILE, LocalFileOptions, check_files, claims_exactly_once=_yes),
    "Null": SinkPlugin(NULL, NullOptions),
    "S3File": SinkPlugin(S3_FILE, S3FileOptions, check_s3_file, claims_exactly_once=_yes),
}
"""The sinks there are, under the names job files use (in any letter case)."""

SINKS_TO_COME = (
    "Clickhouse",
    "Doris",
    "HdfsFile",
    "StarRocks",
)
"""Sinks that SeaTunnel has. Naming one says so, where an unknown name gets a list of those that exist."""
