"""What the ingress costs does not grow with the ids it has seen, nor faster than the records it holds."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from edgesocket.ingress import ledger as ledger_module
from edgesocket.ingress.service import AdmissionRules
from edgesocket.records import RecordBlock
from tests.support.ingress_kit import EVERYTHING, Ingress, Replies, block_of

BLOCK = 65_536


def cpu_seconds(work: Callable[[], object]) -> float:
    """The least of two: the machine may be busy with something else."""
    spent = []
    for _ in range(2):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return min(spent)


def run_of_ids(first: int) -> RecordBlock:
    """65,536 consecutive ids with empty payloads: nothing but ids costs anything."""
    zeros = np.zeros(BLOCK, dtype=np.int64)
    return RecordBlock.of_columns(np.zeros(1, dtype=np.uint8), zeros, zeros, first)


def test_a_hundred_million_ids_leave_a_handful_of_ranges_and_cost_the_same_at_the_end() -> None:
    ingress = Ingress(1_000_000)
    replies, number = Replies(), 0
    spent: list[float] = []
    for first in range(1, 100_000_000, BLOCK):
        begin = time.process_time()
        block = run_of_ids(first)
        assert ingress.service.offer_block(block, ReplyCount(replies)) is None
        ingress.service.take_burst()
        ingress.service.take(EVERYTHING, EVERYTHING)
        number += 1
        if number % 20 == 0:
            ingress.checkpoint()
        spent.append(time.process_time() - begin)

    assert number == 1526
    assert ingress.ledger.range_count <= 3
    assert len(ingress.service.fingerprints._segments) == 1
    tenth = len(spent) // 10
    assert sorted(spent[-tenth:])[tenth // 2] < 4 * sorted(spent[tenth : 2 * tenth])[tenth // 2]


class ReplyCount(Replies):
    """Takes runs of replies without making a list entry each."""

    def __init__(self, _: Replies) -> None:
        super().__init__()

    def add(self, reply: object, count: int = 1) -> None:
        assert str(reply) == "RECEIVED"


def sparse_life(count: int, shape: str) -> None:
    """So many ids with gaps between them are queued, emitted in polls of 4096, and confirmed."""
    ingress = Ingress(10 * count, "1", rules=AdmissionRules(deduplicate=shape != "all twice, no deduplication"))
    records = [(10 * n, b"x") for n in range(1, count + 1)]
    if shape == "one block a record":
        for record in records:
            ingress.service.offer_block(block_of([record]), ReplyCount(Replies()))
    else:
        ingress.service.offer_block(block_of(records), ReplyCount(Replies()))
    if shape == "one twice":
        ingress.batch(10, "other")
    elif shape.startswith("all twice"):
        ingress.service.offer_block(block_of([(id_, b"y") for id_, _ in records]), ReplyCount(Replies()))
    while ingress.queue.records:
        ingress.service.take(4096, EVERYTHING)
    ingress.checkpoint()
    assert ingress.ledger.watermark == 10 * count


@pytest.mark.parametrize(
    ("shape", "most"),
    [
        ("one block", 65_536),
        ("one block a record", 16_384),
        ("one twice", 65_536),
        ("all twice", 8192),
        ("all twice, no deduplication", 8192),
    ],
)
def test_sparse_ids_cost_in_proportion_to_their_number(shape: str, most: int) -> None:
    few, many = most // 8, most
    ratio = cpu_seconds(lambda: sparse_life(many, shape)) / cpu_seconds(lambda: sparse_life(few, shape))

    assert ratio < 8 * 3, "quadratic would be 64"


def test_sparse_refusals_cost_in_proportion_to_their_number() -> None:
    def refusals(count: int) -> None:
        ingress = Ingress(1)
        ingress.batch(1)
        block = block_of([(10 * n, b"x") for n in range(1, count + 1)])
        for _ in range(2):
            ingress.block(block)
            ingress.reconnect()
        assert ingress.ledger.range_count == count + 1

    assert cpu_seconds(lambda: refusals(8192)) / cpu_seconds(lambda: refusals(1024)) < 8 * 3


@pytest.mark.parametrize("start", [1, 10_000_000], ids=["above the floor", "below the floor"])
def test_sparse_ids_that_are_confirmed_are_forgotten(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MAX_GAP_RANGES", 100)
    ingress = Ingress(1000)
    ingress.batch(start)
    for first in range(2, 100_000, 10_000):
        ingress.block(block_of([(first + 2 * n, b"x") for n in range(500)]))
        ingress.pass_on()

    assert ingress.ledger.range_count <= 100
    assert ingress.ledger.state(90_000).value == ("confirmed" if start == 1 else "gap")
    assert ingress.batch(10_000_001) == "RECEIVED"
