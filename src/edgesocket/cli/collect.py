"""`edgesocket collect`: the edge agent. Standard library only; PyYAML where its configuration is YAML."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Iterator

from edgesocket.cli.allocator import keep_memory_steady
from edgesocket.cli.collect_options import add_parser, read_file, read_spec
from edgesocket.cli.collect_view import CollectView
from edgesocket.cli.output import show
from edgesocket.collector.agent import Agent, make_encoder, read_delivery
from edgesocket.collector.agent_inputs import further_problems
from edgesocket.collector.agent_secrets import secret_problems
from edgesocket.config.agent import AgentConfigError, AgentSpec
from edgesocket.config.agent_inputs import ExecSpec, FileSpec, HttpSpec, InputSpec, SyslogSpec
from edgesocket.errors import CollectorError, ExitCode

__all__ = ["add_parser", "run"]


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    spec, notes = read_spec(args)
    make_encoder(read_delivery(spec))
    if args.check:
        inputs = [one.name for one in spec.inputs]
        told = {"inputs": inputs, "to": spec.target, "spool": str(spec.spool.directory), "notes": list(notes)}
        show(args, told, describe(args.config or "flags", spec, notes))
        return ExitCode.OK
    keep_memory_steady()
    view = CollectView(sys.stdout, sys.stderr)
    for note in notes:
        view.report(note)

    def load() -> AgentSpec:
        fresh, fresh_notes = read_file(args.config)
        problems = [*further_problems(fresh), *secret_problems(fresh)]
        if problems:
            raise AgentConfigError(problems)
        for note in fresh_notes:
            view.report(note)
        return fresh

    view.report(f"collecting from {', '.join(one.name for one in spec.inputs)} for {spec.target}")
    agent = Agent(
        spec,
        report=view.report,
        load=None if args.config is None else load,
        on_tick=view.tick,
        once=args.once,
        once_timeout_s=args.timeout,
    )
    gc.collect()
    gc.freeze()  # nothing made so far is garbage: the collector need not look at it again
    try:
        code = agent.run()
    except CollectorError as problem:
        view.report(str(problem))
        return ExitCode.UNAVAILABLE if type(problem) is CollectorError else problem.exit_code
    except OSError as problem:
        view.report(f"the spool {spec.spool.directory}: {problem.strerror or problem}")
        return ExitCode.UNAVAILABLE
    finally:
        view.close()
    if code == ExitCode.OK:
        view.report(f"stopped; {agent.left} records wait in the spool" if agent.left else "stopped; all is confirmed")
    return code


def describe(name: str, spec: AgentSpec, notes: tuple[str, ...]) -> Iterator[str]:
    """What the agent will do, in lines."""
    yield f"{name}: can run"
    for one in spec.inputs:
        yield f"  input   {one.name}: {_what(one)}"
    when = {
        "block": "then nothing more is read",
        "drop_oldest": "then the oldest go",
        "drop_newest": "then new ones go",
    }
    yield f"  spool   {spec.spool.directory}, up to {spec.spool.max_bytes} bytes, {when[spec.spool.when_full]}"
    form = "plain records"
    if spec.packet is not None:
        encrypted = spec.packet.key_file is not None or spec.packet.key_env is not None
        form = f"packets, compression {spec.packet.compression}, {'encrypted' if encrypted else 'not encrypted'}"
    wire = "plain connection" if spec.tls is None else "TLS"
    if spec.tls is not None and spec.tls.cert_file is not None:
        wire += " with a certificate of its own"
    yield f"  to      {spec.target}, {form}, {wire}"
    if spec.http is not None:
        yield f"  http    {spec.http.address}:{spec.http.port}"
    yield from (f"  note: {note}" for note in notes)


def _what(spec: InputSpec) -> str:
    if isinstance(spec, FileSpec):
        return f"{', '.join(spec.paths)}{', from the beginning' if spec.from_beginning else ''}"
    if isinstance(spec, SyslogSpec):
        return f"syslog on {spec.protocol.upper()} {spec.address}:{spec.port}"
    if isinstance(spec, HttpSpec):
        guard = "no token" if spec.token_file is None and spec.token_env is None else "with a token"
        return f"POST http://{spec.address}:{spec.port}{spec.path}, {guard}"
    if isinstance(spec, ExecSpec):
        return f"{' '.join(spec.command)}, {'once' if spec.every_s is None else f'every {spec.every_s} s'}"
    return "the standard input"
