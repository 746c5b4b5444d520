"""The flags of the HTTP server, and its start."""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgesocket.errors import ListenerError
from edgesocket.web.hosted import Host
from edgesocket.web.options import ADDRESS_VARIABLE, TOKEN_VARIABLE, WebOptions, web_options
from edgesocket.web.server import WebServer, missing_library

if TYPE_CHECKING:
    from edgesocket.web.board import Board


def add_web_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the HTTP server."""
    parser.add_argument(
        "--http",
        metavar="ADDR:PORT",
        help="where status page, API and metrics are served, or off; ADDR:FIRST-LAST is the first free port of several "
        f"(default: ${ADDRESS_VARIABLE}, or the first free one of 127.0.0.1:8080-8099)",
    )
    parser.add_argument(
        "--http-token-file",
        type=Path,
        metavar="FILE",
        help="a file with the token that allows changes, and that an address other hosts reach needs for everything "
        f"(default: ${TOKEN_VARIABLE})",
    )
    parser.add_argument("--http-cert", type=Path, metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    parser.add_argument("--http-key", type=Path, metavar="FILE", help="its key, if it is not in the same file")


def web_options_of(args: argparse.Namespace, seatunnel: Mapping[str, str]) -> WebOptions | None:
    """What arguments, environment and seatunnel.yaml say; None: no server. Raises UsageError."""
    return web_options(
        getattr(args, "http", None),
        token_file=getattr(args, "http_token_file", None),
        certificate=getattr(args, "http_cert", None),
        key=getattr(args, "http_key", None),
        environ=os.environ,
        seatunnel=seatunnel,
    )


def web_server(
    options: WebOptions | None, host: Host, report: Callable[[object], None], begin: Callable[[], bool]
) -> WebServer | None:
    """The server, bound and not started; None: there is to be none, or it cannot be and nobody asked for it.

    Raises:
        ListenerError, UsageError: it cannot be, and somebody asked for it.
        ModuleNotFoundError: a library is missing.
    """
    if options is None:
        return None
    missing = missing_library()
    if missing:
        if options.asked_for:
            raise ModuleNotFoundError(f"the HTTP server needs {missing}", name=missing)
        return None
    try:
        server = WebServer(partial(_board, host), options, report, begin)
    except ListenerError as error:
        if options.asked_for:
            raise
        report(f"no HTTP server: {error}")
        return None
    report(f"status page, API and metrics at {server.url}")
    if not options.loopback and options.certificate is None:
        report(
            "the HTTP server has no certificate: whoever can read the network between reads the token too; use "
            "--http-cert and --http-key, or a proxy with TLS before it"
        )
    return server


def _board(host: Host) -> Board:
    """Made on the server's thread: a job's start does not wait for what it imports."""
    from edgesocket.web.board import Board

    gc.freeze()  # what was imported stays for good: the collector need not look at it while jobs run
    return Board(host)
