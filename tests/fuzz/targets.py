"""What is fuzzed: one function a reader of foreign bytes, which checks more than that nothing is raised.

A target takes any bytes. It may raise nothing; the errors that its reader may raise are caught in the target and listed
in `Target.allowed`, from which the documentation is made. Everything else, an AssertionError above all, is a finding.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest.mock import patch

from edgesocket.checkpoint.arrival_log import decode_segment
from edgesocket.checkpoint.blob import decode_blob, encode_blob
from edgesocket.checkpoint.entries import decode_entry
from edgesocket.collector.intake.http_requests import Refusal, RequestReader
from edgesocket.collector.intake.syslog_framing import SyslogFraming
from edgesocket.collector.intake.syslog_message import parse_syslog, syslog_json
from edgesocket.collector.spool.frames import Frame, walk
from edgesocket.collector.spool.letters import parse_letter
from edgesocket.collector.spool.marks import decode_marks, encode_marks
from edgesocket.collector.spool.survey import survey_newest, survey_older
from edgesocket.compression import Compression
from edgesocket.config.document import Surroundings, read_document
from edgesocket.config.job import load_job
from edgesocket.config.nodes import Report
from edgesocket.errors import (
    ConfigError,
    DamagedStateError,
    DecodeError,
    DecryptError,
    EdgeSocketError,
    RemoteProtocolError,
    SchemaMismatchError,
)
from edgesocket.packet.codec import PacketDecoder
from edgesocket.packet.compression import inflate
from edgesocket.packet.envelope import build_envelope, parse_envelope
from edgesocket.protocol import blocks
from edgesocket.protocol.blocks import BlockParser
from edgesocket.protocol.chunks import BufferPool, Chunk
from edgesocket.protocol.collector_session import CollectorSession
from edgesocket.protocol.commands import Batch, Commit, Invalid, encode_batch, encode_commit, parse_line
from edgesocket.protocol.exact import LineEvent, LineRules, exact_events, split_lines
from edgesocket.protocol.session import ServerEvent, ServerSession
from edgesocket.protocol.states import CollectorState
from edgesocket.records import RecordBlock
from edgesocket.schema.columns import record_batch
from edgesocket.schema.exact import ExactDecoder
from edgesocket.schema.fast import BlockDecoder
from edgesocket.schema.lenient import LenientDecoder
from edgesocket.schema.types import RowSchema, SchemaField, parse_type

MAX_RECORD_BYTES = 64 * 1024
KEY = bytes(range(32))


@dataclass(frozen=True)
class Target:
    """One reader of foreign bytes.

    Attributes:
        run: takes any bytes; what it raises is a finding.
        reads: what the bytes are, for the documentation.
        holds: what must hold, for the documentation.
        allowed: the only errors its reader may raise.
        max_bytes: longer inputs are not tried.
    """

    run: Callable[[bytes], None]
    reads: str
    holds: str
    allowed: tuple[type[Exception], ...] = ()
    max_bytes: int = 4096


def _flat(events: list[LineEvent]) -> list[object]:
    """Events in a form that does not depend on where blocks are cut."""
    flat: list[object] = []
    for event in events:
        if isinstance(event, RecordBlock):
            flat += zip((event.id_at(index) for index in range(event.count)), event.payloads(), strict=True)
        else:
            flat.append((type(event).__name__, str(event)))
    return flat


def lines(data: bytes) -> None:
    """Request lines: columnar with and without the compiled loops, and line by line."""
    check_utf8, limit = bool(data[:1]), (20, 10**6)[bool(data[1:2] > b"\x80")]
    text = data[2:] + b"\n"
    rules = LineRules(limit, check_utf8)
    wanted = _flat(exact_events(split_lines(text), rules))
    parser = BlockParser(rules)
    assert _flat(parser.parse(Chunk.of(text))) == wanted
    with (
        patch.object(blocks, "MIN_RUN_LINES", 1),
        patch.object(blocks, "STRETCH_LINES", 3),
        patch.object(blocks, "_may_have_few_lines", lambda raw, most: False),
    ):
        assert _flat(BlockParser(rules).parse(Chunk.of(text))) == wanted
        with patch.object(blocks, "KERNELS", None):
            assert _flat(BlockParser(rules).parse(Chunk.of(text))) == wanted


def _session(pieces: Iterator[bytes]) -> tuple[list[object], object]:
    session = ServerSession(lambda token: token == b"t", BufferPool(), max_line_bytes=1000)
    events: list[ServerEvent] = []
    for piece in pieces:
        view = memoryview(piece)
        while view:
            room = session.writable()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            view = view[count:]
            new = session.received(count)
            events += new
            if any(type(event).__name__ == "Authenticated" for event in new):
                events += session.resume()
    session.received_eof()
    others = [event for event in events if isinstance(event, RecordBlock | Batch | Commit | Invalid)]
    signs = [type(event).__name__ for event in events if not isinstance(event, RecordBlock | Batch | Commit | Invalid)]
    return [*signs, *_flat(others)], session.state


def conversation(data: bytes) -> None:
    """A whole conversation: however it is cut, it means the same."""
    if not data:
        return
    step, stream = 1 + data[0] % 23, data[1:]
    if data[0] & 1:
        stream = b"__AUTH__:t\n" + stream
    whole = _session(iter([stream]))
    assert _session(stream[at : at + step] for at in range(0, len(stream), step)) == whole


def command(data: bytes) -> None:
    """One line: what it means can be written again, and means the same."""
    if b"\n" in data:
        return
    found = parse_line(data)
    if isinstance(found, Batch):
        again = parse_line(split_lines(encode_batch(found.batch_id, found.payload))[0])
        assert again == found
    elif isinstance(found, Commit):
        assert parse_line(split_lines(encode_commit(found.batch_id))[0]) == found


def replies(data: bytes) -> None:
    """What an ingress may send to a collector: each request is answered once, in order, or not at all."""
    session = CollectorSession()
    session.authenticate(b"t")
    session.send_batches(1, [b"x", b"y", b"z"])
    session.send_commit(2)
    answered = 0
    step = 1 + (data[0] if data else 0) % 7
    for at in range(1, len(data), step):
        try:
            answers = session.receive_data(data[at : at + step])
        except RemoteProtocolError:
            assert session.state is CollectorState.CLOSED
            return
        answered += sum(answer.request.lines for answer in answers)
    assert answered + sum(request.lines for request in session.receive_eof()) == 5


_PLAIN = PacketDecoder(None, False, MAX_RECORD_BYTES)
_KEYED = PacketDecoder(KEY, False, MAX_RECORD_BYTES)


def packet(data: bytes) -> None:
    """A packet's envelope, its compressed stream, its ciphertext."""
    try:
        envelope = parse_envelope(data)
    except DecodeError:
        envelope = None
    else:
        assert parse_envelope(build_envelope(envelope)) == envelope
    for decoder in (_PLAIN, _KEYED):
        pieces: list[bytes] = []
        try:
            opened = decoder.open(data, pieces.append)
        except (DecodeError, DecryptError):
            continue
        assert envelope is not None
        record = inflate(opened.compressed_bytes, opened.compression, MAX_RECORD_BYTES)
        assert record == b"".join(pieces)
        record.decode()
        assert len(record) <= MAX_RECORD_BYTES


def inflating(data: bytes) -> None:
    """A compressed stream: never more than its bound, and the same in whatever way it is inflated."""
    if not data:
        return
    compression = list(Compression)[data[0] % len(Compression)]
    try:
        made = inflate(data[1:], compression, MAX_RECORD_BYTES)
    except DecodeError:
        return
    assert len(made) <= MAX_RECORD_BYTES


def hocon(data: bytes) -> None:
    """Any text as a document: read, or refused with a place in it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    try:
        read_document(text, "fuzz.conf", Surroundings(environ={"A": "1"}), Report())
    except ConfigError as error:
        assert error.problems


_JOB = """env {{ job.mode = STREAMING }}
source {{ EdgeSocket {{ port = 9999, token = t
{} }} }}
sink {{ Console {{}} }}"""


def job(data: bytes) -> None:
    """Any text as a job file, and as the inside of a source that is right otherwise."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    for name, whole in (("fuzz.conf", text), ("fuzz.json", text), ("fuzz.conf", _JOB.format(text))):
        try:
            load_job(whole, name, environ={"A": "1"})
        except ConfigError as error:
            assert error.problems
            str(error)


SCHEMAS = tuple(
    RowSchema(tuple(SchemaField(f"c{index}", parse_type(kind)) for index, kind in enumerate(kinds.split(";"))))
    for kinds in (
        "int;double;string;boolean;timestamp;date;tinyint;float",
        "decimal(10,3);timestamp_tz;bytes;time;map<string,bigint>;array<double>;map<int,date>;null",
    )
)
_DECODERS = [
    (BlockDecoder(schema, lenient), LenientDecoder(schema) if lenient else ExactDecoder(schema), schema)
    for schema in SCHEMAS
    for lenient in (False, True)
]


def schema(data: bytes) -> None:
    """Payloads, a line each: a block decodes to what its records decode to, one by one."""
    payloads = data.split(b"\n")[:20]
    for decoder, exact, columns in _DECODERS:
        good, bad = [], []
        for index, payload in enumerate(payloads):
            try:
                row = exact.decode(payload)
            except SchemaMismatchError as error:
                bad.append((index, str(error)))
            else:
                if row is not None:
                    good.append(row)
        if decoder._flat is not None:
            decoder._flat._left_alone = 0
        made = decoder.decode(RecordBlock.of_run(1, payloads))
        assert [(one.index, one.reason) for one in made.bad] == bad
        shown = repr(made.rows.batch.to_pylist()) if made.rows is not None else ""
        assert shown == (repr(record_batch(good, columns).to_pylist()) if good else "")


def log_entry(data: bytes) -> None:
    """An entry of the commit log."""
    try:
        placed = decode_entry("log/00000000000000000007.json", data)
    except DamagedStateError:
        return
    assert placed.index == 7


def blob(data: bytes) -> None:
    """A state blob; what is undamaged is written again in the same bytes."""
    try:
        found = decode_blob("state/1", data)
    except DamagedStateError:
        return
    again = decode_blob("state/1", encode_blob(found.record, [found.body]))
    assert (again.record, again.body) == (found.record, found.body)


def arrivals(data: bytes) -> None:
    """A segment of the arrival log: good records up to the first damage, never one that was not written."""
    segment = decode_segment(data)
    sequences = [event.sequence for event in segment.events]
    assert sequences == sorted(sequences)


def spool_segment(data: bytes) -> None:
    """A segment of an agent's spool, as the newest one and as an older one."""
    salt, body = struct.unpack("<I", data[:4].ljust(4, b"\0"))[0], data[4:]

    def read(offset: int, length: int) -> bytes:
        return body[offset : offset + length]

    ends = [item.header.end for item in walk(read, salt, 0, len(body)) if isinstance(item, Frame)]
    assert ends == sorted(ends)
    newest, older = survey_newest(read, salt, len(body)), survey_older(read, salt, len(body))
    assert 0 <= newest.end <= len(body)
    assert newest.records <= older.records


def spool_marks(data: bytes) -> None:
    """Marks, and lines of a file of dead letters."""
    try:
        marks = decode_marks(data)
    except ValueError:
        marks = {}
    assert decode_marks(encode_marks(marks)) == marks
    for line in data.split(b"\n"):
        parse_letter(line)


def syslog(data: bytes) -> None:
    """A syslog stream however it is cut, and every message of it."""
    if not data:
        return
    step, stream = 1 + data[0] % 17, data[1:]

    def messages(pieces: Iterator[bytes]) -> list[bytes]:
        framing = SyslogFraming(200)
        made = list(itertools.chain.from_iterable(framing.feed(piece) for piece in pieces))
        assert framing.held_bytes <= 220
        return made + framing.end()

    whole = messages(iter([stream]))
    assert messages(stream[at : at + step] for at in range(0, len(stream), step)) == whole
    for message in whole:
        assert isinstance(parse_syslog(message), dict)
        assert b"\n" not in syslog_json(message)
        json.loads(syslog_json(message))


def http(data: bytes) -> None:
    """Requests of one connection of the agent's HTTP input, however they are cut."""
    if not data:
        return
    step, stream = 1 + data[0] % 17, data[1:]

    def requests(pieces: Iterator[bytes]) -> list[object]:
        reader, made = RequestReader(1000), []
        for piece in pieces:
            try:
                found = reader.feed(piece)
                while found is not None:
                    made.append((found.method, found.path, sorted(found.headers.items()), found.body))
                    found = reader.feed(b"")
            except Refusal as refusal:
                return [*made, refusal.args]
        return made

    whole = requests(iter([stream]))
    assert requests(stream[at : at + step] for at in range(0, len(stream), step)) == whole


TARGETS: dict[str, Target] = {
    "lines": Target(lines, "request lines", "columnar, compiled and line by line mean the same"),
    "conversation": Target(conversation, "a conversation", "the same events however the bytes are cut"),
    "command": Target(command, "one request line", "what it means can be written again"),
    "replies": Target(
        replies, "replies to a collector", "each request is answered once, in order", (RemoteProtocolError,)
    ),
    "packet": Target(
        packet, "a packet", "bounded, and the record is what the pieces were", (DecodeError, DecryptError)
    ),
    "inflating": Target(inflating, "a compressed stream", "never above the bound", (DecodeError,)),
    "hocon": Target(hocon, "a document", "read, or refused with a place", (ConfigError,), 2000),
    "job": Target(job, "a job file", "read, or refused with all problems", (ConfigError,), 2000),
    "schema": Target(schema, "JSON payloads", "a block decodes like its records", (SchemaMismatchError,), 2000),
    "log_entry": Target(
        log_entry, "an entry of the commit log", "read whole, or named as damaged", (DamagedStateError,)
    ),
    "blob": Target(blob, "a state blob", "read whole, or named as damaged", (DamagedStateError,)),
    "arrivals": Target(arrivals, "a segment of the arrival log", "events in order, the rest is damage"),
    "spool_segment": Target(spool_segment, "a segment of a spool", "whole frames in order, the rest are holes"),
    "spool_marks": Target(spool_marks, "marks and dead letters of a spool", "read, or refused", (ValueError,)),
    "syslog": Target(syslog, "a syslog stream", "the same messages however it is cut, each one line of JSON"),
    "http": Target(http, "HTTP requests", "the same requests however they are cut", (Refusal,)),
}
"""Every target by its name."""

assert all(issubclass(kind, EdgeSocketError | ValueError | Refusal) for one in TARGETS.values() for kind in one.allowed)
