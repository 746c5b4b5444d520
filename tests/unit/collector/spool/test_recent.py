"""What is in memory is only a short cut: the spool answers the same with it and without it."""

from __future__ import annotations

from pathlib import Path

from edgesocket.collector.spool.names import SegmentName
from edgesocket.collector.spool.options import FsyncPolicy, SpoolOptions
from edgesocket.collector.spool.recent import Recent, RecentAppend
from edgesocket.collector.spool.shelf import Segment
from edgesocket.protocol.commands import encode_batch
from edgesocket.protocol.ended_lines import EndedLines
from tests.support.spool_kit import FIRST_ID, FailingFiles, open_spool, read_all


class CountingFiles(FailingFiles):
    """Counts reads."""

    reads = 0

    def read(self, fd: int, offset: int, length: int) -> bytes:
        self.reads += 1
        return super().read(fd, offset, length)


def segment(number: int) -> Segment:
    return Segment(SegmentName(number, 1, None), Path("x"), 0)


def put(recent: Recent, where: Segment, offset: int, end: int) -> None:
    where.size = end
    recent.put(where, offset, 0, [b"x"])


def place(append: RecentAppend | None) -> tuple[int, int, int] | None:
    return None if append is None else (append.segment.name.number, append.offset, append.end)


def test_only_what_begins_there_and_may_be_read_is_taken() -> None:
    recent, one = Recent(), segment(1)
    put(recent, one, 80, 200)
    assert recent.take(one, 79, 1000) is None
    assert recent.take(one, 80, 199) is None
    assert place(recent.take(one, 80, 200)) == (1, 80, 200)
    assert recent.take(one, 80, 200) is None, "the second time it is in the file"


def test_what_was_passed_by_is_dropped() -> None:
    recent, one, two = Recent(), segment(1), segment(2)
    for where, offset, end in ((one, 0, 10), (one, 10, 20), (two, 0, 10), (two, 10, 20)):
        put(recent, where, offset, end)
    assert place(recent.take(one, 10, 20)) == (1, 10, 20)
    assert recent.take(one, 20, 20) is None
    assert place(recent.take(two, 10, 20)) == (2, 10, 20)


def test_it_has_a_bound_and_the_oldest_goes() -> None:
    recent, one = Recent(1000), segment(1)
    for n in range(10):
        put(recent, one, 300 * n, 300 * n + 300)
    assert recent.take(one, 300 * 6, 10_000) is None
    assert recent.take(one, 300 * 8, 10_000) is not None


def test_what_was_cut_off_is_forgotten() -> None:
    recent, one = Recent(), segment(1)
    put(recent, one, 0, 10)
    put(recent, one, 10, 20)
    recent.forget(one, 10)
    assert recent.take(one, 0, 100) is not None
    assert recent.take(one, 10, 100) is None


def test_a_sender_that_stands_is_waited_for_once() -> None:
    recent, one = Recent(1000), segment(1)
    put(recent, one, 0, 900)
    recent.let_reader_come(0.01)
    recent.let_reader_come(3600)
    assert recent.take(one, 0, 900) is not None
    put(recent, one, 900, 1800)
    recent.let_reader_come(0.01)


def test_batch_lines_are_written_ahead_for_a_sender_that_follows(tmp_path: Path) -> None:
    options = SpoolOptions(segment_bytes=4096)
    spool = open_spool(tmp_path, options)
    seen, ahead = FIRST_ID, 0
    for n in range(60):
        spool.append(EndedLines(b"%03d\n" % n * 100))
        spool.sync(0.0)
        run = spool.read(seen, 1000, 1 << 20)
        assert run is not None
        assert (run.first_id, run.payloads) == (seen, [b"%03d" % n] * 100)
        assert isinstance(run.payloads, EndedLines)
        if run.payloads.written is not None:
            ahead += 1
            batches = b"".join(encode_batch(seen + at, b"%03d" % n) for at in range(100))
            assert run.payloads.written == (seen, batches)
        seen = run.next_id
    assert ahead >= 55, "in every segment, also before it has ids"
    assert spool.state().segments > 3
    spool.close()


def test_a_sender_that_keeps_up_reads_no_file_again(tmp_path: Path) -> None:
    files = CountingFiles()
    spool = open_spool(tmp_path, files=files)
    seen = FIRST_ID
    for n in range(50):
        spool.append([b"%d" % n, b"x" * 100], {"a/1": str(n)})
        spool.append([], {"a/1": f"{n}+"})
        spool.sync(0.0)
        run = spool.read(seen, 1000, 1 << 20)
        assert run is not None
        assert run.payloads == [b"%d" % n, b"x" * 100]
        seen = run.next_id
    before = files.reads
    assert before <= 2, "the head of the segment"
    assert len(read_all(spool, FIRST_ID)) == 100
    assert files.reads > before
    spool.close()


def test_records_are_not_offered_before_they_are_durable(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.append([b"a"])
    assert spool.read(0, 10, 10) is None
    spool.sync(0.0)
    spool.append([b"b"])
    assert read_all(spool) == {FIRST_ID: b"a"}
    spool.sync(0.0)
    assert read_all(spool) == {FIRST_ID: b"a", FIRST_ID + 1: b"b"}
    spool.close()


def test_what_a_failed_sync_wrote_elsewhere_is_offered_once(tmp_path: Path) -> None:
    files = FailingFiles()
    spool = open_spool(tmp_path, files=files)
    spool.append([b"a"])
    spool.sync(0.0)
    assert read_all(spool) == {FIRST_ID: b"a"}
    lines = [b"b", b"c"]
    spool.append(lines)
    files.fail["sync"] = 1
    try:
        spool.sync(0.0)
    except OSError:
        pass
    spool.sync(0.0)
    lines[:] = [b"changed"]  # it is durable: the list is the caller's again
    assert read_all(spool, FIRST_ID + 1) == {FIRST_ID + 1: b"b", FIRST_ID + 2: b"c"}
    assert read_all(spool) == {FIRST_ID: b"a", FIRST_ID + 1: b"b", FIRST_ID + 2: b"c"}
    spool.close()


def test_the_list_of_an_append_may_change_when_it_is_durable(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, SpoolOptions(fsync=FsyncPolicy.EACH))
    lines = [b"a", b"b"]
    spool.append(lines)
    lines[:] = [b"c"]
    assert read_all(spool) == {FIRST_ID: b"a", FIRST_ID + 1: b"b"}
    spool.close()
