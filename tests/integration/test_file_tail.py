"""The rotation matrix: real files, a spool that forgets what was not stored, a clock moved by hand."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from edgesocket.collector.intake.framing import FramingOptions, LongLines
from edgesocket.collector.intake.multiline import MultilineRule
from tests.support.tail_kit import TailRig, append, copy_truncate


def lines(first: int, last: int) -> list[bytes]:
    return [b"L%04d some text that makes the line longer" % number for number in range(first, last + 1)]


def text(first: int, last: int) -> bytes:
    return b"".join(line + b"\n" for line in lines(first, last))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


@pytest.fixture(params=["app.log*", "app.log"])
def rig(request: pytest.FixtureRequest, log: Path):
    append(log, text(1, 10))
    made = TailRig(str(log.parent / request.param))
    made.drain()
    yield made
    if made.tail is not None:
        made.crash()


def end(rig: TailRig) -> list[bytes]:
    """Everything that comes until nothing more does, a restart included."""
    rig.drain()
    rig.drain()
    rig.restart()
    rig.drain()
    rig.wait(60)
    return rig.lines


# --- rename ------------------------------------------------------------------------------------------


def test_rename_and_lines_behind_the_old_name(rig: TailRig, log: Path) -> None:
    with log.open("ab") as writer:
        log.rename(f"{log}.1")
        append(log, text(71, 75))
        writer.write(text(11, 60))
    assert sorted(end(rig)) == sorted(lines(1, 60) + lines(71, 75))
    assert [line for line in rig.lines if line < b"L0061"] == lines(1, 60)


def test_rename_while_stopped(rig: TailRig, log: Path) -> None:
    rig.stop()
    append(log, text(11, 20))
    log.rename(f"{log}.1")
    append(log, text(21, 30))
    rig.start()
    assert end(rig) == lines(1, 30)


def test_several_rotations_between_two_looks(rig: TailRig, log: Path) -> None:
    everything = "*" in rig.options.include[0]
    first = 11
    for turn in range(5):
        append(log, text(first, first + 4))
        for number in range(turn, 0, -1):
            Path(f"{log}.{number}").rename(f"{log}.{number + 1}")
        log.rename(f"{log}.1")
        first += 5
    append(log, text(first, first + 4))
    expected = lines(1, 40) if everything else lines(1, 15) + lines(36, 40)
    assert sorted(end(rig)) == sorted(expected)


def test_several_rotations_while_stopped(rig: TailRig, log: Path) -> None:
    rig.stop()
    append(log, text(11, 20))
    log.rename(f"{log}.2")
    append(log, text(21, 30))
    log.rename(f"{log}.1")
    append(log, text(31, 40))
    rig.start()
    missing = set() if "*" in rig.options.include[0] else set(lines(21, 30))
    assert sorted(end(rig)) == sorted(set(lines(1, 40)) - missing)


# --- cut in place ------------------------------------------------------------------------------------


def test_copytruncate_with_all_lines_read_before(rig: TailRig, log: Path) -> None:
    copy_truncate(log, Path(f"{log}.1"))
    append(log, text(11, 12))
    assert end(rig) == lines(1, 12)


def test_copytruncate_loses_nothing_where_the_copy_is_found(log: Path) -> None:
    append(log, text(1, 10))
    rig = TailRig(f"{log}*")
    rig.drain()
    append(log, text(11, 20))
    copy_truncate(log, Path(f"{log}.1"))
    append(log, text(21, 25))
    assert sorted(end(rig)) == lines(1, 25)
    rig.crash()


def test_a_copy_that_is_still_being_made_waits(log: Path) -> None:
    append(log, text(1, 10))
    rig = TailRig(f"{log}*")
    rig.drain()
    append(Path(f"{log}.1"), text(1, 4))
    assert rig.drain() == []
    append(log, text(11, 12))
    append(Path(f"{log}.1"), text(5, 12))
    os.truncate(log, 0)
    append(log, text(13, 13))
    assert sorted(end(rig)) == lines(1, 13)
    rig.crash()


def test_a_rotated_name_is_no_copy_when_the_text_differs(log: Path) -> None:
    append(log, b"head\n" + text(1, 10))
    rig = TailRig(f"{log}*")
    rig.drain()
    append(Path(f"{log}.1"), b"head\n" + text(50, 51))
    assert rig.drain() == [b"head", *lines(50, 51)]
    rig.crash()


def test_copytruncate_while_stopped(rig: TailRig, log: Path) -> None:
    rig.stop()
    append(log, text(11, 20))
    copy_truncate(log, Path(f"{log}.1"))
    append(log, text(21, 40))
    rig.start()
    missing = set() if "*" in rig.options.include[0] else set(lines(11, 20))
    assert sorted(end(rig)) == sorted(set(lines(1, 40)) - missing)


def test_cut_and_grown_beyond_the_old_offset_at_once(rig: TailRig, log: Path) -> None:
    log.write_bytes(b"")
    append(log, text(101, 150))
    assert end(rig) == lines(1, 10) + lines(101, 150)
    assert rig.said


def test_cut_again_and_again_to_the_same_size(rig: TailRig, log: Path) -> None:
    for first in range(11, 61, 10):
        os.truncate(log, 0)
        append(log, text(first, first + 9))
        rig.drain()
    assert end(rig) == lines(1, 60)


def test_cut_while_stopped_and_shorter(rig: TailRig, log: Path) -> None:
    rig.stop()
    log.write_bytes(text(50, 51))
    rig.start()
    assert end(rig) == lines(1, 10) + lines(50, 51)


# --- delete, replace, reuse --------------------------------------------------------------------------


def test_deleted_with_lines_unread(rig: TailRig, log: Path) -> None:
    append(log, text(11, 20))
    log.unlink()
    assert rig.drain() == lines(11, 20)
    assert rig.tail is not None
    assert rig.tail.counts["files_open"] == 1
    rig.wait(60)
    assert rig.tail.counts["files_open"] == 0


def test_deleted_while_the_spool_is_full(rig: TailRig, log: Path) -> None:
    append(log, text(11, 20))
    log.unlink()
    append(log, text(21, 30))
    for _ in range(200):
        rig.look()  # only discovery: nothing may be read
    assert rig.drain() == lines(11, 30)


def test_replaced_and_the_inode_used_again_while_stopped(rig: TailRig, log: Path) -> None:
    rig.stop()
    inode = log.stat().st_ino
    log.unlink()
    for number in range(50):
        candidate = log.parent / f"other{number}"
        append(candidate, text(101, 130))
        if candidate.stat().st_ino == inode:
            break
    candidate.rename(log)
    rig.start()
    assert end(rig) == lines(1, 10) + lines(101, 130)


def test_a_mark_of_another_content_on_the_same_inode_is_not_used(rig: TailRig, log: Path) -> None:
    rig.stop()
    log.write_bytes(text(101, 130))  # same inode, longer, other content
    rig.start()
    assert end(rig) == lines(1, 10) + lines(101, 130)


def use_inode_again(rig: TailRig, copy: Path) -> None:
    """As if the file system had given a copy the inode of the first file, which is gone."""
    gone = next(key for key in rig.marks if key.endswith("/0"))
    rig.marks[gone] = json.dumps(json.loads(rig.marks[gone]) | {"inode": copy.stat().st_ino})


@pytest.mark.parametrize("globs", ["app.log*", "app.log"])
@pytest.mark.parametrize("held", [10, 0])
def test_a_copy_with_the_inode_of_a_file_that_is_gone_is_no_new_file(log: Path, held: int, globs: str) -> None:
    append(log, text(1, held))
    rig = TailRig(str(log.parent / globs))
    rig.drain()
    log.unlink()
    append(log, text(11, 20))
    rig.drain()
    rig.crash()
    copy = Path(f"{log}.1")
    copy_truncate(log, copy)
    append(log, text(21, 30))
    os.utime(log, (2, 2))
    os.utime(copy, (1, 1))  # the copy is looked at first
    use_inode_again(rig, copy)
    rig.start()
    assert end(rig) == lines(1, held) + lines(11, 30)
    rig.crash()


def test_an_empty_file_written_and_renamed_out_of_the_globs_while_stopped_is_read(log: Path) -> None:
    append(log, b"")
    rig = TailRig(str(log))
    rig.drain()
    rig.stop()
    append(log, text(1, 10))
    log.rename(f"{log}.1")
    append(log, text(11, 20))
    rig.start()
    assert sorted(end(rig)) == lines(1, 20)
    rig.crash()


# --- links, compression, names -----------------------------------------------------------------------


def test_symlink_switched(tmp_path: Path) -> None:
    append(tmp_path / "one", text(1, 5))
    append(tmp_path / "two", text(21, 25))
    link = tmp_path / "current.log"
    link.symlink_to(tmp_path / "one")
    rig = TailRig(str(tmp_path / "*.log"))
    rig.drain()
    append(tmp_path / "one", text(6, 8))
    link.unlink()
    link.symlink_to(tmp_path / "two")
    assert sorted(end(rig)) == lines(1, 8) + lines(21, 25)
    rig.crash()


def test_hard_links_and_two_globs_are_one_file(tmp_path: Path) -> None:
    append(tmp_path / "a.log", text(1, 5))
    (tmp_path / "b.log").hardlink_to(tmp_path / "a.log")
    rig = TailRig(str(tmp_path / "*.log"), str(tmp_path / "a*"))
    assert end(rig) == lines(1, 5)
    rig.crash()


@pytest.mark.parametrize("read_gzip", [False, True])
def test_the_compressed_rotated_file_is_not_read_again(log: Path, read_gzip: bool) -> None:
    append(log, text(1, 10))
    rig = TailRig(f"{log}*", read_gzip=read_gzip)
    rig.wall_ns = 1
    rig.drain()
    rotated = Path(f"{log}.1")
    log.rename(rotated)
    append(rotated, text(11, 12))
    append(log, text(13, 14))
    rig.drain()
    Path(f"{rotated}.gz").write_bytes(gzip.compress(rotated.read_bytes()))
    rig.drain()
    rotated.unlink()
    rig.drain()
    rig.wait(60)
    rig.drain()
    rig.restart()
    rig.drain()
    assert sorted(rig.lines) == lines(1, 14)
    rig.crash()


def test_rotated_and_compressed_while_stopped_goes_on_inside_the_gz(log: Path) -> None:
    append(log, text(1, 10))
    rig = TailRig(f"{log}*", read_gzip=True)
    rig.wall_ns = 1
    rig.drain()
    rig.stop()
    append(log, text(11, 20))
    Path(f"{log}.1.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    rig.start()
    assert end(rig) == lines(1, 20)
    rig.crash()


def test_gzip_files_are_read_whole_on_request(tmp_path: Path) -> None:
    (tmp_path / "old.gz").write_bytes(gzip.compress(text(1, 3000)) + gzip.compress(text(3001, 3010)))
    rig = TailRig(str(tmp_path / "*"), read_gzip=True)
    rig.wall_ns = 1
    rig.look()
    intake = rig.read(1000)
    assert intake is not None
    rig.store(intake)
    rig.restart()
    assert end(rig) == lines(1, 3010)
    rig.crash()


def test_the_last_line_of_a_gzip_file_comes_by_time_and_not_twice(tmp_path: Path) -> None:
    (tmp_path / "old.gz").write_bytes(gzip.compress(text(1, 30) + b"no end"))
    rig = TailRig(str(tmp_path / "*"), read_gzip=True)
    rig.wall_ns = 1
    rig.drain()
    assert rig.wait(5) == [b"no end"]
    assert end(rig) == [*lines(1, 30), b"no end"]
    rig.crash()


def test_an_idle_line_of_a_file_closed_for_the_limit_comes_once(tmp_path: Path) -> None:
    for number in range(4):
        append(tmp_path / f"{number}.log", b"%d\nhalf of %d" % (number, number))
    rig = TailRig(str(tmp_path / "*.log"), max_open_files=1)
    for _ in range(6):
        rig.wait(6)
    rig.restart()
    for _ in range(6):
        rig.wait(6)
    assert sorted(rig.lines) == sorted([b"%d" % n for n in range(4)] + [b"half of %d" % n for n in range(4)])
    rig.crash()


def test_compressed_files_are_told_by_their_bytes_too(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_bytes(gzip.compress(text(1, 3)))
    rig = TailRig(str(tmp_path / "*"))
    assert rig.drain() == []
    assert "compressed" in rig.said[0]
    rig.crash()


def test_a_file_moved_out_of_the_globs_is_read_to_its_end(tmp_path: Path, log: Path) -> None:
    append(log, text(1, 5))
    rig = TailRig(str(log))
    rig.drain()
    append(log, text(6, 7))
    shutil.move(log, tmp_path / "elsewhere")
    assert rig.drain() == lines(6, 7)
    append(tmp_path / "elsewhere", text(8, 9))
    assert rig.drain() == lines(8, 9)
    rig.crash()


# --- starts ------------------------------------------------------------------------------------------


def test_from_the_end_only_at_the_first_start_and_only_for_what_was_there(tmp_path: Path) -> None:
    append(tmp_path / "a.log", text(1, 5) + b"L0006 begun")
    rig = TailRig(str(tmp_path / "*.log"), from_beginning=False)
    append(tmp_path / "a.log", b" and ended\n")
    append(tmp_path / "b.log", text(11, 12))
    rig.drain()
    assert sorted(rig.lines) == [b"L0006 begun and ended", *lines(11, 12)]
    rig.stop()
    append(tmp_path / "c.log", text(21, 22))
    rig.start()
    assert rig.drain() == lines(21, 22)
    rig.crash()


def test_a_first_start_without_files_is_one(tmp_path: Path) -> None:
    rig = TailRig(str(tmp_path / "*.log"), from_beginning=False)
    rig.drain()
    rig.stop()
    append(tmp_path / "a.log", text(1, 2))
    rig.start()
    assert rig.drain() == lines(1, 2)
    rig.crash()


def test_from_the_end_of_utf_16_knows_the_byte_order(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    append(path, "\ufeffold\n".encode("utf-16-be"))
    rig = TailRig(str(path), from_beginning=False, framing=FramingOptions(encoding="utf-16"))
    append(path, "néw\r\n".encode("utf-16-be"))
    assert rig.drain() == ["néw".encode()]
    rig.crash()


# --- lines -------------------------------------------------------------------------------------------


def test_the_last_line_without_an_end_comes_by_time_and_not_twice(rig: TailRig, log: Path) -> None:
    append(log, b"half")
    assert rig.drain() == []
    assert rig.wait(5) == [b"half"]
    rig.restart()
    append(log, b"\n" + text(11, 11))
    assert rig.drain() == lines(11, 11)


@pytest.mark.parametrize("policy", LongLines)
def test_a_crash_inside_a_long_line_goes_on_there(log: Path, policy: LongLines) -> None:
    append(log, b"first\n" + b"x" * 1000 + b"y" * 333_000)
    rig = TailRig(str(log), framing=FramingOptions(max_line_bytes=100_000, long_lines=policy))
    rig.drain(50_000)
    rig.restart()
    append(log, b"z\nlast\n")
    rig.drain(50_000)
    long = b"x" * 1000 + b"y" * 333_000 + b"z"
    expected = {LongLines.SPLIT: [long[at : at + 100_000] for at in range(0, 334_001, 100_000)], LongLines.SKIP: []}
    assert rig.lines == [b"first", *expected.get(policy, [long[:100_000]]), b"last"]
    rig.crash()


def test_multiline_records_survive_a_crash_and_files_do_not_mix(tmp_path: Path) -> None:
    for name in "ab":
        append(tmp_path / name, f"S {name}1\n {name}2\n".encode())
    rig = TailRig(str(tmp_path / "*"), framing=FramingOptions(multiline=MultilineRule(start="^S")))
    assert rig.drain() == []
    rig.restart()
    for name in "ab":
        append(tmp_path / name, f" {name}3\n".encode())
    rig.drain()
    assert sorted(rig.wait(5)) == [rb"S a1\n a2\n a3", rb"S b1\n b2\n b3"]
    rig.crash()


# --- fairness, limits, trouble -----------------------------------------------------------------------


def test_files_take_turns(tmp_path: Path) -> None:
    append(tmp_path / "big", text(1, 3000))
    append(tmp_path / "small", b"small\n")
    rig = TailRig(str(tmp_path / "*"))
    rig.look()
    for _ in range(2):
        intake = rig.read(1000)
        assert intake is not None
        rig.store(intake)
    assert b"small" in rig.lines
    rig.crash()


def test_more_files_than_handles_all_come(tmp_path: Path) -> None:
    for number in range(20):
        append(tmp_path / f"{number}.log", f"{number}\n".encode())
    rig = TailRig(str(tmp_path / "*.log"), max_open_files=3)
    assert rig.tail is not None
    for _ in range(20):
        rig.drain()
        assert rig.tail.counts["files_open"] <= 3
    for number in range(20):
        append(tmp_path / f"{number}.log", f"{number + 100}\n".encode())
    for _ in range(20):
        rig.drain()
        assert rig.tail.counts["files_open"] <= 3
    assert sorted(rig.lines, key=int) == [b"%d" % number for number in [*range(20), *range(100, 120)]]
    rig.crash()


def test_a_file_closed_for_the_limit_and_renamed_out_of_the_globs_is_found(tmp_path: Path) -> None:
    for number in range(4):
        append(tmp_path / f"{number}.log", f"{number}\n".encode())
    rig = TailRig(str(tmp_path / "*.log"), max_open_files=1)
    for _ in range(6):
        rig.drain()
    for number in range(4):
        append(tmp_path / f"{number}.log", f"{number + 100}\n".encode())
        (tmp_path / f"{number}.log").rename(tmp_path / f"{number}.old")
    for _ in range(10):
        rig.wait(40)
    assert sorted(rig.lines, key=int) == [b"%d" % number for number in [*range(4), *range(100, 104)]]
    rig.crash()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_does_not_stop_the_others(tmp_path: Path) -> None:
    append(tmp_path / "a.log", text(1, 1))
    (tmp_path / "a.log").chmod(0)
    append(tmp_path / "b.log", text(2, 2))
    rig = TailRig(str(tmp_path / "*.log"))
    rig.drain()
    assert rig.drain() == []
    assert len(rig.said) == 1
    (tmp_path / "a.log").chmod(0o600)
    rig.drain()
    assert sorted(rig.lines) == lines(1, 2)
    rig.crash()


def test_a_read_error_of_one_file_is_said_once_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path / "a.log", text(1, 1))
    append(tmp_path / "b.log", text(2, 2))
    rig = TailRig(str(tmp_path / "*.log"))
    real, broken = os.pread, (tmp_path / "a.log").stat().st_ino

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        if os.fstat(descriptor).st_ino == broken:
            raise OSError(5, "Input/output error")
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    for _ in range(3):
        rig.drain()
    assert rig.lines == lines(2, 2)
    assert [said for said in rig.said if "cannot read" in said] == [rig.said[0]]
    monkeypatch.undo()
    assert rig.drain() == lines(1, 1)
    rig.crash()


def test_directories_pipes_and_dangling_links_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "directory.log").mkdir()
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "link.log").symlink_to(tmp_path / "nothing")
    append(tmp_path / "a.log", text(1, 1))
    append(tmp_path / "left.log", text(2, 2))
    rig = TailRig(str(tmp_path / "*.log"), exclude=("left.*",))
    assert rig.drain() == lines(1, 1)
    rig.crash()


def test_marks_of_files_that_are_gone_are_forgotten(rig: TailRig, log: Path) -> None:
    log.unlink()
    rig.drain()
    rig.wait(60)
    assert len(rig.marks) == 2
    rig.wait(86_400)
    assert set(rig.marks) == {"files/started"}


def test_a_mark_that_cannot_be_read_is_dropped_and_said(tmp_path: Path, log: Path) -> None:
    append(log, text(1, 2))
    rig = TailRig(str(log))
    rig.drain()
    rig.crash()
    key = next(key for key in rig.marks if not key.endswith("started"))
    rig.marks[key] = "{"
    rig.start()
    assert rig.drain() == lines(1, 2)
    assert rig.said
    rig.crash()


class Positions:
    def wrap_file(self, records: list[bytes], path: str, offsets: list[int]) -> list[bytes]:
        return [b"%s@%d" % (record, at) for record, at in zip(records, offsets, strict=True)]


def test_an_envelope_is_told_path_and_offsets(log: Path) -> None:
    append(log, b"a\nbb\nccc")
    rig = TailRig(str(log), envelope=Positions())
    assert rig.drain() == [b"a@0", b"bb@2"]
    assert rig.wait(5) == [b"ccc@5"]
    rig.crash()


# --- the samples -------------------------------------------------------------------------------------

SAMPLES = Path(__file__).parents[2].parent / "shared/data"
FILES = sorted(
    path.name for path in SAMPLES.glob("*") if path.suffix in (".log", ".jsonl", ".csv", ".influx", ".txt")
) or ["none"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "gb18030"])
@pytest.mark.parametrize("name", FILES)
def test_every_line_of_the_samples_comes_exactly(tmp_path: Path, name: str, encoding: str) -> None:
    if not (SAMPLES / name).is_file():
        pytest.skip(f"there are no samples at {SAMPLES}")
    data = (SAMPLES / name).read_bytes()
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    expected = [line.removesuffix(b"\r") for line in expected]
    assert expected
    copy = tmp_path / name
    copy.write_bytes(data if encoding == "utf-8" else data.decode().encode(encoding))
    rig = TailRig(str(copy), framing=FramingOptions(encoding=encoding))
    rig.drain(10_000)
    rig.restart()
    rig.drain()
    rig.wait(5)
    assert rig.lines == expected
    rig.crash()
