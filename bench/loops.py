"""Bare loops: what a job's work costs in the plainest program that makes the same library calls.

`python -m bench.loops json|packet|parquet|postgresql --seconds S ...` runs one for so long and prints
`{"records": N, "seconds": S}`. A loop has its input in memory, keeps nothing, checks nothing, answers nobody, and can
lose everything.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

KEY = bytes(range(32))
BLOCK = 8192
"""Records handed to a library at once: about what a job hands to its sink."""


def _texts(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def packet(options: argparse.Namespace, going: Callable[[], bool]) -> int:
    """JSON, base64, AES-GCM, gunzip: a packet at a time."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher = AESGCM(KEY)
    lines = [text.encode() for text in _texts(options.payloads)]
    records = 0
    while going():
        for line in lines:
            envelope = json.loads(line)
            sealed = base64.b64decode(envelope["payload"])
            gzip.decompress(cipher.decrypt(base64.b64decode(envelope["iv"]), sealed, None))
        records += len(lines)
    return records


def json_lines(options: argparse.Namespace, going: Callable[[], bool]) -> int:
    """msgspec's decoder on lines that lie together, into objects that are thrown away."""
    import msgspec

    row = msgspec.defstruct("Row", [("user_id", int), ("event", str), ("ts", int)], gc=False)
    decoder = msgspec.json.Decoder(row)
    texts = _texts(options.payloads)
    block = "\n".join(texts[n % len(texts)] for n in range(BLOCK)).encode()
    records = 0
    while going():
        records += len(decoder.decode_lines(block))
    return records


def parquet(options: argparse.Namespace, going: Callable[[], bool]) -> int:
    """Arrow batches of one text column into a Parquet file, a new file each second."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    texts = _texts(options.payloads)
    block = [texts[n % len(texts)] for n in range(BLOCK)]
    batch = pa.record_batch([pa.array(block, pa.string())], names=["value"])
    records, number = 0, 0
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        while going():
            number += 1
            with pq.ParquetWriter(Path(directory) / f"{number}.parquet", batch.schema) as writer:
                until = time.monotonic() + 1.0
                while going() and time.monotonic() < until:
                    writer.write_batch(batch)
                    records += BLOCK
    return records


def postgresql(options: argparse.Namespace, going: Callable[[], bool]) -> int:
    """COPY of one text column, a transaction each second."""
    import psycopg

    texts = _texts(options.payloads)
    records = 0
    with psycopg.connect(options.database) as connection, connection.cursor() as cursor:
        cursor.execute("create table if not exists bench_loop (value text)")
        connection.commit()
        while going():
            until = time.monotonic() + 1.0
            with cursor.copy("copy bench_loop (value) from stdin") as copy:
                while going() and time.monotonic() < until:
                    for n in range(BLOCK):
                        copy.write_row((texts[n % len(texts)],))
                    records += BLOCK
            connection.commit()
        cursor.execute("truncate bench_loop")
        connection.commit()
    return records


LOOPS = {"json": json_lines, "packet": packet, "parquet": parquet, "postgresql": postgresql}


def main() -> None:
    """Run one loop and print what it did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loop", choices=LOOPS)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--payloads", type=Path, required=True, help="the payloads, one a line")
    parser.add_argument("--dir", type=Path, help="where files go")
    parser.add_argument("--database", default="", help="where rows go, as psycopg takes it")
    options = parser.parse_args()
    began = time.monotonic()
    until = began + options.seconds
    records = LOOPS[options.loop](options, lambda: time.monotonic() < until)
    print(json.dumps({"records": records, "seconds": time.monotonic() - began}))


def sealed_packet(record: bytes, iv: bytes) -> bytes:
    """A PACKET line's payload: gzip, then AES-256-GCM with `KEY`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed = AESGCM(KEY).encrypt(iv, gzip.compress(record, mtime=0), None)
    envelope = {
        "version": 1,
        "payload": base64.b64encode(sealed).decode(),
        "compression": "GZIP",
        "encryption": "AES_GCM",
        "iv": base64.b64encode(iv).decode(),
    }
    return json.dumps(envelope, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
