"""Real files, collected by the agent into a real job: every line arrives, exactly and in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import AgentProcess, write_config
from tests.support.jobs import Job, free_port, write_job

SAMPLES = Path(__file__).parents[2].parent / "shared/data"
TEXTS = sorted(path for path in SAMPLES.glob("*") if path.suffix in {".log", ".jsonl", ".csv", ".txt", ".influx"})
ROOMY = "deduplicate = true\n local_queue_capacity = 200000"
BOM = b"\xef\xbb\xbf"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not TEXTS, reason=f"there are no sample files in {SAMPLES}"),
]


def lines_of(text: bytes) -> list[bytes]:
    """What a file holds: a line feed ends a line, with one CR before it; a byte order mark is no text."""
    lines = text.removeprefix(BOM).split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def published(directory: Path) -> list[bytes]:
    return [line for path in sorted(directory.glob("part-*")) for line in path.read_bytes().split(b"\n")[:-1]]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """A port that takes lines, and the directory they get to."""
    directory, port = tmp_path_factory.mktemp("job"), free_port()
    with Job(write_job(directory, port, source=ROOMY)) as running:
        assert running.wait_until_listening(), running.log_text()
        yield port, directory / "out"


def collect(tmp_path: Path, port: int, path: Path, **options: object) -> None:
    conf = write_config(tmp_path / "agent.json", port, tmp_path / "spool", {
        "type": "file", "paths": [str(path)], "from_beginning": True, **options
    })  # fmt: skip
    with AgentProcess(conf, "--once", "--timeout", "60", log=tmp_path / "agent.log") as agent:
        assert agent.wait(90) == 0, agent.log_text()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_line_of_a_file_arrives_exactly(tmp_path: Path, job: tuple[int, Path], path: Path) -> None:
    port, out = job
    before = len(published(out))

    collect(tmp_path, port, path)

    assert published(out)[before:] == lines_of(path.read_bytes())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "gb18030"])
def test_every_line_arrives_as_utf_8_whatever_the_file_is_written_in(
    tmp_path: Path, job: tuple[int, Path], encoding: str
) -> None:
    port, out = job
    before = len(published(out))
    text = (SAMPLES / "naughty_strings.txt").read_bytes()
    (tmp_path / "file.log").write_bytes(text.decode("utf-8").encode(encoding))

    collect(tmp_path, port, tmp_path / "file.log", encoding=encoding)

    assert published(out)[before:] == lines_of(text)
