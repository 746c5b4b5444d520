"""Dead letters as lines of JSON. Pure.

::

    {"id":17,"time_us":1764491234567890,"reason":"DECODE_FAILED","payload":"..."}
    {"id":18,"time_us":1764491234567891,"reason":"DECODE_FAILED","payload_base64":"..."}

`payload` where the bytes are UTF-8, `payload_base64` where they are not. A line that was not written to its end is no
JSON object and is skipped.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass

_START = b'{"id":'
_MAX_ID_DIGITS = 19


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A batch that was refused for good.

    Attributes:
        batch_id: its id, which is spent.
        time_us: when it was refused, Unix time in microseconds.
        reason: what it was refused with.
        payload: its bytes.
    """

    batch_id: int
    time_us: int
    reason: str
    payload: bytes

    def to_line(self) -> bytes:
        """As one line, with its line feed."""
        letter: dict[str, object] = {"id": self.batch_id, "time_us": self.time_us, "reason": self.reason}
        try:
            letter["payload"] = self.payload.decode("utf-8")
        except UnicodeDecodeError:
            letter["payload_base64"] = b64encode(self.payload).decode("ascii")
        return json.dumps(letter, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n"


def parse_letter(line: bytes) -> DeadLetter | None:
    """A dead letter from its line, with or without the line feed; None where it is none."""
    try:
        found = json.loads(line)
        if "payload" in found:
            payload = found["payload"].encode("utf-8")
        else:
            payload = b64decode(found["payload_base64"], validate=True)
        batch_id, time_us, reason = found["id"], found["time_us"], found["reason"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not (isinstance(batch_id, int) and isinstance(time_us, int) and isinstance(reason, str)):
        return None
    return DeadLetter(batch_id, time_us, reason, payload)


def id_of_line(line: bytes) -> int | None:
    """The id in a whole line that `to_line` made, without reading the rest; None for any other line."""
    if not (line.startswith(_START) and line.endswith(b"}\n")):
        return None
    digits = line[len(_START) : line.find(b",")]
    return int(digits) if digits.isdigit() and len(digits) <= _MAX_ID_DIGITS else None
