"""The reply queue against the plainest model: a byte string."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from edgesocket.protocol.replies import BAD_REQUEST, RECEIVED, Reply, ack, queue_full
from edgesocket.protocol.reply_queue import ReplyQueue

replies_owed = st.sampled_from([RECEIVED, BAD_REQUEST, queue_full(500), ack(7), ack(123456)])
steps = st.lists(
    st.one_of(
        st.tuples(replies_owed, st.integers(0, 5)),
        st.tuples(st.just("send"), st.integers(0, 60), st.integers(0, 60)),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps)
def test_every_byte_once_and_in_order(script: list[tuple[object, ...]]) -> None:
    queue, owed, sent, all_owed = ReplyQueue(), b"", b"", b""
    for step in script:
        if isinstance(step[0], Reply):
            reply, count = step
            queue.add(reply, count)  # type: ignore[arg-type]
            owed += reply.encode() * count  # type: ignore[operator]
            all_owed += reply.encode() * count  # type: ignore[operator]
        else:
            _, limit, taken = step
            piece = queue.peek(limit)  # type: ignore[arg-type]
            assert piece == owed[:limit]  # type: ignore[misc]
            took = piece[:taken]  # type: ignore[misc]
            queue.consumed(len(took))
            owed = owed[len(took) :]
            sent += took
        assert bool(queue) == bool(owed)
        assert queue.peek(10**6) == owed

    assert sent + queue.peek(10**6) == all_owed
