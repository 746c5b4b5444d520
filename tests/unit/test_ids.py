"""IdRanges is a set of integers, whatever the order of changes."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgesocket.ids import IdRanges, runs_of

RANGES = st.tuples(st.integers(1, 40), st.integers(0, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))
CHANGES = st.lists(st.tuples(st.booleans(), RANGES), max_size=30)


@given(CHANGES, RANGES)
def test_behaves_like_a_set_of_integers(changes: list, probe: tuple[int, int]) -> None:
    ranges, model = IdRanges(), set()
    for adding, (first, last) in changes:
        ids = set(range(first, last + 1))
        if adding:
            ranges.add(first, last)
            model |= ids
        else:
            ranges.remove(first, last)
            model -= ids

    listed = [id_ for first, last in ranges for id_ in range(first, last + 1)]
    assert listed == sorted(model)
    assert ranges.id_count == len(model)
    assert [id_ for id_ in range(60) if id_ in ranges] == sorted(model)
    inside = [id_ for first, last in ranges.pieces(*probe) for id_ in range(first, last + 1)]
    holes = [id_ for first, last in ranges.missing(*probe) for id_ in range(first, last + 1)]
    assert sorted(inside + holes) == list(range(probe[0], probe[1] + 1))
    assert set(inside) == model & set(range(probe[0], probe[1] + 1))
    assert ranges.lowest == min(model, default=None)
    assert ranges.highest == max(model, default=None)
    assert ranges.first_at_or_above(probe[0]) == min((i for i in model if i >= probe[0]), default=None)
    end = probe[0]
    while end + 1 in model:
        end += 1
    assert ranges.run_end(probe[0]) == (end if probe[0] in model else None)
    assert IdRanges((a, b) for a, b in ranges.to_list()) == ranges == ranges.copy()


@given(CHANGES)
def test_ranges_stay_disjoint_sorted_and_apart(changes: list) -> None:
    ranges = IdRanges()
    for adding, (first, last) in changes:
        (ranges.add if adding else ranges.remove)(first, last)
        listed = list(ranges)
        assert all(low <= high for low, high in listed)
        assert all(left[1] + 1 < right[0] for left, right in pairwise(listed))


def test_keep_highest_drops_the_lowest_ranges() -> None:
    ranges = IdRanges([(1, 2), (5, 6), (9, 9)])

    assert ranges.keep_highest(2) == 2, "the highest id that is gone"
    assert ranges.keep_highest(2) == 0

    assert list(ranges) == [(5, 6), (9, 9)]
    assert ranges.first_of_newest(1) == 9
    assert ranges.first_of_newest(2) == 0


@given(st.lists(st.integers(1, 20)))
def test_runs_keep_order_and_repeats(ids: list[int]) -> None:
    assert [id_ for first, last in runs_of(ids) for id_ in range(first, last + 1)] == ids


SETS = st.sets(st.integers(1, 60))


def ranges_of(ids: set[int]) -> IdRanges:
    return IdRanges((id_, id_) for id_ in ids)


@given(SETS, SETS)
def test_whole_sets_are_added_and_taken_out(mine: set[int], other: set[int]) -> None:
    added, left = ranges_of(mine), ranges_of(mine)

    added.update(ranges_of(other))
    left.difference_update(ranges_of(other))

    assert added == ranges_of(mine | other)
    assert left == ranges_of(mine - other)


@given(SETS)
def test_a_few_ranges_far_apart_are_added_and_taken_out_of_many(other: set[int]) -> None:
    """The two ways to do it agree: range by range, or in one pass."""
    mine = set(range(2, 4000, 2))
    other = {1, 3999, *(id_ * 50 for id_ in other)}
    added, left = ranges_of(mine), ranges_of(mine)

    added.update(ranges_of(other))
    left.difference_update(ranges_of(other))

    assert added == ranges_of(mine | other)
    assert left == ranges_of(mine - other)


def test_an_empty_stretch_is_nothing() -> None:
    ranges = IdRanges([(2, 8)])

    ranges.remove(6, 3)
    assert list(ranges) == [(2, 8)]
    assert ranges.pieces(6, 3) == []
    assert ranges.missing(6, 3) == []


def test_what_it_looks_like_and_what_it_equals() -> None:
    ranges = IdRanges([(1, 2), (5, 5)])

    assert repr(ranges) == "IdRanges([(1, 2), (5, 5)])"
    assert ranges != [(1, 2), (5, 5)]
    assert len(ranges) == 2
    assert ranges
    assert not IdRanges()
    ranges.clear()
    assert ranges == IdRanges()
    assert (ranges.lowest, ranges.highest, ranges.id_count) == (None, None, 0)


def test_a_change_by_a_whole_set_costs_one_pass() -> None:
    """200,000 ranges against 200,000: range by range this would shift lists for minutes."""
    even = IdRanges((id_, id_) for id_ in range(0, 800_000, 4))
    odd = IdRanges((id_, id_) for id_ in range(2, 800_000, 4))

    even.update(odd)
    assert len(even) == 400_000
    even.difference_update(odd)
    assert len(even) == 200_000
