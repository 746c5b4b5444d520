"""What is wanted of a job: orders, appended to a log of their own where the job's state lies.

`orders/<20 digits>.json` is made by exclusive creation, one number after the other, and never changed or removed. The
newest order is what is wanted, for everybody and without Ray: two people who order at the same moment cannot both get
the next number, and the one who does not is told.

An order holds the whole job, so that any worker can start it, and nothing has to be found on the machine of whoever
submitted it. Job files may hold secrets: files are as private as the rest of the job's state, and no text made of an
order shows them.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from edgesocket.checkpoint.effects import Create, List, Read
from edgesocket.cluster.job_text import JobText
from edgesocket.components.state import StateStore
from edgesocket.errors import DamagedStateError, EdgeSocketError, ExitCode, StoreError

ORDERS = "orders"
_DIGITS = 20
_FORMAT = 1


class Wanted(enum.StrEnum):
    """What is wanted of a job. FAILED is written by its host: it has ended by itself and a restart cannot heal it."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


class OrderRefusedError(EdgeSocketError):
    """Somebody else ordered something of this job at the same moment, or the job is not in a state for this."""

    exit_code = ExitCode.TRY_LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order.

    Attributes:
        n: its number, from 1.
        wanted: what is wanted from here on.
        job: name of the job.
        text: the job itself.
        port: where its source listens.
        tag_filter: labels that a worker must have.
        host: name of the host process (a Ray actor) that is to run it.
        avoid: ids of Ray nodes that it is not to run on.
        after: the host that ran it before and is to let go first, with a last checkpoint; "" where none does.
        by: who ordered it.
        time_ms: when, Unix time in ms.
        reason: why, for people.
    """

    n: int
    wanted: Wanted
    job: str
    text: JobText = field(repr=False)
    port: int
    tag_filter: Mapping[str, str]
    host: str
    avoid: tuple[str, ...] = ()
    after: str = ""
    by: str
    time_ms: int
    reason: str = ""

    @property
    def since(self) -> str:
        """When it was given, for people."""
        return datetime.fromtimestamp(self.time_ms / 1000, UTC).isoformat(timespec="seconds")

    def followed_by(self, wanted: Wanted, *, by: str, time_ms: int, reason: str = "", **changes: Any) -> Order:
        """The next order of this job."""
        number = self.n + 1
        fresh: dict[str, Any] = {"after": "", **changes}
        return replace(self, n=number, wanted=wanted, by=by, time_ms=time_ms, reason=reason, **fresh)


def newest_order(store: StateStore) -> Order | None:
    """What is wanted of the job whose state is in `store`; None: nobody has ordered anything.

    Raises:
        StoreError: the store cannot be read.
        DamagedStateError: the newest order cannot be read; it is named.
    """
    names: list[str] = store.perform(List(ORDERS))
    numbers = [number for number in map(_number, names) if number]
    return _read(store, max(numbers)) if numbers else None


def order_after(store: StateStore, order: Order) -> Order | None:
    """The newest order if there is a newer one than `order`, else None. One small read where there is none. Raises
    as `newest_order`."""
    if store.perform(Read(_name(order.n + 1))) is None:
        return None
    return newest_order(store)


def append_order(store: StateStore, order: Order) -> None:
    """Give an order.

    Raises:
        OrderRefusedError: there is an order of this number: somebody was faster.
        StoreError: the store cannot be written; nothing was ordered, as far as can be known.
    """
    data = encode_order(order)
    try:
        made = store.perform(Create(_name(order.n), data))
    except StoreError:
        if store.perform(Read(_name(order.n))) != data:
            raise
        made = True  # the answer was lost, the order was not
    if not made:
        raise OrderRefusedError(
            f"job {order.job}: somebody else ordered something at the same moment; look at its status and say it again"
        )


def encode_order(order: Order) -> bytes:
    """An order as the bytes of its file."""
    content = asdict(order) | {"tag_filter": dict(order.tag_filter), "text": order.text.as_json()}
    return json.dumps({"format": _FORMAT, **content}, separators=(",", ":")).encode()


def decode_order(data: bytes, name: str) -> Order:
    """The order in the file `name`. Raises DamagedStateError."""
    try:
        content: dict[str, Any] = json.loads(data)
        if content.pop("format") != _FORMAT:
            raise ValueError("it is of another format")
        content["wanted"] = Wanted(content["wanted"])
        content["text"] = JobText.from_json(content["text"])
        content["avoid"] = tuple(content["avoid"])
        return Order(**content)
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedStateError(name, f"is no order: {error}", "submit the job again") from error


def _read(store: StateStore, number: int) -> Order:
    name = _name(number)
    data = store.perform(Read(name))
    if data is None:
        raise StoreError(f"{name} was listed and is not there")
    return decode_order(data, name)


def _name(number: int) -> str:
    return f"{ORDERS}/{number:0{_DIGITS}}.json"


def _number(name: str) -> int:
    stem = name.rpartition("/")[2].removesuffix(".json")
    return int(stem) if len(stem) == _DIGITS and stem.isdecimal() else 0
