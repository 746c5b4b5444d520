"""The forms of a request line and of a batch id."""

from __future__ import annotations

import time

import pytest

from edgesocket.errors import LocalProtocolError
from edgesocket.protocol.commands import (
    Batch,
    Commit,
    Invalid,
    encode_auth,
    encode_batch,
    encode_commit,
    parse_batch_id,
    parse_line,
)
from edgesocket.protocol.exact import split_lines
from edgesocket.protocol.replies import BAD_REQUEST, INVALID_PARAM

GOOD_IDS = {
    b"1": 1,
    b"007": 7,
    b"0" * 40 + b"7": 7,
    b"9223372036854775806": 9223372036854775806,
    b"9223372036854775807": 9223372036854775807,
    b"0009223372036854775807": 9223372036854775807,
}

BAD_IDS = [
    b"0",
    b"000",
    b"0" * 40,
    b"-1",
    b"-0",
    b"+1",
    b" 1",
    b"1 ",
    b"1\t",
    b"1_000",
    "\u0661\u0662".encode(),
    "\uff11".encode(),
    "\u00b2".encode(),
    b"1.0",
    b"1e3",
    b"0x10",
    b"abc",
    b"",
    b"1\0",
    b"1\r",
    b"9223372036854775808",
    b"9999999999999999999",
    b"99999999999999999999",
    b"9" * 5000,
]


@pytest.mark.parametrize(("digits", "value"), GOOD_IDS.items())
def test_good_ids(digits: bytes, value: int) -> None:
    assert parse_batch_id(digits) == value
    assert parse_line(b"__BATCH__:" + digits + b":p") == Batch(value, b"p")
    assert parse_line(b"__COMMIT__:" + digits) == Commit(value)


@pytest.mark.parametrize("digits", BAD_IDS)
def test_bad_ids_are_invalid_param(digits: bytes) -> None:
    assert parse_batch_id(digits) is None
    assert parse_line(b"__BATCH__:" + digits + b":p") == Invalid(INVALID_PARAM)
    assert parse_line(b"__COMMIT__:" + digits) == Invalid(INVALID_PARAM)


def test_an_id_of_megabytes_is_answered_at_once() -> None:
    """`int` would need minutes for this one, or raise above 4,300 digits."""
    began = time.monotonic()

    assert parse_line(b"__COMMIT__:" + b"9" * 4_000_000) == Invalid(INVALID_PARAM)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"__BATCH__", Invalid(BAD_REQUEST)),
        (b"__BATCH__:", Invalid(BAD_REQUEST)),
        (b"__BATCH__:5", Invalid(BAD_REQUEST)),
        (b"__BATCH__:x", Invalid(BAD_REQUEST)),
        (b"__BATCH__:5:", Batch(5, b"")),
        (b"__BATCH__:5:a:b::", Batch(5, b"a:b::")),
        (b"__BATCH__::p", Invalid(INVALID_PARAM)),
        (b"__BATCH__::", Invalid(INVALID_PARAM)),
        (b"__batch__:5:p", Invalid(BAD_REQUEST)),
        (b" __BATCH__:5:p", Invalid(BAD_REQUEST)),
        (b"__BATCH__ :5:p", Invalid(BAD_REQUEST)),
        (b"__BATCH__5:p:", Invalid(BAD_REQUEST)),
        (b"__COMMIT__", Invalid(BAD_REQUEST)),
        (b"__COMMIT__:", Invalid(INVALID_PARAM)),
        (b"__COMMIT__:5", Commit(5)),
        (b"__COMMIT__:5:", Invalid(INVALID_PARAM)),
        (b"__COMMIT__:5:x", Invalid(INVALID_PARAM)),
        (b"__COMMIT__x:5", Invalid(BAD_REQUEST)),
        (b"__PING__", Invalid(BAD_REQUEST)),
        (b"", Invalid(BAD_REQUEST)),
        (b":", Invalid(BAD_REQUEST)),
        (b"::", Invalid(BAD_REQUEST)),
        (b"__AUTH__:my-edge-token", Invalid(BAD_REQUEST)),
        (b"\xff\xfe", Invalid(BAD_REQUEST)),
    ],
)
def test_shapes(line: bytes, expected: object) -> None:
    """A missing second colon comes before a bad id; an empty payload is a payload."""
    assert parse_line(line) == expected


@pytest.mark.parametrize("payload", [b"", b"x", b"a:b", b"\r", b"x\r", b"\r\r", b"\0\v\xff", "\u2028".encode()])
def test_an_encoded_batch_is_read_back_byte_for_byte(payload: bytes) -> None:
    """Also when the payload ends with CR, which the line end would otherwise swallow."""
    assert [parse_line(line) for line in split_lines(encode_batch(9, payload))] == [Batch(9, payload)]


def test_encoded_forms() -> None:
    assert encode_batch(5, b"p") == b"__BATCH__:5:p\n"
    assert encode_commit(2**63 - 1) == b"__COMMIT__:9223372036854775807\n"
    assert encode_auth(b"my-edge-token") == b"__AUTH__:my-edge-token\n"
    assert encode_auth(b"odd\r") == b"__AUTH__:odd\r\r\n"


@pytest.mark.parametrize("batch_id", [0, -1, 2**63])
def test_ids_out_of_range_are_not_sent(batch_id: int) -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch(batch_id, b"p")
    with pytest.raises(LocalProtocolError):
        encode_commit(batch_id)


def test_line_feeds_are_not_sent() -> None:
    with pytest.raises(LocalProtocolError):
        encode_batch(1, b"a\nb")
    with pytest.raises(LocalProtocolError, match="token") as caught:
        encode_auth(b"hunter2\n")
    assert "hunter2" not in str(caught.value)
