"""Torn ends, damaged parts, missing and strange files: the spool opens, says what is lost, and moves nobody's id."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from edgesocket.collector.spool.inspection import find_damage, look_at
from edgesocket.collector.spool.options import SpoolOptions
from edgesocket.collector.spool.repair import repair
from tests.support.spool_kit import FIRST_ID, FailingFiles, NoticeList, abandon, open_spool, put, read_all, segments

SMALL = SpoolOptions(max_bytes=1024 * 1024, segment_bytes=4096)


def two_frames(directory: Path, *, with_ids: bool) -> dict[int, bytes]:
    """A spool that was killed after two appends."""
    spool = open_spool(directory)
    put(spool, b"one", b"two", f="1")
    put(spool, b"three", f="2")
    found = read_all(spool) if with_ids else {}
    abandon(spool)
    return found


@pytest.mark.parametrize("with_ids", [False, True])
def test_cut_at_every_byte_the_rest_is_right_and_new_records_follow(tmp_path: Path, with_ids: bool) -> None:
    origin = tmp_path / "origin"
    ids = two_frames(origin, with_ids=with_ids)
    whole = segments(origin)[0].read_bytes()
    seen = set()
    for size in range(len(whole) + 1):
        directory = tmp_path / "copy"
        shutil.copytree(origin, directory)
        segments(directory)[0].write_bytes(whole[:size])
        spool = open_spool(directory, now_us=FIRST_ID + 1000)
        put(spool, b"new")
        found = read_all(spool)
        assert list(found.values()) in ([b"new"], [b"one", b"two", b"new"], [b"one", b"two", b"three", b"new"])
        # No id ever means two things. (A file that lost a durable append, and ends just where that began, cannot be
        # told from one that never had it. No disk does that.)
        if with_ids and (spool.state().torn_bytes or size == 0):
            assert all(ids.get(batch_id, line) == line for batch_id, line in found.items())
        assert spool.marks == {} if len(found) == 1 else {"f": str(len(found) - 2)}
        seen.add(len(found))
        assert list(found) == sorted(found)
        spool.close()
        spool = open_spool(directory)
        assert read_all(spool) == found
        spool.close()
        assert list(find_damage(directory)) == []
        shutil.rmtree(directory)
    assert seen == {1, 3, 4}


@pytest.mark.parametrize("clean", [False, True])
def test_any_changed_byte_gives_no_wrong_record_and_shifts_no_id(tmp_path: Path, clean: bool) -> None:
    origin = tmp_path / "origin"
    spool = open_spool(origin)
    for number in range(3):
        put(spool, b"%d-a" % number, b"%d-b" % number, f=str(number))
    right = read_all(spool)
    spool.close() if clean else abandon(spool)
    path = segments(origin)[0].name
    whole = (origin / "segments" / path).read_bytes()
    frames_hit = set()
    for where in range(len(whole)):
        directory = tmp_path / "copy"
        shutil.copytree(origin, directory)
        changed = bytearray(whole)
        changed[where] ^= 1 << (where % 8)
        (directory / "segments" / path).write_bytes(bytes(changed))
        notices = NoticeList()
        spool = open_spool(directory, now_us=FIRST_ID + 1000, on_notice=notices)
        put(spool, b"new")
        found = read_all(spool)
        news = [batch_id for batch_id, line in found.items() if line == b"new"]
        assert len(news) == 1
        assert news[0] >= FIRST_ID + 6 or not clean
        assert news[0] not in right
        old = {batch_id: line for batch_id, line in found.items() if line != b"new"}
        assert all(right[batch_id] == line for batch_id, line in old.items())
        missing = set(right) - set(old)
        assert len(missing) in (0, 2)  # one frame at most: later ones come
        frames_hit.add(min(missing, default=0))
        assert notices
        assert spool.state().damaged_parts == 1
        assert list((directory / "damaged").iterdir())
        spool.close()
        shutil.rmtree(directory)
    assert frames_hit == {0, FIRST_ID, FIRST_ID + 2, FIRST_ID + 4}


def damage(path: Path, text: bytes) -> None:
    data = path.read_bytes()
    where = data.index(text)
    path.write_bytes(data[:where] + bytes([data[where] ^ 1]) + data[where + 1 :])


def many(directory: Path, *, read: bool = True) -> dict[int, bytes]:
    """A closed spool of many segments."""
    spool = open_spool(directory, SMALL)
    for number in range(60):
        put(spool, b"%03d-a" % number * 60, b"%03d-b" % number * 60, f=str(number))
    found = read_all(spool) if read else {}
    spool.close()
    assert len(segments(directory)) >= 10
    return found


@pytest.mark.parametrize("read_before", [False, True])
def test_damage_in_the_middle_is_counted_named_and_set_aside(tmp_path: Path, read_before: bool) -> None:
    right = many(tmp_path, read=read_before)
    for number in (3, 30, 59):
        path = next(path for path in segments(tmp_path) if b"%03d-b" % number in path.read_bytes())
        damage(path, b"%03d-b" % number)
    problems = list(find_damage(tmp_path))
    assert len([problem for problem in problems if "checksum" in problem]) == 3
    notices = NoticeList()
    spool = open_spool(tmp_path, SMALL, on_notice=notices)
    found = read_all(spool)
    lost = {FIRST_ID + 2 * number + part for number in (3, 30, 59) for part in (0, 1)}
    assert set(found) == set(range(FIRST_ID, FIRST_ID + 120)) - lost
    if read_before:
        assert found == {batch_id: line for batch_id, line in right.items() if batch_id not in lost}
    state = spool.state()
    assert (state.damaged_parts, state.lost_records) == (3, 6)
    assert state.records == 114
    assert len(list((tmp_path / "damaged").iterdir())) == 3
    assert f"ids {FIRST_ID + 60} to {FIRST_ID + 61}" in "\n".join(notices)
    assert read_all(spool) == found  # a second look counts nothing twice
    assert spool.state().damaged_parts == 3
    put(spool, b"new")
    assert max(read_all(spool)) == FIRST_ID + 120
    spool.done(FIRST_ID + 121)
    assert len(segments(tmp_path)) == 1
    spool.close()


def test_damage_at_the_end_of_an_unsealed_older_segment_shifts_nothing_behind(tmp_path: Path) -> None:
    right = many(tmp_path, read=True)
    victim = segments(tmp_path)[4]
    data = victim.read_bytes()
    victim.write_bytes(data[: len(data) - 60])
    spool = open_spool(tmp_path, SMALL)
    found = read_all(spool)
    assert found.items() <= right.items()
    assert len(found) == 118
    spool.close()


def test_unread_segments_with_a_damaged_end_get_ids_that_stay_apart(tmp_path: Path) -> None:
    many(tmp_path, read=False)
    victim = segments(tmp_path)[4]
    data = victim.read_bytes()
    victim.write_bytes(data[: len(data) - 60])
    spool = open_spool(tmp_path, SMALL)
    found = read_all(spool)
    assert len(found) == 118
    assert list(found) == sorted(found)
    spool.close()
    spool = open_spool(tmp_path, SMALL)
    assert read_all(spool) == found
    spool.close()


@pytest.mark.parametrize("which", [0, 4, -1])
@pytest.mark.parametrize("how", ["missing", "directory", "link", "empty", "garbage"])
@pytest.mark.parametrize("read_before", [False, True])
def test_a_segment_that_cannot_be_read_stops_nothing(tmp_path: Path, which: int, how: str, read_before: bool) -> None:
    right = many(tmp_path, read=read_before)
    victim = segments(tmp_path)[which]
    content = victim.read_bytes()
    victim.unlink()
    if how == "directory":
        victim.mkdir()
    elif how == "link":
        victim.symlink_to("/etc/hostname")
    elif how == "empty":
        victim.touch()
    elif how == "garbage":
        victim.write_bytes(os.urandom(3000))
    spool = open_spool(tmp_path, SMALL, now_us=FIRST_ID + 1000)
    put(spool, b"new", g="1")
    found = read_all(spool)
    lines = {b"%03d-%s" % (number, part) * 60 for number in range(60) for part in (b"a", b"b")}
    kept = {line for line in lines if b"" + line not in content}
    assert set(found.values()) - {b"new"} == kept
    assert list(found) == sorted(found)
    if read_before:
        old = {batch_id: line for batch_id, line in found.items() if line != b"new"}
        assert old.items() <= right.items()
        assert next(batch_id for batch_id, line in found.items() if line == b"new") not in right
    assert spool.marks["g"] == "1"
    assert which == -1 or spool.marks["f"] == "59"
    spool.close()
    spool = open_spool(tmp_path, SMALL)
    assert read_all(spool) == found
    spool.close()


def test_marks_are_found_in_older_segments_when_the_newest_head_is_damaged(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SMALL)
    put(spool, b"x" * 3900, f="1", g="7", h="8")
    put(spool, b"x" * 3900, f="2", g="")
    put(spool, b"x" * 100, f="3")
    spool.close()
    newest = segments(tmp_path)[-1]
    data = newest.read_bytes()
    newest.write_bytes(b"\xff" * 8 + data[8:])
    spool = open_spool(tmp_path, SMALL)
    assert spool.marks == {"f": "3", "h": "8"}
    last = max(read_all(spool))
    spool.done(last + 1)  # what held the marks is gone now
    spool.close()
    spool = open_spool(tmp_path, SMALL)
    assert spool.marks == {"f": "3", "h": "8"}
    spool.close()


def test_files_that_do_not_fit_between_the_others_are_set_aside(tmp_path: Path) -> None:
    right = many(tmp_path)
    some = segments(tmp_path)[3]
    number = int(some.name[:12])
    shutil.copy(some, some.with_name(f"{number:012d}-00000000.seg"))
    shutil.copy(some, some.with_name(f"{99:012d}-00000001-{FIRST_ID - 5:019d}.seg"))
    shutil.copy(some, some.with_name("README"))
    spool = open_spool(tmp_path, SMALL)
    assert read_all(spool) == right
    assert spool.state().damaged_parts == 2
    put(spool, b"new")
    assert max(read_all(spool)) == FIRST_ID + 120
    spool.close()


def test_sectors_that_cannot_be_read_cost_their_own_records(tmp_path: Path) -> None:
    class BadSector(FailingFiles):
        def read(self, fd: int, offset: int, length: int) -> bytes:
            if offset < 8300 and offset + length > 8200:
                raise OSError(5, "Input/output error")
            return super().read(fd, offset, length)

    spool = open_spool(tmp_path)
    for number in range(60):
        put(spool, b"%03d" % number * 200)
    right = read_all(spool)
    spool.close()
    spool = open_spool(tmp_path, files=BadSector())
    found = read_all(spool)
    assert found.items() <= right.items()
    assert 50 <= len(found) < 60
    assert spool.state().lost_records == 60 - len(found)
    spool.close()


def test_repair_takes_damage_out_and_moves_no_id(tmp_path: Path) -> None:
    right = many(tmp_path)
    for number in (3, 30):
        path = next(path for path in segments(tmp_path) if b"%03d-b" % number in path.read_bytes())
        damage(path, b"%03d-b" % number)
    with segments(tmp_path)[-1].open("ab") as file:
        file.write(b"half a frame")
    assert len(list(find_damage(tmp_path))) >= 3
    notices = NoticeList()
    done = repair(tmp_path, FIRST_ID + 1000, notices)
    assert (done.segments, done.lost_records, done.torn_bytes) == (2, 4, 12)
    assert len(list((tmp_path / "damaged").iterdir())) == 3
    assert list(find_damage(tmp_path)) == []
    assert look_at(tmp_path).records == 116
    assert repair(tmp_path, FIRST_ID + 1000, notices).segments == 0
    notices.clear()
    spool = open_spool(tmp_path, SMALL, on_notice=notices)
    found = read_all(spool)
    lost = {FIRST_ID + 2 * number + part for number in (3, 30) for part in (0, 1)}
    assert found == {batch_id: line for batch_id, line in right.items() if batch_id not in lost}
    assert notices == []
    spool.close()


def test_damaged_parts_are_not_kept_beyond_their_limit(tmp_path: Path) -> None:
    many(tmp_path)
    for number in range(0, 60, 5):
        path = next(path for path in segments(tmp_path) if b"%03d-b" % number in path.read_bytes())
        damage(path, b"%03d-b" % number)
    spool = open_spool(tmp_path, SpoolOptions(max_bytes=1024 * 1024, segment_bytes=4096, damaged_bytes=2000))
    assert len(read_all(spool)) == 96
    assert spool.state().damaged_parts == 12
    assert sum(path.stat().st_size for path in (tmp_path / "damaged").iterdir()) <= 2000
    spool.close()
