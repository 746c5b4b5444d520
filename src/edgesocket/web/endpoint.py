"""What an endpoint is: one entry of the route table. Routing, checking of parameters and bodies, who may ask, and the
OpenAPI document are all made from it.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec
from starlette.responses import Response

if TYPE_CHECKING:
    from edgesocket.web.call import Call

JSON = "application/json"
TEXT = "text/plain"
EVENTS = "text/event-stream"

Handler = Callable[["Call"], Awaitable[Response]]


class Access(enum.Enum):
    """Who may ask."""

    OPEN = "anybody who can reach the server"
    READ = "whoever has the token; on a loopback address anybody"
    WRITE = "whoever has the token"


class FailView(TypedDict):
    """Why something was not done."""

    status: Literal["fail"]
    message: str


class Fail(Exception):  # noqa: N818 - the answer to a request, not an error of this program
    """Ends the handling of a request with an answer that says why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.message = message
        self.headers = dict(headers or {})
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path or the query.

    Attributes:
        name: as it is written.
        description: what it does.
        kind: `text`, `whole` (a whole number) or `flag` (true or false).
        where: `path` parameters are always there.
        default: of a query parameter that is left out; None: nothing.
        minimum, maximum: of a whole number.
        choices: of a text; none: any.
    """

    name: str
    description: str
    kind: Literal["text", "whole", "flag"] = "text"
    where: Literal["query", "path"] = "query"
    default: Any = None
    minimum: int = 0
    maximum: int = 2**53
    choices: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        """As JSON schema."""
        shown: dict[str, Any] = {"type": {"text": "string", "whole": "integer", "flag": "boolean"}[self.kind]}
        if self.kind == "whole":
            shown |= {"minimum": self.minimum, "maximum": self.maximum}
        if self.choices:
            shown["enum"] = list(self.choices)
        if self.default is not None:
            shown["default"] = self.default
        return shown

    def read(self, text: str) -> Any:
        """The value. Raises Fail where the text is none."""
        if self.kind == "whole":
            digits = text.removeprefix("-")
            if digits.isascii() and digits.isdecimal() and len(digits) <= 18:
                number = int(text)
                if self.minimum <= number <= self.maximum:
                    return number
            raise Fail(400, f"{self.name} has to be a whole number from {self.minimum} to {self.maximum}")
        if self.kind == "flag":
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
            raise Fail(400, f"{self.name} has to be true or false")
        if self.choices and text not in self.choices:
            raise Fail(400, f"{self.name} has to be one of {', '.join(self.choices)}")
        return text


JOB_NAME = Parameter("name", "Name of the job.", where="path")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One thing that can be asked.

    Attributes:
        method, path: as Starlette writes them.
        name: unique; the operation's id.
        summary: one sentence.
        handle: answers.
        answer: type of the JSON answered with 200; None where `media` is no JSON.
        media: content type of that answer, or several.
        tag: groups it in the document.
        access: who may ask.
        parameters: of path and query.
        body: type of the JSON in the request; None: there is none, or `body_media` is not only JSON.
        body_media: content types of a body.
        unavailable: type of the JSON answered with 503, where that is one of its normal answers.
        fails: further statuses it fails with, beside those that every endpoint has.
    """

    method: Literal["GET", "POST"]
    path: str
    name: str
    summary: str
    handle: Handler
    answer: Any = None
    media: tuple[str, ...] = (JSON,)
    tag: str = "jobs"
    access: Access = Access.READ
    parameters: tuple[Parameter, ...] = ()
    body: Any = None
    body_media: tuple[str, ...] = (JSON,)
    unavailable: Any = None
    fails: tuple[int, ...] = field(default=())


def encoded(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(value), status, dict(headers or {}), JSON)


def failed(fail: Fail) -> Response:
    """The answer that says why not."""
    view: FailView = {"status": "fail", "message": fail.message}
    return encoded(view, fail.status, fail.headers)
