"""How an S3-compatible store is reached, where the environment does not say it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class S3Settings:
    """What is empty comes from the environment (AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, ...).

    Attributes:
        endpoint: URL of the service; empty: AWS.
        region: such as `eu-central-1`.
        access_key, secret_key: both or none; never shown.
        path_style: whether the bucket is part of the path and not of the host's name; None: yes with an endpoint.
    """

    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    path_style: bool | None = None
