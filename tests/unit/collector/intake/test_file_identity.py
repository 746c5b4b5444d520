"""What tells files apart, without any file."""

from __future__ import annotations

import pytest

from edgesocket.collector.intake.file_identity import FileMark, compression_of, is_rotation_of
from edgesocket.collector.intake.framing import FramingState


@pytest.mark.parametrize(
    "name",
    [
        "app.log.1",
        "app.log.12",
        "app.log-20261130",
        "app.log.2026-11-30",
        "app.1.log",
        "app-20261130.log",
        "app.log.old",
        "app.log.bak",
        "app.log.1.gz",
        "app.log.gz",
        "app-20261130.log.xz",
        "app_3.log",
    ],
)
def test_names_that_rotation_gives(name: str) -> None:
    assert is_rotation_of("/var/log/app.log", f"/var/log/{name}")


@pytest.mark.parametrize(
    "path",
    [
        "/var/log/app.log",
        "/var/log/app.log.err",
        "/var/log/app2.log",
        "/var/log/other.log.1",
        "/tmp/app.log.1",
        "/var/log/app-access.log",
        "/var/log/app.log1",
        "/var/log/pp.log",
    ],
)
def test_names_that_it_does_not_give(path: str) -> None:
    assert not is_rotation_of("/var/log/app.log", path)


@pytest.mark.parametrize(
    ("path", "head", "ending"),
    [
        ("a.log", b"\x1f\x8b\x08\x00", ".gz"),
        ("a.log.gz", b"", ".gz"),
        ("a.zst", b"(\xb5/\xfd", ".zst"),
        ("a.log", b"text", ""),
        ("a.log", b"BZh this is a text, by chance", ""),
    ],
)
def test_compressed_files_are_told_by_bytes_or_name(path: str, head: bytes, ending: str) -> None:
    assert compression_of(path, head) == ending


@pytest.mark.parametrize("state", [FramingState(7), FramingState(9, "utf-16-be", in_line=True, skipping=True)])
@pytest.mark.parametrize("ended", [False, True])
def test_a_mark_reads_back(state: FramingState, ended: bool) -> None:
    mark = FileMark(1, 2, "/a\ud800 b", 3, "aa", 4, "bb", state, ended)
    assert FileMark.read(mark.text()) == mark
    assert "\n" not in mark.text()
    assert mark.text().isascii()


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"offset":1}', '{"offset":"x","prefix":1}'])
def test_what_is_no_mark_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the mark"):
        FileMark.read(text)
