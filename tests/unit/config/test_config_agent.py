"""The edge agent's file: every problem at once, with its line and a fix, and never a secret."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from edgesocket.config.agent import AgentConfigError, AgentSpec, TlsSpec, tables
from edgesocket.config.agent_file import MAX_NESTING, load_agent
from edgesocket.config.agent_inputs import ExecSpec, FileSpec, HttpSpec, SyslogSpec
from edgesocket.config.catalog import walk
from edgesocket.errors import ComponentError, ExitCode

SMALL = "to: edge:9999\nspool: { directory: /s }\ninputs: [{ type: stdin }]\n"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n" for before, name in zip("abcde", "bcdef", strict=True)
)
"""A million values out of six lines."""


def load(text: str, name: str = "agent.yaml") -> AgentSpec:
    return load_agent(text, name)[0]


def problems(text: str, name: str = "agent.yaml") -> list[tuple[str, str, str, str]]:
    with pytest.raises(AgentConfigError) as caught:
        load(text, name)
    return [(one.location, one.path, one.message, one.fix) for one in caught.value.problems]


def test_a_small_file_has_defaults_for_the_rest() -> None:
    spec = load(SMALL)
    assert spec.to == ("edge", 9999)
    assert (spec.spool.max_bytes, spec.spool.fsync, spec.spool.when_full) == (1 << 30, "group", "block")
    assert (spec.packet, spec.http, spec.host) == (None, None, None)
    assert spec.window.batches == 8192
    (stdin,) = spec.inputs
    assert (stdin.type, stdin.name, stdin.envelope) == ("stdin", "stdin", False)


def test_everything_can_be_said() -> None:
    spec = load("""
to: "[::1]:9999"
token_file: /etc/token
spool: { directory: /s, max_bytes: 64 MiB, fsync: interval, fsync_interval_ms: 2s, when_full: drop_oldest }
packet: { compression: gzip, key_env: KEY }
window: { batches: 100, bytes: 1 MiB }
http: { port: 9464 }
host: pump-7
drain_timeout_s: 1m
inputs:
  - type: file
    name: app
    paths: [/var/log/*.log, /srv/x]
    exclude: '*.gz'
    from_beginning: true
    encoding: gbk
    max_line_bytes: 64 KiB
    long_lines: cut
    skip_empty: true
    multiline: { start: '^\\d', max_lines: 10 }
  - { type: syslog, protocol: udp, port: 514, parse: true }
  - { type: http, port: 8080, path: /in, body: record, token_env: T }
  - { type: exec, command: "sh -c 'echo a b'", every_s: 5m, environment: { LANG: C } }
""")
    assert spec.to == ("::1", 9999)
    assert spec.packet is not None
    assert (spec.packet.compression, spec.packet.key_env) == ("gzip", "KEY")
    assert spec.http is not None
    assert (spec.http.address, spec.http.port) == ("127.0.0.1", 9464)
    assert spec.drain_timeout_s == 60
    app, net, hooks, df = spec.inputs
    assert isinstance(app, FileSpec)
    assert (app.paths, app.exclude) == (("/var/log/*.log", "/srv/x"), ("*.gz",))
    assert app.multiline is not None
    assert (app.multiline.start, app.multiline.max_lines, app.multiline.joiner) == ("^\\d", 10, "\\n")
    assert isinstance(net, SyslogSpec)
    assert (net.name, net.protocol, net.parse) == ("syslog", "udp", True)
    assert isinstance(hooks, HttpSpec)
    assert (hooks.path, hooks.body, hooks.token_env) == ("/in", "record", "T")
    assert isinstance(df, ExecSpec)
    assert (df.command, df.every_s, df.environment) == (("sh", "-c", "echo a b"), 300, {"LANG": "C"})


def test_all_problems_come_at_once_with_line_and_fix() -> None:
    found = problems("""to: nowhere
spool: { directory: /s, when_ful: block }
inputs:
  - type: file
    path: [/x]
  - type: sylog
  - { type: exec, command: "a 'b" }
  - { type: http, port: 99999 }
""")
    assert [(location, path) for location, path, _, _ in found] == [
        ("agent.yaml:1", "agent.to"),
        ("agent.yaml:2", "agent.spool.when_ful"),
        ("agent.yaml:5", "agent.inputs[1].path"),
        ("agent.yaml:6", "agent.inputs[2].type"),
        ("agent.yaml:7", "agent.inputs[3].command"),
        ("agent.yaml:8", "agent.inputs[4].port"),
    ]
    assert found[1][3] == "did you mean when_full?"
    assert found[2][3] == "did you mean paths?"
    assert found[3][3] == "did you mean syslog?"


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (SMALL + "token: hunter2\n", "agent.token", "token_file"),
        (SMALL + "secret_key: hunter2\n", "agent.secret_key", "key_file"),
        (SMALL + "token_env: hunter2-\n", "agent.token_env", "environment variable"),
        (
            SMALL.replace("{ type: stdin }", "{ type: http, port: 1, token: hunter2 }"),
            "agent.inputs[1].token",
            "secret",
        ),
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_shown(text: str, path: str, words: str) -> None:
    ((_, where, message, fix),) = problems(text)
    assert where == path
    assert words in message + fix
    assert "hunter2" not in message + fix


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("spool: { directory: /s }\ninputs: [{ type: stdin }]\n", "agent.to"),
        ("to: e:1\ninputs: [{ type: stdin }]\n", "agent.spool"),
        ("to: e:1\nspool: { directory: /s }\n", "agent.inputs"),
        ("to: e:1\nspool: { directory: /s }\ninputs: []\n", "agent.inputs"),
        ("to: e:1\nspool: { directory: /s }\ninputs: stdin\n", "agent.inputs"),
        ("to: e:1\nspool: { directory: /s }\ninputs: [stdin]\n", "agent.inputs[1]"),
        ("to: e:1\nspool: { directory: /s }\ninputs: [{ name: x }]\n", "agent.inputs[1].type"),
        (SMALL.replace("{ type: stdin }", "{ type: stdin }, { type: stdin }"), "agent.inputs.name"),
        (SMALL.replace("{ type: stdin }", "{ type: stdin }, { type: stdin, name: b }"), "agent.inputs"),
        (SMALL.replace("stdin", "stdin, name: a/b"), "agent.inputs[1].name"),
        (SMALL.replace("stdin", "stdin, encoding: klingon"), "agent.inputs[1].encoding"),
        (SMALL.replace("stdin", "stdin, multiline: { start: '(' }"), "agent.inputs[1].multiline.start"),
        (SMALL.replace("stdin", "stdin, multiline: { max_lines: 3 }"), "agent.inputs[1].multiline"),
        (SMALL.replace("stdin", "stdin, multiline: { indented: true, start: x }"), "agent.inputs[1].multiline"),
        (SMALL.replace("stdin", "stdin, max_line_bytes: 10 MiB").replace("/s", "/s, max_bytes: 16 MiB"),
         "agent.spool.max_bytes"),
        (SMALL + "token_file: a\ntoken_env: B\n", "agent.token_env"),
        (SMALL + "packet: { key_file: a, key_env: B }\n", "agent.packet.key_env"),
        (SMALL.replace("stdin", "http, port: 1, token_file: a, token_env: B"), "agent.inputs[1].token_env"),
        (SMALL.replace("stdin", "http, port: 1, path: logs"), "agent.inputs[1].path"),
        (SMALL.replace("stdin", "exec, command: []"), "agent.inputs[1].command"),
        (SMALL.replace("edge:9999", "edge"), "agent.to"),
        (SMALL.replace("edge:9999", "tcp://edge:9999"), "agent.to"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, path: str) -> None:
    assert [where for _, where, _, _ in problems(text)] == [path]


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("to: [", "agent.yaml:1:6"),
        ("a: b\n c: d", "agent.yaml:2:3"),
        ("- just\n- a list", "agent.yaml:1"),
        ("", "agent.yaml:1"),
        (SMALL + "to: twice:1\n", "agent.yaml:4"),
        (SMALL + "a: " + "[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1), "agent.yaml:1"),
        (BOMB, "agent.yaml:1"),
    ],
)  # fmt: skip
def test_what_is_no_such_yaml_is_said_where(text: str, location: str) -> None:
    assert problems(text)[0][0] == location


def as_json(**more: Any) -> str:
    values = {"to": "edge:9999", "spool": {"directory": "/s"}, "inputs": [{"type": "stdin"}], **more}
    return json.dumps(values, indent=1)


def test_json_says_the_same() -> None:
    assert load(as_json(), "agent.json") == load(SMALL)
    assert problems(as_json(hots="x"), "agent.json")[0][3] == "did you mean host?"
    assert problems('{"to": }', "agent.json")[0][0] == "agent.json:1:8"
    assert problems("to: edge:1", "agent.json")[0][1] == "JSON"


def test_without_pyyaml_json_is_read_and_yaml_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert load(as_json(), "agent.yaml") == load(as_json(), "agent.json")
    with pytest.raises(ComponentError, match=r"pip install 'edgesocket\[yaml\]'") as caught:
        load(SMALL)
    assert caught.value.exit_code == ExitCode.UNAVAILABLE


@pytest.mark.parametrize("title", [f"{kind} {name}".strip() for kind, name, _ in tables()])
def test_every_option_has_an_example(title: str) -> None:
    (table,) = (table for kind, name, table in tables() if f"{kind} {name}".strip() == title)
    assert [path for path, option in walk(table) if not option.example] == []


def test_values_that_yaml_would_turn_into_something_else_stay_as_written() -> None:
    assert load(SMALL + "host: 0123\n").host == "0123"
    assert load(SMALL + "host: 'null'\n").host == "null"
    assert load(SMALL + "host: ~\n").host is None


class TestTls:
    """The connection to the ingress."""

    def test_an_empty_block_switches_it_on(self) -> None:
        assert load(SMALL).tls is None
        assert load(SMALL + "tls: {}\n").tls == TlsSpec(ca_file=None, server_name=None, cert_file=None, key_file=None)

    def test_everything_of_it(self) -> None:
        tls = load(SMALL + "tls: { ca_file: ca, server_name: edge, cert_file: a, key_file: b }\n").tls
        assert tls == TlsSpec(ca_file="ca", server_name="edge", cert_file="a", key_file="b")

    @pytest.mark.parametrize(("block", "missing"), [("cert_file: a", "key_file"), ("key_file: b", "cert_file")])
    def test_a_certificate_and_its_key_go_together(self, block: str, missing: str) -> None:
        ((_, path, message, _),) = problems(SMALL + f"tls: {{ {block} }}\n")
        assert (path, message) == (f"agent.tls.{missing}", "a certificate and its key go together")

    def test_there_is_no_switch_to_trust_anybody(self) -> None:
        ((_, path, message, _),) = problems(SMALL + "tls: { insecure: true }\n")
        assert (path, message) == ("agent.tls.insecure", "there is no such option")


class TestKeyId:
    """The name of a key in packets."""

    def test_it_goes_with_a_key(self) -> None:
        packet = load(SMALL + "packet: { key_file: k, key_id: 2026-11 }\n").packet
        assert packet is not None
        assert packet.key_id == "2026-11"
        ((_, path, _, _),) = problems(SMALL + "packet: { key_id: a }\n")
        assert path == "agent.packet.key_id"

    def test_what_is_no_name_may_be_the_key_itself_and_is_not_shown(self) -> None:
        ((_, _, message, _),) = problems(SMALL + "packet: { key_file: k, key_id: 'hunter2/+=' }\n")
        assert "hunter2" not in message


class TestWhere:
    """Where records go: an address, or a job that is looked for."""

    REST = "spool: { directory: /s }\ninputs: [{ type: stdin }]\n"

    def test_a_job_is_followed_by_way_of_a_lookup(self) -> None:
        spec = load("via: http://lookup:8090/\njob: edge\n" + self.REST)
        assert (spec.to, spec.via, spec.job) == (None, "http://lookup:8090", "edge")
        assert spec.target == "job edge, wherever http://lookup:8090 says"

    @pytest.mark.parametrize(
        ("values", "problem"),
        [
            ("", "is required, and missing"),
            ("to: edge:9999\nvia: http://lookup:8090\njob: edge\n", "there is an address in `to` too"),
            ("via: http://lookup:8090\n", "is required with `via`, and missing"),
            ("via: lookup:8090\njob: edge\n", "is not the address of a lookup"),
            ("via: http://me:pw@lookup\njob: edge\n", "holds a name or a password"),
        ],
    )
    def test_where_records_go_is_said_once(self, values: str, problem: str) -> None:
        assert any(problem in message for _, _, message, _ in problems(values + self.REST))
