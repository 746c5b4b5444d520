"""Where states lie by SeaTunnel's `checkpoint.storage`: local files, or a bucket of an S3-compatible service.

    storage:
      type: hdfs                        # SeaTunnel's one driver for file systems; `type: s3` is taken too
      plugin-config:
        storage.type: s3
        s3.bucket: s3a://states
        namespace: /edge/
        fs.s3a.endpoint: http://minio:9000
        fs.s3a.access.key: ...          # without keys: the environment, or the role of the machine
        fs.s3a.secret.key: ...

Every other kind of storage is refused by its name.
"""

from __future__ import annotations

import re

from edgesocket.config.nodes import Report, Scalar
from edgesocket.config.s3_settings import S3Settings

STORAGE = "seatunnel.engine.checkpoint.storage"
PLUGIN_CONFIG = f"{STORAGE}.plugin-config"

DEFAULT_NAMESPACE = "/seatunnel/checkpoint"
"""Where SeaTunnel keeps checkpoints unless it is told otherwise."""

_TYPE = f"{STORAGE}.type"
_FILE_SYSTEM_KEYS = (
    f"{PLUGIN_CONFIG}.storage.type",
    f"{PLUGIN_CONFIG}.fs.defaultFS",
    f"{PLUGIN_CONFIG}.fs.default.name",
)
_BUCKET = f"{PLUGIN_CONFIG}.s3.bucket"
_NAMESPACE = f"{PLUGIN_CONFIG}.namespace"
_S3A = f"{PLUGIN_CONFIG}.fs.s3a."
_S3A_KEYS = (
    "endpoint",
    "endpoint.region",
    "access.key",
    "secret.key",
    "path.style.access",
    "connection.ssl.enabled",
    "aws.credentials.provider",
)
_KNOWN = frozenset({_TYPE, _BUCKET, _NAMESPACE, *_FILE_SYSTEM_KEYS, *(_S3A + key for key in _S3A_KEYS)})
_S3_SCHEME = re.compile(r"s3[an]?://", re.IGNORECASE)
_AWS_HOST = re.compile(r"(?:https?://)?s3(?:[.-]([a-z]{2}(?:-[a-z]+)+-\d))?\.amazonaws\.com(?:\.cn)?/?", re.IGNORECASE)
_FIX = (
    "type = localfile with plugin-config.namespace, a directory on this host (or shared by the hosts that may run it); "
    "or storage.type = s3 with s3.bucket"
)


def is_storage_key(key: str) -> bool:
    """Whether a setting says something here."""
    return key in _KNOWN


def read_storage(settings: dict[str, Scalar], report: Report) -> tuple[str, S3Settings]:
    """Where states lie, and how a bucket is reached.

    Args:
        settings: every value of the file by its path.
        report: takes the problems.

    Returns:
        A directory, `s3://bucket/prefix`, or an empty text where the file names nothing.
    """
    if _is_s3(settings):
        return _s3_root(settings, report), _s3_settings(settings, report)
    return _local_root(settings, report), S3Settings()


def _is_s3(settings: dict[str, Scalar]) -> bool:
    named = {settings[key].text.strip().lower() for key in (_TYPE, *_FILE_SYSTEM_KEYS) if key in settings}
    return "s3" in named or any(_S3_SCHEME.match(text) for text in named)


def _s3_root(settings: dict[str, Scalar], report: Report) -> str:
    namespace = settings.get(_NAMESPACE)
    path = DEFAULT_NAMESPACE if namespace is None else namespace.text.strip()
    if _S3_SCHEME.match(path):
        return "s3://" + _S3_SCHEME.sub("", path).rstrip("/")
    for key in (_BUCKET, *_FILE_SYSTEM_KEYS[1:]):
        if key in settings:
            bucket = _S3_SCHEME.sub("", settings[key].text.strip()).strip("/")
            if bucket:
                return f"s3://{bucket}/{path.strip('/')}".rstrip("/")
    where = next(settings[key] for key in (_TYPE, *_FILE_SYSTEM_KEYS) if key in settings)
    report.problem(
        where.location, _BUCKET, "states are to lie in S3, and no bucket is named", "s3.bucket: s3a://states"
    )
    return ""


def _s3_settings(settings: dict[str, Scalar], report: Report) -> S3Settings:
    def text(key: str) -> str:
        scalar = settings.get(_S3A + key)
        return "" if scalar is None else scalar.text.strip()

    access, secret = text("access.key"), text("secret.key")
    if bool(access) != bool(secret):
        given, missing = ("access", "secret") if access else ("secret", "access")
        report.problem(
            settings[f"{_S3A}{given}.key"].location,
            f"{_S3A}{missing}.key",
            f"the {given} key is there, and the {missing} key is not",
            "give both, or none: then they come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a role",
        )
    endpoint, region = text("endpoint"), text("endpoint.region")
    aws = _AWS_HOST.fullmatch(endpoint)
    if aws is not None:
        endpoint, region = "", region or (aws[1] or "")
    elif endpoint and "://" not in endpoint:
        endpoint = ("http://" if text("connection.ssl.enabled").lower() == "false" else "https://") + endpoint
    style = text("path.style.access").lower()
    return S3Settings(endpoint, region, access, secret, None if style not in ("true", "false") else style == "true")


def _local_root(settings: dict[str, Scalar], report: Report) -> str:
    """The namespace of a checkpoint storage on local files."""
    kind = settings.get(_TYPE)
    for key in (_TYPE, *_FILE_SYSTEM_KEYS):
        scalar = settings.get(key)
        if scalar is None:
            continue
        text = scalar.text.strip().lower()
        local = text in ("localfile", "local", "file") or text.startswith("file:")
        # "hdfs" is also what SeaTunnel calls its one driver for file systems; fs.defaultFS then says which it is.
        if not local and not (text == "hdfs" and _is_local_file_system(settings)):
            message = f"checkpoints cannot be kept in {text.partition(':')[0]}: states lie in local files or in S3"
            report.problem(scalar.location, key, message, _FIX)
    namespace = settings.get(_NAMESPACE)
    if namespace is None or (kind is None and report.problems):
        return ""
    path = namespace.text.removeprefix("file://")
    if not path.startswith("/"):
        message = f"{namespace.text} is not an absolute path of a local directory"
        report.problem(namespace.location, _NAMESPACE, message, "namespace: /var/lib/edgesocket")
    return path


def _is_local_file_system(settings: dict[str, Scalar]) -> bool:
    return any(settings[key].text.startswith("file:") for key in _FILE_SYSTEM_KEYS if key in settings)
