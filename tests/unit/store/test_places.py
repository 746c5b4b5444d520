"""Places: the same words for a directory and for a bucket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgesocket.checkpoint.effects import Create, List
from edgesocket.config.s3_settings import S3Settings
from edgesocket.errors import StoreError, UsageError
from edgesocket.store.place import Place, Root, is_bucket, place_of, root_of
from tests.support.fake_bucket import FakeBucket

object_place = pytest.importorskip("edgesocket.store.object_place", reason="needs obstore: the extra s3")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeBucket:
    fake = FakeBucket()
    monkeypatch.setattr(object_place, "bucket", lambda name, settings: fake)
    monkeypatch.setenv("EDGESOCKET_SCRATCH", str(tmp_path / "scratch"))
    return fake


@pytest.fixture(params=["directory", "bucket"])
def root(request: pytest.FixtureRequest, bucket: FakeBucket, tmp_path: Path) -> Root:
    return root_of(str(tmp_path / "states") if request.param == "directory" else "s3://states/edge")


@pytest.fixture
def place(root: Root) -> Place:
    return root.place("job")


def test_a_place_is_found_again_by_its_text(place: Place) -> None:
    assert not place.exists()
    place.open_store().perform(Create("log/1", b"entry"))
    again = place_of(place.text)
    assert again.text == place.text
    assert again.exists()
    assert again.open_store().perform(List("log")) == ["log/1"]
    assert place.text in repr(place)


def test_a_root_names_the_jobs_that_have_state(root: Root) -> None:
    assert root.names() == []
    for name in ("b", "a", ".hidden"):
        root.place(name).open_store().perform(Create("log/1", b""))
    root.place("no log").open_store().perform(Create("other/1", b""))
    assert root.names() == ["a", "b"]
    assert root.place(".hidden").exists()


def test_a_place_beside_another_has_its_name_and_more(place: Place) -> None:
    assert place.beside("-replay").text == f"{place.text}-replay"


def test_a_status_is_read_back_with_its_time(place: Place) -> None:
    place.open_store()
    assert place.read_status() is None
    place.write_status({"state": "running", "epoch": 1})
    status = place.read_status()
    assert status is not None
    assert status["state"] == "running"
    assert status["time"] > 0


def test_a_request_reaches_the_process_it_names_and_no_other(place: Place) -> None:
    place.open_store()
    place.ask_to_stop("one", "me")
    assert place_of(place.text).asked_to_stop("two") == ""
    assert place_of(place.text).asked_to_stop("one") == "me"
    place.clear_request("two")
    assert place_of(place.text).asked_to_stop("one") == "me"
    place.clear_request("one")
    assert place_of(place.text).asked_to_stop("one") == ""


def test_a_place_that_nobody_owns_has_no_beat_and_an_owned_one_has(place: Place) -> None:
    place.open_store()
    assert place.read_beat() is None
    owner = place.owner("job")
    owner.watch(3000)
    owner.start(1)
    beat = place.read_beat()
    assert beat is not None
    assert beat.job == "job"
    owner.close()


@pytest.mark.parametrize("text", ["ftp://host/x", "http://host/x", "s3://", "s3:///x"])
def test_what_is_no_place_is_refused(bucket: FakeBucket, text: str) -> None:
    with pytest.raises(UsageError):
        place_of(text)


def test_a_bucket_without_a_prefix_is_a_root_and_no_place(bucket: FakeBucket) -> None:
    with pytest.raises(UsageError, match="prefix of its own"):
        place_of("s3://states")
    assert root_of("s3://states/").place("job").text == "s3://states/job"


def test_schemes(tmp_path: Path, bucket: FakeBucket) -> None:
    assert [is_bucket(text) for text in ("s3://b/x", "S3A://b/x", "s3n://b/x", "/srv/s3:", "s3")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert place_of("s3a://states//edge/").text == "s3://states/edge"
    assert place_of(f"file://{tmp_path}").text == str(tmp_path)
    assert place_of("relative").text == str(Path.cwd() / "relative")


class TestS3Place:
    def place(self, now: list[float]) -> Any:
        return object_place.S3Place("s3://states/edge/job", S3Settings(), clock=lambda: now[0])

    def test_a_status_of_newer_figures_waits_and_one_that_says_more_does_not(self, bucket: FakeBucket) -> None:
        now = [100.0]
        place = self.place(now)

        def shown() -> dict[str, Any]:
            status: dict[str, Any] = json.loads(bucket.objects["edge/job/status.json"].data)
            return status

        place.write_status({"state": "running", "epoch": 1, "rows": 1})
        now[0] += 0.5
        place.write_status({"state": "running", "epoch": 1, "rows": 2})
        assert shown()["rows"] == 1
        now[0] += 0.6
        place.write_status({"state": "running", "epoch": 1, "rows": 3})
        assert shown()["rows"] == 3
        place.write_status({"state": "ended", "epoch": 1, "rows": 3})
        assert shown()["state"] == "ended"
        place.write_status({"state": "ended", "epoch": 1, "rows": 3, "end": {}})
        assert "end" in shown()

    def test_requests_are_looked_for_now_and_then(self, bucket: FakeBucket) -> None:
        now = [100.0]
        place = self.place(now)
        assert place.asked_to_stop("one") == ""
        place.ask_to_stop("one", "me")
        assert place.asked_to_stop("one") == ""
        now[0] += object_place.REQUEST_EVERY_S
        assert place.asked_to_stop("one") == "me"

    def test_a_bucket_that_is_away_is_an_error_only_where_it_matters(self, bucket: FakeBucket) -> None:
        place = self.place([100.0])
        bucket.away = True
        place.write_status({"state": "running"})
        assert place.read_status() is None
        assert place.asked_to_stop("one") == ""
        place.clear_request("one")
        for ask in (place.exists, place.read_beat, lambda: place.ask_to_stop("one", "me")):
            with pytest.raises(StoreError):
                ask()

    def test_the_notes_of_each_place_lie_in_a_directory_of_their_own(self, bucket: FakeBucket, tmp_path: Path) -> None:
        place = self.place([0.0])
        assert place.scratch.parent == tmp_path / "scratch"
        assert place.scratch == place.apart.directory
        assert place.scratch != place_of("s3://other/edge/job").scratch
        other = object_place.S3Place("s3://states/edge/job", S3Settings(endpoint="http://elsewhere"))
        assert place.scratch != other.scratch
