"""Orders: appended exclusively, the newest counts, nothing of a secret shows."""

from __future__ import annotations

import pytest

from edgesocket.checkpoint.effects import Create
from edgesocket.cluster.job_text import Included, JobText
from edgesocket.cluster.orders import (
    Order,
    OrderRefusedError,
    Wanted,
    append_order,
    decode_order,
    encode_order,
    newest_order,
    order_after,
)
from edgesocket.errors import DamagedStateError, StoreError
from edgesocket.testing.memory_store import MemoryStore

TEXT = JobText(
    file="edge.conf",
    text='source { EdgeSocket { token = "s3cr3t-token" } }',
    variables={"KEY": "s3cr3t-value"},
    included=(Included(name="a.conf", including="edge.conf", found="/x/a.conf", text="s3cr3t-include"),),
)


def an_order(n: int = 1, wanted: Wanted = Wanted.RUNNING, **changes: object) -> Order:
    given: dict[str, object] = {
        "n": n, "wanted": wanted, "job": "edge", "text": TEXT, "port": 9999, "tag_filter": {"zone": "a"},
        "host": "edge", "by": "me", "time_ms": 5, **changes,
    }  # fmt: skip
    return Order(**given)  # type: ignore[arg-type]


class AnswerLostStore(MemoryStore):
    """Makes the file, and loses the answer."""

    def perform(self, effect: object) -> object:
        result = super().perform(effect)  # type: ignore[arg-type]
        if isinstance(effect, Create):
            raise StoreError("the answer was lost")
        return result


def test_the_newest_order_counts() -> None:
    store = MemoryStore()
    assert newest_order(store) is None
    append_order(store, an_order(1))
    append_order(store, an_order(2, Wanted.STOPPED))
    found = newest_order(store)
    assert found is not None
    assert (found.n, found.wanted) == (2, Wanted.STOPPED)


def test_an_order_is_read_as_it_was_written() -> None:
    order = an_order(avoid=("n1", "n2"), after="other", reason="because")
    assert decode_order(encode_order(order), "orders/1.json") == order


def test_of_two_who_order_at_once_one_is_told() -> None:
    store = MemoryStore()
    append_order(store, an_order(1))
    with pytest.raises(OrderRefusedError, match="at the same moment"):
        append_order(store, an_order(1, Wanted.CANCELLED))
    found = newest_order(store)
    assert found is not None
    assert found.wanted is Wanted.RUNNING


def test_an_order_whose_answer_was_lost_is_an_order() -> None:
    store = AnswerLostStore()
    append_order(store, an_order(1))
    assert newest_order(store) == an_order(1)


def test_a_newer_order_is_found_with_one_look() -> None:
    store = MemoryStore()
    append_order(store, an_order(1))
    assert order_after(store, an_order(1)) is None
    append_order(store, an_order(2))
    append_order(store, an_order(3))
    found = order_after(store, an_order(1))
    assert found is not None
    assert found.n == 3


def test_a_damaged_order_is_named() -> None:
    store = MemoryStore()
    store.perform(Create(f"orders/{1:020}.json", b"{"))
    with pytest.raises(DamagedStateError, match=r"orders/0+1\.json: is no order"):
        newest_order(store)


def test_no_text_of_an_order_shows_the_job_file_or_a_variable() -> None:
    assert "s3cr3t" not in repr(an_order())
    assert "s3cr3t" not in repr(TEXT)


def test_the_next_order_does_not_wait_for_the_host_before_unless_it_says_so() -> None:
    moved = an_order(after="old").followed_by(Wanted.STOPPED, by="you", time_ms=9)
    assert (moved.n, moved.after, moved.by, moved.time_ms) == (2, "", "you", 9)
