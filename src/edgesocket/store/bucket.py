"""A bucket of an S3-compatible service, with the few requests that a state store needs; the library stays in here.

Errors come out as StoreError, with what the service said and never with what it was sent. The library's own repeats are
switched off: after a repeat that nobody sees, "it is there already" could mean our own object.
"""

from __future__ import annotations

import configparser
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import obstore.exceptions
from obstore.store import S3Store

from edgesocket.config.s3_settings import S3Settings
from edgesocket.errors import StoreError

if TYPE_CHECKING:
    from obstore.store import S3Config

T = TypeVar("T")

DEFAULT_REGION = "us-east-1"
CONNECT_TIMEOUT_S = 3.0
TIMEOUT_S = 5.0
"""One try of a request for something small."""
BULK_TIMEOUT_S = 120.0
"""One try of a request for something big."""
BULK_BYTES = 1 << 20
TRY_FOR_S = 12.0
"""No request is begun again later than this after its first try."""
FIRST_PAUSE_S = 0.1
MOST_PAUSE_S = 2.0

TOKEN = "token"  # noqa: S105 - the name of a piece of metadata
"""Metadata by which a writer knows its own object again."""

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")

_FOR_GOOD = (
    obstore.exceptions.PermissionDeniedError,
    obstore.exceptions.UnauthenticatedError,
    obstore.exceptions.InvalidPathError,
    obstore.exceptions.NotSupportedError,
)
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,200})</Message>")
_STATUS = re.compile(r"status code: (\d{3}[ A-Za-z]{0,40})")
_NO_CREDENTIALS = "/latest/api/token"
"""Part of what is said when the library has asked everywhere else for credentials."""


class RefusedError(StoreError):
    """The service refuses for a reason that a repeat does not heal: no permission, no such bucket."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object: its bytes, and the token its writer gave it (empty: none)."""

    data: bytes
    token: str


def resolved(settings: S3Settings) -> S3Settings:
    """The settings with what the environment says filled in."""
    environ = os.environ
    access, secret = settings.access_key, settings.secret_key
    if not access and not environ.get("AWS_ACCESS_KEY_ID"):
        access, secret = _shared_credentials()
    return S3Settings(
        endpoint=settings.endpoint or next((environ[name] for name in _ENDPOINTS if environ.get(name)), ""),
        region=settings.region or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION,
        access_key=access,
        secret_key=secret,
        path_style=settings.path_style,
    )


def _shared_credentials() -> tuple[str, str]:
    """Keys of the profile in the shared credentials file; empty where there are none."""
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path("~/.aws/credentials").expanduser()
    found = configparser.RawConfigParser()
    try:
        found.read(path, encoding="utf-8")
        profile = found[os.environ.get("AWS_PROFILE", "default")]
    except (KeyError, OSError, configparser.Error, UnicodeDecodeError):
        return "", ""
    if "aws_session_token" in profile or "aws_secret_access_key" not in profile:
        return "", ""
    return profile.get("aws_access_key_id", ""), profile["aws_secret_access_key"]


@cache
def bucket(name: str, settings: S3Settings) -> Bucket:
    """The bucket with this name; one object a process for the same (`resolved`) settings."""
    return Bucket(name, settings)


class Bucket:
    """Requests to one bucket. Thread-safe.

    Args:
        name: of the bucket.
        settings: how it is reached, resolved.
        sleep: waits a number of seconds between tries.
        clock: seconds of a steady clock.
    """

    def __init__(
        self,
        name: str,
        settings: S3Settings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._settings = settings
        self._sleep = sleep
        self._clock = clock
        self._clients: dict[float, S3Store] = {}

    def create(self, key: str, data: bytes, token: str) -> bool:
        """Make an object exclusively.

        Args:
            key: its name.
            data: its bytes.
            token: nobody else's, and of this call only: tells our object from another one after a lost answer.

        Returns:
            Whether it is ours; False: another one has the name.

        Raises:
            StoreError: it is unknown whether it was made; RefusedError: it was not.
        """

        def attempt(client: S3Store) -> bool:
            try:
                client.put(key, data, mode="create", attributes={TOKEN: token}, use_multipart=False)
            except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
                there = self._token_of(client, key)
                if there is None:
                    raise  # two requests met (409), or it was removed just now: try again
                return there == token
            return True

        return self._repeat("create", key, attempt, _timeout_for(len(data)))

    def put(self, key: str, data: bytes, *, timeout_s: float = TIMEOUT_S, try_for_s: float = TRY_FOR_S) -> None:
        """Make or replace an object. Raises StoreError: unknown whether it happened."""
        self._repeat("write", key, lambda client: client.put(key, data, use_multipart=False), timeout_s, try_for_s)

    def get(self, key: str, *, timeout_s: float = TIMEOUT_S, try_for_s: float = TRY_FOR_S) -> Found | None:
        """An object; None where there is none. Raises StoreError."""

        def attempt(client: S3Store) -> Found | None:
            try:
                answer = client.get(key)
                return Found(bytes(answer.bytes()), _token(answer.attributes))
            except FileNotFoundError as error:
                _require_bucket(error)
                return None

        return self._repeat("read", key, attempt, timeout_s, try_for_s)

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error. Raises StoreError."""

        def attempt(client: S3Store) -> None:
            try:
                client.delete(key)
            except FileNotFoundError as error:
                _require_bucket(error)

        self._repeat("remove", key, attempt)

    def keys(self, prefix: str) -> list[str]:
        """Keys directly below `prefix/`, all pages, sorted. Raises StoreError."""
        return self._repeat(
            "list", prefix, lambda client: sorted(o["path"] for o in client.list_with_delimiter(prefix)["objects"])
        )

    def prefixes(self, prefix: str) -> list[str]:
        """What comes directly below `prefix/` and has keys below it, whole, sorted. Raises StoreError."""
        return self._repeat(
            "list", prefix, lambda client: sorted(client.list_with_delimiter(prefix or None)["common_prefixes"])
        )

    def has_any(self, prefix: str) -> bool:
        """Whether there is a key below `prefix/`. Raises StoreError."""
        return self._repeat("list", prefix, lambda client: any(True for chunk in client.list(prefix) if chunk))

    def _token_of(self, client: S3Store, key: str) -> str | None:
        try:
            return _token(client.get(key).attributes)
        except FileNotFoundError as error:
            _require_bucket(error)
            return None

    def _repeat(
        self,
        verb: str,
        key: str,
        attempt: Callable[[S3Store], T],
        timeout_s: float = TIMEOUT_S,
        try_for_s: float = TRY_FOR_S,
    ) -> T:
        """Try until it works, is refused for good, or the time for it is over."""
        began, pause_s = self._clock(), FIRST_PAUSE_S
        while True:
            try:
                return attempt(self._client(timeout_s))
            except (obstore.exceptions.BaseError, OSError) as error:
                reason = _reason(error)
                where = f"s3://{self.name}/{key}: cannot {verb} it: {reason}"
                if isinstance(error, (*_FOR_GOOD, FileNotFoundError)):
                    raise RefusedError(where) from None
                if self._clock() - began + pause_s > try_for_s:
                    raise StoreError(where) from None
            self._sleep(pause_s)
            pause_s = min(pause_s * 2, MOST_PAUSE_S)

    def _client(self, timeout_s: float) -> S3Store:
        client = self._clients.get(timeout_s)
        if client is None:
            client = self._clients[timeout_s] = _make_client(self.name, self._settings, timeout_s)
        return client


def _timeout_for(size: int) -> float:
    return BULK_TIMEOUT_S if size > BULK_BYTES else TIMEOUT_S


def _make_client(name: str, settings: S3Settings, timeout_s: float) -> S3Store:
    virtual = not settings.endpoint if settings.path_style is None else not settings.path_style
    config: S3Config = {"region": settings.region, "virtual_hosted_style_request": virtual}
    if settings.endpoint:
        config["endpoint"] = settings.endpoint
    if settings.access_key:
        config["access_key_id"] = settings.access_key
        config["secret_access_key"] = settings.secret_key
    return S3Store(
        name,
        config=config,
        client_options={
            "allow_http": settings.endpoint.startswith("http://"),
            "timeout": f"{int(timeout_s * 1000)}ms",
            "connect_timeout": f"{int(min(timeout_s, CONNECT_TIMEOUT_S) * 1000)}ms",
        },
        retry_config={"max_retries": 0},
    )


def _token(attributes: Any) -> str:
    return str(attributes.get(TOKEN, ""))


def _require_bucket(error: FileNotFoundError) -> None:
    """A missing object is an answer; a missing bucket is not, however alike they look."""
    if "NoSuchBucket" in str(error):
        raise error


def _reason(error: BaseException) -> str:
    """What the service or the network said, without what they were told."""
    text = str(error)
    if _NO_CREDENTIALS in text:
        return (
            "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role gives some"
        )
    code, message, status = _CODE.search(text), _MESSAGE.search(text), _STATUS.search(text)
    if code is not None:
        return f"{code[1]}: {message[1]}" if message is not None else code[1]
    if status is not None:
        return f"status {status[1].strip()}"
    if "timed out" in text or "Timeout" in text:
        return "no answer in time"
    return "no connection" if "error sending request" in text else text.partition("\n")[0][:200]
