"""Secrets come from files or the environment, and are in no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgesocket.collector.agent import make_encoder, read_delivery
from edgesocket.collector.agent_secrets import MOST_SECRET_BYTES, SecretError, read_token, secret_problems
from edgesocket.config.agent import AgentSpec
from edgesocket.config.agent_file import load_agent

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


def spec(more: str = "", inputs: str = "{ type: stdin }") -> AgentSpec:
    return load_agent(f"to: e:1\nspool: {{ directory: /s }}\ninputs: [{inputs}]\n{more}", "a.yaml")[0]


def test_the_token_is_in_a_file_or_a_variable(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\r\n")
    assert read_token(spec(f"token_file: {tmp_path}/token"), {}) == b"s3cret"
    assert read_token(spec("token_env: T"), {"T": "other"}) == b"other"
    assert read_token(spec(), {"EDGESOCKET_TOKEN": "usual"}) == b"usual"


@pytest.mark.parametrize("content", ["", "\n", "a\nsecond", "x" * (MOST_SECRET_BYTES + 1)])
def test_a_file_that_holds_no_one_line_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    with pytest.raises(SecretError, match=f"{tmp_path}/token") as caught:
        read_token(spec(f"token_file: {tmp_path}/token"), {})
    assert "second" not in str(caught.value)


def test_all_that_are_missing_are_said_at_once() -> None:
    more = "token_file: /no/token\npacket: { key_file: /no/key }\n"
    inputs = "{ type: http, port: 1, token_env: NOT_SET }"
    found = {one.path: one.message for one in secret_problems(spec(more, inputs), {})}
    assert set(found) == {"agent.token_file", "agent.packet", "agent.inputs.http"}
    assert "/no/token" in found["agent.token_file"]
    assert "NOT_SET" in found["agent.inputs.http"]
    (missing,) = secret_problems(spec(), {})
    assert missing.path == "agent.token_env"
    assert "EDGESOCKET_TOKEN" in missing.message


def test_a_key_that_is_none_is_not_shown() -> None:
    (problem,) = secret_problems(spec("packet: { key_env: K }"), {"EDGESOCKET_TOKEN": "t", "K": "tooshortkey="})
    assert "tooshortkey" not in problem.message
    assert "$K" in problem.message


def test_what_delivery_needs_hides_secrets_and_tells_changes() -> None:
    environ = {"EDGESOCKET_TOKEN": "s3cret", "K": KEY}
    packed = spec("packet: { compression: zlib, key_env: K }")
    delivery = read_delivery(packed, environ)
    assert "s3cret" not in repr(delivery)
    assert KEY not in repr(delivery)
    assert delivery == read_delivery(packed, environ)
    assert delivery != read_delivery(packed, {**environ, "EDGESOCKET_TOKEN": "new"})
    assert make_encoder(delivery) is not None
    assert make_encoder(read_delivery(spec(), environ)) is None
