"""Tokens and keys that change while the source runs."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from edgesocket.config.edge_socket import EdgeSocketOptions
from edgesocket.errors import ConfigError
from edgesocket.net.events import SecretsRefused, SecretsReloaded
from edgesocket.sources.secret_files import KeyBook, SecretFileError, TokenBook, WatchedFile, parse_tokens

OLD_KEY, NEW_KEY = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


class Told(list[Any]):
    def __call__(self, event: object) -> None:
        self.append(event)


def tokens(told: Told | None = None, **options: Any) -> TokenBook:
    return TokenBook(EdgeSocketOptions.of(port=1, **options), told if told is not None else Told())


def age(path: Path, seconds: float) -> None:
    """As if it had been written so long ago."""
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


class TestWatchedFile:
    def test_the_content_comes_once(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_bytes(b"one")
        file = WatchedFile(str(tmp_path / "f"))

        assert [file.changed(), file.changed()] == [b"one", None]

    def test_a_change_within_the_resolution_of_the_clock_is_seen(self, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_bytes(b"one")
        before = path.stat()
        file = WatchedFile(str(path))
        file.changed()
        path.write_bytes(b"two")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

        assert file.changed() == b"two"

    def test_an_old_file_that_looks_the_same_is_not_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_bytes(b"one")
        age(path, 100)
        file = WatchedFile(str(path))
        file.changed()
        path.chmod(0)  # root reads it all the same, so the look has to decide

        assert file.changed() is None

    def test_a_file_put_in_its_place_is_seen(self, tmp_path: Path) -> None:
        path, other = tmp_path / "f", tmp_path / "other"
        path.write_bytes(b"one")
        other.write_bytes(b"two")
        age(path, 100)
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        file = WatchedFile(str(path))
        file.changed()
        other.rename(path)

        assert file.changed() == b"two"

    def test_what_cannot_be_read_is_said_once(self, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_bytes(b"one")
        file = WatchedFile(str(path))
        file.changed()
        path.unlink()
        with pytest.raises(SecretFileError, match=r"cannot read .*/f: No such file"):
            file.changed()

        assert file.changed() is None
        path.write_bytes(b"one")
        assert file.changed() == b"one"


class TestTokens:
    def test_each_of_several_is_good(self) -> None:
        book = tokens(token=("old", "new"))

        assert book.accepts(b"old")
        assert book.accepts(b"new")
        assert not book.accepts(b"older")
        assert not book.accepts(b"")

    def test_those_of_the_file_are_good_beside_those_of_the_job(self, tmp_path: Path) -> None:
        (tmp_path / "t").write_text("# of the plant\nfrom-file\r\n\n with blanks \n")
        book = tokens(token=("fixed",), token_file=str(tmp_path / "t"))

        assert all(map(book.accepts, (b"fixed", b"from-file", b" with blanks ")))
        assert not book.accepts(b"# of the plant")

    def test_a_changed_file_counts_from_the_next_login_on(self, tmp_path: Path) -> None:
        path, told = tmp_path / "t", Told()
        path.write_text("old\n")
        book = tokens(told, token_file=str(path))
        path.write_text("old\nnew\n")
        assert book.accepts(b"new")
        assert book.accepts(b"old")
        path.write_text("new\n")

        assert not book.accepts(b"old")
        assert told == [SecretsReloaded("tokens", str(path), 2), SecretsReloaded("tokens", str(path), 1)]

    @pytest.mark.parametrize("content", [b"", b"# none\n", b"\xff\n", b"x" * 5000, None])
    def test_a_file_that_became_useless_changes_nothing(self, tmp_path: Path, content: bytes | None) -> None:
        path, told = tmp_path / "t", Told()
        path.write_text("good\n")
        book = tokens(told, token_file=str(path))
        path.unlink() if content is None else path.write_bytes(content)

        assert book.accepts(b"good")
        assert book.accepts(b"good")
        assert [type(event) for event in told] == [SecretsRefused]

    def test_a_source_does_not_start_with_a_useless_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"source\.EdgeSocket\.token_file: cannot read"):
            tokens(token_file=str(tmp_path / "nothing"))
        (tmp_path / "t").write_text("#\n")
        with pytest.raises(ConfigError, match="there is no token in"):
            tokens(token_file=str(tmp_path / "t"))

    def test_a_message_names_the_line_and_not_what_is_in_it(self) -> None:
        with pytest.raises(SecretFileError) as error:
            parse_tokens("f", b"good\n" + b"hunter2" * 1000)

        assert str(error.value) == "f:2: the token is longer than 4087 bytes"

    def test_no_token_is_kept(self) -> None:
        book = tokens(token=("hunter2hunter2",))

        assert b"hunter2" not in repr(vars(book)).encode()


class TestKeys:
    def book(self, told: Told, **options: Any) -> KeyBook:
        return KeyBook(EdgeSocketOptions.of(port=1, token="t", packet_mode="PACKET", **options), told)

    def test_those_of_the_file_come_first_and_change_with_it(self, tmp_path: Path) -> None:
        path, told = tmp_path / "k", Told()
        path.write_text(f"a:{OLD_KEY}\n")
        book = self.book(told, secret_key=bytes([9]) * 32, secret_key_file=str(path))
        assert [key.id for key in book.keys] == ["a", ""]
        assert book.changed() is None
        path.write_text(f"b:{NEW_KEY}\na:{OLD_KEY}\n")

        assert [key.id for key in book.changed() or ()] == ["b", "a", ""]
        assert told == [SecretsReloaded("keys", str(path), 3)]

    def test_a_file_that_became_useless_changes_nothing(self, tmp_path: Path) -> None:
        path, told = tmp_path / "k", Told()
        path.write_text(f"a:{OLD_KEY}\n")
        book = self.book(told, secret_key_file=str(path))
        path.write_text(f"a:{OLD_KEY[:-4]}\n")

        assert book.changed() is None
        assert book.changed() is None
        assert [type(event) for event in told] == [SecretsRefused]
        assert OLD_KEY[:8] not in repr(told)
