"""Secrets of the agent: out of a file or the environment, never out of its configuration or a command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from edgesocket.collector.options import TlsOptions
from edgesocket.config.agent import AgentSpec, PacketSpec, TlsSpec
from edgesocket.config.agent_inputs import HttpSpec
from edgesocket.errors import CollectorError, ConfigProblem
from edgesocket.packet.cipher import parse_secret_key
from edgesocket.protocol.grammar import AUTH_PREFIX, MAX_AUTH_LINE_BYTES

TOKEN_VARIABLE = "EDGESOCKET_TOKEN"  # noqa: S105 - its name
MOST_SECRET_BYTES = MAX_AUTH_LINE_BYTES - len(AUTH_PREFIX)


class SecretError(CollectorError):
    """A secret cannot be read. The text says which file or variable, and why; never any of it."""


def read_token(spec: AgentSpec, environ: Mapping[str, str] = os.environ) -> bytes:
    """The token of the ingress. Raises SecretError."""
    variable = spec.token_env
    if variable is None and spec.token_file is None:
        variable = TOKEN_VARIABLE
    return read_secret("token", spec.token_file, variable, environ)


def read_key(spec: PacketSpec, environ: Mapping[str, str] = os.environ) -> bytes | None:
    """The key packets are encrypted with; None where they are not. Raises SecretError."""
    if spec.key_file is None and spec.key_env is None:
        return None
    text = read_secret("packet.key", spec.key_file, spec.key_env, environ).decode("ascii", "replace")
    try:
        return parse_secret_key(text)
    except ValueError as problem:
        raise SecretError(f"{spec.key_file or f'${spec.key_env}'}: {problem}") from None


def tls_options(spec: TlsSpec | None) -> TlsOptions | None:
    """How to use TLS; None where the connection is plain."""
    if spec is None:
        return None
    return TlsOptions(spec.ca_file, spec.server_name, spec.cert_file, spec.key_file)


def read_input_token(spec: HttpSpec, environ: Mapping[str, str] = os.environ) -> bytes | None:
    """What requests to an input must send; None where they need nothing. Raises SecretError."""
    if spec.token_file is None and spec.token_env is None:
        return None
    return read_secret(f"the token of input {spec.name}", spec.token_file, spec.token_env, environ)


def read_secret(what: str, file: str | None, variable: str | None, environ: Mapping[str, str]) -> bytes:
    """One line out of a file, or out of a variable.

    Raises:
        SecretError: there is none, or what is there is no single line.
    """
    if file is not None:
        try:
            data = Path(file).read_bytes()
        except OSError as problem:
            raise SecretError(f"{what}: cannot read {file}: {problem.strerror}") from None
        place = file
    else:
        assert variable is not None
        if variable not in environ:
            raise SecretError(f"{what}: the environment variable {variable} is not set")
        data, place = os.fsencode(environ[variable]), f"${variable}"
    lines = data.splitlines()
    if len(lines) != 1 or not lines[0].strip():
        raise SecretError(f"{what}: {place} must hold one line")
    if len(lines[0]) > MOST_SECRET_BYTES:
        raise SecretError(f"{what}: {place} is longer than {MOST_SECRET_BYTES} bytes")
    return lines[0]


def secret_problems(spec: AgentSpec, environ: Mapping[str, str] = os.environ) -> list[ConfigProblem]:
    """Every secret that cannot be read, for `--check` and the start."""
    problems: list[ConfigProblem] = []

    def check(path: str, read: object, fix: str = "") -> None:
        assert callable(read)
        try:
            read()
        except SecretError as problem:
            problems.append(ConfigProblem(path, str(problem), fix))

    fix = f"put the token into a file only you can read, and name it: token_file; or set {TOKEN_VARIABLE}"
    check("agent.token_file" if spec.token_file else "agent.token_env", lambda: read_token(spec, environ), fix)
    packet = spec.packet
    if packet is not None:
        check("agent.packet", lambda: read_key(packet, environ), "openssl rand -base64 32 prints a key")
    options = tls_options(spec.tls)
    if options is not None:
        from edgesocket.collector.tls import TlsError, make_context

        try:
            make_context(options)
        except TlsError as problem:
            problems.append(ConfigProblem("agent.tls", str(problem), "PEM files that this user can read"))
    for one in spec.inputs:
        if isinstance(one, HttpSpec):
            check(f"agent.inputs.{one.name}", lambda one=one: read_input_token(one, environ))
    return problems
