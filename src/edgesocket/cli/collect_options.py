"""The command line of `edgesocket collect`: its flags, and the configuration they stand for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgesocket.cli.output import add_format_argument
from edgesocket.cli.send_options import add_tls_arguments, tls_settings
from edgesocket.collector.agent_inputs import further_problems
from edgesocket.collector.agent_secrets import secret_problems
from edgesocket.config.agent import AgentConfigError, AgentSpec, read_agent
from edgesocket.config.agent_file import load_agent
from edgesocket.config.nodes import Field, ListNode, Location, Node, ObjectNode, Report, Scalar
from edgesocket.errors import UsageError

KEY_VARIABLE = "EDGESOCKET_SECRET_KEY"
_HERE = Location("command line", 1)

_DESCRIPTION = """\
Follow files and other inputs, keep what they bring in a spool on disk, and deliver it to an EdgeSocket ingress until a
completed checkpoint covers it. Runs until it is stopped; outages, refusals and full disks end by themselves.
"""

_EPILOG = """\
secrets:
  The token comes from --token-file or EDGESOCKET_TOKEN, the key for encrypted packets from --key-file or
  EDGESOCKET_SECRET_KEY. Neither can be given on the command line or in AGENT.yaml, where others may read it.

signals:
  SIGTERM, SIGINT  read the inputs' rest into the spool, and end
  SIGHUP           read AGENT.yaml again; inputs that changed are opened anew

exit codes:
  0  stopped, or with --once: all is confirmed
  64 the command line is off           69 a port or the spool cannot be had
  70 a bug                             75 --once ran out of time; another agent has the spool
  77 --once, and the ingress refused   78 the configuration is off
"""

_FILE_FLAGS = (
    "file",
    "stdin",
    "from_beginning",
    "envelope",
    "to",
    "via",
    "job",
    "token_file",
    "spool",
    "packet",
    "compress",
    "key_file",
    "key_id",
    "tls",
    "tls_ca",
    "tls_server_name",
    "tls_cert",
    "tls_key",
    "http_port",
)
"""Flags that AGENT.yaml is used instead of."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """Add the verb."""
    parser = subparsers.add_parser(
        "collect",
        help="run the edge agent: inputs, spool, delivery",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", metavar="AGENT.yaml", nargs="?", help="the configuration, YAML or JSON")
    parser.add_argument("--check", action="store_true", help="say everything that is wrong with it, and end")
    add_format_argument(parser, help_text="how --check says what the agent will do (default: text)")
    parser.add_argument("--once", action="store_true", help="end when what is there is read and confirmed")
    parser.add_argument("--timeout", metavar="S", type=float, help="with --once: give up after S seconds")
    simple = parser.add_argument_group("without a configuration")
    simple.add_argument("--file", metavar="GLOB", action="append", help="files to follow; may be given several times")
    simple.add_argument("--from-beginning", action="store_true", default=None, help="what they hold already, too")
    simple.add_argument("--stdin", action="store_true", default=None, help="read the standard input")
    simple.add_argument("--to", metavar="HOST:PORT", help="the ingress")
    simple.add_argument("--job", metavar="NAME", help="instead of --to: follow this job of a cluster")
    simple.add_argument("--via", metavar="URL", help="ask here where it is, at every connection (edgesocket lookup)")
    simple.add_argument("--token-file", metavar="FILE", help="file with its token (else $EDGESOCKET_TOKEN)")
    simple.add_argument("--spool", metavar="DIR", help="directory for what is not confirmed yet")
    simple.add_argument(
        "--envelope", action="store_true", default=None, help="send JSON that says where a line is from"
    )
    simple.add_argument("--packet", action="store_true", default=None, help="send packets, encrypted with a key")
    simple.add_argument("--compress", choices=["gzip", "zlib", "deflate"], help="compress each packet")
    simple.add_argument("--key-file", metavar="FILE", help=f"file with the base64 key (else ${KEY_VARIABLE})")
    simple.add_argument("--key-id", metavar="NAME", help="name of that key, for an ingress that knows several")
    simple.add_argument("--http-port", metavar="N", help="answer health and metrics on 127.0.0.1")
    simple.add_argument("--token", help=argparse.SUPPRESS)
    add_tls_arguments(parser)
    return parser


def read_spec(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> tuple[AgentSpec, tuple[str, ...]]:
    """The configuration that the arguments name or stand for, checked as far as it can be without opening anything.

    Returns:
        It, and notes for the log.

    Raises:
        UsageError: the flags do not go together, or the file cannot be read.
        AgentConfigError: every problem of the configuration.
        ComponentError: PyYAML is needed and missing.
    """
    if args.token is not None:
        raise UsageError(
            "a token on the command line can be read by other users of this host: use --token-file, or EDGESOCKET_TOKEN"
        )
    if args.timeout is not None and not (args.once and args.timeout > 0):
        raise UsageError("--timeout goes with --once, and is above 0")
    notes: tuple[str, ...] = ()
    if args.config is None:
        spec = _spec_of_flags(args, environ)
    else:
        given = [name for name in _FILE_FLAGS if getattr(args, name) is not None]
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} goes without AGENT.yaml: say it in {args.config}")
        spec, notes = read_file(args.config)
    problems = [*further_problems(spec), *secret_problems(spec, environ)]
    if problems:
        raise AgentConfigError(problems)
    return spec, notes


def read_file(name: str) -> tuple[AgentSpec, tuple[str, ...]]:
    """As `read_spec`, of a file."""
    try:
        text = Path(name).read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"cannot read {name}: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise UsageError(f"{name} is not UTF-8 (byte {problem.start})") from None
    return load_agent(text, name)


def _spec_of_flags(args: argparse.Namespace, environ: Mapping[str, str]) -> AgentSpec:
    if not args.file and not args.stdin:
        raise UsageError("nothing to collect: give AGENT.yaml, --file GLOB or --stdin")
    if args.to is None and args.via is None:
        raise UsageError("--to is missing, such as --to edge.example.com:9999 (or --job NAME --via URL)")
    for flag, example in (("spool", "/var/lib/edgesocket/spool"),):
        if getattr(args, flag) is None:
            raise UsageError(f"--{flag} is missing, such as --{flag} {example}")
    if args.from_beginning and not args.file:
        raise UsageError("--from-beginning goes with --file")
    if not args.packet and (args.compress or args.key_file):
        raise UsageError("--compress and --key-file go with --packet")
    if not args.packet and args.key_id:
        raise UsageError("--key-id goes with --packet")
    common = {"envelope": True} if args.envelope else {}
    inputs: list[dict[str, Any]] = []
    if args.file:
        inputs.append({"type": "file", "paths": args.file, "from_beginning": bool(args.from_beginning), **common})
    if args.stdin:
        inputs.append({"type": "stdin", **common})
    target = {name: getattr(args, name) for name in ("to", "via", "job") if getattr(args, name) is not None}
    values: dict[str, Any] = {**target, "spool": {"directory": args.spool}, "inputs": inputs}
    if args.token_file is not None:
        values["token_file"] = args.token_file
    if args.packet:
        key = {"key_file": args.key_file} if args.key_file else {}
        if not key and KEY_VARIABLE in environ:
            key = {"key_env": KEY_VARIABLE}
        if args.key_id:
            key["key_id"] = args.key_id
        values["packet"] = {"compression": args.compress or "none", **key}
    tls = tls_settings(args)
    if tls is not None:
        values["tls"] = {name: value for name, value in asdict(tls).items() if value is not None}
    if args.http_port is not None:
        values["http"] = {"port": args.http_port}
    root = _node(values)
    assert isinstance(root, ObjectNode)
    return read_agent(root, _HERE.file, Report())


def _node(value: Any) -> Node:
    if isinstance(value, dict):
        return ObjectNode({key: Field(_node(inner), 0, _HERE) for key, inner in value.items()}, _HERE)
    if isinstance(value, list):
        return ListNode(tuple(_node(inner) for inner in value), _HERE)
    return Scalar(str(value).lower() if isinstance(value, bool) else str(value), _HERE, quoted=isinstance(value, str))
