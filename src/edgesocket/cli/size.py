"""`edgesocket size [JOB] --sample FILE ...`: which queue capacity fits real payloads, and what a checkpoint costs.

Each line of a sample is one payload, or a request line as a collector sends it (`__BATCH__:<id>:<payload>`). A job
file is read for its settings only; nothing is run, and the state of the job is not looked at.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from edgesocket.cli.job_files import read_job
from edgesocket.cli.output import Progress
from edgesocket.collector.inputs import LineInput
from edgesocket.compression import Compression
from edgesocket.config.units import parse_duration
from edgesocket.errors import EdgeSocketError, ExitCode, PacketError, UsageError
from edgesocket.ingress.sizing import (
    PEAK_FACTOR,
    STATE_LIMIT_BYTES,
    NoSamplesError,
    PayloadSizes,
    Settings,
    Sizing,
    size_job,
)
from edgesocket.packet.compression import deflate
from edgesocket.packet.envelope import Encryption, parse_envelope
from edgesocket.protocol.commands import parse_line
from edgesocket.protocol.grammar import BATCH_PREFIX, DEFAULT_MAX_LINE_BYTES

READ_BYTES = 256 * 1024
TELL_EVERY = 10_000
_TAG_BYTES = 16
_COMPRESSIONS = {one.name.lower(): one for one in Compression if one is not Compression.NONE}


class NoSampleError(EdgeSocketError):
    """The samples hold no payload that could be measured."""

    exit_code = ExitCode.BAD_DATA


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "size",
        help="which queue capacity fits real payloads",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", type=Path, nargs="?", metavar="JOB", help="the job file, for its settings")
    parser.add_argument(
        "--sample",
        nargs="+",
        required=True,
        metavar="FILE",
        help="files of payloads, one a line; - is the standard input",
    )
    parser.add_argument("--packet", action="store_true", help="the lines are packets: count what is queued of each")
    parser.add_argument(
        "--compress", choices=sorted(_COMPRESSIONS), help="count payloads as a collector would compress them"
    )
    parser.add_argument("--rate", type=_rate, metavar="N", help="records a second")
    parser.add_argument(
        "--capacity", type=_capacity, metavar="N", help="local_queue_capacity (default: the job's, 1024)"
    )
    parser.add_argument(
        "--checkpoint-interval", type=_duration, metavar="TIME", help="such as 10s (default: the job's, 10s)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "-i", "--variable", action="append", default=[], metavar="KEY=VALUE", help="a variable for ${KEY} in the job"
    )
    parser.set_defaults(state_dir=None, name=None, seatunnel_yaml=None)  # what reading a job file asks for


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    if args.packet and args.compress:
        raise UsageError("--packet lines are compressed already: leave --compress out")
    settings, max_line_bytes = _settings(args)
    measure = _Measure(args.packet, _COMPRESSIONS.get(args.compress or "", Compression.NONE))
    lines = LineInput(args.sample, max_line_bytes, READ_BYTES)
    try:
        with Progress() as progress:
            sizes = PayloadSizes.of(_told(measure.lengths(lines), progress))
    except NoSamplesError:
        why = f": {measure.skipped} lines are no packets" if measure.skipped else ""
        raise NoSampleError(f"the samples hold no payload{why}") from None
    finally:
        lines.close()
    sizing = size_job(sizes, settings)
    if args.format == "json":
        print(json.dumps({**asdict(sizing), "skipped": measure.skipped}, indent=2))
    else:
        print("\n".join(report(sizing, measure.skipped)))
    return ExitCode.OK


def _told(lengths: Iterable[int], progress: Progress) -> Iterator[int]:
    for count, length in enumerate(lengths, 1):
        if not count % TELL_EVERY:
            progress(f"{count:,} payloads measured")
        yield length


class _Measure:
    """Lengths of the payloads as they would wait in the queue. `skipped`: lines that cannot be measured."""

    def __init__(self, packets: bool, compression: Compression) -> None:
        self._packets = packets
        self._compression = compression
        self.skipped = 0

    def lengths(self, lines: LineInput) -> Iterator[int]:
        while not lines.ended:
            for line in lines.read():
                try:
                    yield self._length(_payload(line))
                except PacketError:
                    self.skipped += 1
            self.skipped += len(lines.skipped)
            lines.skipped.clear()

    def _length(self, payload: bytes) -> int:
        if self._packets:
            envelope = parse_envelope(payload)
            return max(0, len(envelope.payload) - (_TAG_BYTES if envelope.encryption is Encryption.AES_GCM else 0))
        if self._compression is not Compression.NONE:
            return len(deflate(payload, self._compression))
        return len(payload)


def _payload(line: bytes) -> bytes:
    """The payload of a request line; any other line is one."""
    command = parse_line(line) if line.startswith(BATCH_PREFIX) else None
    payload = getattr(command, "payload", line)
    return payload if isinstance(payload, bytes) else line


def _settings(args: argparse.Namespace) -> tuple[Settings, int]:
    """What to work with, and how long a line may be."""
    settings, max_line_bytes = Settings(), DEFAULT_MAX_LINE_BYTES
    if args.job is not None:
        job = read_job(args, args.job, lenient=True).spec
        options = job.sources[0].options
        max_line_bytes = options.max_line_bytes
        settings = Settings(
            capacity=options.local_queue_capacity,
            ratio=str(options.queue_backpressure_watermark_ratio),
            queue_max_bytes=options.local_queue_max_bytes,
            checkpoint_interval_ms=job.env.checkpoint_interval_ms,
        )
    given: dict[str, Any] = {
        "capacity": args.capacity,
        "checkpoint_interval_ms": args.checkpoint_interval,
        "rate": args.rate,
    }
    return replace(settings, **{key: value for key, value in given.items() if value is not None}), max_line_bytes


# The report


def report(sizing: Sizing, skipped: int) -> list[str]:
    """The answer for people, line by line."""
    sizes, settings, average, p99 = sizing.sizes, sizing.settings, sizing.average, sizing.p99
    rows = [
        ("", "average", "p99"),
        ("queued payload", _bytes(average.payload), _bytes(p99.payload)),
        (f"capacity that keeps the peak under {_bytes(STATE_LIMIT_BYTES)}", f"{average.allowed:,}", f"{p99.allowed:,}"),
        (f"with local_queue_capacity = {settings.capacity}, full:", "", ""),
        ("  payloads in the queue", _bytes(average.queue), _bytes(p99.queue)),
        (f"  peak as the reference counts it (x {PEAK_FACTOR})", _bytes(average.peak), _bytes(p99.peak)),
        ("  written by a checkpoint", _bytes(average.blob), _bytes(p99.blob)),
        ("  most memory of queue and fingerprints", _bytes(average.memory), _bytes(p99.memory)),
    ]
    width = max(len(row[0]) for row in rows)
    lines = [f"{sizes.count:,} samples, median {_bytes(sizes.median)}, largest {_bytes(sizes.largest)}"]
    if skipped:
        lines.append(f"{skipped:,} lines skipped: too long, or no packet")
    lines += ["", *(f"{name:<{width}}  {one:>10}  {other:>10}".rstrip() for name, one, other in rows), ""]
    lines.append(
        f"QUEUE_FULL from {sizing.high_water_mark:,} records on; {_bytes(sizing.fingerprints)} of each checkpoint are "
        "fingerprints of the newest records"
    )
    interval = f"{settings.checkpoint_interval_ms / 1000:g} s"
    lines.append(f"a checkpoint every {interval}: at most {_bytes(sizing.bytes_an_hour)} an hour with average payloads")
    if settings.rate is not None and sizing.buffer_s is not None and sizing.records_an_interval is not None:
        lines.append(
            f"at {settings.rate:g} records/s: {sizing.records_an_interval:,} records "
            f"({_bytes(sizing.records_an_interval * average.payload)}) an interval, confirmed after at most about "
            f"{interval}; the queue holds {sizing.buffer_s:.2g} s of them"
        )
    return [*lines, "", f"advice: {sizing.advice}"]


def _bytes(count: int) -> str:
    """A number of bytes with three digits, in powers of 1000."""
    size, units = float(count), iter(("kB", "MB", "GB", "TB", "PB"))
    unit = "B"
    while size >= 999.5:
        size, unit = size / 1000, next(units)
    return f"{count} B" if unit == "B" else f"{size:.3g} {unit}"


# Values of options


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records a second")
    return rate


def _capacity(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) < 2**31):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records")
    return int(text)


def _duration(text: str) -> int:
    try:
        value = parse_duration(text, "ms")
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None
    if not 10 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 10 ms and 24 days")
    return value
