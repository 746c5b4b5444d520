"""The dead letters of a job, as far as they can be read back."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from edgesocket.config.specs import JobSpec, SinkSpec
from edgesocket.errors import UsageError
from edgesocket.sources.letter_files import LetterFiles, Position
from edgesocket.sources.replay_memory import ReplayMemory

MAX_PAGE = 1_000
"""Most letters of one page over HTTP."""

MAX_CHARACTERS = 4_000
"""A longer payload is cut in a list; asked for alone, it is whole."""


def can_be_read(spec: JobSpec) -> bool:
    """Whether the job's dead letters can be read back."""
    return spec.dead_letter is not None and _kind(spec.dead_letter) is not None


def letter_files(spec: JobSpec) -> LetterFiles:
    """The files that the job's dead letters are in.

    Raises:
        UsageError: the job has no dead_letter block, or they cannot be read back; the text says where they are.
    """
    sink = spec.dead_letter
    if sink is None:
        raise UsageError(
            f"job {spec.name} keeps no dead letters: add dead_letter {{ DeadLetter {{ path = DIRECTORY }} }} to its "
            "file, and on_bad_record = dead_letter to its source"
        )
    kind = _kind(sink)
    if kind is None:
        raise UsageError(
            f"the dead letters of job {spec.name} are in {place_of_letters(sink)}: they cannot be read back "
            "from there, so look at them with the tools of that system. Those of the sink DeadLetter, and of LocalFile "
            "with file_format_type = json, can be listed and replayed"
        )
    return LetterFiles(Path(sink.options.path).absolute(), kind)


def place_of_letters(sink: SinkSpec) -> str:
    """Where a sink puts dead letters, for people. Names no secret."""
    options = sink.options
    for name, what in (("path", "files in "), ("topic", "the topic "), ("table", "the table ")):
        value = options.get(name) if isinstance(options, dict) else getattr(options, name, None)
        if isinstance(value, str) and value:
            return f"{what}{value} of the sink {sink.plugin}"
    return f"what the sink {sink.plugin} writes"


def page_of_letters(
    letters: LetterFiles,
    memory: ReplayMemory,
    after: Position | None = None,
    limit: int = 100,
    *,
    only_new: bool = False,
) -> dict[str, Any]:
    """Some letters, oldest first, as JSON: `letters`, and `next`, the position to ask behind for more (or None).

    Args:
        letters: the files.
        memory: what was replayed.
        after: only letters behind this one.
        limit: most letters.
        only_new: leave out those that were replayed.
    """
    wanted = (one for one in letters.letters(after) if not (only_new and memory.is_done(one.position)))
    found = list(islice(wanted, limit + 1))
    shown = []
    for letter in found[:limit]:
        failed = memory.failed.get(letter.position)
        shown.append(
            {
                **letter.to_json(MAX_CHARACTERS),
                "replayed": memory.is_done(letter.position),
                "failed_again": None if failed is None else failed.reason,
            }
        )
    return {"letters": shown, "next": str(found[limit - 1].position) if len(found) > limit else None}


def _kind(sink: SinkSpec) -> str | None:
    if sink.plugin == "DeadLetter":
        return "dead"
    if sink.plugin == "LocalFile" and sink.options.file_format_type == "json":
        return "part"
    return None
