"""The options of the S3File sink."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from edgesocket.config.convert import Refused
from edgesocket.config.nodes import Report
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions
from edgesocket.config.plugins.common import COMMON
from edgesocket.config.plugins.files import FILE_FORMAT, FileFormatOptions, check_files, check_path

SIMPLE_PROVIDER = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
INSTANCE_PROVIDER = "com.amazonaws.auth.InstanceProfileCredentialsProvider"
_BUCKET = re.compile(r"(?:s3[an]?://)?[a-z0-9][a-z0-9._-]+/?")


def _check_bucket(bucket: str) -> str:
    if not _BUCKET.fullmatch(bucket):
        raise Refused("this is no bucket", "write the bucket alone, such as s3a://my-bucket")
    return bucket


def _check_endpoint(endpoint: str) -> str:
    if not re.fullmatch(r"(?:https?://)?[^\s/@?#]+/?", endpoint):
        raise Refused("this is no endpoint", "write a host, or http:// or https:// and a host")
    return endpoint


S3_FILE = OptionTable(
    Option(
        name="bucket",
        kind=Kind.TEXT,
        required=True,
        check=_check_bucket,
        example='"s3a://my-bucket"',
        description="The bucket; it must be there.",
    ),
    Option(
        name="path",
        kind=Kind.TEXT,
        required=True,
        check=check_path,
        example='"/edge/out"',
        description="What the keys of the objects begin with. It belongs to this sink of this job.",
    ),
    Option(
        name="fs.s3a.endpoint",
        kind=Kind.TEXT,
        default_text="AWS",
        check=_check_endpoint,
        example='"s3.eu-central-1.amazonaws.com"',
        description="Host or URL of the service; https unless it says http://.",
    ),
    Option(
        name="fs.s3a.aws.credentials.provider",
        kind=Kind.CHOICE,
        default=INSTANCE_PROVIDER,
        choices=(INSTANCE_PROVIDER, SIMPLE_PROVIDER),
        example=f'"{SIMPLE_PROVIDER}"',
        description="Simple: access_key and secret_key. InstanceProfile: environment, AWS files or instance role.",
    ),
    Option(
        name="access_key",
        kind=Kind.TEXT,
        example='"${S3_ACCESS_KEY}"',
        secret=True,
        description="Of S3; with SimpleAWSCredentialsProvider.",
    ),
    Option(
        name="secret_key",
        kind=Kind.TEXT,
        example='"${S3_SECRET_KEY}"',
        aliases=("access_secret",),
        secret=True,
        description="Of S3; with SimpleAWSCredentialsProvider.",
    ),
    *FILE_FORMAT,
    *COMMON,
    ignored={
        "hadoop_s3_properties.": "there is no Hadoop here",
        "tmp_path": "rows are staged in uploads that are not complete, which nobody sees",
    },
)


def check_s3_file(options: ParsedOptions, path: str, report: Report) -> None:
    """Report keys that are missing or not used, and what `check_files` finds."""
    check_files(options, path, report)
    if not options.has("fs_s3a_aws_credentials_provider", "access_key", "secret_key"):
        return
    simple = options.values["fs_s3a_aws_credentials_provider"] == SIMPLE_PROVIDER
    for key in ("access_key", "secret_key"):
        place = options.place(key)
        if simple and not options.values[key]:
            message = "is required with SimpleAWSCredentialsProvider, and missing"
            report.problem(place, f"{path}.{key}", message, f'{key} = "${{S3_{key.upper()}}}"')
        elif options.values[key] and not simple:
            provider = "fs.s3a.aws.credentials.provider"
            report.problem(
                place,
                f"{path}.{key}",
                "is only used with SimpleAWSCredentialsProvider",
                f'{provider} = "{SIMPLE_PROVIDER}"',
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class S3FileOptions(FileFormatOptions):
    """What the S3File sink is made with, checked. `fs_s3a_endpoint`: None is AWS."""

    bucket: str
    path: str
    fs_s3a_endpoint: str | None
    fs_s3a_aws_credentials_provider: str
    access_key: str | None = field(repr=False)
    secret_key: str | None = field(repr=False)
