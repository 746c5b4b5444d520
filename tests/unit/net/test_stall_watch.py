"""The reply stall rule: cut only after the whole timeout with something owed and not a byte moved either way."""

from edgesocket.net.stall_watch import StallWatch


def test_nothing_owed_is_never_a_stall() -> None:
    watch = StallWatch(60.0, now=0.0)

    assert not watch.is_stalled(1000.0, owed=False, progress=0)


def test_the_time_without_progress_counts_in_full_from_the_last_progress() -> None:
    watch = StallWatch(60.0, now=0.0)
    assert not watch.is_stalled(50.0, owed=True, progress=1)

    assert not watch.is_stalled(109.9, owed=True, progress=1)
    assert watch.is_stalled(110.0, owed=True, progress=1)


def test_a_byte_moved_starts_the_time_anew() -> None:
    watch = StallWatch(60.0, now=0.0)
    for minute in range(1, 100):
        assert not watch.is_stalled(minute * 59.0, owed=True, progress=minute)


def test_the_time_in_which_nothing_was_owed_does_not_count() -> None:
    watch = StallWatch(60.0, now=0.0)
    assert not watch.is_stalled(59.0, owed=False, progress=7)

    assert not watch.is_stalled(118.0, owed=True, progress=7)
    assert watch.is_stalled(119.0, owed=True, progress=7)
