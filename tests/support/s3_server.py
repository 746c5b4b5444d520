"""An S3 server in this process, and a client whose requests can be made to fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

KEYS = {"aws_access_key_id": "test-access", "aws_secret_access_key": "test-secret"}


@contextmanager
def s3_server() -> Iterator[str]:
    """URL of a server with no bucket."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@cache
def _session() -> Any:
    """One for all clients: it keeps what it read of the service's description."""
    return boto3.session.Session(**KEYS)


class Network:
    """Between a client and the server: counts requests, and makes some fail.

    Attributes:
        count: requests sent, whatever became of them.
        fails: asked with the name of the operation and the count; True: the request does not arrive.
        loses: the same; True: the request arrives, its answer does not.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.count = 0
        self.fails: Callable[[str, int], bool] = lambda operation, count: False
        self.loses: Callable[[str, int], bool] = lambda operation, count: False

    def client(self) -> Any:
        """A client that tries once."""
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            s3={"addressing_style": "path"},
            connect_timeout=5,
            read_timeout=30,
        )
        client = _session().client("s3", endpoint_url=self.url, region_name="us-east-1", config=config)
        client.meta.events.register("before-send.s3", self._before)
        client.meta.events.register("after-call.s3", self._after)
        return client

    def _before(self, event_name: str, **_: Any) -> None:
        self.count += 1
        if self.fails(event_name.rpartition(".")[2], self.count):
            raise ConnectionResetError(104, "Connection reset by peer")

    def _after(self, event_name: str, **_: Any) -> None:
        if self.loses(event_name.rpartition(".")[2], self.count):
            raise ConnectionResetError(104, "Connection reset by peer")
