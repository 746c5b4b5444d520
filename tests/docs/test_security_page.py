"""The commands of docs/security.md make certificates that a job and its collectors work with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgesocket.errors import ExitCode
from edgesocket.net.backoff import ADDRESSES, FREE_FAILURES, LEAST_WAIT_S
from edgesocket.packet.keys import MAX_KEYS
from tests.support.jobs import TOKEN, Job, edgesocket, free_port, rows, write_job

PAGE = Path(__file__).parents[2] / "docs/security.md"


def shell_blocks(title: str) -> list[str]:
    """The bash blocks under a heading that need nothing but openssl."""
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found, title
    blocks = re.findall(r"^```bash\n(.*?)^```$", found[1], re.DOTALL | re.MULTILINE)
    return [block for block in blocks if "example.com:9999" not in block]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl on this machine")
def test_a_job_and_send_work_with_what_the_commands_of_the_page_make(tmp_path: Path) -> None:
    blocks = shell_blocks("TLS with a private authority") + shell_blocks("A certificate for each collector")
    assert len(blocks) == 3
    for block in blocks:
        subprocess.run(["sh", "-euc", block], cwd=tmp_path, check=True, capture_output=True, timeout=30)
    port = free_port()
    source = (
        f'tls {{ cert_file = "{tmp_path}/tls.crt"\n key_file = "{tmp_path}/tls.key"\n'
        f'client_ca_file = "{tmp_path}/ca.crt"\n client_names = ["pump-7.plant.example"] }}'
    )
    with Job(write_job(tmp_path, port, source=source)) as job:
        assert job.wait_until_listening(), job.log_text()
        own = ("--tls-cert", tmp_path / "pump-7.crt", "--tls-key", tmp_path / "pump-7.key")
        sent = edgesocket(
            "send", f"localhost:{port}", "--tls-ca", tmp_path / "ca.crt", *own, "--commit",
            input="hello\n", env={**os.environ, "EDGESOCKET_TOKEN": TOKEN},
        )  # fmt: skip
        assert sent.returncode == ExitCode.OK, sent.stderr
    assert rows(tmp_path / "out") == ["hello"]


def test_the_numbers_of_the_page_are_those_of_the_program() -> None:
    page = PAGE.read_text("utf-8")

    assert f"The first {FREE_FAILURES} failures" in page
    assert f"after {LEAST_WAIT_S:g} s, then" in page
    assert f"{ADDRESSES:,} addresses" in page
    assert f"{MAX_KEYS} keys" in page
