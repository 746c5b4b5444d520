"""Memory and descriptors of processes, looked at every few seconds."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from chaos.slope import Sample, after_warm_up, files_per_hour, rss_per_hour

EVERY_S = 5.0
MIB = float(1 << 20)
_PAGE = os.sysconf("SC_PAGE_SIZE")


def sample(pid: int, at_s: float) -> Sample:
    """A process at this moment. Raises OSError when it has ended."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Sample(at_s, pages * _PAGE, len(list(Path(f"/proc/{pid}/fd").iterdir())))


class Sampler:
    """Samples of processes, from `with` to its end, on a thread of its own.

    Args:
        pids: by name.
        note: a file for each sample as JSON, or None.

    Attributes:
        samples: by name.
    """

    def __init__(self, pids: Mapping[str, int], *, note: Path | None = None, every_s: float = EVERY_S) -> None:
        self.samples: dict[str, list[Sample]] = {name: [] for name in pids}
        self._pids, self._note, self._every_s = dict(pids), note, every_s
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sampler")

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def figures(self, warm_up_s: float) -> dict[str, dict[str, Any]]:
        """By process: samples after the warm-up, their slopes, and what there was at the two ends."""
        return {name: _figures(after_warm_up(found, warm_up_s)) for name, found in self.samples.items()}

    def _work(self) -> None:
        while not self._stop.wait(self._every_s):
            self._look()

    def _look(self) -> None:
        at_s = time.monotonic() - self._began
        for name, pid in self._pids.items():
            try:
                one = sample(pid, at_s)
            except OSError:
                continue
            self.samples[name].append(one)
            if self._note is not None:
                with self._note.open("a") as file:
                    file.write(json.dumps({"process": name, **asdict(one)}) + "\n")


def _figures(samples: list[Sample]) -> dict[str, Any]:
    if not samples:
        return {"samples": 0}
    return {
        "samples": len(samples),
        "rss_mb_first": round(samples[0].rss / MIB, 1),
        "rss_mb_last": round(samples[-1].rss / MIB, 1),
        "rss_mb_most": round(max(one.rss for one in samples) / MIB, 1),
        "rss_mb_per_hour": round(rss_per_hour(samples) / MIB, 2),
        "files_first": samples[0].files,
        "files_last": samples[-1].files,
        "files_most": max(one.files for one in samples),
        "files_per_hour": round(files_per_hour(samples), 2),
    }
