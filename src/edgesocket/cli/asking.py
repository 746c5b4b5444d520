"""Asking a running process over its HTTP server, with the standard library alone.

A process says in the status of each of its jobs where its server listens (`http`). On a loopback address no token is
needed for looking; elsewhere, and for everything that changes something, the token is read from a file or from the
environment, as the server reads it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edgesocket.errors import EdgeSocketError, ExitCode, UsageError

TOKEN_VARIABLE = "EDGESOCKET_HTTP_TOKEN"  # noqa: S105 - its name
TIMEOUT_S = 5.0
"""An answer, or the next event of a stream's comments, takes no longer."""

STREAM_TIMEOUT_S = 30.0
"""A stream sends at least a comment every ten seconds."""

COMMENT = ":"
"""Name of what is no event of a stream: it only says that the stream is alive."""

MAX_ANSWER_BYTES = 64 << 20


class NotReachedError(EdgeSocketError):
    """A process cannot be asked, or does not answer as it should."""

    exit_code = ExitCode.UNAVAILABLE


class RefusedError(EdgeSocketError):
    """The server refuses what was asked; the text is its own."""

    exit_code = ExitCode.USAGE

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.exit_code = ExitCode.AUTH if status in (401, 403) else ExitCode.USAGE
        super().__init__(message)


def add_token_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say how a process is asked."""
    parser.add_argument(
        "--http-token-file",
        type=Path,
        metavar="FILE",
        help=f"the token of the process's HTTP server (default: ${TOKEN_VARIABLE}; not needed on a loopback address)",
    )
    parser.add_argument(
        "--http-ca", type=Path, metavar="FILE", help="certificates that vouch for the server (default: the system's)"
    )


def token_of(args: argparse.Namespace) -> str:
    """The token, empty for none. Raises UsageError."""
    path: Path | None = getattr(args, "http_token_file", None)
    if path is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip()
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"--http-token-file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--http-token-file {path}: it is not UTF-8 text") from error


class Asking:
    """One server. Each question uses a connection of its own.

    Args:
        url: `http://127.0.0.1:8080`.
        token: shown to it, if not empty.
        ca: a file of certificates for `https`.
        timeout_s: for connecting and for each read.
    """

    def __init__(self, url: str, token: str = "", ca: Path | None = None, timeout_s: float = TIMEOUT_S) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotReachedError(f"{url!r} is no address of an HTTP server, such as http://127.0.0.1:8080")
        self.url = url.rstrip("/")
        self._parts = parts
        self._token = token
        self._ca = ca
        self._timeout_s = timeout_s

    def get(self, path: str) -> Any:
        """The JSON at a path.

        Raises:
            NotReachedError: there is no answer, or none that can be read.
            RefusedError: the server says no.
        """
        with _Answer(self._connect(self._timeout_s), self.url, "GET", path, self._headers()) as answer:
            return answer.json()

    def events(self, path: str) -> Iterator[tuple[str, Any]]:
        """The events of a stream, name and data, until it ends; a comment is COMMENT with no data. Raises as `get`."""
        with _Answer(self._connect(STREAM_TIMEOUT_S), self.url, "GET", path, self._headers()) as answer:
            yield from answer.events()

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port or 80, timeout=timeout_s)
        try:
            context = ssl.create_default_context(cafile=None if self._ca is None else str(self._ca))
        except OSError as error:
            raise UsageError(f"--http-ca {self._ca}: {error.strerror or error}") from error
        return http.client.HTTPSConnection(host, port or 443, timeout=timeout_s, context=context)


class _Answer:
    """One request and its answer."""

    def __init__(
        self, connection: http.client.HTTPConnection, url: str, method: str, path: str, headers: dict[str, str]
    ) -> None:
        self._connection = connection
        self._url = url
        try:
            connection.request(method, path, headers=headers)
            self._response = connection.getresponse()
            if self._response.status != 200:
                raise RefusedError(self._response.status, f"{url} says: {self._message()}")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NotReachedError(f"{url} does not answer: {_text(error)}") from error
        except EdgeSocketError:
            connection.close()
            raise

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def json(self) -> Any:
        try:
            return json.loads(self._response.read(MAX_ANSWER_BYTES))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotReachedError(f"{self._url} gives an answer that cannot be read: {_text(error)}") from error

    def events(self) -> Iterator[tuple[str, Any]]:
        name, data = "", b""
        try:
            while line := self._response.readline():
                text = line.rstrip(b"\r\n")
                if not text:
                    if data:
                        yield name, json.loads(data)
                    name, data = "", b""
                elif text.startswith(b":"):
                    yield COMMENT, None
                elif text.startswith(b"event:"):
                    name = text[6:].strip().decode()
                elif text.startswith(b"data:"):
                    data += text[5:].strip()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NotReachedError(f"{self._url} breaks off: {_text(error)}") from error

    def _message(self) -> str:
        body = self._response.read(65536)
        try:
            return str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            return f"{self._response.status} {self._response.reason}"


def _text(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or str(error) or type(error).__name__)
