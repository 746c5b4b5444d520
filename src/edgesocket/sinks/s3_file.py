"""The sink that writes rows into objects of an S3 bucket: every row once, also across crashes and restarts.

Exactly once holds for a reader that takes each object once, and for batches that the source hands over once. Rows are
staged as parts of multipart uploads, which nobody sees; a completed checkpoint completes the uploads, and an object is
there whole or not at all. An object is never overwritten by this sink, so a reader may delete it at any time.

Keys. `<path>/part-<epoch>-<k>-<token>.<ext>`: epoch is the run of the job, k counts the objects of the run, so names
in alphabetical order hold the rows in the order they were written. The token is drawn anew by each run: no key comes
twice, not even when the job's state was deleted.

Manifests. When all objects of a checkpoint are there, `<path>/_manifests/<epoch>-<checkpoint>-<token>.json` names them.
It is written last, and it also tells a repeated commit that objects which are gone have been there.

What an abandoned upload holds is paid for, so `open` aborts those that earlier runs of this sink left. The bucket
should have a rule that aborts incomplete uploads after some days too, longer than the job may ever stand still.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.errors import ComponentError, ConfigError, ConfigProblem
from edgesocket.rows import Rows
from edgesocket.sinks.file_formats import Encoder, FileFormat

PART_BYTES = 8 << 20
"""Size of a part, at least the 5 MiB that S3 wants of every part but the last. A file has at most 10000 parts."""
MOST_PARTS = 10_000
CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60
ATTEMPTS = 3
"""Tries of one request, before its rows wait for the engine to try again."""
DEFAULT_BATCH_SIZE = 1_000_000
DEFAULT_REGION = "us-east-1"
SIMPLE_PROVIDER = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
INSTANCE_PROVIDER = "com.amazonaws.auth.InstanceProfileCredentialsProvider"

_FOR_GOOD = frozenset(
    (
        "403",
        "404",
        "AccessDenied",
        "AllAccessDisabled",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "NoSuchBucket",
        "SignatureDoesNotMatch",
    )
)
_AWS_REGION = re.compile(r"s3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?$")
_KEY_NAME = re.compile(r"part-(\d+)-\d+-([0-9a-f]{8})[0-9a-f]{8}\.\w+")


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """An upload that only has to be completed. The fields are what a manifest keeps of it.

    Attributes:
        key: of the object.
        upload: id of the multipart upload.
        parts: entity tags of the parts, in order.
        rows: how many rows it holds.
        bytes: its size.
    """

    key: str
    upload: str
    parts: tuple[str, ...]
    rows: int
    bytes: int


class _Upload:
    """One file while rows are added to it: the bytes that wait, and the parts that are there.

    Attributes:
        key: of the object.
        upload: id, "" before the first part.
        parts: entity tags.
        rows, bytes: taken; uploaded.
        waiting: bytes that are not uploaded.
        finished: no rows are added any more.
    """

    def __init__(self, key: str, encoder: Encoder) -> None:
        self.key = key
        self.upload = ""
        self.parts: list[str] = []
        self.rows = 0
        self.bytes = 0
        self.waiting = bytearray()
        self.finished = False
        self._encoder = encoder

    def add(self, rows: Rows) -> None:
        self.waiting += self._encoder.add(rows)
        self.rows += rows.count

    def finish(self) -> None:
        if not self.finished:
            self.waiting += self._encoder.finish()
            self.finished = True

    def uploaded(self) -> UploadedFile:
        return UploadedFile(self.key, self.upload, tuple(self.parts), self.rows, self.bytes)


class S3FileSink:
    """Stages rows in multipart uploads and completes them with their checkpoint.

    Guarantees: exactly once (re-committable); one thread. A `write` first uploads what earlier rows made, which may
    fail and then takes nothing; after that it only adds to memory: at most a part, a row group and a block. `prepare`
    and `commit` may be repeated after a failure.
    """

    commit_role = CommitRole.RECOMMITTABLE

    def __init__(
        self,
        *,
        bucket: str,
        path: str,
        fs_s3a_endpoint: str | None = None,
        fs_s3a_aws_credentials_provider: str = INSTANCE_PROVIDER,
        access_key: str | None = None,
        secret_key: str | None = None,
        file_format_type: str = "csv",
        batch_size: int = DEFAULT_BATCH_SIZE,
        make_client: Callable[[], Any] | None = None,
        **format_options: Any,
    ) -> None:
        """Check the options; nothing is asked of S3 before `open`.

        Args:
            bucket: `s3a://name`, `s3://name`, `s3n://name` or the name alone.
            path: what keys begin with; slashes around it do not count. It belongs to this sink of this job.
            fs_s3a_endpoint: host or URL; None: AWS.
            fs_s3a_aws_credentials_provider: `SIMPLE_PROVIDER` uses access_key and secret_key; anything else leaves
                it to boto3 to find credentials: environment, its files, the instance.
            access_key, secret_key: of S3.
            file_format_type: `csv`, `json`, `text`, `parquet` or `orc`, any letter case.
            batch_size: most rows in one object, at least 1.
            make_client: makes the S3 client, in place of the options.
            format_options: see `file_formats.DEFAULTS`.

        Raises:
            ConfigError: an option is out of range; names all that are.
        """
        self._format = FileFormat.of(file_format_type=file_format_type, **format_options)
        problems = self._format.problems()
        self._bucket = re.sub(r"^s3[an]?://", "", bucket).strip("/")
        if not self._bucket or "/" in self._bucket:
            problems.append(ConfigProblem("bucket", f'"{bucket}" is not a bucket', 'such as "s3a://my-bucket"'))
        if batch_size < 1:
            problems.append(ConfigProblem("batch_size", f"{batch_size} is less than 1"))
        if problems:
            raise ConfigError(problems)
        folder = path.strip("/")
        self._prefix = f"{folder}/" if folder else ""
        self._batch_size = batch_size
        given = fs_s3a_aws_credentials_provider == SIMPLE_PROVIDER
        keys = (access_key, secret_key) if given else (None, None)
        self._make_client = make_client or (lambda: _client(fs_s3a_endpoint, *keys))
        self._client: Any = None
        self._context: SinkContext | None = None
        self._token = ""
        self._sequence = 0
        self._restored: set[int] = set()  # checkpoints that an earlier run may have committed
        self._open: list[_Upload] = []  # only the last takes rows
        self._pending: list[UploadedFile] = []  # prepared, not committed: of the last checkpoint, or aborted

    def open(self, context: SinkContext) -> None:
        """See that the bucket is there, and abort what earlier runs left, unless a prepared manifest names it.

        Raises:
            ComponentError: the bucket cannot be reached, or not with these credentials.
        """
        self._bound = self._format.bind(context)
        self._context = context
        self._restored = set(context.prepared)
        owner = hashlib.sha256(f"{context.job}\0{context.sink_id}".encode()).hexdigest()[:8]
        self._token = owner + secrets.token_hex(4)
        with self._explained("open", ""):
            self._client = self._make_client()
            self._client.head_bucket(Bucket=self._bucket)
        named = {file.upload for manifest in context.prepared.values() for file in _files_of(manifest)}
        with self._explained("abort the uploads that an earlier run left in", ""):
            self._abort_leftovers(context.epoch, owner, named)

    def write(self, rows: Rows) -> None:
        """Upload the parts that are full, then take the rows.

        Raises:
            ComponentError: S3 does not take a part; nothing of the rows is kept.
        """
        for file in self._open:
            self._flush(file)
        start = 0
        while start < rows.count:
            if not self._open or self._open[-1].finished:
                self._open.append(self._new_file())
            file = self._open[-1]
            stop = min(rows.count, start + self._batch_size - file.rows)
            file.add(rows.part(start, stop))
            start = stop
            if file.rows == self._batch_size:
                file.finish()

    def prepare(self, checkpoint: int) -> Manifest:  # noqa: ARG002  keys do not depend on it
        """Upload everything written so far.

        Returns:
            `{"files": [{"key", "upload", "parts", "rows", "bytes"}, ...]}` in row order; empty when there is nothing
            to commit. With what aborted checkpoints left.

        Raises:
            ComponentError: S3 does not take a part; the rows stay for the next `prepare`.
        """
        for file in self._open:
            file.finish()
            self._flush(file)
        self._pending += [file.uploaded() for file in self._open]
        self._open = []
        return {"files": [asdict(file) for file in self._pending]} if self._pending else {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Complete the uploads of the manifest, then say so in a manifest object. May be repeated.

        Raises:
            ComponentError: S3 does not answer, or neither an upload nor its object is there.
        """
        files = _files_of(manifest)
        if not files:
            return
        record = self._record_key(checkpoint, files)
        with self._explained("look for", record):
            is_done = checkpoint in self._restored and self._size(record) is not None
        if not is_done:
            for file in files:
                self._complete(file, record)
            with self._explained("write", record):
                self._client.put_object(Bucket=self._bucket, Key=record, Body=self._record(checkpoint, files))
        published = {file.upload for file in files}
        self._pending = [file for file in self._pending if file.upload not in published]

    def close(self) -> None:
        """Abort what is not prepared; prepared uploads stay for whoever restores them."""
        for file in self._open:
            if file.upload:
                try:
                    self._client.abort_multipart_upload(Bucket=self._bucket, Key=file.key, UploadId=file.upload)
                except (BotoCoreError, ClientError):  # the next `open` aborts it
                    pass
        self._open = []
        if self._client is not None:
            self._client.close()

    # ---- uploads -----------------------------------------------------------------------------------------------------

    def _new_file(self) -> _Upload:
        assert self._context is not None
        name = f"part-{self._context.epoch:06d}-{self._sequence:010d}-{self._token}{self._format.extension}"
        self._sequence += 1
        return _Upload(self._prefix + name, self._bound.encoder())

    def _flush(self, file: _Upload) -> None:
        """Upload whole parts, and the rest of a finished file. What fails is tried again under the same number."""
        while len(file.waiting) >= PART_BYTES or (file.finished and file.waiting):
            with self._explained("upload", file.key):
                if not file.upload:
                    begun = self._client.create_multipart_upload(Bucket=self._bucket, Key=file.key)
                    file.upload = begun["UploadId"]
                part = bytes(memoryview(file.waiting)[:PART_BYTES])
                answer = self._client.upload_part(
                    Bucket=self._bucket,
                    Key=file.key,
                    UploadId=file.upload,
                    PartNumber=len(file.parts) + 1,
                    Body=part,
                )
            file.parts.append(answer["ETag"])
            file.bytes += len(part)
            del file.waiting[: len(part)]
            if len(file.parts) == MOST_PARTS - 1 and not file.finished:
                file.finish()

    def _complete(self, file: UploadedFile, record: str) -> None:
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(file.parts, 1)]
        with self._explained("publish", file.key):
            try:
                self._client.complete_multipart_upload(
                    Bucket=self._bucket, Key=file.key, UploadId=file.upload, MultipartUpload={"Parts": parts}
                )
            except ClientError as error:
                if _code(error) != "NoSuchUpload":
                    raise
                self._check_published(file, record)

    def _check_published(self, file: UploadedFile, record: str) -> None:
        """The upload is gone: because it was completed, or because somebody aborted it."""
        size = self._size(file.key)
        if size == file.bytes:
            return
        if size is not None:
            raise ComponentError(f"{self._place(file.key)} has {size} bytes, not the {file.bytes} that were uploaded")
        if self._size(record) is None:
            raise ComponentError(
                f"prepared rows are missing: neither the upload of {self._place(file.key)} nor the object is there "
                f"({file.rows} rows, {file.bytes} bytes). Was the upload aborted, by a rule of the bucket perhaps?"
            )

    def _size(self, key: str) -> int | None:
        try:
            return int(self._client.head_object(Bucket=self._bucket, Key=key)["ContentLength"])
        except ClientError as error:
            if _code(error) in ("404", "NoSuchKey", "NotFound"):
                return None
            raise

    def _abort_leftovers(self, epoch: int, owner: str, named: set[str]) -> None:
        pages = self._client.get_paginator("list_multipart_uploads")
        for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}part-"):
            for upload in page.get("Uploads", ()):
                name = _KEY_NAME.fullmatch(upload["Key"].removeprefix(self._prefix))
                if name is None or name[2] != owner or int(name[1]) > epoch or upload["UploadId"] in named:
                    continue
                try:
                    self._client.abort_multipart_upload(
                        Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                    )
                except ClientError as error:
                    if _code(error) != "NoSuchUpload":
                        raise

    # ---- the manifest object -----------------------------------------------------------------------------------------

    def _record_key(self, checkpoint: int, files: list[UploadedFile]) -> str:
        """The same for every repetition: of the run that prepared the last file."""
        _, epoch, _, token = files[-1].key.removeprefix(self._prefix).split("-")
        return f"{self._prefix}_manifests/{epoch}-{checkpoint:010d}-{token.partition('.')[0]}.json"

    def _record(self, checkpoint: int, files: list[UploadedFile]) -> bytes:
        assert self._context is not None
        content = {
            "job": self._context.job,
            "sink": self._context.sink_id,
            "checkpoint": checkpoint,
            "rows": sum(file.rows for file in files),
            "bytes": sum(file.bytes for file in files),
            "files": [{"key": file.key, "rows": file.rows, "bytes": file.bytes} for file in files],
        }
        return json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"

    # ---- errors ------------------------------------------------------------------------------------------------------

    def _place(self, key: str) -> str:
        return f"s3://{self._bucket}/{key}"

    @contextmanager
    def _explained(self, attempt: str, key: str) -> Iterator[None]:
        """Turn what boto3 raises into a ComponentError that names the attempt, the object and the cause."""
        what = f"cannot {attempt} {self._place(key)}"
        try:
            yield
        except (NoCredentialsError, PartialCredentialsError) as error:
            message = f"{what}: {error}. Set access_key and secret_key with {SIMPLE_PROVIDER}, or give the host a role"
            raise ComponentError(message, retryable=False) from error
        except ClientError as error:
            code = _code(error)
            reason = error.response.get("Error", {}).get("Message", "")
            message = f"{what}: {reason} ({code})"
            if code == "NoSuchUpload":
                raise ComponentError(message, reopen=True) from error
            raise ComponentError(f"{message}{_hint(code)}", retryable=code not in _FOR_GOOD) from error
        except (BotoCoreError, OSError) as error:
            raise ComponentError(f"{what}: {error}") from error


def _hint(code: str) -> str:
    if code in ("404", "NoSuchBucket"):
        return ": there is no such bucket; this sink does not make one"
    return ": check the keys and what they may do" if code in _FOR_GOOD else ""


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _files_of(manifest: Manifest) -> list[UploadedFile]:
    return [UploadedFile(**{**entry, "parts": tuple(entry["parts"])}) for entry in manifest.get("files", ())]


def _client(endpoint: str | None, access_key: str | None, secret_key: str | None) -> Any:
    """An S3 client. A host that is not AWS is asked for `/bucket/key`, since it may not know `bucket.host`."""
    url, region, style = None, DEFAULT_REGION, "auto"
    if endpoint:
        url = endpoint if "://" in endpoint else f"https://{endpoint}"
        host = url.partition("://")[2].rstrip("/")
        found = _AWS_REGION.search(host)
        region = found[1] if found else DEFAULT_REGION
        style = "auto" if "amazonaws.com" in host else "path"
    config = Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "max_attempts": ATTEMPTS},
        s3={"addressing_style": style},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    session = boto3.session.Session(aws_access_key_id=access_key, aws_secret_access_key=secret_key)
    return session.client("s3", endpoint_url=url, region_name=region, config=config)
