"""What stands before every endpoint: the Host header, headers of every answer."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgesocket.web.call import is_own_name
from edgesocket.web.endpoint import Fail, failed
from edgesocket.web.options import WebOptions

HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer, unless the endpoint says something else."""


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, options: WebOptions) -> None:
        self._app = app
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self._options.loopback and not is_own_name(Headers(scope=scope).get("host", "localhost")):
            answer = failed(
                Fail(
                    403,
                    "this server is for its own host only: ask for localhost or a loopback address (a proxy has to set "
                    "the header Host to localhost), or start it with --http ADDRESS:PORT and a token",
                )
            )
            await answer(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)
