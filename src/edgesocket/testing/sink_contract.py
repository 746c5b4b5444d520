"""The suite that every sink must pass, as stories of one engine that writes, prepares, commits, aborts and crashes.

Pick the class for the sink's commit role, add `BreakableSink` where the destination can be made to fail, and say how
to make the sink and how to read what it wrote::

    class TestMySink(RecommittableSink, BreakableSink):
        @pytest.fixture
        def harness(self, tmp_path):
            return MyHarness(tmp_path)

Every rule that a test states is one of `edgesocket.components.sink`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from edgesocket.components.sink import CommitRole, DecidingSink, Manifest, StagingSink
from edgesocket.errors import ComponentError, FencedError
from edgesocket.testing.sink_story import SinkHarness, Story

AWKWARD_PAYLOADS: Sequence[bytes] = (
    b"",
    b" ",
    b"plain",
    b'{"event": "pageview", "path": "C:\\\\tmp"}',
    b"tab\tand lone\rCR",
    b"NUL\x00, ESC\x1b[31m, DEL\x7f",
    "Zürich \u2028 \u2029 \u0085 \ufeff \U0001f98a".encode(),
    b"\\",
    b'"',
    b"\xef\xbf\xbf",
    b"x" * 100_000,
)
"""UTF-8 payloads without a line feed that are easily written wrong."""


class BreakableHarness(SinkHarness, Protocol):
    """A harness whose destination can be made to fail."""

    def broken(self) -> AbstractContextManager[None]:
        """While inside, the destination takes nothing."""


@contextmanager
def refused(error: type[Exception]) -> Iterator[None]:
    """The body must raise `error`."""
    try:
        yield
    except error:
        return
    raise AssertionError(f"no {error.__name__} was raised")


class AnySink:
    """Rules for sinks of every commit role."""

    role = CommitRole.NONE

    def test_rows_come_out_whole_and_in_order(self, harness: SinkHarness) -> None:
        story = Story(harness)
        assert story.sink.commit_role is self.role
        story.write(*AWKWARD_PAYLOADS)
        story.write(*reversed(AWKWARD_PAYLOADS))
        story.checkpoint(1)
        story.write(*(b"row %d" % n for n in range(1000)))
        story.checkpoint(2)
        rows = [*AWKWARD_PAYLOADS, *reversed(AWKWARD_PAYLOADS), *(b"row %d" % n for n in range(1000))]
        assert story.read() == rows

    def test_a_commit_may_be_repeated(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a", b"b")
        story.checkpoint(1)
        story.commit(1)
        story.commit(1)
        assert story.read() == [b"a", b"b"]

    def test_an_aborted_checkpoint_travels_with_the_next(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.write(b"b")
        story.prepare(2)
        story.write(b"c")
        story.checkpoint(3)
        assert story.read() == [b"a", b"b", b"c"]

    def test_after_an_abort_the_same_number_may_be_prepared_again(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.write(b"b")
        story.checkpoint(1)
        assert story.read() == [b"a", b"b"]

    def test_an_aborted_checkpoint_without_new_rows_travels_too(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.checkpoint(2)
        story.checkpoint(3)
        assert story.read() == [b"a"]

    def test_a_checkpoint_without_rows_is_no_error(self, harness: SinkHarness) -> None:
        """Its manifest is empty, so that the engine sees that an idle sink has nothing to commit."""
        story = Story(harness)
        story.checkpoint(1)
        assert story.manifest(1) == {}
        assert story.read() == []
        story.write(b"a")
        story.checkpoint(2)
        story.checkpoint(3)
        assert story.read() == [b"a"]

    def test_the_next_run_goes_on_behind_the_last(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.checkpoint(1)
        story.sink.close()
        story.start()
        story.write(b"b")
        story.checkpoint(2)
        story.sink.close()
        assert story.read() == [b"a", b"b"]

    def test_close_needs_no_open(self, harness: SinkHarness) -> None:
        harness.sink().close()
        assert harness.read() == []


class CommittingSink(AnySink):
    """Rules for sinks that make rows visible at a commit, re-committable or deciding."""

    def test_rows_are_invisible_before_their_commit(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        assert story.read() == []
        story.prepare(1)
        assert story.read() == []
        story.commit(1)
        assert story.read() == [b"a"]

    def test_rows_written_after_a_prepare_belong_to_the_next(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.write(b"b")
        story.commit(1)
        assert story.read() == [b"a"]
        story.checkpoint(2)
        assert story.read() == [b"a", b"b"]

    def test_a_commit_repeated_late_does_not_publish_newer_rows(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.checkpoint(1)
        story.write(b"b")
        story.commit(1)
        assert story.read() == [b"a"]

    def test_a_crash_before_prepare_leaves_nothing(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.start()
        story.write(b"b")
        story.checkpoint(1)
        assert story.read() == [b"b"]

    def test_a_crash_after_prepare_without_a_record_leaves_nothing(self, harness: SinkHarness) -> None:
        """What was prepared is staged somewhere, but no checkpoint covers it, so it will be written again."""
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.start()
        assert story.read() == []
        story.write(b"a", b"b")
        story.checkpoint(1)
        assert story.read() == [b"a", b"b"]

    def test_close_throws_unprepared_rows_away(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.sink.close()
        assert story.read() == []
        story.start()
        story.checkpoint(1)
        assert story.read() == []


class RecommittableSink(CommittingSink):
    """Rules for sinks whose prepared work outlives them."""

    role = CommitRole.RECOMMITTABLE

    def test_a_crash_between_record_and_commit_is_made_good(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.start(1)
        assert story.read() == [], "open commits nothing by itself"
        story.commit(1)
        assert story.read() == [b"a"]
        story.write(b"b")
        story.checkpoint(2)
        assert story.read() == [b"a", b"b"]

    def test_a_crash_after_the_commit_repeats_it_harmlessly(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.checkpoint(1)
        for _ in range(3):
            story.start(1)
            story.commit(1)
        assert story.read() == [b"a"]

    def test_prepared_work_survives_restarts_that_do_not_reach_its_commit(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.sink.close()
        for _ in range(3):
            story.start(1)
        story.start(1).close()
        story.start(1)
        story.commit(1)
        assert story.read() == [b"a"]

    def test_several_prepared_checkpoints_are_committed_in_order(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.start(1)
        story.write(b"b")
        story.prepare(2)
        story.start(1, 2)
        story.commit(1)
        story.commit(2)
        story.commit(2)
        assert story.read() == [b"a", b"b"]

    def test_an_aborted_checkpoint_survives_through_the_manifest_of_the_next(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        story.write(b"b")
        story.prepare(2)
        story.start(2)
        story.commit(2)
        assert story.read() == [b"a", b"b"]

    def test_a_stale_run_that_commits_late_changes_nothing(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.prepare(1)
        stale = story.sink
        story.start(1)
        story.commit(1)
        stale.commit(1, story.manifest(1))
        story.write(b"b")
        story.checkpoint(2)
        stale.commit(1, story.manifest(1))
        assert story.read() == [b"a", b"b"]


class DecidingSinkRules(CommittingSink):
    """Rules for sinks whose transaction decides whether a checkpoint happened."""

    role = CommitRole.DECIDING

    def test_landed_tells_what_was_committed(self, harness: SinkHarness) -> None:
        story = Story(harness)
        assert self._fenced(story).landed() == 0
        story.write(b"a")
        story.prepare(1)
        story.start()
        assert self._fenced(story).landed() == 0
        story.write(b"a")
        story.checkpoint(1)
        story.start()
        assert self._fenced(story).landed() == 1
        assert story.read() == [b"a"]

    def test_a_checkpoint_without_rows_lands_too(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.checkpoint(1)
        story.checkpoint(2)
        story.start()
        assert self._fenced(story).landed() == 2

    def test_a_fenced_run_cannot_commit(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"stale")
        story.prepare(1)
        stale = story.sink
        story.start()
        sink = self._fenced(story)
        with refused(FencedError):
            stale.commit(1, story.manifest(1))
        assert sink.landed() == 0
        assert story.read() == []
        story.write(b"a")
        story.checkpoint(1)
        assert story.read() == [b"a"]

    def test_a_fenced_run_cannot_fence_back(self, harness: SinkHarness) -> None:
        story = Story(harness)
        stale, epoch = story.sink, story.epoch
        story.start()
        self._fenced(story)
        with refused(FencedError):
            stale.fence(epoch)  # type: ignore[attr-defined]

    def _fenced(self, story: Story) -> DecidingSink:
        sink: DecidingSink = story.sink  # type: ignore[assignment]
        sink.fence(story.epoch)
        return sink


class StagingRules:
    """Rules for sinks that leave the slow part of a checkpoint to another thread, in both halves of `prepare`."""

    def test_rows_written_between_the_halves_belong_to_the_next_checkpoint(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        sink = staging(story)
        manifest = sink.stage(1)
        story.write(b"b")
        sink.settle(1)
        story.sink.commit(1, manifest)
        assert story.read() == [b"a"]
        story.checkpoint(2)
        assert story.read() == [b"a", b"b"]

    def test_an_abort_between_the_halves_loses_and_doubles_nothing(self, harness: SinkHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        staging(story).stage(1)
        story.write(b"b")
        story.checkpoint(2)
        assert story.read() == [b"a", b"b"]

    def test_settling_and_publishing_run_beside_writes(self, harness: SinkHarness) -> None:
        story = Story(harness)
        written: list[bytes] = []

        def write(payload: bytes) -> None:
            story.write(payload)
            written.append(payload)

        with ThreadPoolExecutor(1) as beside:
            for n in range(1, 21):
                write(b"before %d" % n)
                sink = staging(story)
                work = beside.submit(_settle_and_commit, sink, n, sink.stage(n))
                while not work.done():
                    write(b"beside %d" % n)
                work.result()
        story.checkpoint(21)
        assert story.read() == written


def staging(story: Story) -> StagingSink:
    """The sink of a story, as the engine sees it."""
    assert isinstance(story.sink, StagingSink)
    return story.sink


def _settle_and_commit(sink: StagingSink, checkpoint: int, manifest: Manifest) -> None:
    sink.settle(checkpoint)
    sink.commit(checkpoint, manifest)


class BreakableSink:
    """Rules for any sink whose destination can be made to fail."""

    def test_a_broken_destination_is_a_component_error_and_close_still_works(self, harness: BreakableHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        story.checkpoint(1)
        with harness.broken():
            with refused(ComponentError):
                story.write(b"b")
                story.prepare(2)
            story.sink.close()
        shown = self._read_once(story)
        assert shown[:1] == [b"a"]
        assert shown[1:] == [] or story.sink.commit_role is CommitRole.NONE

    def test_after_a_failure_the_next_run_writes_the_rows_again(self, harness: BreakableHarness) -> None:
        story = Story(harness)
        story.write(b"a")
        with harness.broken():
            with refused(ComponentError):
                story.write(b"b")
                story.prepare(1)
            story.sink.close()
        story.start()
        story.write(b"a", b"b")
        story.checkpoint(1)
        assert self._read_once(story) == [b"a", b"b"]

    def _read_once(self, story: Story) -> list[bytes]:
        """What a reader sees; repeats are forgiven where nothing is committed."""
        rows = story.read()
        return list(dict.fromkeys(rows)) if story.sink.commit_role is CommitRole.NONE else rows
