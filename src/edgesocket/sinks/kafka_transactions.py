"""Transactions that carry the number of a checkpoint, and why no fenced run gets past them.

One transactional id, and one consumer group of the same name, for each job and sink. Nobody consumes in the group. It
keeps one offset, on partition 0 of the topic: the offset is the number of the newest checkpoint, its metadata names
the epoch. The offset is committed in the transaction of the checkpoint's rows, so both are there or neither.

Fencing is three steps: `init_transactions` (the broker ends every earlier producer of the id, and finishes its last
transaction, one way or the other); read epoch and checkpoint, where a higher epoch means that this run is the stale
one; write the own epoch, in a transaction. A run that wakes up late and fences somebody newer learns so in the second
step, before it has written anything; the newer one is disturbed, finds no higher epoch than its own, and starts again.
After the first step nothing is in flight, so what is read is final until this run itself commits.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from edgesocket.errors import ComponentError, FencedError
from edgesocket.sinks.kafka_bounded import bounded
from edgesocket.sinks.kafka_client import Clients, error_of, failure, partition_zero

ATTEMPT_S = 10.0
"""How long one call of the transaction API may take, as the client is told."""
HARD_LIMIT_S = 15.0
"""How long it may really take: then its producer is given up."""
GIVE_UP_S = 40.0
"""How long a call is repeated while the broker says that it may work later."""
PAUSE_S = 0.2
_ABORT_S = 3.0
_NOT_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""A broker that has just started says so of a group."""


class Transactions:
    """The transactions of one producer.

    Args:
        clients: make the consumer that reads the group.
        producer: with a transactional id.
        name: the group.
        topic: an existing topic, on whose partition 0 the number is kept.
        take_trouble: whether a connection has broken since the last call.
        sleep, now: wait, and a steady clock, in seconds.

    Attributes:
        landed: the highest checkpoint known to be committed.
        is_open: whether a transaction has begun.

    Guarantees: see the module's text. One thread.
    """

    def __init__(
        self,
        clients: Clients,
        producer: Any,
        name: str,
        topic: str,
        *,
        take_trouble: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.landed = 0
        self.epoch = 0  # 0: not fenced yet
        self.is_open = False
        self._clients = clients
        self._producer = producer
        self._name = name
        self._topic = topic
        self._take_trouble = take_trouble
        self._group: Any = None
        self._sleep = sleep
        self._now = now

    def fence(self, epoch: int) -> None:
        """Make sure that no lower epoch can commit. A second time it only looks whether that still holds.

        Raises:
            FencedError: a higher epoch was here before, or is here by now.
            ComponentError: the cluster does not answer, or another run began meanwhile; open the sink again.
        """
        if self.epoch:
            known, _ = self.read()
            if known != epoch:
                raise FencedError(f"run {epoch} of the job is fenced by run {known}")
            return
        self.epoch = epoch
        self._repeat("fence earlier runs", lambda: self._producer.init_transactions(ATTEMPT_S))
        known, self.landed = self.read()
        self._check(known)
        self.begin()
        self._commit(self.landed, "write the epoch of this run")

    def ensure_fenced(self, epoch: int) -> None:
        """Fence where that was not done yet. Raises as `fence` does."""
        if self.epoch == 0:
            self.fence(epoch)

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self.is_open:
            self._repeat("begin a transaction", self._producer.begin_transaction)
            self.is_open = True

    def commit(self, checkpoint: int) -> None:
        """Put the number into the transaction and commit it. Returns only if that is known to have happened.

        Raises:
            FencedError: a higher epoch is there.
            ComponentError: it is known not to be committed, or not known at all; open the sink again.
        """
        self.begin()
        self._commit(checkpoint, f"commit checkpoint {checkpoint}")
        self.landed = checkpoint

    def _commit(self, checkpoint: int, what: str) -> None:
        position = partition_zero(self._topic, checkpoint, json.dumps({"epoch": self.epoch}))
        if self._take_trouble():
            self._wait_for_group()
        self._repeat(what, lambda: self._producer.send_offsets_to_transaction([position], self._group, ATTEMPT_S))
        # A commit that was carried out while its answer was lost is asked for again, which commits nothing twice.
        self._repeat(what, lambda: self._producer.commit_transaction(ATTEMPT_S))
        self.is_open = False

    def _wait_for_group(self) -> None:
        """Return when the broker that keeps the group answers: see `kafka_bounded`."""
        until = self._now() + GIVE_UP_S
        while True:
            try:
                known, _ = self.read()
            except ComponentError as error:
                if not error.retryable or self._now() >= until:
                    raise
                self._sleep(PAUSE_S)
            else:
                self._check(known)
                return

    def read(self) -> tuple[int, int]:
        """Epoch and checkpoint as committed, 0 for none. Waits for transactions in flight.

        Raises:
            ComponentError: the cluster does not answer.
        """
        until = self._now() + GIVE_UP_S
        while True:
            try:
                found: tuple[int, int] = bounded("read the last checkpoint", self._read, HARD_LIMIT_S)
                return found
            except KafkaException as raised:
                error = error_of(raised)
                if error.code() not in _NOT_YET or self._now() >= until:
                    raise failure("read the last checkpoint", error, reopen=True) from raised
                self._sleep(PAUSE_S)

    def _read(self) -> tuple[int, int]:
        consumer = self._clients.consumer(self._name)
        try:
            self._group = consumer.consumer_group_metadata()
            (found,) = consumer.committed([partition_zero(self._topic, 0, "")], timeout=ATTEMPT_S)
        finally:
            consumer.close()
        if found.error is not None:
            raise KafkaException(found.error)
        if found.offset < 0:
            return 0, 0
        try:
            return int(json.loads(found.metadata)["epoch"]), found.offset
        except (TypeError, ValueError, KeyError):
            raise ComponentError(
                f"Kafka sink: group {self._name} holds an offset of topic {self._topic} that is not the sink's; "
                "set another transaction_prefix",
                retryable=False,
            ) from None

    def abort(self) -> None:
        """Give the open transaction up, as far as that can be done now. The next fence does it otherwise."""
        if self.is_open:
            self.is_open = False
            with contextlib.suppress(KafkaException, ComponentError):
                bounded("abort", lambda: self._producer.abort_transaction(_ABORT_S), HARD_LIMIT_S)

    def _repeat(self, what: str, call: Callable[[], None]) -> None:
        """Call until it is done, or cannot be."""
        until = self._now() + GIVE_UP_S
        while True:
            try:
                bounded(what, call, HARD_LIMIT_S)
                return
            except KafkaException as raised:
                error = error_of(raised)
                if not error.retriable() or self._now() >= until:
                    raise self._ended(failure(what, error, reopen=True)) from raised
                self._sleep(PAUSE_S)

    def _ended(self, otherwise: ComponentError) -> Exception:
        """Whether that was a newer run, which writes its epoch before anything else."""
        if self._group is None:
            return otherwise
        try:
            known, _ = self.read()
            self._check(known)
        except FencedError as fenced:
            return fenced
        except ComponentError:
            return otherwise
        return otherwise

    def _check(self, known: int) -> None:
        if known > self.epoch:
            raise FencedError(
                f"run {self.epoch} is fenced by run {known} (group {self._name}, topic {self._topic}). Was the state "
                "directory replaced by an older or empty one? Then delete that group's offset or set another "
                "transaction_prefix, and rows of checkpoints that the state does not know are written again"
            )
