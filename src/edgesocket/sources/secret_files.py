"""Tokens and keys of a source that can change without a restart.

A file is looked at when a collector logs in (tokens), and about once a second (keys): its time, size and place first,
its content only when one of these has changed, or is so young that it may change without showing. A file that cannot be
used any more changes nothing: what was read last stays good, and that is said once.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgesocket.config.convert import Refused
from edgesocket.config.edge_socket import MAX_TOKENS, EdgeSocketOptions, check_token
from edgesocket.errors import ConfigError, ConfigProblem
from edgesocket.net.events import NetEvent, SecretsRefused, SecretsReloaded
from edgesocket.net.options import TlsOptions
from edgesocket.packet.keys import MAX_KEYS, PacketKey, parse_key_file

MAX_FILE_BYTES = 1 << 20
_YOUNG_S = 2.0
"""A file written again within the resolution of its time stamp looks the same; older ones are safe."""

_DIGEST_KEY_BYTES = 32


class SecretFileError(Exception):
    """The file cannot be used; the text names it and shows nothing of it."""


class WatchedFile:
    """A file that is read again when it changes. Not thread-safe."""

    def __init__(self, name: str, clock: Callable[[], float] = time.time) -> None:
        self.name = name
        self._clock = clock
        self._look: tuple[int, int, int] | None = None
        self._data: bytes | None = None

    def changed(self) -> bytes | None:
        """The content, if it is another one than at the last call; else None.

        Raises:
            SecretFileError: it cannot be read. Said once until something about the file changes.
        """
        try:
            found = os.stat(self.name)  # noqa: PTH116 - asked once a second
            look = (found.st_mtime_ns, found.st_size, found.st_ino)
            if look == self._look and self._clock() - found.st_mtime > _YOUNG_S:
                return None
            with Path(self.name).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            look = (0, 0, 0)
            known, self._look = self._look, look
            if known == look:
                return None
            self._data = None
            raise SecretFileError(f"cannot read {self.name}: {error.strerror}") from None
        self._look = look
        if data == self._data:
            return None
        self._data = data
        if len(data) > MAX_FILE_BYTES:
            raise SecretFileError(f"{self.name} is larger than {MAX_FILE_BYTES} bytes")
        return data


class TokenBook:
    """Every token that is good now. Used by one thread at a time.

    What is kept is a digest of each, made with a key of this process: comparing them takes the same time whatever
    differs, their length included.
    """

    def __init__(self, options: EdgeSocketOptions, report: Callable[[NetEvent], object]) -> None:
        """Read the file, where there is one.

        Raises:
            ConfigError: it cannot be used.
        """
        self._report = report
        self._digest_key = os.urandom(_DIGEST_KEY_BYTES)
        self._fixed = tuple(self._digest(token.encode()) for token in options.token)
        self._from_file: tuple[bytes, ...] = ()
        self._file = None if options.token_file is None else WatchedFile(options.token_file)
        if self._file is not None:
            data = _first_read(self._file, "token_file", "one token a line, and a file that this user can read")
            try:
                self._from_file = self._digests(self._file.name, data)
            except SecretFileError as error:
                raise _config_error("token_file", error, "one token a line") from None

    def accepts(self, token: bytes) -> bool:
        """Whether it is one of them; all are compared, whichever fits."""
        self._refresh()
        digest = self._digest(token)
        found = False
        for one in (*self._fixed, *self._from_file):
            found |= hmac.compare_digest(digest, one)
        return found

    def _refresh(self) -> None:
        if self._file is None:
            return
        try:
            data = self._file.changed()
            if data is None:
                return
            fresh = self._digests(self._file.name, data)
        except SecretFileError as error:
            self._report(SecretsRefused("tokens", str(error)))
            return
        self._from_file = fresh
        self._report(SecretsReloaded("tokens", self._file.name, len({*self._fixed, *fresh})))

    def _digests(self, name: str, data: bytes) -> tuple[bytes, ...]:
        return tuple(self._digest(token.encode()) for token in parse_tokens(name, data))

    def _digest(self, token: bytes) -> bytes:
        return hashlib.blake2b(token, key=self._digest_key, digest_size=32).digest()


class KeyBook:
    """Every key that packets may be encrypted with now. Used by one thread."""

    def __init__(self, options: EdgeSocketOptions, report: Callable[[NetEvent], object]) -> None:
        """Read the file, where there is one.

        Raises:
            ConfigError: it cannot be used.
        """
        self._report = report
        self._fixed = options.secret_key
        self._file = None if options.secret_key_file is None else WatchedFile(options.secret_key_file)
        self.keys = self._fixed
        if self._file is not None:
            data = _first_read(self._file, "secret_key_file", "one key a line, and a file that this user can read")
            try:
                self.keys = self._with(self._file.name, data)
            except SecretFileError as error:
                raise _config_error("secret_key_file", error, "openssl rand -base64 32 prints a key") from None

    def changed(self) -> Sequence[PacketKey] | None:
        """The keys, if they are others than before; else None."""
        if self._file is None:
            return None
        try:
            data = self._file.changed()
            if data is None:
                return None
            self.keys = self._with(self._file.name, data)
        except SecretFileError as error:
            self._report(SecretsRefused("keys", str(error)))
            return None
        self._report(SecretsReloaded("keys", self._file.name, len(self.keys)))
        return self.keys

    def _with(self, name: str, data: bytes) -> tuple[PacketKey, ...]:
        try:
            keys = (*parse_key_file(data), *self._fixed)
        except ValueError as error:
            raise SecretFileError(f"{name}: {error}") from None
        if len(keys) > MAX_KEYS:
            raise SecretFileError(f"{name}: together with secret_key there are more than {MAX_KEYS} keys")
        return keys


def tls_of(options: EdgeSocketOptions) -> TlsOptions | None:
    """The TLS of a source as its server takes it."""
    spec = options.tls
    if spec is None:
        return None
    return TlsOptions(
        spec.cert_file, spec.key_file, spec.client_ca_file or "", tuple(spec.client_names), spec.min_version
    )


def parse_tokens(name: str, data: bytes) -> list[str]:
    """The tokens of a file: one a line, whole; blank lines and lines that begin with # are none.

    Raises:
        SecretFileError: it is not UTF-8, has none or too many of them, or a collector could not send one.
    """
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise SecretFileError(f"{name} is not UTF-8") from None
    tokens: list[str] = []
    for number, line in enumerate(lines, 1):
        token = line.removesuffix("\r")
        if token.strip() and not token.startswith("#"):
            try:
                tokens.append(check_token(token))
            except Refused as refused:
                raise SecretFileError(f"{name}:{number}: {refused.message}") from None
    if not tokens:
        raise SecretFileError(f"there is no token in {name}")
    if len(tokens) > MAX_TOKENS:
        raise SecretFileError(f"{name} has more than {MAX_TOKENS} tokens")
    return tokens


def _first_read(file: WatchedFile, option: str, fix: str) -> bytes:
    try:
        return file.changed() or b""
    except SecretFileError as error:
        raise _config_error(option, error, fix) from None


def _config_error(option: str, error: SecretFileError, fix: str) -> ConfigError:
    return ConfigError([ConfigProblem(f"source.EdgeSocket.{option}", str(error), fix)])
