"""How a bucket is reached: what is given, else the environment, else the shared credentials file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgesocket.cli.main import main
from edgesocket.config.s3_settings import S3Settings
from edgesocket.errors import ExitCode, StoreError

bucket = pytest.importorskip("edgesocket.store.bucket", reason="needs obstore: the extra s3")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ENDPOINT_URL_S3", "ENDPOINT_URL", "REGION", "DEFAULT_REGION", "ACCESS_KEY_ID", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def test_without_anything_it_is_aws(tmp_path: Path) -> None:
    assert bucket.resolved(S3Settings()) == S3Settings(region="us-east-1")


def test_the_environment_fills_in_what_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://general")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert bucket.resolved(S3Settings()) == S3Settings("http://general", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3")
    monkeypatch.setenv("AWS_REGION", "eu-west-2")
    assert bucket.resolved(S3Settings()) == S3Settings("http://s3", "eu-west-2")
    given = S3Settings("http://given", "eu-west-3", "a", "b", path_style=False)
    assert bucket.resolved(given) == given


def test_keys_of_the_profile_are_read_where_the_environment_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = two%\n[other]\naws_access_key_id = three\n"
    )
    assert bucket.resolved(S3Settings()) == S3Settings(region="us-east-1", access_key="one", secret_key="two%")
    assert "two" not in repr(bucket.resolved(S3Settings()))
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert bucket.resolved(S3Settings()).access_key == ""
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from the environment")
    assert bucket.resolved(S3Settings()).access_key == "", "the library reads it there itself"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "status code: 403 Forbidden: <Error><Code>AccessDenied</Code><Message>No</Message><KeyId>AKIA</...",
            "AccessDenied: No",
        ),
        ("Server returned non-2xx status code: 503 Service Unavailable: ", "status 503 Service Unavailable"),
        (
            "PUT http://169.254.169.254/latest/api/token in 1s - HTTP error: error sending request",
            "there are no credentials",
        ),
        ("PUT http://x/y in 5s - HTTP error: request or response body error: operation timed out", "no answer in time"),
        ("PUT http://x/y in 5s - HTTP error: error sending request\n\nDebug source: ...", "no connection"),
        ("something else\nand much more", "something else"),
    ],
)
def test_what_the_service_said_is_shown_in_few_words(said: str, shown: str) -> None:
    reason = bucket._reason(RuntimeError(said))
    assert reason.startswith(shown)
    assert "AKIA" not in reason
    assert "\n" not in reason


def test_without_any_credentials_it_is_said_where_to_put_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    waited: list[float] = []
    reached = bucket.Bucket(
        "states", S3Settings("http://127.0.0.1:1", "us-east-1"), sleep=waited.append, clock=lambda: sum(waited)
    )
    with pytest.raises(StoreError, match="there are no credentials: set AWS_ACCESS_KEY_ID"):
        reached.get("key")


def test_without_the_library_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("object_place", "object_owner", "objects", "bucket"):
        monkeypatch.delitem(sys.modules, f"edgesocket.store.{module}", raising=False)
    for module in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert main(["status", "job", "--state-dir", "s3://states/job"]) == ExitCode.UNAVAILABLE
    assert "pip install 'edgesocket[s3]'" in capsys.readouterr().err
