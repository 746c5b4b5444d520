"""The application: the route table, and how a request goes through an endpoint."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from functools import partial

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from edgesocket.web import api, probes, seatunnel
from edgesocket.web.call import Call, Shared
from edgesocket.web.dead_letters import DEAD_LETTER_ENDPOINTS
from edgesocket.web.endpoint import JSON, Endpoint, Fail, failed
from edgesocket.web.guard import Guard
from edgesocket.web.openapi import document
from edgesocket.web.page_files import Page
from edgesocket.web.tail import TAIL_ENDPOINTS

ENDPOINTS: tuple[Endpoint, ...] = (
    *probes.ENDPOINTS,
    *api.ENDPOINTS,
    *TAIL_ENDPOINTS,
    *DEAD_LETTER_ENDPOINTS,
    *seatunnel.ENDPOINTS,
)
"""Everything that can be asked, besides the page and the document made of this table."""

REFUSALS_TOLD_S = 60.0
"""A refused token is told so often at most."""


class Application:
    """Answers requests about one board.

    Attributes:
        asgi: the ASGI application.
        shared: what requests have in common.
    """

    def __init__(self, shared: Shared, endpoints: Sequence[Endpoint] = ENDPOINTS) -> None:
        self.shared = shared
        self._told_refusal_at = -REFUSALS_TOLD_S
        self._endpoints = endpoints
        self._document: bytes | None = None
        page = Page()
        routes = [Route(one.path, partial(self._answer, one), methods=[one.method]) for one in endpoints]
        routes += [
            Route("/openapi.json", self._openapi, methods=["GET"]),
            Route("/static/{path:path}", page.file, methods=["GET"]),
            Route("/", page.index, methods=["GET"]),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _http_failure, Exception: self._bug})
        app.router.redirect_slashes = False
        self.asgi: ASGIApp = Guard(app, shared.options)

    async def _openapi(self, _: Request) -> Response:
        if self._document is None:
            self._document = msgspec.json.encode(document(self._endpoints))
        return Response(self._document, media_type=JSON)

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        call = Call(endpoint, self.shared, request)
        try:
            call.admit()
            call.read_parameters()
            return await endpoint.handle(call)
        except Fail as fail:
            if fail.status == 401:
                self._tell_refusal(call)
            return failed(fail)
        except Exception:  # a bug in here must not show more than that it is one, and never ends the server
            self.shared.report(f"HTTP {endpoint.method} {endpoint.path}: a bug:\n{traceback.format_exc()}")
            return failed(Fail(500, "this is a bug of the server; its log has more"))

    async def _bug(self, request: Request, error: Exception) -> Response:
        """Of what is no endpoint of the table."""
        told = "".join(traceback.format_exception(error))
        self.shared.report(f"HTTP {request.method} {request.url.path[:100]}: a bug:\n{told}")
        return failed(Fail(500, "this is a bug of the server; its log has more"))

    def _tell_refusal(self, call: Call) -> None:
        now = time.monotonic()
        if "authorization" in call.request.headers and now - self._told_refusal_at >= REFUSALS_TOLD_S:
            self._told_refusal_at = now
            self.shared.report(f"HTTP: {call.peer} came with a wrong token (told at most once a minute)")


async def _http_failure(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {
        404: "there is nothing under this path; /openapi.json has what there is",
        405: "this path cannot be asked in this way",
    }.get(error.status_code, str(error.detail))
    return failed(Fail(error.status_code, message, error.headers))
