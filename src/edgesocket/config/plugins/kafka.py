"""The options of the Kafka sink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.nodes import Report
from edgesocket.config.options import INT_MAX, Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.common import COMMON
from edgesocket.config.plugins.kafka_properties import client_properties

NON, AT_LEAST_ONCE, EXACTLY_ONCE = "NON", "AT_LEAST_ONCE", "EXACTLY_ONCE"
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
DEFAULT_TRANSACTION_TIMEOUT_MS = 900_000
"""The longest that a broker allows unless it is told otherwise (`transaction.max.timeout.ms`)."""

_MAX_TOPIC = 249
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+\Z")
_TOPIC_FIELD = re.compile(r"\$\{([^{}]+)\}\Z")
_WORK_IN_PROGRESS = "is not supported yet"
_FORMATS_LATER = (
    "canal_json",
    "debezium_json",
    "compatible_debezium_json",
    "ogg_json",
    "maxwell_json",
    "avro",
    "protobuf",
    "native",
)
_ALL = ("all", "-1")


def topic_field(topic: str) -> str:
    """The column that `${column}` names, or an empty string for a fixed topic."""
    found = _TOPIC_FIELD.match(topic)
    return found.group(1) if found else ""


def is_topic_name(topic: str) -> bool:
    """Whether a broker could have a topic of this name."""
    return 0 < len(topic) <= _MAX_TOPIC and topic not in (".", "..") and _TOPIC.match(topic) is not None


def _check_topic(topic: str) -> str:
    if not topic_field(topic) and not is_topic_name(topic):
        raise Refused(
            f"{shorten(topic, quote=True)} is no name of a topic: letters, digits, '.', '_' and '-', at most 249",
            'topic = "events", or "${column}" for a topic in each row',
        )
    return topic


def _check_servers(servers: str) -> str:
    if not all(part.strip() for part in servers.split(",")):
        raise Refused("a server's name is empty")
    return servers


def _check_columns(names: tuple[str, ...]) -> tuple[str, ...]:
    if "" in names:
        raise Refused("a column name is empty")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise Refused(f"{shorten(twice[0], quote=True)} stands there twice")
    return names


def _check_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    if "" in parts:
        raise Refused("an empty text is in every row")
    return parts


KAFKA = OptionTable(
    Option(
        name="topic",
        kind=Kind.TEXT,
        required=True,
        check=_check_topic,
        example='"events"',
        description="Topic, or `${column}` for the topic that each row names.",
    ),
    Option(
        name="bootstrap.servers",
        kind=Kind.TEXT,
        required=True,
        check=_check_servers,
        example='"kafka:9092"',
        description="Brokers to begin with, host:port with commas between them.",
    ),
    Option(
        name="semantics",
        kind=Kind.CHOICE,
        default=NON,
        choices=(NON, AT_LEAST_ONCE, EXACTLY_ONCE),
        example=EXACTLY_ONCE,
        description="What readers see after a crash. NON and AT_LEAST_ONCE both wait for every delivery.",
    ),
    Option(
        name="format",
        kind=Kind.CHOICE,
        default="json",
        choices=("json", "text"),
        refused=dict.fromkeys(_FORMATS_LATER, _WORK_IN_PROGRESS),
        example="text",
        description="json: an object. text: columns with field_delimiter between them; without a schema the payload.",
    ),
    Option(
        name="field_delimiter",
        kind=Kind.TEXT,
        default=",",
        example='"|"',
        description="What stands between the columns in format text.",
    ),
    Option(
        name="kafka.config",
        kind=Kind.TEXT_MAP,
        default={},
        secret=True,
        example='{ acks = "all", compression.type = "lz4" }',
        description="Properties of the producer, in the names of the Java client or of librdkafka.",
    ),
    Option(
        name="partition",
        kind=Kind.INTEGER,
        minimum=0,
        maximum=INT_MAX,
        default_text="by key, else spread",
        example="0",
        description="The partition that all rows go to.",
    ),
    Option(
        name="partition_key_fields",
        kind=Kind.TEXT_LIST,
        default=(),
        check=_check_columns,
        example='["user_id"]',
        description="Columns that make the key: a JSON object of them. Equal keys go to one partition, in order.",
    ),
    Option(
        name="assign_partitions",
        kind=Kind.TEXT_LIST,
        default=(),
        check=_check_parts,
        example='["shoe", "clothing"]',
        description="A row whose text holds the nth of these goes to partition n (from 0), others to the rest.",
    ),
    Option(
        name="transaction_prefix",
        kind=Kind.TEXT,
        default="edgesocket",
        example='"edge"',
        description="Beginning of the transactional id and of the group that keeps checkpoints, before job and sink.",
    ),
    Option(
        name="kafka_headers_fields",
        kind=Kind.TEXT_LIST,
        default=(),
        check=_check_columns,
        example='["trace_id"]',
        description="Columns that become headers and leave the value.",
    ),
    Option(name="protobuf_message_name", kind=Kind.LATER, description="there is no protobuf"),
    Option(name="protobuf_schema", kind=Kind.LATER, description="there is no protobuf"),
    *COMMON,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """What the Kafka sink is made with, checked."""

    topic: str
    bootstrap_servers: str
    semantics: Literal["NON", "AT_LEAST_ONCE", "EXACTLY_ONCE"]
    format: Literal["json", "text"]
    field_delimiter: str
    kafka_config: Mapping[str, str] = field(repr=False)
    partition: int | None
    partition_key_fields: tuple[str, ...]
    assign_partitions: tuple[str, ...]
    transaction_prefix: str
    kafka_headers_fields: tuple[str, ...]


def is_exactly_once(options: KafkaOptions) -> bool:
    """Whether the sink's transaction decides checkpoints, and with that shows every row once."""
    return options.semantics == EXACTLY_ONCE


def check_kafka(parsed: ParsedOptions, path: str, report: Report) -> None:
    """What options say about each other, and the names in kafka.config."""
    ways = [key for key in ("partition_key_fields", "assign_partitions") if parsed.values.get(key)]
    if parsed.values.get("partition") is not None and ways:
        message = f"stands beside {ways[0]}; one of them says where a row goes"
        report.problem(parsed.place("partition"), f"{path}.partition", message, "delete one of them")
    if parsed.has("kafka_config"):
        _check_config(parsed, path, report)


def _check_config(parsed: ParsedOptions, path: str, report: Report) -> None:
    place, config = parsed.place("kafka_config"), parsed.values["kafka_config"]
    properties = client_properties(config)
    for name, (message, fix) in properties.refused.items():
        report.problem(place, f"{path}.kafka.config.{shorten(name)}", message, fix)
    if properties.ignored:
        names = ", ".join(sorted(properties.ignored))
        report.note(f"{place}: {path}.kafka.config: without effect here: {names}")
    values = properties.values
    acks = values.get("acks", values.get("request.required.acks", "all"))
    semantics = parsed.values.get("semantics", NON)
    if acks not in _ALL:
        message = "does not wait for all replicas, and a broker that fails loses confirmed rows"
        if semantics == NON:
            report.note(f"{place}: {path}.kafka.config.acks {message}")
        else:
            report.problem(place, f"{path}.kafka.config.acks", f"{message}: not {semantics}", "acks = all")
    if semantics == EXACTLY_ONCE and values.get("enable.idempotence", "true").lower() != "true":
        message = "transactions need it"
        report.problem(place, f"{path}.kafka.config.enable.idempotence", message, "enable.idempotence = true")
    timeout = values.get(TRANSACTION_TIMEOUT, "1")
    if not timeout.isdecimal() or not 0 < int(timeout) <= INT_MAX:
        message = "is not a number of milliseconds"
        fix = f"{TRANSACTION_TIMEOUT} = {DEFAULT_TRANSACTION_TIMEOUT_MS}"
        report.problem(place, f"{path}.kafka.config.{TRANSACTION_TIMEOUT}", message, fix)


def transaction_timeout_ms(config: Mapping[str, Any]) -> int:
    """How long a transaction of the sink may stay open, in milliseconds."""
    return int(config.get(TRANSACTION_TIMEOUT, DEFAULT_TRANSACTION_TIMEOUT_MS))


def check_transaction_timeout(
    options: KafkaOptions, checkpoint_interval_ms: int, checkpoint_timeout_ms: int
) -> str | None:
    """What is wrong with the transaction timeout, None where a checkpoint's transaction fits in.

    A transaction is open from the first row after a checkpoint until the next one has committed, which takes up to
    the interval and the timeout together. The broker ends a longer one, and its rows would have to come again.
    """
    if options.semantics != EXACTLY_ONCE:
        return None
    timeout, longest = transaction_timeout_ms(options.kafka_config), checkpoint_interval_ms + checkpoint_timeout_ms
    if timeout > longest:
        return None
    return (
        f"{TRANSACTION_TIMEOUT} of {timeout} ms is too short: a transaction is open for up to checkpoint.interval plus "
        f"checkpoint.timeout, {longest} ms. Set kafka.config {{ {TRANSACTION_TIMEOUT} = ... }} above it (not above the "
        "broker's transaction.max.timeout.ms), or make the interval or the timeout shorter"
    )
