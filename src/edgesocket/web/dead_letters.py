"""`/api/jobs/NAME/dead-letters`: the records that were refused for good, and their replay."""

from __future__ import annotations

import asyncio
import threading
from typing import Annotated, Any, TypedDict

import msgspec
from starlette.responses import Response

from edgesocket.errors import ConfigError, EdgeSocketError, NotOwnerError, UsageError
from edgesocket.hosting.dead_letters import MAX_PAGE, letter_files, page_of_letters
from edgesocket.hosting.replay import Replay, ReplayEnd, replay_memory
from edgesocket.sources.letter_files import Position
from edgesocket.web.call import Call
from edgesocket.web.endpoint import JOB_NAME, Access, Endpoint, Fail, Parameter, encoded

DEFAULT_PAGE = 100

POSITION_PATTERN = r"^[0-9]{1,9}-[0-9]{1,18}-[0-9]{1,9}:[1-9][0-9]{0,17}$"
"""What a position looks like, for the document and for whoever sends another one."""

MAX_POSITIONS = 10_000
"""Most letters that one request may name; `all` has no limit."""


class LetterView(TypedDict):
    """A dead letter. A long payload is cut; `payload_bytes` is its whole length."""

    position: str
    time_ms: int
    batch_id: int
    stage: str
    reason: str
    payload: str
    payload_bytes: int
    replayed: bool
    failed_again: str | None


class LettersView(TypedDict):
    """Dead letters, oldest first. `next` is the `after` of the next request; null: there are no more."""

    letters: list[LetterView]
    next: str | None


class ReplayOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Which letters to replay: some by position, or all that have not been."""

    positions: list[Annotated[str, msgspec.Meta(pattern=POSITION_PATTERN)]] = []
    all: bool = False


class FailureView(TypedDict):
    """A letter that was refused again."""

    position: str
    reason: str


class ReplayView(TypedDict):
    """What a replay did: letters replayed, refused again, replayed by an earlier one, asked for and not there."""

    job: str
    replayed: int
    failed: int
    replayed_before: int
    missing: list[str]
    failures: list[FailureView]
    complete: bool


async def dead_letters(call: Call) -> Response:
    """A page of letters."""
    after, job = call.values["after"], call.job().job
    try:
        files = letter_files(job.spec)
        position = None if after is None else Position.parse(after)
    except UsageError as error:
        raise Fail(409, str(error)) from None
    except ValueError as error:
        raise Fail(400, str(error)) from None

    def read() -> object:
        return page_of_letters(files, replay_memory(job.state), position, call.values["limit"])

    try:
        return encoded(await asyncio.to_thread(read))
    except EdgeSocketError as error:
        raise Fail(500, str(error)) from None


async def replay(call: Call) -> Response:
    """Replay letters. Answers when it has ended."""
    order, job = await call.decoded_body(), call.job().job
    if order.all == bool(order.positions):
        raise Fail(400, 'name letters, {"positions": ["1-4-0:17"]}, or take all of them, {"all": true}')
    if len(order.positions) > MAX_POSITIONS:
        raise Fail(400, f"more than {MAX_POSITIONS} positions: replay in parts, or all")
    try:
        wanted = None if order.all else frozenset(map(Position.parse, order.positions))
        one = job.replay(wanted)
    except ValueError as error:
        raise Fail(400, str(error)) from None
    except UsageError as error:
        raise Fail(409, str(error)) from None
    try:
        end = await _run(one, call.shared.closing)
    except (NotOwnerError, ConfigError) as error:
        raise Fail(409, str(error)) from None
    except EdgeSocketError as error:
        raise Fail(500, f"the replay failed: {error}; what was replayed is remembered, so ask again") from None
    return encoded(end.to_json())


async def _run(one: Replay, closing: asyncio.Event) -> ReplayEnd:
    """Run a replay on a thread of its own, which a server that ends does not wait for."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[ReplayEnd] = loop.create_future()

    def tell(end: ReplayEnd | None, error: BaseException | None) -> None:
        if ended.cancelled():
            return
        if error is not None:
            ended.set_exception(error)
        else:
            assert end is not None
            ended.set_result(end)

    def work() -> None:
        end: ReplayEnd | None = None
        caught: BaseException | None = None
        try:
            end = one.run()
        except BaseException as error:
            caught = error
        try:
            loop.call_soon_threadsafe(tell, end, caught)
        except RuntimeError:
            pass  # the server has ended meanwhile; the replay's own state says what was done

    threading.Thread(target=work, name="edgesocket-replay", daemon=True).start()
    stopper = asyncio.ensure_future(closing.wait())
    try:
        either: set[asyncio.Future[Any]] = {ended, stopper}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            one.stop()
        return await ended
    finally:
        stopper.cancel()
        if not ended.done():  # whoever asked has gone away
            one.stop()


DEAD_LETTER_ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/jobs/{name}/dead-letters",
        "dead_letters",
        "Records that were refused for good, oldest first. 409: they cannot be read back, and the message says where "
        "they are.",
        dead_letters,
        LettersView,
        parameters=(
            JOB_NAME,
            Parameter("after", "Only letters behind this position."),
            Parameter("limit", "Most letters.", "whole", default=DEFAULT_PAGE, minimum=1, maximum=MAX_PAGE),
        ),
        fails=(404, 409),
    ),
    Endpoint(
        "POST",
        "/api/jobs/{name}/dead-letters/replay",
        "replay",
        "Give letters to the sinks once more, as a small job of its own; answers when it has ended.",
        replay,
        ReplayView,
        access=Access.WRITE,
        parameters=(JOB_NAME,),
        body=ReplayOrder,
        fails=(404, 409),
    ),
)
