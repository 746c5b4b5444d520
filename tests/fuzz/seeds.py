"""Where fuzzing starts: a few inputs of the right shape for each target."""

from __future__ import annotations

import zlib
from base64 import b64encode

from edgesocket.checkpoint.arrival_log import BurstEncoder, Change, EventKind, encode_header
from edgesocket.checkpoint.blob import encode_blob
from edgesocket.checkpoint.entries import Ended, encode_entry
from edgesocket.collector.spool.frames import Place, cut_pieces, encode_append, encode_head, encode_seal
from edgesocket.collector.spool.marks import encode_marks
from edgesocket.collector.spool.survey import HeadInfo
from edgesocket.compression import Compression
from edgesocket.packet.codec import PacketEncoder
from edgesocket.packet.compression import deflate
from tests.fuzz.targets import KEY

_BATCHES = b"".join(b"__BATCH__:%d:payload %d\n" % (n, n) for n in range(8, 12))
_JSON = (
    b'{"c0":1,"c1":0.5,"c2":"x","c3":true,"c4":"2024-02-29T23:59:59.5","c5":"2024-02-29","c6":-1,"c7":1e3}\n'
    b'{"c0":"1.500","c1":"2024-02-29T00:00:00+01:00","c2":"aGk=","c3":"22:45","c4":{"a":1},"c5":[1.5,null],"c6":{"1":null}}'
)


def _segment() -> bytes:
    burst = BurstEncoder(1)
    changes = [Change(EventKind.ACCEPTED, 1, 4), Change(EventKind.HELD, 5, 5)]
    return encode_header(1, 1) + burst.burst(changes)


def _spool() -> bytes:
    salt = 7
    data = encode_head(salt, encode_marks({"file": "12"}), HeadInfo(77, "group").to_bytes())
    data += b"".join(
        encode_append(cut_pieces([b"one", b"two"]), encode_marks({"file": "20"}), Place(salt, len(data), 0, 0))
    )
    data += encode_seal(Place(salt, len(data), 2, len(data)), 2)
    return salt.to_bytes(4, "little") + data


def seeds() -> dict[str, list[bytes]]:
    """By the name of the target."""
    return {
        "lines": [
            b"\x01\xff" + _BATCHES,
            b"\x01\x00__COMMIT__:7\r\n__BATCH__:007:x\n__BATCH__:x:\n\n",
            b"\x01\xff__BATCH__:1:\xff\n",
        ],
        "conversation": [b"\x03" + _BATCHES + b"__COMMIT__:11\n", b"\x02__AUTH__:t\n" + _BATCHES, b"\x05__AUTH__:no\n"],
        "command": [b"__BATCH__:1:x", b"__COMMIT__:9223372036854775807", b"__AUTH__:t", b"__BATCH__:1:a:b\r"],
        "replies": [
            b"\x03ACK\nRECEIVED\nQUEUE_FULL:500\nRETRY\nACK:2\n",
            b"\x01ACK\nRECEIVED\nRECEIVED\nDECODE_FAILED\nPENDING\n",
            b"\x01AUTH_FAILED\n",
        ],
        "packet": [
            PacketEncoder(Compression.GZIP).seal(b"a record"),
            PacketEncoder(Compression.DEFLATE, KEY, lambda n: bytes(n)).seal(b"another"),
            b'{"version": 1, "compression": "zlib", "payload": "%s"}' % b64encode(zlib.compress(b"x" * 100)),
        ],
        "inflating": [
            bytes([n]) + deflate(b"abcabcabc" * 20, one)
            for n, one in enumerate(Compression)
            if one is not Compression.NONE
        ],
        "hocon": [
            b"env { job.mode = STREAMING, a = ${A} }\nsource { EdgeSocket { port = 1 } } # c\nsink = [{ x += 1 }]",
            b'a : """x""", "b.c" = [1, 2, 10 s]\ninclude "other"\nd = ${?A} ${a}',
        ],
        "job": [
            b'secret_key = ${A}\nschema { fields { a = int, b = "decimal(3,1)" } }',
            b"env { parallelism = 1 }\nsource { EdgeSocket { port = 1, token = t } }\nsink { Null {} }",
        ],
        "schema": [_JSON, b'{"c2":"\\u00e9","c0":7.0,"x":[{}]}\n[]\n{}'],
        "log_entry": [encode_entry(Ended(3, 1700000000000, True, "", 0), 7, "")],
        "blob": [encode_blob({"n": 1, "epoch": 1}, [b"some", b"bytes"])],
        "arrivals": [_segment()],
        "spool_segment": [_spool()],
        "spool_marks": [encode_marks({"a": "1", "b": ""})],
        "syslog": [
            b'\x03<34>1 2024-02-29T23:59:59Z host app 1 ID [a@1 b="c"] hello\n<13>Feb  5 17:32:18 host su: x\n',
            b"\x0517 <34>1 - - - - - -5 <1>x\n",
        ],
        "http": [
            b"\x03POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n",
            b"\x04POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ],
    }
