"""A spool on real files: order, ids, marks, restarts, what goes and what stays."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from edgesocket.collector.spool.options import AppendResult, FsyncPolicy, SpoolOptions, WhenFull
from edgesocket.collector.spool.spool import REPLACE_BYTES, Spool
from edgesocket.errors import CollectorError
from edgesocket.ids import MAX_BATCH_ID
from edgesocket.protocol.replies import Reply, ReplyKind
from tests.support.spool_kit import FIRST_ID, FailingFiles, NoticeList, abandon, open_spool, put, read_all, segments

SMALL = SpoolOptions(max_bytes=1024 * 1024, segment_bytes=4096)


def test_records_come_back_in_order_with_dense_ids_from_the_time(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    assert spool.append([b"a", b"", b"b"], {"f/x": "1"}) == AppendResult(3)
    assert spool.read(0, 10, 1000) is None  # not durable yet
    assert spool.sync(0.0)
    assert read_all(spool) == {FIRST_ID: b"a", FIRST_ID + 1: b"", FIRST_ID + 2: b"b"}
    put(spool, b"c")
    assert read_all(spool, FIRST_ID + 3) == {FIRST_ID + 3: b"c"}
    spool.close()


def test_a_fresh_spool_without_a_time_begins_at_the_time(tmp_path: Path) -> None:
    first = Spool.open(tmp_path / "one")
    second = Spool.open(tmp_path / "two")
    assert 0 <= second.state().next_id - first.state().next_id < 60_000_000
    first.close()
    second.close()


def test_reading_keeps_to_its_limits_but_gives_at_least_one(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"xxxx", b"yy", b"z")
    put(spool, b"w")
    for most, most_bytes, expected in (
        (1, 99, 1),
        (9, 1, 1),
        (9, 4, 1),
        (9, 5, 1),
        (9, 6, 2),
        (9, 7, 3),
        (9, 8, 4),
        (4, 99, 4),
    ):
        run = spool.read(FIRST_ID, most, most_bytes)
        assert run is not None
        assert len(run.payloads) == expected
    run = spool.read(FIRST_ID + 2, 9, 99)
    assert run is not None
    assert (run.first_id, run.payloads) == (FIRST_ID + 2, [b"z", b"w"])
    spool.close()


def test_a_step_back_anywhere_gives_the_same_records(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SMALL)
    for number in range(300):
        put(spool, *[b"%d-%d" % (number, part) * 20 for part in range(5)])
    everything = read_all(spool)
    assert list(everything) == list(range(FIRST_ID, FIRST_ID + 1500))
    assert len(segments(tmp_path)) > 10
    for batch_id in [FIRST_ID + (step * 577) % 1500 for step in range(300)]:
        run = spool.read(batch_id, 7, 10_000)
        assert run is not None
        assert run.first_id == batch_id
        assert run.payloads == [everything[one] for one in range(batch_id, min(batch_id + 7, FIRST_ID + 1500))]
    spool.close()


def test_ids_stay_through_restarts_clean_and_not(tmp_path: Path) -> None:
    expected: dict[int, bytes] = {}
    for round_ in range(12):
        spool = open_spool(tmp_path, SMALL, now_us=FIRST_ID + round_)
        lines = [b"%d.%d" % (round_, part) * 30 for part in range(40)]
        put(spool, *lines, file=str(round_))
        found = read_all(spool) if round_ % 2 else {}
        assert all(expected[batch_id] == line for batch_id, line in found.items() if batch_id in expected)
        expected.update(found)
        (abandon if round_ % 3 else Spool.close)(spool)
    spool = open_spool(tmp_path, SMALL)
    final = read_all(spool)
    assert list(final.values()) == [b"%d.%d" % (round_, part) * 30 for round_ in range(12) for part in range(40)]
    assert {batch_id: final[batch_id] for batch_id in expected} == expected
    assert list(final) == list(range(FIRST_ID + 1, FIRST_ID + 481))  # given in the second round
    assert spool.marks == {"file": "11"}
    spool.close()


def test_ids_go_on_after_everything_was_done_and_the_spool_opened_again(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"a", b"b")
    read_all(spool)
    spool.done(FIRST_ID + 2)
    spool.close()
    spool = open_spool(tmp_path, now_us=5)
    put(spool, b"c")
    assert read_all(spool, FIRST_ID + 2) == {FIRST_ID + 2: b"c"}
    spool.done(FIRST_ID + 3)
    assert len(segments(tmp_path)) == 1
    spool.close()


def test_a_new_spool_in_an_emptied_directory_begins_above_the_old_one(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"a")
    read_all(spool)
    spool.close()
    for path in segments(tmp_path):
        path.unlink()
    spool = open_spool(tmp_path, now_us=FIRST_ID + 77)
    put(spool, b"b")
    assert read_all(spool) == {FIRST_ID + 77: b"b"}
    spool.close()


def test_done_removes_whole_segments_below_the_id_only(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SMALL)
    for number in range(100):
        put(spool, b"%03d" % number * 100)
    ids = list(read_all(spool))
    before = len(segments(tmp_path))
    spool.done(ids[50])
    assert 0 < len(segments(tmp_path)) < before
    assert set(read_all(spool)) >= set(ids[50:])
    assert spool.state().records == 50
    assert spool.state().first_id == ids[50]
    spool.done(ids[-1] + 1)
    assert len(segments(tmp_path)) == 1
    assert spool.state().records == 0
    assert spool.state().first_id == spool.state().next_id == ids[-1] + 1
    spool.done(ids[50])  # the next client begins lower: that means nothing
    assert spool.state().records == 0
    spool.close()


def test_a_large_newest_segment_goes_as_soon_as_it_is_done_and_takes_no_mark_and_no_id_along(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, *[b"x" * 1000] * 1000, **{"f/a": "17"})
    last = max(read_all(spool))
    assert spool.state().bytes > REPLACE_BYTES
    spool.done(last + 1)
    assert spool.state().bytes < 1000
    put(spool, b"next")
    assert read_all(spool, last + 1) == {last + 1: b"next"}
    abandon(spool)
    spool = open_spool(tmp_path)
    assert spool.marks == {"f/a": "17"}
    assert read_all(spool) == {last + 1: b"next"}
    spool.done(last + 2)
    spool.close()
    spool = open_spool(tmp_path)
    put(spool, b"more")
    assert max(read_all(spool)) == last + 2
    spool.close()


def test_marks_are_those_of_the_newest_durable_append_and_empty_ones_forget(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SMALL)
    odd = "f/\udcff\n\x00 name"
    for number in range(200):
        put(spool, b"line" * 50, **{f"f/{number % 7}": str(number), odd: f"{number}\n"})
    put(spool, **{"f/3": ""})
    assert len(segments(tmp_path)) > 5
    spool.append([b"not synced"], {"f/1": "never"})
    expected = {f"f/{number % 7}": str(number) for number in range(200)} | {odd: "199\n"}
    del expected["f/3"]
    assert spool.marks == expected
    spool.close()
    spool = open_spool(tmp_path, SMALL)
    assert spool.marks == expected | {"f/1": "never"}  # closing makes it durable
    spool.close()


@pytest.mark.parametrize("policy", FsyncPolicy)
def test_no_policy_loses_anything_when_the_process_ends(tmp_path: Path, policy: FsyncPolicy) -> None:
    options = SpoolOptions(max_bytes=1024 * 1024, segment_bytes=4096, fsync=policy)
    spool = open_spool(tmp_path / "clean", options)
    for number in range(100):
        spool.append([b"%03d" % number * 40], {"f": str(number)})
    spool.close()
    spool = open_spool(tmp_path / "clean", options)
    assert list(read_all(spool).values()) == [b"%03d" % number * 40 for number in range(100)]
    assert spool.marks == {"f": "99"}
    spool.close()
    spool = open_spool(tmp_path / "killed", options)
    for number in range(100):
        spool.append([b"%03d" % number * 40], {"f": str(number)})
    abandon(spool)
    spool = open_spool(tmp_path / "killed", options)
    assert list(read_all(spool).values()) == [b"%03d" % number * 40 for number in range(100)]
    assert spool.marks == {"f": "99"}
    spool.close()


def test_many_appends_share_one_sync(tmp_path: Path) -> None:
    files = FailingFiles()
    spool = open_spool(tmp_path, files=files)
    put(spool, b"first")
    files.calls.clear()
    for number in range(500):
        spool.append([b"%d" % number] * 10, {"f": str(number)})
    spool.sync(0.0)
    assert files.calls.count("sync") == 1
    assert files.calls.count("write") == 500
    spool.sync(0.0)
    assert files.calls.count("sync") == 1  # there was nothing to do
    spool.close()


def test_what_is_not_synced_is_bounded(tmp_path: Path) -> None:
    files = FailingFiles()
    spool = open_spool(tmp_path, files=files)
    for _ in range(40):
        spool.append([b"x" * 1_000_000], {})
        assert spool._writer._unsynced_bytes < 18_000_000
    assert len(read_all(spool)) > 10
    spool.close()


def test_each_is_durable_and_readable_when_append_returns(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SpoolOptions(fsync=FsyncPolicy.EACH))
    spool.append([b"a"], {})
    assert read_all(spool) == {FIRST_ID: b"a"}
    spool.close()


def test_interval_waits_and_says_when_it_wants_to_be_called(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SpoolOptions(fsync=FsyncPolicy.INTERVAL, interval_s=2.0))
    assert spool.sync_time() is None
    spool.append([b"a"], {})
    assert not spool.sync(10.0)
    assert spool.sync_time() == 12.0
    assert not spool.sync(11.9)
    assert spool.read(0, 9, 9) is None
    assert spool.sync(12.0)
    assert read_all(spool) == {FIRST_ID: b"a"}
    assert spool.sync_time() is None
    spool.close()


def test_never_is_readable_at_once_and_jumps_its_ids_after_an_unclean_end(tmp_path: Path) -> None:
    """A power cut may have taken records that were sent: their ids are not used again."""
    options = SpoolOptions(fsync=FsyncPolicy.NEVER)
    spool = open_spool(tmp_path, options)
    spool.append([b"a"], {})
    assert read_all(spool) == {FIRST_ID: b"a"}
    abandon(spool)
    spool = open_spool(tmp_path, options, now_us=FIRST_ID + 500)
    spool.append([b"b"], {})
    assert read_all(spool) == {FIRST_ID: b"a", FIRST_ID + 500: b"b"}
    spool.close()


def test_two_agents_never_share_a_spool(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    with pytest.raises(CollectorError, match="in use by process"):
        open_spool(tmp_path)
    spool.close()
    open_spool(tmp_path).close()


def test_ids_end_with_a_clear_error(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SMALL, now_us=MAX_BATCH_ID - 1)
    put(spool, b"a", b"b", b"c")
    run = spool.read(0, 9, 99)
    assert run is not None
    assert (run.first_id, run.payloads) == (MAX_BATCH_ID - 1, [b"a", b"b"])
    with pytest.raises(CollectorError, match="reached their end"):
        spool.read(MAX_BATCH_ID + 1, 9, 99)
    spool.close()
    spool = open_spool(tmp_path, SMALL)
    put(spool, b"d")
    with pytest.raises(CollectorError, match="reached their end"):
        read_all(spool)
    spool.close()


@pytest.mark.parametrize("lines", [[b"a\nb"], [b"a", b"\n"], [b"x" * 1000, b"y" * 500 + b"\n" + b"z" * 500]])
def test_a_line_feed_in_a_record_is_refused_and_changes_nothing(tmp_path: Path, lines: list[bytes]) -> None:
    spool = open_spool(tmp_path)
    with pytest.raises(ValueError, match="line feed"):
        spool.append(lines, {"f": "1"})
    put(spool, b"good")
    assert list(read_all(spool).values()) == [b"good"]
    assert spool.marks == {}
    spool.close()


def test_a_record_of_some_megabytes_goes_through(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    lines = [b"x" * 3_000_000, b"", b"y" * 10, b"z" * 400_000]
    put(spool, *lines)
    assert list(read_all(spool).values()) == lines
    abandon(spool)
    spool = open_spool(tmp_path)
    assert list(read_all(spool).values()) == lines
    spool.close()


def test_dead_letters_are_kept_once_and_never_offered_again(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    put(spool, b"a", b"\xff\x00", b"c", b"d")
    read_all(spool)
    spool.refused(FIRST_ID + 1, b"\xff\x00", Reply(ReplyKind.DECODE_FAILED))
    spool.refused(FIRST_ID + 1, b"\xff\x00", Reply(ReplyKind.DECODE_FAILED))
    assert spool.state().dead_letters == 1
    assert list(read_all(spool)) == [FIRST_ID, FIRST_ID + 2, FIRST_ID + 3]
    run = spool.read(FIRST_ID, 9, 99)
    assert run is not None
    assert run.payloads == [b"a"]
    abandon(spool)
    spool = open_spool(tmp_path)
    assert spool.state().dead_letters == 1
    assert list(read_all(spool)) == [FIRST_ID, FIRST_ID + 2, FIRST_ID + 3]
    spool.refused(FIRST_ID + 3, b"d", "too large for the ingress")
    assert list(read_all(spool, FIRST_ID + 1)) == [FIRST_ID + 2]
    spool.close()


def test_dead_letters_beyond_their_limit_cost_the_oldest_file_and_are_counted(tmp_path: Path) -> None:
    notices = NoticeList()
    spool = open_spool(tmp_path, SpoolOptions(dead_letter_bytes=8000), on_notice=notices)
    for number in range(100):
        spool.refused(FIRST_ID + number, b"x" * 100, "DECODE_FAILED")
    state = spool.state()
    assert 0 < state.dead_letters < 60
    assert state.dead_letters + state.dead_letters_dropped == 100
    files = list((tmp_path / "dead-letters").iterdir())
    assert sum(path.stat().st_size for path in files) <= 8000
    assert b"%d" % (FIRST_ID + 99) in max(files).read_bytes()
    assert notices
    spool.close()


def test_a_note_outlives_the_process_whatever_is_left_half_written(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    assert spool.recall() == ""
    for number in range(7):
        spool.remember(f"note {number}", number % 3 == 0)
        abandon(spool)
        spool = open_spool(tmp_path)
        assert spool.recall() == f"note {number}"
    spool.remember("durable", True)
    spool.remember("newer", False)
    spool.remember("newest", False)
    spool.close()
    data = bytearray((tmp_path / "note").read_bytes())
    for text in (b"newest", b"newer"):
        where = data.index(text)
        data[where] ^= 1
        (tmp_path / "note").write_bytes(bytes(data))
        spool = open_spool(tmp_path)
        assert spool.recall() == ("newer" if text == b"newest" else "durable")
        spool.close()
    with pytest.raises(ValueError, match="4096"):
        spool.remember("x" * 5000, False)


def test_one_thread_appends_and_another_reads_and_removes(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SMALL)
    total = 1500
    problems: list[BaseException] = []

    def append() -> None:
        try:
            for number in range(0, total, 10):
                while spool.room_bytes() < 5000:
                    pass
                put(spool, *[b"%06d" % one * 12 for one in range(number, number + 10)], f=str(number))
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=append)
    thread.start()
    wanted, seen = FIRST_ID, 0
    while seen < total and not problems:
        run = spool.read(wanted, 64, 100_000)
        if run is None:
            continue
        assert run.first_id == wanted
        assert run.payloads == [b"%06d" % one * 12 for one in range(seen, seen + len(run.payloads))]
        seen += len(run.payloads)
        wanted = run.next_id
        spool.done(wanted)
        spool.state()
    thread.join()
    assert not problems
    assert spool.state().records == 0
    assert len(segments(tmp_path)) == 1
    spool.close()


def test_options_that_cannot_work_are_refused() -> None:
    for wrong in (
        {"segment_bytes": 100},
        {"max_bytes": 1000},
        {"max_bytes": 1024 * 1024, "segment_bytes": 512 * 1024},
        {"interval_s": 0.0},
        {"dead_letter_bytes": 0},
    ):
        with pytest.raises(ValueError, match=r"must be"):
            SpoolOptions(**wrong)  # type: ignore[arg-type]
    assert SpoolOptions().segment_limit == 8 * 1024 * 1024
    assert WhenFull("block") is SpoolOptions().when_full
