"""From the specs of a configuration to the inputs and the spool's options; what only shows then is a problem too."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace

from edgesocket.collector.agent_secrets import read_input_token
from edgesocket.collector.agent_writer import Feed
from edgesocket.collector.intake.contract import Input
from edgesocket.collector.intake.enveloping import Envelope
from edgesocket.collector.intake.framing import FramingOptions, InvalidBytes, LongLines
from edgesocket.collector.intake.multiline import INDENTED, MultilineRule
from edgesocket.collector.spool.options import FsyncPolicy, SpoolOptions, WhenFull
from edgesocket.config.agent import AgentSpec, SpoolSpec
from edgesocket.config.agent_inputs import (
    ExecSpec,
    FileSpec,
    HttpSpec,
    InputSpec,
    LinesSpec,
    StdinSpec,
    SyslogSpec,
)
from edgesocket.errors import ConfigProblem

ONCE_IDLE_FLUSH_MS = 1000
"""With `--once`: less than `agent_intake.QUIET_S`."""


def spool_options(spec: SpoolSpec) -> SpoolOptions:
    """The spool's own options. Raises ValueError where they do not go together."""
    return SpoolOptions(
        max_bytes=spec.max_bytes,
        segment_bytes=spec.segment_bytes,
        fsync=FsyncPolicy(spec.fsync),
        interval_s=spec.fsync_interval_ms / 1000,
        when_full=WhenFull(spec.when_full),
        dead_letter_bytes=spec.dead_letter_bytes,
    )


def framing_options(spec: LinesSpec) -> FramingOptions:
    """How the bytes of an input become records. Raises ValueError where that cannot be."""
    rule = spec.multiline
    return FramingOptions(
        encoding=spec.encoding,
        invalid=InvalidBytes(spec.invalid),
        max_line_bytes=spec.max_line_bytes,
        long_lines=LongLines(spec.long_lines),
        skip_empty=spec.skip_empty,
        multiline=None
        if rule is None
        else MultilineRule(
            start=rule.start,
            continuation=INDENTED if rule.indented else rule.continuation,
            end=rule.end,
            joiner=rule.joiner,
            max_lines=rule.max_lines,
            max_bytes=rule.max_bytes,
        ),
        idle_flush_s=spec.idle_flush_ms / 1000,
    )


def further_problems(spec: AgentSpec) -> list[ConfigProblem]:
    """What is wrong with a configuration beyond its options: what spool and framing refuse."""
    problems: list[ConfigProblem] = []
    try:
        spool_options(spec.spool)
    except ValueError as problem:
        problems.append(ConfigProblem("agent.spool", str(problem)))
    for one in spec.inputs:
        if isinstance(one, LinesSpec):
            try:
                framing_options(one)
            except ValueError as problem:
                problems.append(ConfigProblem(f"agent.inputs.{one.name}", str(problem)))
    return problems


def make_feed(
    spec: InputSpec,
    host: str | None,
    report: Callable[[str], object],
    environ: Mapping[str, str] = os.environ,
    *,
    once: bool = False,
) -> Feed:
    """One input, not yet open.

    Args:
        spec: its options.
        host: name of this host for envelopes; None: what the system calls it.
        report: takes lines for the log.
        environ: environment variables.
        once: the agent ends when nothing comes: what is not complete is not waited for any longer than that.

    Raises:
        SecretError: its token cannot be read.
        ValueError: as `framing_options`.
    """
    envelope = Envelope(spec.name, host or socket.gethostname()) if spec.envelope else None
    if once and isinstance(spec, LinesSpec):
        spec = replace(spec, idle_flush_ms=min(spec.idle_flush_ms, ONCE_IDLE_FLUSH_MS))
    token = read_input_token(spec, environ) if isinstance(spec, HttpSpec) else None
    made = _make(spec, envelope, report, token)
    return Feed(made, spec.type, rereadable=isinstance(spec, FileSpec), settings=(spec, host, token))


def _make(spec: InputSpec, envelope: Envelope | None, report: Callable[[str], object], token: bytes | None) -> Input:
    if isinstance(spec, FileSpec):
        return _file(spec, envelope, report)
    if isinstance(spec, StdinSpec):
        from edgesocket.collector.intake.stdin import StdinInput

        return StdinInput(spec.name, framing_options(spec), envelope)
    if isinstance(spec, SyslogSpec):
        return _syslog(spec, envelope)
    if isinstance(spec, HttpSpec):
        from edgesocket.collector.intake.http_post import HttpPostInput

        return HttpPostInput(
            spec.name,
            spec.address,
            spec.port,
            envelope,
            path=spec.path,
            whole_body=spec.body == "record",
            skip_empty=spec.skip_empty,
            token=token,
            max_body_bytes=spec.max_body_bytes,
            max_connections=spec.max_connections,
            busy_after_s=spec.busy_after_ms / 1000,
            retry_after_s=spec.retry_after_s,
        )
    assert isinstance(spec, ExecSpec)
    from edgesocket.collector.intake.exec_command import ExecInput

    return ExecInput(
        spec.name,
        spec.command,
        framing_options(spec),
        envelope,
        report,
        every_s=spec.every_s,
        timeout_s=spec.timeout_s,
        directory=spec.directory,
        environment=spec.environment,
        stderr_lines_a_minute=spec.stderr_lines_a_minute,
    )


def _file(spec: FileSpec, envelope: Envelope | None, report: Callable[[str], object]) -> Input:
    from edgesocket.collector.intake.file_options import FileOptions
    from edgesocket.collector.intake.file_tail import FileTail

    options = FileOptions(
        include=spec.paths,
        exclude=spec.exclude,
        from_beginning=spec.from_beginning,
        read_gzip=spec.read_gzip,
        poll_s=spec.poll_ms / 1000,
        discover_s=spec.discover_ms / 1000,
        rotated_idle_s=spec.rotated_idle_s,
        forget_after_s=spec.forget_after_s,
        max_open_files=spec.max_open_files,
        watch=spec.watch,
        framing=framing_options(spec),
    )
    return FileTail(spec.name, options, envelope, lambda text: report(f"input {spec.name}: {text}"))


def _syslog(spec: SyslogSpec, envelope: Envelope | None) -> Input:
    from edgesocket.collector.intake.syslog_records import SyslogRecords

    records = SyslogRecords(parse=spec.parse, envelope=envelope)
    if spec.protocol == "udp":
        from edgesocket.collector.intake.syslog_udp import SyslogUdpInput

        return SyslogUdpInput(
            spec.name,
            spec.address,
            spec.port,
            records,
            max_message_bytes=spec.max_message_bytes,
            receive_buffer_bytes=spec.receive_buffer_bytes,
        )
    from edgesocket.collector.intake.syslog_tcp import SyslogTcpInput

    return SyslogTcpInput(
        spec.name,
        spec.address,
        spec.port,
        records,
        max_message_bytes=spec.max_message_bytes,
        max_connections=spec.max_connections,
    )
