"""The event envelope: a record as a JSON object that says where it comes from.

::

    {"message":"...","input":"app","host":"pump-7","time":"2026-11-30T08:00:00.123Z","file":"/var/log/a.log","offset":42}

`time` is when the agent read the record. Bytes that are not UTF-8 become U+FFFD, as JSON is text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from json.encoder import encode_basestring


class Envelope:
    """Wraps the records of one input."""

    def __init__(self, input_name: str, host: str, wall: Callable[[], float] = time.time) -> None:
        """Args: name of the input, name of this host, and the time of day in seconds."""
        self._input_name = input_name
        self._host = host
        self._wall = wall

    def fields(self, **more: object) -> dict[str, object]:
        """What every envelope of this moment holds. `more`: what the input knows; None is left out."""
        now = datetime.fromtimestamp(self._wall(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        known = {key: value for key, value in more.items() if value is not None}
        return {"input": self._input_name, "host": self._host, "time": now, **known}

    def wrap(self, records: Sequence[bytes], **more: object) -> list[bytes]:
        """Records that were read now, wrapped. `more`: as in `fields`, the same for all."""
        rest = json.dumps(self.fields(**more), ensure_ascii=False, separators=(",", ":"))[1:].encode()
        return [b'{"message":%b,%b' % (_quoted(record), rest) for record in records]

    def wrap_file(self, records: Sequence[bytes], path: str, offsets: Sequence[int]) -> list[bytes]:
        """Records of a file, wrapped. `offsets`: where each begins in it, in bytes."""
        rest = json.dumps(self.fields(file=path), ensure_ascii=False, separators=(",", ":"))[1:-1]
        encoded = rest.encode("utf-8", "replace")
        return [
            b'{"message":%b,%b,"offset":%d}' % (_quoted(record), encoded, offset)
            for record, offset in zip(records, offsets, strict=True)
        ]


def _quoted(record: bytes) -> bytes:
    return encode_basestring(record.decode("utf-8", "replace")).encode("utf-8", "replace")
