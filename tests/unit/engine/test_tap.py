"""Looking at rows in flight."""

from __future__ import annotations

import threading

import pytest

from edgesocket.engine import tap as tap_module
from edgesocket.engine.tap import MAX_LISTENERS, Tap, TooManyListeners
from edgesocket.records import RecordBlock
from edgesocket.rows import Rows


def rows(*payloads: bytes, first_id: int = 1) -> Rows:
    return Rows.of_records(RecordBlock.of_run(first_id, payloads))


def test_nobody_listens_until_somebody_does_and_after() -> None:
    tap = Tap()
    assert not tap.listening
    with tap.listen():
        assert tap.listening
    assert not tap.listening


def test_a_listener_gets_a_sample_and_no_second_one_before_it_has_taken_it() -> None:
    tap = Tap()
    with tap.listen() as listener:
        tap.offer(rows(b"a", b"b"))
        tap.offer(rows(b"c"))
        sample = listener.take(0.0)
        assert sample is not None
        assert sample.batch.to_pydict() == {"value": ["a", "b"]}
        assert listener.take(0.0) is None
        tap.offer(rows(b"d", first_id=9))
        sample = listener.take(0.0)
        assert sample is not None
        assert sample.id_at(0) == 9


def test_a_sample_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tap_module, "SAMPLE_ROWS", 2)
    tap = Tap()
    with tap.listen() as listener:
        tap.offer(rows(b"a", b"b", b"c"))
        sample = listener.take(0.0)
        assert sample is not None
        assert sample.count == 2


def test_the_pump_makes_the_columns_so_that_no_other_thread_does() -> None:
    tap = Tap()
    makers = []
    made = rows(b"a")
    make = made._make
    assert make is not None
    made._make = lambda: (makers.append(threading.current_thread()), make())[1]
    with tap.listen() as listener:
        tap.offer(made)
        sample = listener.take(0.0)
    assert sample is not None
    assert sample.batch.num_rows == 1
    assert makers == [threading.current_thread()]


def test_listeners_are_bounded() -> None:
    tap = Tap()
    listeners = [tap.listen() for _ in range(MAX_LISTENERS)]
    with pytest.raises(TooManyListeners):
        tap.listen()
    listeners[0].close()
    listeners[0].close()
    tap.listen()


def test_take_waits_for_a_sample_that_comes() -> None:
    tap = Tap()
    with tap.listen() as listener:
        giver = threading.Thread(target=lambda: tap.offer(rows(b"a")))
        giver.start()
        sample = listener.take(10.0)
        giver.join()
    assert sample is not None
