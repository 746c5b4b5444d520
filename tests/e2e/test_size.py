"""`edgesocket size` as a user has it: files, pipes, packets, a job's settings, and exit codes."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from edgesocket.errors import ExitCode

JOB = """
env { job.mode = STREAMING, checkpoint.interval = 5000 }
source { EdgeSocket { port = 9999, token = "my-edge-token", local_queue_capacity = ${capacity} } }
sink { Console {} }
"""


def size(*arguments: str | Path, stdin: bytes = b"", code: int = ExitCode.OK) -> str:
    command = [sys.executable, "-m", "edgesocket", "size", *map(str, arguments)]
    result = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    assert result.returncode == code, (result.returncode, result.stderr.decode())
    return (result.stdout if code == ExitCode.OK else result.stderr).decode()


def figures(*arguments: str | Path, stdin: bytes = b"") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(size(*arguments, "--format", "json", stdin=stdin))
    return found


def test_a_sample_becomes_a_table_and_one_line_of_advice(tmp_path: Path) -> None:
    sample = tmp_path / "sample.txt"
    sample.write_bytes(b"x" * 10_000 + b"\n" + b"y" * 10_000 + b"\r\n")
    text = size("--sample", sample, "--rate", "20")
    assert text.startswith("2 samples, median 10 kB, largest 10 kB\n")
    assert "peak as the reference counts it (x 3)" in text
    assert "30.7 MB" in text
    assert text.splitlines()[-1] == (
        "advice: lower local_queue_capacity from 1024 to 256: a checkpoint may pass 10 MB at its peak"
    )


def test_a_job_file_gives_the_settings_and_options_replace_them(tmp_path: Path) -> None:
    job = tmp_path / "job.conf"
    job.write_text(JOB)
    found = figures(job, "-i", "capacity=77", "--sample", "-", stdin=b"a\n")["settings"]
    assert (found["capacity"], found["checkpoint_interval_ms"]) == (77, 5000)
    more = ("--capacity", "99", "--checkpoint-interval", "1 m")
    found = figures(job, "-i", "capacity=77", "--sample", "-", *more, stdin=b"a\n")["settings"]
    assert (found["capacity"], found["checkpoint_interval_ms"]) == (99, 60_000)


def test_request_lines_count_without_their_headers() -> None:
    found = figures("--sample", "-", stdin=b"__BATCH__:12:hello\nhello\n__BATCH__:no id\n")
    assert (found["sizes"]["count"], found["sizes"]["median"]) == (3, 5)
    assert found["sizes"]["largest"] == len("__BATCH__:no id")


def test_packets_count_as_they_are_queued() -> None:
    queued = zlib.compress(b"z" * 1000)
    packet = {"version": 1, "compression": "ZLIB", "payload": base64.b64encode(queued).decode()}
    sealed = {**packet, "encryption": "AES_GCM", "payload": base64.b64encode(queued + bytes(16)).decode(), "iv": "AAAA"}
    lines = "\n".join([json.dumps(packet), json.dumps(sealed), "no packet", ""]).encode()
    found = figures("--packet", "--sample", "-", stdin=lines)
    assert (found["sizes"]["count"], found["sizes"]["largest"], found["skipped"]) == (2, len(queued), 1)
    assert found["sizes"]["total"] == 2 * len(queued)


def test_payloads_can_be_counted_as_a_collector_would_compress_them() -> None:
    found = figures("--compress", "zlib", "--sample", "-", stdin=b"z" * 10_000 + b"\n")
    assert 0 < found["sizes"]["largest"] < 200


def test_several_files_are_one_sample(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("1\n22\n333")
    assert figures("--sample", tmp_path / "a", tmp_path / "b")["sizes"]["count"] == 6


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (("--sample", "-"), b"", ExitCode.BAD_DATA, "hold no payload"),
        (("--sample", "-", "--packet"), b"x\ny\n", ExitCode.BAD_DATA, "2 lines are no packets"),
        (("--sample", "/no/such/file"), b"", ExitCode.USAGE, "cannot read"),
        ((), b"", ExitCode.USAGE, "--sample"),
        (("--sample", "-", "--rate", "0"), b"", ExitCode.USAGE, "records a second"),
        (("--sample", "-", "--capacity", "0"), b"", ExitCode.USAGE, "number of records"),
        (("--sample", "-", "--checkpoint-interval", "soon"), b"", ExitCode.USAGE, "'soon'"),
        (("--sample", "-", "--packet", "--compress", "gzip"), b"", ExitCode.USAGE, "leave --compress out"),
        (("/no/such/job.conf", "--sample", "-"), b"", ExitCode.USAGE, "job.conf"),
    ],
)
def test_what_cannot_be_sized_has_an_exit_code(arguments: tuple[str, ...], stdin: bytes, code: int, said: str) -> None:
    assert said in size(*arguments, stdin=stdin, code=code)


def test_a_job_file_that_cannot_run_is_a_configuration_error(tmp_path: Path) -> None:
    job = tmp_path / "job.conf"
    job.write_text("source { EdgeSocket { port = 0 } }")
    assert "port" in size(job, "--sample", "-", stdin=b"x\n", code=ExitCode.CONFIG)
