"""Looks at a spool without changing it, also while an agent uses it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgesocket.collector.spool.files import Files, SegmentBytes, lock_holder
from edgesocket.collector.spool.letter_box import letter_files, read_letters
from edgesocket.collector.spool.letters import DeadLetter
from edgesocket.collector.spool.marks import merge_marks
from edgesocket.collector.spool.names import (
    DAMAGED,
    DEAD_LETTERS,
    LOCK,
    SEGMENTS,
    SegmentName,
    letters_name,
    parse_segment_name,
)
from edgesocket.collector.spool.recovery import look_up_seal
from edgesocket.collector.spool.survey import Survey, survey_newest, survey_older
from edgesocket.errors import UsageError


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """One segment.

    Attributes:
        records: how many there are; None: not known without reading it.
        next_id: the id behind its last; None: it has no ids, or that is not known without reading it.
    """

    name: str
    bytes: int
    records: int | None
    first_id: int | None
    next_id: int | None


@dataclass(slots=True)
class SpoolReport:
    """What a spool holds.

    Attributes:
        used_by: who has it open, or None.
        marks: name -> text of the newest marks.
        damaged: parts that were set aside, and their sizes.
    """

    directory: str
    used_by: str | None
    segments: list[SegmentReport] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    dead_letters: int = 0
    damaged: dict[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Size of its segments."""
        return sum(segment.bytes for segment in self.segments)

    @property
    def records(self) -> int:
        """How many records are in them, as far as that is known."""
        return sum(segment.records or 0 for segment in self.segments)

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**asdict(self), "bytes": self.bytes, "records": self.records}


def look_at(directory: Path) -> SpoolReport:
    """What a spool holds: reads its newest segment, and of the others the end.

    Raises:
        UsageError: there is no spool.
    """
    files = Files()
    names = segment_names(directory)
    report = SpoolReport(str(directory), lock_holder(directory / LOCK))
    newest = True
    later: list[dict[str, str]] = []
    for name in reversed(names):
        path = directory / SEGMENTS / name.text
        try:
            size = files.size(path)
        except OSError:
            continue  # removed meanwhile
        survey = _survey(path, name, size, newest=newest) if newest else None
        if survey is not None:
            later.append(survey.marks)
            newest = survey.head is None
            records, ordinal = survey.records, survey.next_ordinal
            report.segments.append(_segment(name, size, records, ordinal))
            continue
        seal = look_up_seal(files, path, name, size)
        known = (None, None) if seal is None else (seal.records, seal.ordinal)
        report.segments.append(_segment(name, size, *known))
    report.segments.reverse()
    for marks in reversed(later):
        merge_marks(report.marks, marks)
    report.dead_letters = sum(1 for _ in dead_letters(directory))
    for text in files.names(directory / DAMAGED):
        try:
            report.damaged[text] = files.size(directory / DAMAGED / text)
        except OSError:
            continue
    return report


def find_damage(directory: Path) -> Iterator[str]:
    """Read all segments, and say in words what is wrong with them; nothing where all is well.

    While an agent writes, the end of the newest segment does not count.

    Raises:
        UsageError: there is no spool.
    """
    files = Files()
    used = lock_holder(directory / LOCK) is not None
    names = segment_names(directory)
    for name in names:
        path = directory / SEGMENTS / name.text
        is_newest = name is names[-1]
        try:
            survey = _survey(path, name, files.size(path), newest=is_newest)
        except FileNotFoundError:
            if not used:
                yield f"{path}: it is not there"
            continue
        except OSError as error:
            yield f"{path}: cannot be read: {error.strerror}"
            continue
        if survey is None:
            yield f"{path}: cannot be read"
            continue
        for hole in survey.holes:
            yield f"{path}: bytes {hole.offset} to {hole.end}: {hole.reason}"
        if survey.torn is not None and not used:
            yield f"{path}: bytes {survey.torn.offset} to {survey.torn.end}, its end: {survey.torn.reason}"
        if survey.lost_records:
            yield f"{path}: {survey.lost_records} records are lost"


def segment_names(directory: Path) -> list[SegmentName]:
    """The segments of a spool, in order. Raises UsageError where there is no spool."""
    if not (directory / SEGMENTS).is_dir():
        raise UsageError(f"{directory} is no spool")
    found = (parse_segment_name(text) for text in Files().names(directory / SEGMENTS))
    return sorted((name for name in found if name is not None), key=lambda name: name.number)


def dead_letters(directory: Path) -> Iterator[DeadLetter]:
    """The dead letters of a spool, oldest first."""
    for number in letter_files(Files(), directory / DEAD_LETTERS):
        try:
            yield from read_letters(directory / DEAD_LETTERS / letters_name(number))
        except OSError:
            continue


def _survey(path: Path, name: SegmentName, size: int, *, newest: bool) -> Survey | None:
    try:
        data = SegmentBytes(Files(), path)
    except FileNotFoundError:
        raise
    except OSError:
        return None
    try:
        return (survey_newest if newest else survey_older)(data.read, name.salt, size)
    finally:
        data.close()


def _segment(name: SegmentName, size: int, records: int | None, next_ordinal: int | None) -> SegmentReport:
    next_id = None if name.first_id is None or next_ordinal is None else name.first_id + next_ordinal
    return SegmentReport(name.text, size, records, name.first_id, next_id)
