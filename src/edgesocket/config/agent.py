"""The file of the edge agent: from its values to a checked `AgentSpec`, or to every problem it has.

Pure and on the standard library alone; YAML and JSON become values in `agent_file`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgesocket.config.agent_inputs import INPUTS, InputSpec, check_together
from edgesocket.config.agent_options import (
    GIB,
    KIB,
    MIB,
    AgentOption,
    check_key_id,
    check_lookup_url,
    check_variable,
    choice,
    number,
    port,
    size,
    split_address,
    text,
    time,
)
from edgesocket.config.convert import shorten
from edgesocket.config.nodes import BrokenNode, ListNode, Node, ObjectNode, Report, Scalar, describe
from edgesocket.config.options import Kind, OptionTable, ParsedOptions, parse_options
from edgesocket.errors import ConfigError

_EXAMPLE = "inputs: [{ type: file, paths: [/var/log/*.log] }]"
_SECRETS = {"token": "token_file: /etc/edgesocket/token", "secret_key": "packet: { key_file: /etc/edgesocket/key }"}


class AgentConfigError(ConfigError):
    """The agent's file cannot be run. Holds every problem found."""

    def __str__(self) -> str:
        count = len(self.problems)
        head = "1 problem in the configuration" if count == 1 else f"{count} problems in the configuration"
        return head + ":\n" + "\n".join(f"  {n}. {problem}" for n, problem in enumerate(self.problems, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSpec:
    """Where records wait. Attributes: the options of `spool`."""

    directory: str
    max_bytes: int
    segment_bytes: int
    fsync: str
    fsync_interval_ms: int
    when_full: str
    dead_letter_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketSpec:
    """How records are packed. Attributes: the options of `packet`."""

    compression: str
    key_file: str | None
    key_env: str | None
    key_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec:
    """TLS on the way to the ingress. Attributes: the options of `tls`."""

    ca_file: str | None
    server_name: str | None
    cert_file: str | None
    key_file: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """What is on its way at a time. Attributes: the options of `window`."""

    batches: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """Where health and metrics are answered. Attributes: the options of `http`."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """Everything the agent shall do. Attributes: the options of the file; `to` is host and port, None with `via`."""

    to: tuple[str, int] | None
    via: str | None
    job: str | None
    token_file: str | None
    token_env: str | None
    spool: SpoolSpec
    inputs: tuple[InputSpec, ...]
    packet: PacketSpec | None
    tls: TlsSpec | None
    window: WindowSpec
    http: ServiceSpec | None
    host: str | None
    drain_timeout_s: int

    @property
    def target(self) -> str:
        """Where records go, for people."""
        return f"{self.to[0]}:{self.to[1]}" if self.to is not None else f"job {self.job}, wherever {self.via} says"


def read_inputs(node: Node, path: str, report: Report) -> tuple[InputSpec, ...]:
    """The list of inputs; each block's `type` says which table it is read against."""
    items = node.items if isinstance(node, ListNode) else (node,)
    if isinstance(node, Scalar) or not items:
        report.problem(node.location, path, "needs a list of inputs", _EXAMPLE)
        return ()
    found: list[tuple[InputSpec, ObjectNode]] = []
    for count, item in enumerate(items, 1):
        place = f"{path}[{count}]"
        if isinstance(item, ObjectNode):
            spec = _read_input(item, place, report)
            if spec is not None:
                found.append((spec, item))
        elif not isinstance(item, BrokenNode):
            report.problem(item.location, place, f"needs a block, not {describe(item)}", _EXAMPLE)
    _check_names(found, path, report)
    return tuple(spec for spec, _ in found)


def _read_input(block: ObjectNode, path: str, report: Report) -> InputSpec | None:
    entry = block.fields.get("type")
    known = ", ".join(INPUTS)
    if entry is None:
        report.problem(block.location, f"{path}.type", "is required, and missing", f"one of {known}")
        return None
    if not isinstance(entry.node, Scalar):
        report.problem(entry.location, f"{path}.type", f"needs a word, not {describe(entry.node)}", f"one of {known}")
        return None
    kind = entry.node.text.lower()
    if kind not in INPUTS:
        near = difflib.get_close_matches(kind, INPUTS, n=1, cutoff=0.5)
        shown = shorten(entry.node.text, quote=True)
        fix = f"did you mean {near[0]}?" if near else f"one of {known}"
        report.problem(entry.node.location, f"{path}.type", f"there is no input {shown}", fix)
        return None
    before = len(report.problems)
    block = without_secrets(block, path, report)
    parsed = parse_options(INPUTS[kind].table, block, path, report)
    if len(report.problems) > before:
        return None
    spec = INPUTS[kind].spec(**parsed.values)
    wrong = check_together(spec)
    if wrong is not None:
        option, message, fix = wrong
        report.problem(parsed.place(option), f"{path}.{option}", message, fix)
        return None
    return spec


def _check_names(found: Sequence[tuple[InputSpec, ObjectNode]], path: str, report: Report) -> None:
    seen: set[str] = set()
    types: set[str] = set()
    for spec, block in found:
        if spec.name in seen:
            message = f"another input is called {spec.name} too"
            report.problem(block.location, f"{path}.name", message, "give each of them a name of its own")
        elif spec.type == "stdin" and "stdin" in types:
            report.problem(block.location, path, "there is one standard input, and it is read twice")
        seen.add(spec.name)
        types.add(spec.type)


SPOOL = OptionTable(
    text(
        "directory",
        "Where records wait until they are confirmed; of this agent alone.",
        required=True,
        example="/var/lib/edgesocket/spool",
    ),
    size("max_bytes", GIB, "The most the spool holds.", minimum=2 * MIB),
    size(
        "segment_bytes",
        0,
        "Size of its files.",
        minimum=0,
        maximum=GIB,
        default_text="`8 MiB`, or a sixteenth of `max_bytes` where that is less",
        example="8 MiB",
    ),
    choice(
        "fsync",
        "group",
        ("group", "each", "interval", "never"),
        "When records are forced to the disk: a group at a time, each alone, every `fsync_interval_ms`, or as the "
        "system likes. A crash of the agent alone loses nothing with any of them.",
    ),
    time("fsync_interval_ms", 1000, "With `fsync: interval`: how much a power cut may cost."),
    choice(
        "when_full",
        "block",
        ("block", "drop_oldest", "drop_newest"),
        "Stop reading the inputs, or give up what has waited longest or come last, counted.",
    ),
    size("dead_letter_bytes", 64 * MIB, "Records that were refused for good are kept up to this; the oldest go."),
)

PACKET = OptionTable(
    choice("compression", "none", ("none", "gzip", "zlib", "deflate"), "How each packet is compressed."),
    text("key_file", "File with the base64 key packets are encrypted with.", example="/etc/edgesocket/key"),
    text(
        "key_env",
        "Environment variable with that key, instead of a file.",
        check=check_variable,
        example="EDGESOCKET_SECRET_KEY",
    ),
    text(
        "key_id",
        "Name of that key, said in each packet; for an ingress that knows several. The file or variable holds the key "
        "alone.",
        check=check_key_id,
        example="2026-11",
    ),
)

TLS = OptionTable(
    text(
        "ca_file",
        "PEM file with the certificates to trust.",
        default_text="those that the system trusts",
        example="/etc/edgesocket/ca.crt",
    ),
    text(
        "server_name",
        "Name that the certificate of the ingress must have.",
        default_text="the host in `to`",
        example="edge.example.com",
    ),
    text(
        "cert_file",
        "PEM file with this agent's own certificate, where the ingress asks for one.",
        example="/etc/edgesocket/agent.crt",
    ),
    text("key_file", "PEM file with its key, without a passphrase.", example="/etc/edgesocket/agent.key"),
)

WINDOW = OptionTable(
    number("batches", 8192, "Records that may be on their way, not yet received.", maximum=30_000),
    size("bytes", 4 * MIB, "And their bytes.", minimum=KIB, maximum=256 * MIB),
)

SERVICE = OptionTable(
    text("address", "Address to listen on.", default="127.0.0.1", example="127.0.0.1"),
    port("port", "Port to listen on.", required=True, example="9464"),
)

AGENT = OptionTable(
    AgentOption(
        name="to",
        kind=Kind.TEXT,
        check=split_address,
        default_text="`via` and `job` say where",
        example="edge.example.com:9999",
        description="The ingress, as host:port.",
    ),
    text(
        "via",
        "Instead of `to`: a lookup (`edgesocket lookup`) that is asked before every connection where `job` is now.",
        check=check_lookup_url,
        example="http://lookup.example.com:8090",
    ),
    text("job", "Name of the job that `via` is asked for.", example="edge"),
    text("token_file", "File with the token of the ingress.", example="/etc/edgesocket/token"),
    text(
        "token_env",
        "Environment variable with that token, instead of a file.",
        check=check_variable,
        default_text="`EDGESOCKET_TOKEN`, where there is no token_file",
        example="EDGESOCKET_TOKEN",
    ),
    AgentOption(
        name="spool",
        kind=Kind.BLOCK,
        required=True,
        table=SPOOL,
        build=SpoolSpec,
        description="Where records wait until they are confirmed.",
        example="{ directory: /var/lib/edgesocket/spool }",
    ),
    AgentOption(
        name="inputs",
        kind=Kind.STRUCTURE,
        required=True,
        read=read_inputs,
        example=_EXAMPLE.removeprefix("inputs: "),
        description="Where records come from: a list of blocks, each with a `type`.",
    ),
    AgentOption(
        name="packet",
        kind=Kind.BLOCK,
        table=PACKET,
        build=PacketSpec,
        description="Send packets (`packet_mode = PACKET` at the ingress). Without it records are sent as they are.",
        example="{ compression: gzip }",
    ),
    AgentOption(
        name="tls",
        kind=Kind.BLOCK,
        table=TLS,
        build=TlsSpec,
        default_text="none: the connection is plain",
        description="Encrypt the connection; the certificate of the ingress is always checked. `tls: {}` trusts what "
        "the system trusts.",
        example="{ ca_file: /etc/edgesocket/ca.crt }",
    ),
    AgentOption(
        name="window",
        kind=Kind.BLOCK,
        table=WINDOW,
        build=WindowSpec,
        default=WindowSpec(**WINDOW.defaults()),
        default_text="its defaults",
        description="How much may be on its way.",
        example="{ batches: 8192 }",
    ),
    AgentOption(
        name="http",
        kind=Kind.BLOCK,
        table=SERVICE,
        build=ServiceSpec,
        description="Answer questions about health, and metrics. Without it no port is opened for that.",
        example="{ port: 9464 }",
    ),
    text("host", "Name of this host in envelopes.", default_text="what the system calls it", example="pump-7"),
    time("drain_timeout_s", 10, "How long inputs may take to be read to their end when the agent stops.", unit="s"),
)
"""The options of the agent's file."""


def read_agent(root: ObjectNode, name: str, report: Report) -> AgentSpec:
    """Check the values of a file.

    Args:
        root: the values.
        name: of the file, for messages.
        report: may hold problems of the reading already; takes all others, and notes.

    Raises:
        AgentConfigError: there is a problem.
    """
    parsed = parse_options(AGENT, without_secrets(root, "agent", report), "agent", report)
    _check_target(parsed, report)
    if None not in (parsed.values.get("token_file"), parsed.values.get("token_env")):
        report.problem(parsed.place("token_env"), "agent.token_env", "there is a token_file too", "keep one of them")
    packet = parsed.values.get("packet")
    if packet is not None and packet.key_file is not None and packet.key_env is not None:
        report.problem(parsed.place("packet"), "agent.packet.key_env", "there is a key_file too", "keep one of them")
    if packet is not None and packet.key_id is not None and packet.key_file is None and packet.key_env is None:
        report.problem(
            parsed.place("packet"), "agent.packet.key_id", "there is no key", "key_file: /etc/edgesocket/key"
        )
    tls = parsed.values.get("tls")
    if tls is not None and (tls.cert_file is None) != (tls.key_file is None):
        missing = "cert_file" if tls.cert_file is None else "key_file"
        message = "a certificate and its key go together"
        report.problem(parsed.place("tls"), f"agent.tls.{missing}", message, f"{missing}: FILE")
    if report.problems:
        raise AgentConfigError(report.sorted_problems(name))
    spec = AgentSpec(**parsed.values)
    longest = max(map(_longest_record, spec.inputs))
    if longest * _RECORDS_IN_SPOOL > spec.spool.max_bytes:
        message = f"has no room for {_RECORDS_IN_SPOOL} records of {longest} bytes, which an input allows"
        fix = f"max_bytes: {longest * _RECORDS_IN_SPOOL}, or shorter records"
        report.problem(parsed.place("spool"), "agent.spool.max_bytes", message, fix)
        raise AgentConfigError(report.sorted_problems(name))
    return spec


def _check_target(parsed: ParsedOptions, report: Report) -> None:
    """See that it is said where records go, and once."""
    to, via, job = (parsed.values.get(name) for name in ("to", "via", "job"))
    if not parsed.has("to", "via", "job"):
        return
    if to is None and via is None:
        report.problem(parsed.place("to"), "agent.to", "is required, and missing", "to: edge.example.com:9999")
    elif to is not None and (via is not None or job is not None):
        report.problem(parsed.place("via"), "agent.via", "there is an address in `to` too", "keep one of them")
    elif via is not None and not job:
        report.problem(parsed.place("via"), "agent.job", "is required with `via`, and missing", "job: edge")


_RECORDS_IN_SPOOL = 2
"""So many of the largest records must fit, or one that is read might never find room."""


def _longest_record(spec: InputSpec) -> int:
    sizes = ("max_line_bytes", "max_message_bytes", "max_body_bytes")
    return int(max(getattr(spec, name, 0) for name in sizes))


def without_secrets(block: ObjectNode, path: str, report: Report) -> ObjectNode:
    """A block without secrets that were written into it; each of them is a problem, and is not shown."""
    found = [key for key in block.fields if key in _SECRETS]
    for key in found:
        message = "a secret does not belong in a file that others may read"
        report.problem(block.fields[key].location, f"{path}.{key}", message, _SECRETS[key])
    return ObjectNode({key: entry for key, entry in block.fields.items() if key not in found}, block.location)


def tables() -> Iterator[tuple[str, str, OptionTable]]:
    """Every table of the file, for the reference: kind, name, options."""
    yield "agent", "", AGENT
    for name, kind in INPUTS.items():
        yield "input", name, kind.table
