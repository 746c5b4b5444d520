"""The option tables of the env block, the source and the sinks against the reference and against each other."""

from __future__ import annotations

import dataclasses
import inspect
from decimal import Decimal

import pytest
from config_helpers import KEY, edge_socket, fixes, job, problems

from edgesocket.components.registry import sinks as sink_registry
from edgesocket.config.document import Surroundings, read_document
from edgesocket.config.edge_socket import EDGE_SOCKET, EdgeSocketOptions
from edgesocket.config.env import ENV, EnvSpec
from edgesocket.config.nodes import ObjectNode, Report
from edgesocket.config.options import Kind, Option, OptionTable, parse_options
from edgesocket.config.sinks import COMMON, SINKS
from edgesocket.sinks.file_formats import DEFAULTS as FORMAT_OPTIONS

TABLES = {"env": ENV, "EdgeSocket": EDGE_SOCKET} | {name: sink.table for name, sink in SINKS.items()}
OPTIONS = [(where, option) for where, table in TABLES.items() for option in table.options]


class TestReference:
    """The source options of the reference, with its defaults."""

    @pytest.mark.parametrize(
        ("name", "kind", "default"),
        [
            ("auth_type", Kind.CHOICE, "TOKEN"),
            ("packet_mode", Kind.CHOICE, "RAW"),
            ("secret_key", Kind.TEXTS, ()),
            ("local_queue_capacity", Kind.INTEGER, 1024),
            ("queue_backpressure_watermark_ratio", Kind.DECIMAL, Decimal("0.9")),
            ("queue_full_retry_after_ms", Kind.DURATION, 500),
            ("max_retries", Kind.INTEGER, 3),
            ("reconnect_interval_ms", Kind.DURATION, 1000),
            ("accept_timeout_ms", Kind.DURATION, 1000),
            ("endpoint", Kind.TEXT, None),
        ],
    )
    def test_optional(self, name: str, kind: Kind, default: object) -> None:
        option = EDGE_SOCKET.named(name)

        assert option is not None
        assert (option.kind, option.required, option.default) == (kind, False, default)

    @pytest.mark.parametrize(("name", "kind"), [("port", Kind.INTEGER), ("token", Kind.TEXTS)])
    def test_required(self, name: str, kind: Kind) -> None:
        option = EDGE_SOCKET.named(name)

        assert option is not None
        assert (option.kind, option.required) == (kind, True)

    def test_defaults_the_protocol_adds(self) -> None:
        options = EdgeSocketOptions.of(port=1, token="t")

        assert (options.local_queue_max_bytes, options.max_line_bytes, options.max_record_bytes) == (
            256 << 20,
            16 << 20,
            64 << 20,
        )
        assert (options.reply_stall_timeout_ms, options.auth_timeout_ms) == (60_000, 10_000)
        assert (options.keepalive_idle_s, options.keepalive_interval_s, options.keepalive_probes) == (15, 5, 3)
        assert options.user_timeout_ms == 30_000
        assert (options.require_encryption, options.deduplicate) == (False, True)
        assert (options.invalid_utf8, options.batch_id_gaps, options.on_bad_record) == ("reject", "auto", "fail")
        assert (options.arrival_sync_ms, options.repeated_id) == (1000, None)

    def test_defaults_of_the_job(self) -> None:
        env = EnvSpec.of()

        assert (env.checkpoint_interval_ms, env.checkpoint_timeout_ms, env.checkpoints_kept) == (10_000, 60_000, 3)
        assert env.checkpoint_failure_timeout_ms == 600_000
        assert (env.retry_times, env.retry_interval_s, env.retry_reset_s) == (3, 3, 600)
        assert (env.lease_ms, dict(env.tag_filter), env.parallelism, env.job_name) == (None, {}, 1, None)


class TestSpecs:
    @pytest.mark.parametrize(("where", "option"), OPTIONS, ids=lambda value: getattr(value, "name", value))
    def test_every_option_is_described_in_a_sentence(self, where: str, option: Option) -> None:
        assert option.description
        if option.kind is not Kind.LATER:
            assert option.description.endswith((".", "+"))
            assert option.description[0].isupper() or option.description.split()[0].rstrip(":") in ("json", "text")

    @pytest.mark.parametrize(("where", "option"), OPTIONS, ids=lambda value: getattr(value, "name", value))
    def test_every_option_has_an_example_that_its_own_table_takes(self, where: str, option: Option) -> None:
        if option.kind is Kind.LATER or option.name == "secret_key":
            return
        if option.name == "shade.identifier":
            return  # what it decodes is the token of the example
        if where == "env":
            text = f"env {{ {option.suggestion} }}\nsource {{ EdgeSocket {{ port = 1, token = t }} }}"
        elif where == "EdgeSocket":
            more = f', packet_mode = PACKET, secret_key = "{KEY}"' if option.name == "require_encryption" else ""
            text = f"source {{ EdgeSocket {{ port = 1, token = t, {option.suggestion}{more} }} }}"
        else:
            others = [one.suggestion for one in TABLES[where].options if one.required and one is not option]
            report = Report()
            text = f"block {{ {', '.join([*others, option.suggestion])} }}"
            block = read_document(text, "job.conf", Surroundings(), report).root.fields["block"].node
            assert isinstance(block, ObjectNode)
            parse_options(TABLES[where], block, where, report)
            assert report.sorted_problems("job.conf") == []
            return

        assert problems(text) == []

    @pytest.mark.parametrize(("where", "table"), TABLES.items())
    def test_no_name_stands_for_two_options(self, where: str, table: OptionTable) -> None:
        names = [name for option in table.options for name in (option.name, *option.aliases, *option.former)]
        keys = [option.key for option in table.options]

        assert len(names) == len(set(names))
        assert len(keys) == len(set(keys))

    def test_secrets_are_marked(self) -> None:
        assert {(where, option.name) for where, option in OPTIONS if option.secret} == {
            ("EdgeSocket", "token"),
            ("EdgeSocket", "secret_key"),
            ("Http", "headers"),
            ("Http", "url"),
            ("Jdbc", "password"),
            ("Jdbc", "properties"),
            ("Jdbc", "url"),
            ("Kafka", "kafka.config"),
            ("S3File", "access_key"),
            ("S3File", "secret_key"),
        }

    @pytest.mark.parametrize(
        ("table", "spec", "without"),
        [
            (EDGE_SOCKET, EdgeSocketOptions, ()),
            (ENV, EnvSpec, ()),
            *((sink.table, sink.build, COMMON) for sink in SINKS.values()),
        ],
    )
    def test_the_dataclass_has_the_tables_options(
        self, table: OptionTable, spec: type, without: tuple[Option, ...]
    ) -> None:
        expected = set(table.defaults()) - {option.key for option in without}

        assert {field.name for field in dataclasses.fields(spec)} == expected

    @pytest.mark.parametrize("name", SINKS)
    def test_a_sink_is_made_with_exactly_these_options(self, name: str) -> None:
        arguments = {field.name for field in dataclasses.fields(SINKS[name].build)}

        parameters = set(inspect.signature(sink_registry.factory(name)).parameters)
        if "format_options" in parameters:
            parameters |= FORMAT_OPTIONS.keys()

        assert arguments <= parameters


class TestEdgeSocketChecks:
    def problem(self, line: str, others: str = "port = 1\ntoken = t") -> str:
        found = problems(edge_socket(f"{line}\n{others}"))

        assert len(found) == 1

        return found[0].removeprefix("job.conf:3: source.EdgeSocket.")

    def good(self, line: str, others: str = "port = 1\ntoken = t") -> EdgeSocketOptions:
        return job(edge_socket(f"{line}\n{others}")).sources[0].options

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("port = 70000", "port: 70000 is not a TCP port (1..65535)"),
            ("port = 0", "port: 0 is not a TCP port (1..65535)"),
            ("port = -1", "port: -1 is not a TCP port (1..65535)"),
            ("port = 65536", "port: 65536 is not a TCP port (1..65535)"),
            ("port = 99.5", "port: 99.5 is not a TCP port (1..65535)"),
        ],
    )
    def test_port(self, line: str, problem: str) -> None:
        assert self.problem(line, "token = t") == problem

    def test_a_port_in_quotes_is_fine(self) -> None:
        assert self.good('port = "9999"', "token = t").port == 9999

    @pytest.mark.parametrize(
        ("token", "reason"),
        [
            ("", "the token is blank"),
            ("   ", "the token is blank"),
            ("s3cret\\n", "the token holds a line end: a collector sends it as one line"),
            ("s3\\rcret", "the token holds a line end: a collector sends it as one line"),
            ("s3cret" * 700, "the token is longer than 4087 bytes"),
            ("é" * 2044, "the token is longer than 4087 bytes"),
        ],
    )
    def test_token(self, token: str, reason: str) -> None:
        assert self.problem(f'token = "{token}"', "port = 1") == f"token: {reason}"

    @pytest.mark.parametrize("token", [" x ", "a#b//c$d${e}:f", "é" * 2043, "\\u0000"])
    def test_odd_tokens_are_fine(self, token: str) -> None:
        assert self.good(f'token = "{token}"', "port = 1").token

    @pytest.mark.parametrize(
        ("key", "reason"),
        [
            (KEY[:40] + "Hx4A", "the secret key has 33 bytes, it must have 32"),
            ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==", "the secret key has 31 bytes, it must have 32"),
            (KEY[:-1], "the secret key is not base64 (make one with: openssl rand -base64 32)"),
            (KEY.replace("A", "_"), "the secret key is not base64 (make one with: openssl rand -base64 32)"),
            (KEY[:-2] + "9=", "the secret key is not base64 (make one with: openssl rand -base64 32)"),
            ("", "the secret key has 0 bytes, it must have 32"),
        ],
    )
    def test_secret_key(self, key: str, reason: str) -> None:
        assert self.problem(f'secret_key = "{key}"') == f"secret_key: {reason}"

    def test_a_good_key_arrives_as_bytes_and_neither_secret_is_in_a_repr(self) -> None:
        options = self.good(f'secret_key = "{KEY}"\npacket_mode = packet', 'port = 1\ntoken = "hunter2"')

        assert [key.key for key in options.secret_key] == [bytes(range(32))]
        assert options.packet_mode == "PACKET"
        assert "hunter2" not in repr(options)
        assert "x1f" not in repr(options)

    @pytest.mark.parametrize(
        ("ratio", "reason"),
        [
            ("0", "0 is too small: more than 0"),
            ("-0.1", "-0.1 is too small: more than 0"),
            ("1.0001", "1.0001 is too large: at most 1"),
            ("NaN", "NaN is not a number"),
            ("1e-19", "has more than 18 digits behind the point"),
        ],
    )
    def test_ratio(self, ratio: str, reason: str) -> None:
        name = "queue_backpressure_watermark_ratio"

        assert self.problem(f"{name} = {ratio}") == f"{name}: {reason}"

    def test_a_ratio_keeps_its_digits(self) -> None:
        assert self.good("queue_backpressure_watermark_ratio = 1").queue_backpressure_watermark_ratio == 1
        options = self.good("queue_backpressure_watermark_ratio = 0.07\nlocal_queue_capacity = 100")

        assert options.queue_backpressure_watermark_ratio == Decimal("0.07")

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("queue_full_retry_after_ms = 0", "queue_full_retry_after_ms: 0 is too small: at least 1"),
            ("max_retries = -2", "max_retries: -2 is too small: at least -1"),
            ("local_queue_capacity = 0", "local_queue_capacity: 0 is too small: at least 1"),
            (
                "local_queue_capacity = 2147483648",
                "local_queue_capacity: 2147483648 is too large: at most 2147483647",
            ),
            ("auth_type = MTLS", "auth_type: MTLS is not supported, only TOKEN"),
            ("packet_mode = TLS", "packet_mode: TLS is none of RAW, PACKET"),
            ("parallelism = 2", "parallelism: 2 readers cannot share one TCP port, which this source binds"),
            ("on_bad_record = dead_letter", "on_bad_record: the job has no dead_letter block"),
            ("invalid_utf8 = fail", "invalid_utf8: fail is none of reject, replace"),
        ],
    )
    def test_others(self, line: str, problem: str) -> None:
        assert self.problem(line) == problem

    @pytest.mark.parametrize(
        "line", ["max_retries = -1", "max_retries = 0", "queue_full_wait_ms = 0", "json_mode = strict"]
    )
    def test_edges_that_are_fine(self, line: str) -> None:
        assert self.good(line)

    @pytest.mark.parametrize(
        "endpoint",
        ["h:1", "[::1]:9", "192.168.1.10:10091", "edge-lb.prod.example.com:65535", "under_score:1", "[fe80::1%eth0]:9"],
    )
    def test_endpoints(self, endpoint: str) -> None:
        assert self.good(f'endpoint = "{endpoint}"').endpoint == endpoint

    @pytest.mark.parametrize(
        ("endpoint", "reason"),
        [
            ("h", "h has no port"),
            ("h:", '"h:" has no port behind the colon'),
            ("h:99999", '"h:99999": 99999 is not a TCP port (1..65535)'),
            ("h:0", '"h:0": 0 is not a TCP port (1..65535)'),
            ("h:x", '"h:x": x is not a TCP port (1..65535)'),
            ("h:١", '"h:١": ١ is not a TCP port (1..65535)'),
            (":9", '":9" has no host before the colon'),
            ("", '"" has no port'),
            ("::1:9", '"::1:9" is an IPv6 address without brackets'),
            ("[::1]", '"[::1]" has no port'),
            ("[::1", '"[::1" is an IPv6 address without brackets'),
            ("[::g]:9", '"[::g]:9": there is no IPv6 address in the brackets'),
            ("[]:9", '"[]:9": there is no IPv6 address in the brackets'),
            ("a b:9", '"a b:9" is not host:port'),
            ("a@b:9", '"a@b:9" is not host:port'),
            ("tcp://h:9", '"tcp://h:9" is an address with a scheme or path; host:port alone is wanted'),
            ("h:9/x", '"h:9/x" is an address with a scheme or path; host:port alone is wanted'),
        ],
    )
    def test_endpoints_that_are_none(self, endpoint: str, reason: str) -> None:
        assert self.problem(f'endpoint = "{endpoint}"') == f"endpoint: {reason}"

    def test_encryption_can_only_be_required_where_it_can_be_done(self) -> None:
        name = "require_encryption"

        assert self.problem(f"{name} = true") == f"{name}: lines in RAW mode cannot be encrypted"
        assert self.problem(f"{name} = true\npacket_mode = PACKET") == (
            f"{name}: without a secret_key no packet can be decrypted"
        )
        assert self.good(f'{name} = true\npacket_mode = PACKET\nsecret_key = "{KEY}"').require_encryption
        assert self.problem(f'{name} = true\npacket_mode = PACKET\nsecret_key = "AAAA"').startswith(
            "job.conf:5: source.EdgeSocket.secret_key: "
        )

    def test_a_key_that_nothing_uses_is_noted(self) -> None:
        notes = job(edge_socket(f'port = 1\ntoken = t\nsecret_key = "{KEY}"')).notes

        assert "job.conf:5: source.EdgeSocket.secret_key is not used, because packet_mode is RAW" in notes

    def test_names_of_early_versions_get_a_hint(self) -> None:
        assert fixes(edge_socket("port = 1\nauth_token = x")) == ["did you mean token?"]
        assert fixes(edge_socket("port = 1\ntoken = t\naes_secret_key_base64 = x")) == ["did you mean secret_key?"]
