"""One HTTP POST and what its answer means.

Every answer falls into one of three classes, and only the status decides: *accepted* (2xx), *may heal* (408, 429, 5xx)
and *refused* (everything else, redirects too: they are not followed). No answer, half an answer or a late one may heal
as well, and is a `NoAnswerError`: the server may or may not have taken the request.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.errors import MissingHeaderBodySeparatorDefect
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import urllib3
from urllib3.exceptions import HTTPError

MAX_ANSWER_BYTES = 64 * 1024
"""No more of an answer's body is read; a longer one costs the connection."""

MAX_RETRY_AFTER_S = 300.0
"""A server that asks for a longer pause gets this one."""

SHOWN_CHARACTERS = 200
"""Most characters of an answer that a message shows."""

_READ_BYTES = 16 * 1024
_SECRET_CHARACTERS = 4
_SECRET_WORD_CHARACTERS = 8
"""Shorter values, and shorter words of them, stand in ordinary text too often to be taken out of it."""

for _name in ("urllib3.connection", "urllib3.connectionpool"):
    # Their messages hold the whole URL, and its query may hold a key. What they would say is in our own errors.
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class Verdict(enum.Enum):
    """What an answer says of the rows in the request."""

    ACCEPTED = "accepted"
    MAY_HEAL = "may heal"
    REFUSED = "refused"


class NoAnswerError(Exception):
    """There was no whole answer. The text says why; what became of the request is unknown."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer.

    Attributes:
        status: HTTP status.
        text: the beginning of the body, for messages; secrets taken out.
        retry_after_s: how long the server asks to be left alone, None where it does not say.
    """

    status: int
    text: str = ""
    retry_after_s: float | None = None

    @property
    def verdict(self) -> Verdict:
        """What it says of the rows."""
        if 200 <= self.status <= 299:
            return Verdict.ACCEPTED
        if self.status in (408, 429) or self.status >= 500:
            return Verdict.MAY_HEAL
        return Verdict.REFUSED

    def __str__(self) -> str:
        hint = " (redirects are not followed)" if 300 <= self.status <= 399 else ""
        return f"{self.status}{hint}" + (f": {self.text}" if self.text else "")


def shown_url(url: str) -> str:
    """A URL for messages: without user, query and fragment, which may hold keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def parse_retry_after(text: str | None, now: float) -> float | None:
    """Seconds to wait, 0 to MAX_RETRY_AFTER_S; None where the header is missing or makes no sense.

    Args:
        text: seconds, or a date of HTTP.
        now: seconds since 1970.
    """
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return MAX_RETRY_AFTER_S if len(text) > 9 else min(float(text), MAX_RETRY_AFTER_S)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return min(max(date.timestamp() - now, 0.0), MAX_RETRY_AFTER_S)


class Poster:
    """Posts bodies to one URL over a connection that is kept.

    Guarantees: a call ends; redirects and proxies of the environment are not followed; TLS certificates are checked
    against the system's; headers never enter a message. One thread.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        connect_timeout_s: float,
        answer_timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is connected yet.

        Args:
            url: `http:` or `https:`.
            headers: of every request.
            connect_timeout_s: longest wait for a connection.
            answer_timeout_s: longest wait for the head of an answer, and again for its body.
            clock: monotonic seconds.
            wall_clock: seconds since 1970.
        """
        self.shown_url = shown_url(url)
        self._url = url
        self._headers = {"User-Agent": "edgesocket", "Content-Type": "application/json"}
        for name, value in headers.items():
            self._headers = {known: one for known, one in self._headers.items() if known.lower() != name.lower()}
            self._headers[name] = value
        self._secrets = _secrets_of(url, headers)
        self._answer_timeout_s = answer_timeout_s
        self._timeout = urllib3.Timeout(connect=connect_timeout_s, read=answer_timeout_s)
        self._clock = clock
        self._wall_clock = wall_clock
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=1, retries=False, timeout=self._timeout)

    def post(self, body: bytes) -> Answer:
        """Post one body and read the answer.

        Raises:
            NoAnswerError: there was none, or half of one.
        """
        try:
            response = self._pool.urlopen(
                "POST",
                self._url,
                body=body,
                headers=self._headers,
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
            )
        except (HTTPError, OSError, ValueError) as error:
            raise NoAnswerError(self._explained(error)) from None
        whole = False
        try:
            text, whole = self._read(response)
        except (HTTPError, OSError, ValueError) as error:
            raise NoAnswerError(f"the answer broke off: {self._explained(error)}") from None
        finally:
            if whole:
                response.release_conn()
            else:
                response.close()
        retry_after = parse_retry_after(response.headers.get("Retry-After"), self._wall_clock())
        return Answer(response.status, self._shortened(text), retry_after)

    def close(self) -> None:
        """Close the connection."""
        self._pool.clear()

    def _read(self, response: urllib3.BaseHTTPResponse) -> tuple[bytes, bool]:
        """The body as far as it is read, and whether that is all of it."""
        if _head_broke_off(response):
            raise OSError("its head is not whole")
        until = self._clock() + self._answer_timeout_s
        text = bytearray()
        while len(text) < MAX_ANSWER_BYTES:
            piece = response.read1(_READ_BYTES, decode_content=False)
            if not piece:
                return bytes(text), True
            text += piece
            if self._clock() > until:
                raise TimeoutError(f"it was not whole after {self._answer_timeout_s:g} s")
        return bytes(text), False

    def _shortened(self, text: bytes) -> str:
        """The beginning of an answer on one line. A server may repeat our own headers: their values are taken out."""
        return self._without_secrets(" ".join(text.decode("utf-8", "replace").split()))[:SHOWN_CHARACTERS]

    def _explained(self, error: BaseException) -> str:
        name = type(error).__name__
        return self._without_secrets(f"{error}" or name).replace(self._url, self.shown_url)[:SHOWN_CHARACTERS]

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _secrets_of(url: str, headers: Mapping[str, str]) -> list[str]:
    """What must not be shown, the longest first: values of headers and of the query, whole and word by word."""
    query = urlsplit(url).query
    whole = [*headers.values(), query, *(value for _, value in parse_qsl(query))]
    words = [word for value in headers.values() for word in value.split() if len(word) >= _SECRET_WORD_CHARACTERS]
    found = {value for value in (*whole, *words) if len(value) >= _SECRET_CHARACTERS}
    return sorted(found, key=len, reverse=True)


def _head_broke_off(response: urllib3.BaseHTTPResponse) -> bool:
    """Whether the connection ended inside the head: without a length in it, the body would seem to be empty."""
    original = getattr(response, "_original_response", None)
    defects = getattr(getattr(original, "msg", None), "defects", ())
    return any(isinstance(defect, MissingHeaderBodySeparatorDefect) for defect in defects)
