"""The store in a bucket keeps the contract of stores, on a real HTTP server, also where the server misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="needs obstore: the extra s3")
pytest.importorskip("moto.server", reason="needs moto's server")
pytest.register_assert_rewrite("edgesocket.testing.store_contract")

from edgesocket.checkpoint.effects import Create, List, Read, Remove  # noqa: E402
from edgesocket.errors import StoreError  # noqa: E402
from edgesocket.store.bucket import TRY_FOR_S, RefusedError  # noqa: E402
from edgesocket.store.objects import PROBE, ObjectStore  # noqa: E402
from edgesocket.testing.store_contract import SharedStoreContract  # noqa: E402
from tests.support.s3_faults import DROP, KEYS, LOSE, Answer, Fate, FaultyS3, faulty_s3, object_store  # noqa: E402


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyS3]:
    with faulty_s3() as proxy:
        yield proxy


@pytest.fixture
def s3(server: FaultyS3) -> Iterator[FaultyS3]:
    yield server
    server.fate = lambda request: None


class TestObjectStore(SharedStoreContract):
    url = ""
    bucket = ""

    @pytest.fixture(autouse=True)
    def _server(self, s3: FaultyS3) -> None:
        self.url, self.bucket = s3.url, s3.bucket()

    def open_store(self, place: Path) -> ObjectStore:
        return object_store(self.url, self.bucket, f"states/{place.name}")


class TestObjectStoreOfAServiceThatFailsNowAndThen(TestObjectStore):
    """Every third request fails, in turn in each way there is: nobody outside the store notices."""

    FATES = (503, DROP, LOSE, 500, 0.01)

    @pytest.fixture(autouse=True)
    def _server(self, s3: FaultyS3) -> None:
        self.url, self.bucket = s3.url, s3.bucket()
        s3.fate = lambda request: None if request.count % 3 else self.FATES[request.count // 3 % len(self.FATES)]


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def store(s3: FaultyS3, pauses: list[float]) -> ObjectStore:
    made = object_store(s3.url, s3.bucket(), pauses=pauses)
    made.perform(Create("first", b""))  # it has looked whether writes are conditional
    s3.requests.clear()
    return made


def on(method: str, *fates: Fate) -> object:
    """The first requests with this method have these fates."""
    left = list(fates)
    return lambda request: left.pop(0) if left and request.method == method else None


def test_an_answer_that_was_lost_does_not_make_our_own_object_another_s(s3: FaultyS3, store: ObjectStore) -> None:
    s3.fate = on("PUT", LOSE, LOSE)
    assert store.perform(Create("log/1", b"mine")) is True
    assert [request.method for request in s3.requests] == ["PUT", "PUT", "PUT", "GET"]


def test_the_same_bytes_of_another_writer_are_not_ours(s3: FaultyS3, store: ObjectStore) -> None:
    assert store.perform(Create("log/1", b"the same")) is True
    assert store.perform(Create("log/1", b"the same")) is False


def test_a_conflict_of_two_requests_is_tried_again(s3: FaultyS3, store: ObjectStore) -> None:
    s3.fate = on("PUT", 409)
    assert store.perform(Create("log/1", b"mine")) is True


def test_a_service_that_stays_away_is_given_up_after_a_while_with_growing_pauses(
    s3: FaultyS3, store: ObjectStore, pauses: list[float]
) -> None:
    s3.fate = lambda request: 503
    for effect in (Create("log/1", b""), Read("log/1"), List("log"), Remove("log/1")):
        pauses.clear()
        with pytest.raises(StoreError, match=r"s3://states-\d+/states/job/log.*: SlowDown: as told"):
            store.perform(effect)
        assert pauses == sorted(pauses)
        assert TRY_FOR_S / 2 < sum(pauses) <= TRY_FOR_S
    s3.fate = lambda request: None
    assert store.perform(Read("log/1")) is None


def test_no_permission_is_not_tried_again(s3: FaultyS3, store: ObjectStore, pauses: list[float]) -> None:
    s3.fate = lambda request: 403 if request.method in ("PUT", "POST") else None
    for effect in (Create("log/1", b""), Remove("log/1")):
        with pytest.raises(RefusedError, match="AccessDenied"):
            store.perform(effect)
    assert pauses == []
    assert store.perform(Read("first")) == b"", "what can be read is read"


def test_a_full_service_is_an_error_that_names_it(s3: FaultyS3, store: ObjectStore) -> None:
    s3.fate = lambda request: 507 if request.method == "PUT" else None
    with pytest.raises(StoreError, match="XMinioStorageFull"):
        store.perform(Create("log/1", b"data"))
    s3.fate = lambda request: None
    assert store.perform(Create("log/1", b"data")) is True


def test_a_bucket_that_is_not_there_is_an_error_and_not_an_empty_one(s3: FaultyS3) -> None:
    store = object_store(s3.url, "nobody-made-this-one")
    for effect in (Read("log/1"), List("log"), Create("log/1", b"")):
        with pytest.raises(StoreError, match="NoSuchBucket"):
            store.perform(effect)


def test_a_service_that_ignores_the_condition_is_refused_before_anything_is_made(s3: FaultyS3) -> None:
    name = s3.bucket()
    store = object_store(s3.url, name)
    real = s3._forward

    def forward(method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        return real(method, path, {k: v for k, v in headers.items() if k.lower() != "if-none-match"}, body)

    s3._forward = forward  # type: ignore[method-assign]
    try:
        with pytest.raises(RefusedError, match="If-None-Match"):
            store.perform(Create("log/1", b""))
        with pytest.raises(RefusedError, match="If-None-Match"):
            store.perform(Create("log/1", b""))
    finally:
        del s3._forward
    assert {request.key for request in s3.requests if request.method == "PUT" and name} >= {f"states/job/{PROBE}"}
    assert object_store(s3.url, name).perform(List("log")) == []


def test_a_listing_of_many_pages_is_whole(s3: FaultyS3, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = s3._forward

    def three_a_page(method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        return real(method, f"{path}&max-keys=3" if "list-type=2" in path else path, headers, body)

    monkeypatch.setattr(s3, "_forward", three_a_page)
    names = [f"log/{index:05d}" for index in range(10)]
    for name in names:
        store.perform(Create(name, b""))
    s3.requests.clear()
    assert store.perform(List("log")) == names
    assert len(s3.requests) == 4


def test_no_message_holds_a_key(s3: FaultyS3, store: ObjectStore) -> None:
    for fate in (403, 500, DROP):
        s3.fate = lambda request, fate=fate: fate
        with pytest.raises(StoreError) as caught:
            store.perform(Read("log/1"))
        assert KEYS["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)
        assert KEYS["AWS_ACCESS_KEY_ID"] not in str(caught.value)
        assert caught.value.__cause__ is None
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in repr(store._bucket._settings)


def test_names_with_any_printable_character_come_back(s3: FaultyS3) -> None:
    store = object_store(s3.url, s3.bucket(), "states/jöb #1 50%25 ~ & ?x=y")
    assert store.perform(Create("log/1", b"data")) is True
    assert store.perform(List("log")) == ["log/1"]
    assert store.perform(Read("log/1")) == b"data"
