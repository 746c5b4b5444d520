"""S3FileSink against an S3 server: the contract suite, requests that fail or whose answer is lost, and refusals."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("boto3", reason="needs boto3")
pytest.importorskip("moto.server", reason="needs moto's server")

from botocore.exceptions import ClientError

from edgesocket.components.sink import Sink, SinkContext
from edgesocket.errors import ComponentError, ConfigError
from edgesocket.rows import Rows
from edgesocket.sinks import s3_file
from edgesocket.sinks.s3_file import SIMPLE_PROVIDER, S3FileSink
from edgesocket.testing.sink_contract import BreakableSink, RecommittableSink
from edgesocket.testing.sink_story import Story, listed_block
from tests.contracts.test_sinks import FORMATS, payloads_of
from tests.support.s3_server import KEYS, Network, s3_server

_numbers = itertools.count()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with s3_server() as url:
        yield url


class S3Harness:
    """One bucket."""

    def __init__(self, url: str, file_format: str = "json", batch_size: int = 1_000_000) -> None:
        self.network = Network(url)
        self.bucket = f"bucket-{next(_numbers)}"
        self.file_format = file_format
        self.batch_size = batch_size
        self.reader = Network(url).client()
        self.reader.create_bucket(Bucket=self.bucket)
        self.sinks: list[S3FileSink] = []

    def sink(self) -> Sink:
        made = S3FileSink(
            bucket=f"s3a://{self.bucket}",
            path="/edge/out",
            file_format_type=self.file_format,
            batch_size=self.batch_size,
            make_client=self.network.client,
        )
        self.sinks.append(made)
        return made

    def keys(self, prefix: str = "edge/out/part-") -> list[str]:
        found = self.reader.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", ())
        return sorted(entry["Key"] for entry in found)

    def body(self, key: str) -> bytes:
        with self.reader.get_object(Bucket=self.bucket, Key=key)["Body"] as body:
            return bytes(body.read())

    def uploads(self) -> list[str]:
        found = self.reader.list_multipart_uploads(Bucket=self.bucket).get("Uploads", ())
        return sorted(upload["Key"] for upload in found)

    def read(self) -> list[bytes]:
        return payloads_of([self.body(key) for key in self.keys()], self.file_format)

    @contextmanager
    def broken(self) -> Iterator[None]:
        self.network.fails = lambda operation, count: True
        yield
        self.network.fails = lambda operation, count: False

    def close(self) -> None:
        self.reader.close()
        for sink in self.sinks:
            sink.close()


@pytest.fixture
def bucket(url: str) -> Iterator[S3Harness]:
    harness = S3Harness(url)
    yield harness
    harness.close()


@pytest.mark.parametrize("harness", [*((f, 1_000_000) for f in FORMATS), ("text", 200)], indirect=True)
class TestS3File(RecommittableSink, BreakableSink):
    @pytest.fixture
    def harness(self, url: str, request: pytest.FixtureRequest) -> Iterator[S3Harness]:
        harness = S3Harness(url, *request.param)
        yield harness
        harness.close()


ROWS = [b"row %d" % n for n in range(9)]


def _steps(story: Story) -> list[Any]:
    return [
        lambda: story.sink.write(Rows.of_records(listed_block(ROWS[:5]))),
        lambda: story.prepare(1),  # aborted
        lambda: story.sink.write(Rows.of_records(listed_block(ROWS[5:7]))),
        lambda: story.prepare(2),
        lambda: story.record(2),
        lambda: story.commit(2),
        lambda: story.sink.write(Rows.of_records(listed_block(ROWS[7:]))),
        lambda: story.prepare(3),
        lambda: story.record(3),
        lambda: story.commit(3),
    ]


@pytest.mark.parametrize("lost", [False, True], ids=["request lost", "answer lost"])
def test_any_request_may_fail_and_be_repeated(url: str, lost: bool) -> None:
    """Whichever request fails, the engine repeats the call, and in the end each row is there once."""
    harness = S3Harness(url, "json", 4)
    story = Story(harness)
    begun = harness.network.count
    for step in _steps(story):
        step()
    requests = harness.network.count - begun
    assert story.read() == ROWS
    harness.close()
    assert requests > 10

    for k in range(1, requests + 1):
        harness = S3Harness(url, "json", 4)
        story = Story(harness)
        fail_at, failed = harness.network.count + k, 0

        def is_it(operation: str, count: int, fail_at: int = fail_at) -> bool:
            return count == fail_at

        if lost:
            harness.network.loses = is_it
        else:
            harness.network.fails = is_it
        for step in _steps(story):
            try:
                step()
            except ComponentError as error:
                assert error.retryable
                assert f"s3://{harness.bucket}/edge/out" in str(error)
                failed += 1
                step()
        assert failed == 1
        assert story.read() == ROWS, f"request {k}"
        story.sink.close()
        story.start()
        assert harness.uploads() == []
        harness.close()


def opened(harness: S3Harness, epoch: int = 1, **context: Any) -> Sink:
    sink = harness.sink()
    sink.open(SinkContext(job="job", epoch=epoch, sink_id="S3File", **context))
    return sink


def test_a_large_file_is_uploaded_in_parts_while_it_grows(bucket: S3Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.file_format = "text"
    sink = opened(bucket)
    block = [b"x" * 99_999] * 20
    for _ in range(10):  # 20 MB
        sink.write(Rows.of_records(listed_block(block)))
    assert isinstance(sink, S3FileSink)
    assert len(sink._open[0].waiting) <= s3_file.PART_BYTES + 2_000_000
    manifest = json.loads(json.dumps(sink.prepare(1)))
    assert len(manifest["files"][0]["parts"]) == 3
    assert bucket.keys() == []
    sink.commit(1, manifest)
    assert bucket.body(bucket.keys()[0]) == b"".join(line + b"\n" for line in block * 10)


def test_the_manifest_object_names_the_objects_of_its_checkpoint(bucket: S3Harness) -> None:
    sink = opened(bucket)
    sink.write(Rows.of_records(listed_block([b"a", b"b"])))
    sink.commit(7, sink.prepare(7))
    (key,) = bucket.keys("edge/out/_manifests/")
    record = json.loads(bucket.body(key))
    assert (record["job"], record["checkpoint"], record["rows"]) == ("job", 7, 2)
    assert [file["key"] for file in record["files"]] == bucket.keys()


def test_a_reader_may_delete_objects_before_a_commit_is_repeated(bucket: S3Harness) -> None:
    sink = opened(bucket)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    sink.commit(1, manifest)
    bucket.reader.delete_object(Bucket=bucket.bucket, Key=bucket.keys()[0])
    opened(bucket, 2, prepared={1: manifest}).commit(1, manifest)
    assert bucket.keys() == []


def _gone(**_: Any) -> None:
    """What AWS answers where an upload was completed or aborted before; the server here says 500 instead."""
    raise ClientError({"Error": {"Code": "NoSuchUpload", "Message": "gone"}}, "CompleteMultipartUpload")


@pytest.mark.parametrize("deleted", [False, True])
def test_an_upload_that_is_gone_because_it_was_completed_is_done(
    bucket: S3Harness, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    sink = opened(bucket)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    sink.commit(1, manifest)
    assert isinstance(sink, S3FileSink)
    monkeypatch.setattr(sink._client, "complete_multipart_upload", _gone)
    if deleted:
        bucket.reader.delete_object(Bucket=bucket.bucket, Key=bucket.keys()[0])
    sink.commit(1, manifest)
    assert len(bucket.keys()) == (0 if deleted else 1)


def test_an_object_of_another_size_is_not_taken_for_ours(bucket: S3Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(bucket)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    assert isinstance(sink, S3FileSink)
    monkeypatch.setattr(sink._client, "complete_multipart_upload", _gone)
    bucket.reader.put_object(Bucket=bucket.bucket, Key=manifest["files"][0]["key"], Body=b"of a stranger")
    with pytest.raises(ComponentError, match="13 bytes, not the 15"):
        sink.commit(1, manifest)


def test_an_upload_that_was_aborted_by_somebody_else_is_an_error(
    bucket: S3Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(bucket)
    sink.write(Rows.of_records(listed_block([b"a"])))
    manifest = sink.prepare(1)
    assert isinstance(sink, S3FileSink)
    monkeypatch.setattr(sink._client, "complete_multipart_upload", _gone)
    with pytest.raises(ComponentError, match=r"prepared rows are missing.*1 rows"):
        sink.commit(1, manifest)


def test_open_aborts_what_an_earlier_run_of_this_sink_left_and_nothing_else(bucket: S3Harness) -> None:
    other = bucket.sink()
    other.open(SinkContext(job="other", epoch=1, sink_id="S3File"))
    for sink in (opened(bucket), other):
        sink.write(Rows.of_records(listed_block([b"a"])))
        manifest = sink.prepare(1)
    opened(bucket, 2)
    assert bucket.uploads() == [manifest["files"][0]["key"]]


def test_deleted_state_does_not_overwrite_objects(bucket: S3Harness) -> None:
    for payload in (b"old", b"new"):
        sink = opened(bucket)
        sink.write(Rows.of_records(listed_block([payload])))
        sink.commit(1, sink.prepare(1))
    assert sorted(bucket.read()) == [b"new", b"old"]


def test_typed_rows_come_back_from_parquet(bucket: S3Harness) -> None:
    bucket.file_format = "parquet"
    batch = pa.RecordBatch.from_pydict({"id": pa.array([1, 2]), "name": pa.array(["a", None])})
    sink = opened(bucket, schema=batch.schema)
    sink.write(Rows.of_batch(batch))
    sink.commit(1, sink.prepare(1))
    assert pq.read_table(io.BytesIO(bucket.body(bucket.keys()[0]))).to_pylist() == batch.to_pylist()


def test_a_bucket_that_is_not_there_is_an_error_for_good(url: str) -> None:
    sink = S3FileSink(bucket="nowhere", path="x", make_client=Network(url).client)
    with pytest.raises(ComponentError, match=r"s3://nowhere/.*there is no such bucket") as caught:
        sink.open(SinkContext(job="job", epoch=1, sink_id="s"))
    assert not caught.value.retryable
    sink.close()


def test_the_options_make_a_client(bucket: S3Harness, url: str) -> None:
    keys = {"access_key": KEYS["aws_access_key_id"], "secret_key": KEYS["aws_secret_access_key"]}
    sink = S3FileSink(
        bucket=bucket.bucket, path="x", fs_s3a_endpoint=url, fs_s3a_aws_credentials_provider=SIMPLE_PROVIDER, **keys
    )
    sink.open(SinkContext(job="job", epoch=1, sink_id="s"))
    sink.write(Rows.of_records(listed_block([b"a"])))
    sink.commit(1, sink.prepare(1))
    sink.close()
    assert len(bucket.keys("x/part-")) == 1


def test_missing_credentials_say_what_to_set(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    sink = S3FileSink(bucket="b", path="x", fs_s3a_endpoint=url)
    with pytest.raises(ComponentError, match="Set access_key and secret_key") as caught:
        sink.open(SinkContext(job="job", epoch=1, sink_id="s"))
    assert not caught.value.retryable
    sink.close()


def test_all_wrong_options_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        S3FileSink(bucket="s3a://a/b", path="x", file_format_type="xml", batch_size=0)
    assert [p.path for p in caught.value.problems] == ["file_format_type", "bucket", "batch_size"]
