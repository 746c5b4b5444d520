"""The options of the EdgeSocket source: the reference's thirteen, those the protocol adds, and what they become."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.nodes import Node, Report
from edgesocket.config.options import INT_MAX, Kind, Option, OptionTable, ParsedOptions, duration, whole_number
from edgesocket.packet.keys import PacketKey, parse_keys
from edgesocket.protocol.grammar import (
    AUTH_PREFIX,
    DEFAULT_MAX_LINE_BYTES,
    DEFAULT_MAX_RECORD_BYTES,
    MAX_AUTH_LINE_BYTES,
)

if TYPE_CHECKING:
    from edgesocket.schema.types import RowSchema

MAX_TOKEN_BYTES = MAX_AUTH_LINE_BYTES - len(AUTH_PREFIX)
"""A longer token could never be sent: the first line has a limit."""

MAX_TOKENS = 64
"""Each login is compared with all of them."""

MAX_NETWORKS = 256
MAX_CLIENT_NAMES = 1024

VALUE = "value"
"""`rows.VALUE_COLUMN`, the column of rows without a schema; written here because `rows` needs numpy."""

_MAX_RATIO_DIGITS = 18


def _port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec:
    """TLS on the port. Attributes: the options of `tls`."""

    cert_file: str
    key_file: str
    client_ca_file: str | None
    client_names: tuple[str, ...]
    min_version: Literal["1.2", "1.3"]


def _build_tls(**given: Any) -> TlsSpec:
    spec = TlsSpec(**given)
    if spec.client_names and spec.client_ca_file is None:
        message = "client_names without client_ca_file: no certificate is asked for, so it has no name"
        raise Refused(message, "set client_ca_file, or delete client_names")
    return spec


def _check_client_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MAX_CLIENT_NAMES:
        raise Refused(f"there are {len(names)} names, and at most {MAX_CLIENT_NAMES} can be compared")
    for name in names:
        if not name.strip():
            raise Refused("one of the names is blank", 'client_names = ["pump-7"]')
        if "*" in name.removeprefix("*."):
            raise Refused(f"{shorten(name, quote=True)}: only a leading *. stands for anything", '"*.plant.example"')
    return names


def _check_networks(texts: tuple[str, ...]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    networks = []
    for text in texts:
        try:
            networks.append(ipaddress.ip_network(text.strip()))
        except ValueError as error:
            shown = shorten(text, quote=True)
            if "host bits" in str(error):
                fix = f'"{ipaddress.ip_network(text.strip(), strict=False)}"'
                raise Refused(f"{shown} is an address inside a network, not a network", fix) from None
            raise Refused(f"{shown} is no network", 'allow = ["10.0.0.0/8", "192.168.1.7"]') from None
    if not networks:
        raise Refused("the list is empty, so nobody could connect", "delete it: then everybody may")
    if len(networks) > MAX_NETWORKS:
        raise Refused(f"there are {len(networks)} networks, and at most {MAX_NETWORKS} can be compared")
    return tuple(networks)


def _check_tokens(tokens: tuple[str, ...]) -> tuple[str, ...]:
    if not tokens:
        raise Refused("the list is empty", 'token = "a long random text"')
    if len(tokens) > MAX_TOKENS:
        raise Refused(f"there are {len(tokens)} tokens, and at most {MAX_TOKENS} can be compared")
    return tuple(dict.fromkeys(map(check_token, tokens)))


def check_token(token: str) -> str:
    """The token itself, where a collector could send it. Raises Refused, without any of it."""
    if not token.strip():
        raise Refused("the token is blank", 'token = "a long random text"')
    if "\n" in token or "\r" in token:
        raise Refused("the token holds a line end: a collector sends it as one line", "take the line end out")
    if len(token.encode()) > MAX_TOKEN_BYTES:
        raise Refused(f"the token is longer than {MAX_TOKEN_BYTES} bytes", "choose a shorter one")
    return token


def _check_secret_keys(texts: tuple[str, ...]) -> tuple[PacketKey, ...]:
    try:
        return parse_keys(texts)
    except ValueError as error:
        raise Refused(str(error), "openssl rand -base64 32 prints a key") from None


def _check_ratio(ratio: Decimal) -> Decimal:
    exponent = ratio.normalize().as_tuple().exponent
    if isinstance(exponent, int) and exponent < -_MAX_RATIO_DIGITS:
        raise Refused(f"has more than {_MAX_RATIO_DIGITS} digits behind the point")
    return ratio


def _check_endpoint(text: str) -> str:
    """host:port, with an IPv6 address in square brackets."""
    shown = shorten(text, quote=True)
    if "://" in text or "/" in text:
        raise Refused(f"{shown} is an address with a scheme or path; host:port alone is wanted")
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        raise Refused(f"{shown} has no port", f'endpoint = "{shorten(text)}:9999"')
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise Refused(f"{shown} is an IPv6 address without brackets", 'endpoint = "[::1]:9999"')
    if not port:
        raise Refused(f"{shown} has no port behind the colon")
    if not _port(port):
        raise Refused(f"{shown}: {shorten(port)} is not a TCP port (1..65535)")
    if not host:
        raise Refused(f"{shown} has no host before the colon")
    if host.startswith("["):
        try:
            ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            raise Refused(f"{shown}: there is no IPv6 address in the brackets", 'endpoint = "[::1]:9999"') from None
    elif any(char.isspace() or not char.isprintable() or char in '[]"@?#' for char in host):
        raise Refused(f"{shown} is not host:port")
    return text


def _check_parallelism(readers: int) -> int:
    if readers > 1:
        raise Refused(f"{readers} readers cannot share one TCP port, which this source binds", "parallelism = 1")
    return readers


METADATA_FIELDS = ("batch_id", "received_time", "peer")
"""What can be added to rows as columns."""


def _read_schema(node: Node, path: str, report: Report) -> RowSchema:
    """As `config.schema` reads it: loaded for jobs that have a schema, so that options can be shown anywhere."""
    from edgesocket.config.schema import read_schema

    return read_schema(node, path, report)


def _check_metadata(given: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Metadata field and column name, in the order of the job file. `BatchId` is `batch_id`, as SeaTunnel spells."""
    spelled = {field.replace("_", ""): field for field in METADATA_FIELDS}
    wanted: list[tuple[str, str]] = []
    for key, column in given.items():
        field = spelled.get(key.replace("_", "").lower())
        if field is None:
            message = f"there is no metadata field {shorten(key, quote=True)}"
            raise Refused(message, f"one of {', '.join(METADATA_FIELDS)}")
        if not column.strip():
            raise Refused(f"the column of {field} has no name", f"{{ {field} = {field} }}")
        if any(column == name for _, name in wanted):
            raise Refused(f"two columns are called {shorten(column, quote=True)}", "give each a name of its own")
        if any(field == name for name, _ in wanted):
            raise Refused(f"{field} is asked for twice", "delete one of them")
        wanted.append((field, column))
    return tuple(wanted)


TLS = OptionTable(
    Option(
        name="cert_file",
        kind=Kind.TEXT,
        required=True,
        example='"/etc/edgesocket/tls.crt"',
        description="PEM file with the certificate, and the chain above it.",
    ),
    Option(
        name="key_file",
        kind=Kind.TEXT,
        required=True,
        example='"/etc/edgesocket/tls.key"',
        description="PEM file with its key, without a passphrase.",
    ),
    Option(
        name="client_ca_file",
        kind=Kind.TEXT,
        default_text="none: no certificate is asked for",
        example='"/etc/edgesocket/collectors-ca.crt"',
        description="PEM file with the certificates that a collector's own certificate has to be signed by.",
    ),
    Option(
        name="client_names",
        kind=Kind.TEXT_LIST,
        default=(),
        default_text="any",
        check=_check_client_names,
        example='["pump-7.plant.example", "*.edge.example"]',
        description="Names of which a collector's certificate has to have one; `*.` stands for one label.",
    ),
    Option(
        name="min_version",
        kind=Kind.CHOICE,
        default="1.2",
        choices=("1.2", "1.3"),
        example='"1.3"',
        description="Oldest version of TLS that is spoken.",
    ),
)
"""What can stand in `tls`."""


EDGE_SOCKET = OptionTable(
    Option(
        name="port",
        kind=Kind.INTEGER,
        required=True,
        minimum=1,
        maximum=65535,
        noun="a TCP port",
        example="9999",
        description="TCP port the source binds on all interfaces.",
    ),
    Option(
        name="token",
        kind=Kind.TEXTS,
        required=True,
        required_unless="token_file",
        default=(),
        secret=True,
        check=_check_tokens,
        former=("auth_token",),
        example='"my-edge-token"',
        description="Shared secret that a collector sends in its first line; a list of them while it is changed: each "
        "will do. Not needed with `token_file`.",
    ),
    Option(
        name="token_file",
        kind=Kind.TEXT,
        example='"/etc/edgesocket/tokens"',
        description="File with more tokens, one a line; lines that begin with # are comments. Read again when it "
        "changes, without a restart.",
    ),
    Option(
        name="auth_type",
        kind=Kind.CHOICE,
        default="TOKEN",
        choices=("TOKEN",),
        example="TOKEN",
        description="How collectors prove who they are.",
    ),
    Option(
        name="packet_mode",
        kind=Kind.CHOICE,
        default="RAW",
        choices=("RAW", "PACKET"),
        example="PACKET",
        description="RAW: the payload of a line is the record. PACKET: it is a JSON envelope around the record.",
    ),
    Option(
        name="secret_key",
        kind=Kind.TEXTS,
        default=(),
        secret=True,
        check=_check_secret_keys,
        former=("aes_secret_key_base64",),
        example='"<what openssl rand -base64 32 prints>"',
        description="AES-256 key for encrypted packets: base64 of 32 bytes. A list while it is changed, each with its "
        'id before it if it has one: `"2026-11:<base64>"`.',
    ),
    Option(
        name="secret_key_file",
        kind=Kind.TEXT,
        example='"/etc/edgesocket/keys"',
        description="File with more such keys, one a line; lines that begin with # are comments. Read again when it "
        "changes, without a restart.",
    ),
    Option(
        name="tls",
        kind=Kind.BLOCK,
        table=TLS,
        build=_build_tls,
        default_text="none: the port is plain",
        example='{ cert_file = "/etc/edgesocket/tls.crt", key_file = "/etc/edgesocket/tls.key" }',
        description="Encrypt the connection, see docs/security.md. Files are read again when they change, for the next "
        "connection.",
    ),
    Option(
        name="allow",
        kind=Kind.TEXT_LIST,
        default=(),
        default_text="everybody",
        check=_check_networks,
        example='["10.0.0.0/8", "192.168.1.7"]',
        description="Networks and addresses that may connect. All others are closed at once, and counted.",
    ),
    duration(
        "auth_backoff_max_ms",
        5000,
        "How long an address that failed to authenticate again and again waits at most for the next AUTH_FAILED; 0: "
        "not at all. Never more than half of auth_timeout_ms.",
        minimum=0,
    ),
    whole_number("local_queue_capacity", 1024, "Most records the queue holds."),
    Option(
        name="queue_backpressure_watermark_ratio",
        kind=Kind.DECIMAL,
        default=Decimal("0.9"),
        above=0,
        maximum=1,
        check=_check_ratio,
        example="0.9",
        description="Part of the capacity at which QUEUE_FULL is answered: at ceil(capacity x ratio) records.",
    ),
    duration("queue_full_retry_after_ms", 500, "Time to wait that QUEUE_FULL tells the collector."),
    whole_number("max_retries", 3, "Tries to bind the port after the first one failed; -1 is unlimited.", minimum=-1),
    duration("reconnect_interval_ms", 1000, "Wait between two tries to bind the port."),
    duration(
        "accept_timeout_ms",
        1000,
        "How often the source looks at its own state while nothing arrives. Never an idle limit.",
    ),
    Option(
        name="endpoint",
        kind=Kind.TEXT,
        check=_check_endpoint,
        example='"edge.example.com:9999"',
        description="Address collectors reach this source under, as host:port; shown in logs and status, never bound.",
    ),
    Option(
        name="schema",
        kind=Kind.STRUCTURE,
        read=_read_schema,
        default_text="one text column named value, the payload as it came",
        example='{ fields { user_id = "int", event = "string" } }',
        description="Fields of the JSON payloads, see docs/schema.md.",
    ),
    Option(
        name="plugin_output",
        kind=Kind.TEXT,
        aliases=("result_table_name",),
        example='"edge"',
        description="Name under which sinks find the rows of this source.",
    ),
    whole_number("parallelism", 1, "Readers of this source. Only 1: a port is bound once.", check=_check_parallelism),
    Option(
        name="local_queue_max_bytes",
        kind=Kind.SIZE,
        unit="bytes",
        default=256 * 1024 * 1024,
        minimum=1,
        example="256 MiB",
        description="Bytes in the queue at which QUEUE_FULL is answered too. An empty queue always takes one record.",
    ),
    duration(
        "queue_full_wait_ms",
        50,
        "Wait for space in the queue before QUEUE_FULL, once a burst; 0 answers at once.",
        minimum=0,
        maximum=60_000,
    ),
    Option(
        name="max_line_bytes",
        kind=Kind.SIZE,
        unit="bytes",
        default=DEFAULT_MAX_LINE_BYTES,
        minimum=1024,
        maximum=1 << 30,
        example="16 MiB",
        description="Longest request line. A longer one is skipped and answered BAD_REQUEST.",
    ),
    Option(
        name="max_record_bytes",
        kind=Kind.SIZE,
        unit="bytes",
        default=DEFAULT_MAX_RECORD_BYTES,
        minimum=1,
        maximum=INT_MAX,
        example="64 MiB",
        description="Largest record a packet may decompress to. A larger one is answered DECODE_FAILED.",
    ),
    duration(
        "reply_stall_timeout_ms",
        60_000,
        "How long replies may be owed without the collector taking or sending a byte, before it is cut off.",
        minimum=1000,
    ),
    duration("auth_timeout_ms", 10_000, "Time a connection has for its whole first line."),
    duration(
        "keepalive_idle_s",
        15,
        "Silence of a collector after which its host is asked whether it still lives.",
        unit="s",
        maximum=32_767,
    ),
    duration("keepalive_interval_s", 5, "Wait between two such questions.", unit="s", maximum=32_767),
    whole_number("keepalive_probes", 3, "Unanswered questions after which a collector counts as gone.", maximum=127),
    duration(
        "user_timeout_ms",
        30_000,
        "How long replies may stay unacknowledged by the collector's host; 0 leaves it to the system.",
        minimum=0,
    ),
    Option(
        name="require_encryption",
        kind=Kind.BOOLEAN,
        default=False,
        example="true",
        description="Answer DECRYPT_FAILED to a packet that is not encrypted.",
    ),
    Option(
        name="invalid_utf8",
        kind=Kind.CHOICE,
        default="reject",
        choices=("reject", "replace"),
        example="replace",
        description="Payloads that are not UTF-8: reject answers DECODE_FAILED, replace puts U+FFFD and counts.",
    ),
    Option(
        name="batch_id_gaps",
        kind=Kind.CHOICE,
        default="auto",
        choices=("auto", "hold", "skip"),
        example="hold",
        description="Ids that were never offered: auto passes over them unless something may be lost, hold waits, "
        "skip always passes over them.",
    ),
    duration(
        "arrival_sync_ms",
        1000,
        "How much of the arrival log the loss of a host may cost; 0 syncs it before every burst of replies.",
        minimum=0,
    ),
    Option(
        name="deduplicate",
        kind=Kind.BOOLEAN,
        default=True,
        example="false",
        description="Take a repeated id with the same payload for a resend and do not queue it again.",
    ),
    Option(
        name="repeated_id",
        kind=Kind.CHOICE,
        default_text="record; resend if a sink claims exactly once",
        choices=("record", "resend"),
        example="record",
        description="What a repeated id beyond the memory of fingerprints is.",
    ),
    Option(
        name="on_bad_record",
        kind=Kind.CHOICE,
        default="fail",
        choices=("fail", "reject", "dead_letter"),
        example="fail",
        description="A record that does not fit the schema: fail ends the job, reject answers DECODE_FAILED, "
        "dead_letter sends it to the dead_letter block of the job.",
    ),
    Option(
        name="json_mode",
        kind=Kind.CHOICE,
        default="strict",
        choices=("strict", "lenient"),
        example="lenient",
        description="How JSON becomes typed: strict refuses what does not fit, lenient converts as SeaTunnel does.",
    ),
    Option(
        name="metadata_fields",
        kind=Kind.TEXT_MAP,
        default=(),
        default_text="none",
        check=_check_metadata,
        example="{ batch_id = batch_id, received_time = received_time, peer = peer }",
        description="Columns added behind those of the payload, by the name each is to have: batch_id, "
        "received_time (UTC), peer.",
    ),
    Option(name="metadata_datasource_id", kind=Kind.LATER, description="there is no metadata service here"),
)
"""Every option of the EdgeSocket source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSocketOptions:
    """The options of one EdgeSocket source, checked. Meanings and limits stand in `EDGE_SOCKET`.

    Attributes:
        token: every token that stands in the job file.
        secret_key: every key that stands in the job file, in the order they are tried.
        allow: the networks; none: everybody may connect.
        queue_backpressure_watermark_ratio: exactly as written.
        repeated_id: None: "resend" if a sink of the job claims exactly once, else "record".
        metadata_fields: metadata field and column name, in the order of the columns.
    """

    port: int
    token: tuple[str, ...] = field(repr=False)
    token_file: str | None
    auth_type: Literal["TOKEN"]
    packet_mode: Literal["RAW", "PACKET"]
    secret_key: tuple[PacketKey, ...] = field(repr=False)
    secret_key_file: str | None
    tls: TlsSpec | None
    allow: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    auth_backoff_max_ms: int
    local_queue_capacity: int
    queue_backpressure_watermark_ratio: Decimal
    queue_full_retry_after_ms: int
    max_retries: int
    reconnect_interval_ms: int
    accept_timeout_ms: int
    endpoint: str | None
    plugin_output: str | None
    parallelism: int
    local_queue_max_bytes: int
    queue_full_wait_ms: int
    max_line_bytes: int
    max_record_bytes: int
    reply_stall_timeout_ms: int
    auth_timeout_ms: int
    keepalive_idle_s: int
    keepalive_interval_s: int
    keepalive_probes: int
    user_timeout_ms: int
    require_encryption: bool
    invalid_utf8: Literal["reject", "replace"]
    batch_id_gaps: Literal["auto", "hold", "skip"]
    arrival_sync_ms: int
    deduplicate: bool
    repeated_id: Literal["record", "resend"] | None
    on_bad_record: Literal["fail", "reject", "dead_letter"]
    schema: RowSchema | None
    json_mode: Literal["strict", "lenient"]
    metadata_fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, **given: Any) -> EdgeSocketOptions:
        """Options with the table's default for everything not given. For tests and embedding; checks nothing.

        `token` may be one text, `secret_key` the bytes of one key.
        """
        if isinstance(given.get("token"), str):
            given["token"] = (given["token"],)
        if isinstance(given.get("secret_key"), bytes):
            given["secret_key"] = (PacketKey(given["secret_key"]),)
        return cls(**{**EDGE_SOCKET.defaults(), **given})


def check_edge_socket(parsed: ParsedOptions, path: str, report: Report) -> None:
    """Checks that need more than one option."""
    _check_metadata_columns(parsed, path, report)
    if not parsed.has("packet_mode", "require_encryption", "secret_key", "secret_key_file"):
        return
    raw = parsed.values["packet_mode"] == "RAW"
    has_key = bool(parsed.values["secret_key"]) or parsed.values["secret_key_file"] is not None
    if parsed.values["require_encryption"] and (raw or not has_key):
        place = parsed.place("require_encryption")
        if raw:
            message, fix = "lines in RAW mode cannot be encrypted", "packet_mode = PACKET"
        else:
            message, fix = "without a secret_key no packet can be decrypted", "set the same secret_key on both sides"
        report.problem(place, f"{path}.require_encryption", message, fix)
    elif raw and has_key:
        name = "secret_key" if parsed.values["secret_key"] else "secret_key_file"
        report.note(f"{parsed.place(name)}: {path}.{name} is not used, because packet_mode is RAW")


def _check_metadata_columns(parsed: ParsedOptions, path: str, report: Report) -> None:
    """No metadata column has the name of a column of the payload."""
    if not parsed.has("metadata_fields", "schema"):
        return
    schema: RowSchema | None = parsed.values["schema"]
    taken = [VALUE] if schema is None else list(schema.names)
    for wanted, column in parsed.values["metadata_fields"]:
        if column in taken:
            message = f"the rows have a column {shorten(column, quote=True)} already"
            fix = f'{wanted} = "{wanted}_of_batch"' if wanted == column else f"{wanted} = {wanted}"
            report.problem(parsed.place("metadata_fields"), f"{path}.metadata_fields.{wanted}", message, fix)
