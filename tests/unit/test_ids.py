"""IdRanges is a set of integers, whatever the order of changes."""

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
    assert [id_ for id_ in range(0, 60) if id_ in ranges] == sorted(model)
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
        assert all(left[1] + 1 < right[0] for left, right in zip(listed, listed[1:], strict=False))


def test_keep_highest_drops_the_lowest_ranges() -> None:
    ranges = IdRanges([(1, 2), (5, 6), (9, 9)])

    ranges.keep_highest(2)

    assert list(ranges) == [(5, 6), (9, 9)]
    assert ranges.first_of_newest(1) == 9
    assert ranges.first_of_newest(2) == 0


@given(st.lists(st.integers(1, 20)))
def test_runs_keep_order_and_repeats(ids: list[int]) -> None:
    assert [id_ for first, last in runs_of(ids) for id_ in range(first, last + 1)] == ids
