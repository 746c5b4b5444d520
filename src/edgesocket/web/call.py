"""One request on its way through an endpoint: who asks, with which parameters, for what."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from edgesocket.web.board import Board, JobOnBoard
from edgesocket.web.endpoint import Access, Endpoint, Fail
from edgesocket.web.options import TOKEN_VARIABLE, WebOptions

MAX_BODY_BYTES = 1024 * 1024
"""A larger body is refused: no job file is so long."""

BODY_TIMEOUT_S = 10.0
"""A body that takes longer is not waited for."""

MAX_STREAMS = 32
"""Event streams at a time; more are answered 503, so that there is room for whoever asks for health."""

_READ_ONLY = (
    f"this server is read-only, because it has no token: start it with --http-token-file FILE or ${TOKEN_VARIABLE}"
)
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]@/]+))(?::[0-9]*)?")
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="edgesocket"'}


@dataclass(slots=True)
class Shared:
    """What every request of one server has in common.

    Attributes:
        board: the jobs.
        options: of the server.
        report: takes log lines.
        token: what counts now; the file that it came from may have got another one.
        closing: set when the server ends; streams end then.
        streams: how many there are now.
    """

    board: Board
    options: WebOptions
    report: Callable[[object], None] = lambda _: None
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        self.token = self.options.token


class Call:
    """One request.

    Attributes:
        endpoint: what is asked for.
        shared: what belongs to the server.
        request: as it came.
        values: parameters, by name.
    """

    def __init__(self, endpoint: Endpoint, shared: Shared, request: Request) -> None:
        self.endpoint = endpoint
        self.shared = shared
        self.request = request
        self.values: dict[str, Any] = {}

    @property
    def board(self) -> Board:
        """The jobs."""
        return self.shared.board

    @property
    def has_token(self) -> bool:
        """Whether whoever asks has shown the token."""
        token = self.shared.token
        word, _, given = self.request.headers.get("authorization", "").partition(" ")
        matches = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
        return bool(token) and word.lower() == "bearer" and matches

    @property
    def trusted(self) -> bool:
        """Whether whoever asks may see everything."""
        return self.shared.options.loopback or self.has_token

    @property
    def peer(self) -> str:
        """Who asks, for the log."""
        client = self.request.client
        return "unknown" if client is None else client.host

    def admit(self) -> None:
        """Raises Fail where whoever asks may not."""
        access = self.endpoint.access
        if access is Access.OPEN or (access is Access.READ and self.shared.options.loopback):
            return
        if access is Access.WRITE and not self.shared.token:
            raise Fail(403, _READ_ONLY)
        if not self.has_token:
            raise Fail(401, "this needs the header Authorization: Bearer TOKEN with the server's token", _CHALLENGE)

    def read_parameters(self) -> None:
        """Check the parameters. Raises Fail."""
        query = self.request.query_params
        for one in self.endpoint.parameters:
            if one.where == "path":
                self.values[one.name] = one.read(str(self.request.path_params[one.name]))
                continue
            given = query.getlist(one.name)
            if len(given) > 1:
                raise Fail(400, f"{one.name} is there {len(given)} times")
            self.values[one.name] = one.read(given[0]) if given else one.default

    async def body(self) -> bytes:
        """The body. Raises Fail where it is too long or does not come."""
        announced = self.request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > MAX_BODY_BYTES:
            raise _too_long()
        found = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                async for chunk in self.request.stream():
                    found += chunk
                    if len(found) > MAX_BODY_BYTES:
                        raise _too_long()
        except TimeoutError:
            raise Fail(408, f"the body did not come within {BODY_TIMEOUT_S:g} s", {"Connection": "close"}) from None
        except ClientDisconnect:
            raise Fail(400, "the body ended early") from None
        return bytes(found)

    async def decoded_body(self) -> Any:
        """The body as the endpoint's type. Raises Fail where it is something else."""
        try:
            return msgspec.json.decode(await self.body(), type=self.endpoint.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Fail(400, f"the body is not what is expected: {error}") from None

    def job(self, name: str | None = None) -> JobOnBoard:
        """The job that is asked for. Raises Fail where there is none."""
        wanted = self.values["name"] if name is None else name
        found = self.board.job(wanted)
        if found is None:
            raise Fail(404, f"there is no job {wanted[:100]!r} in this process; GET /api/jobs has those there are")
        return found


def _too_long() -> Fail:
    return Fail(413, f"the body is longer than {MAX_BODY_BYTES} bytes", {"Connection": "close"})


def is_own_name(host: str) -> bool:
    """Whether a Host header names this host itself: a loopback address or localhost, with any port.

    A page of another site can make its own name point to a loopback address and have a browser ask us under it; it
    cannot make the browser say localhost.
    """
    found = _HOST.fullmatch(host.strip())
    if found is None:
        return False
    name = found["v6"] or found["name"]
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
