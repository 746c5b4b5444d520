"""What a whole segment holds, and where the one that was written last really ends. Pure.

After a crash the newest segment may end in anything. Two kinds of holes look alike and must not be treated alike:

- *Torn*: nobody was ever told that these bytes are kept. Everything from there on is cut away, also good frames behind
  the hole: they were written in one go with what is missing, and their marks would say that it is there.
- *Damaged*: a frame behind it was written when these bytes were durable (its `synced` says so). What is lost is lost;
  what follows is good.

An older segment is synced before the next one is begun, so all its holes are damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from edgesocket.collector.spool.frames import MORE, Frame, FrameKind, Header, Hole, ReadAt, walk
from edgesocket.collector.spool.marks import decode_marks

MAX_HOLES = 10_000
"""So many holes of one segment are told apart."""


@dataclass(frozen=True, slots=True)
class HeadInfo:
    """What a segment says about itself.

    Attributes:
        ids_from: every id given before it was begun is below this.
        policy: when its frames are synced, one of the names of `FsyncPolicy`.
    """

    ids_from: int
    policy: str

    def to_bytes(self) -> bytes:
        """As JSON."""
        return json.dumps({"ids_from": self.ids_from, "policy": self.policy}, separators=(",", ":")).encode()


def parse_head(frame: Frame) -> HeadInfo:
    """What a HEAD frame says. Raises ValueError when it is none of ours."""
    found = json.loads(frame.joined)
    if not isinstance(found, dict) or not isinstance(found.get("ids_from"), int):
        raise ValueError("the head does not say where ids go on")
    return HeadInfo(found["ids_from"], str(found.get("policy", "")))


@dataclass(slots=True)
class Survey:
    """What is in a segment, as far as it counts.

    Attributes:
        head: what it says about itself, or None where that is damaged.
        marks: name -> text of its marks; "" forgets the name. With a head these are all there are.
        seal: its last frame, if it was ended properly.
        end: the byte behind the last frame that counts; what is behind has to be cut away.
        next_ordinal: one above the highest ordinal that may have been used.
        records: records that can be read.
        lost_records: records that cannot, as far as that is known.
        synced: at least so many bytes are durable.
        holes: damaged parts below `end`.
        torn: what has to be cut away, or None.
        reach, readable: `next_ordinal` and `records`, if what is behind `end` counted too.
    """

    head: HeadInfo | None = None
    marks: dict[str, str] = field(default_factory=dict)
    seal: Header | None = None
    end: int = 0
    next_ordinal: int = 0
    records: int = 0
    lost_records: int = 0
    synced: int = 0
    holes: list[Hole] = field(default_factory=list)
    torn: Hole | None = None
    reach: int = 0
    readable: int = 0


def survey_older(read: ReadAt, salt: int, size: int) -> Survey:
    """A segment behind which another one was begun: all its holes are damage."""
    found = _collect(walk(read, salt, 0, size))
    found.end, found.next_ordinal, found.records = size, found.reach, found.readable
    return found


def survey_newest(read: ReadAt, salt: int, size: int) -> Survey:
    """The segment that was written last. See the module's text for what is cut."""
    first = _collect(walk(read, salt, 0, size))
    cut = next((hole for hole in first.holes if hole.end > first.synced), None)
    if cut is not None:
        first = _collect(walk(read, salt, 0, cut.offset))
    if first.end < size:
        reason = cut.reason if cut is not None and cut.offset == first.end else "the last append is not complete"
        first.torn = Hole(first.end, size, reason)
    return first


def lost_between(ordinal: int, expected: int, hole: Hole | None) -> int:
    """How many records are missing between two frames: no more than could have been in the hole, none without one."""
    return 0 if hole is None else max(0, min(ordinal - expected, hole.length))


def _collect(found: Iterable[Frame | Hole]) -> Survey:
    survey = Survey()
    hole: Hole | None = None
    for item in found:
        if isinstance(item, Hole):
            if len(survey.holes) < MAX_HOLES:
                survey.holes.append(item)
            hole = item
            continue
        _take(survey, item, hole)
        hole = None
        if not item.header.flags & MORE:
            survey.end, survey.next_ordinal, survey.records = item.header.end, survey.reach, survey.readable
    if hole is not None:
        survey.reach += hole.length  # it may have held so many
    return survey


def _take(survey: Survey, frame: Frame, hole: Hole | None) -> None:
    header = frame.header
    survey.synced = max(survey.synced, header.synced)
    if header.kind == FrameKind.HEAD:
        try:
            survey.head, survey.marks = parse_head(frame), decode_marks(frame.marks_data)
        except ValueError:
            survey.head = None
        return
    survey.lost_records += lost_between(header.ordinal, survey.reach, hole)
    survey.reach = header.ordinal
    if header.kind == FrameKind.SEAL:
        survey.seal = header
        return
    survey.seal = None
    survey.reach += header.records
    survey.readable += header.records
    survey.marks.update(decode_marks(frame.marks_data))
