"""What the agent is doing: one picture of it, as JSON for people and programs and as text for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import edgesocket
from edgesocket.collector.agent_sender import SenderView
from edgesocket.collector.client import Phase
from edgesocket.collector.spool.options import SpoolState

PREFIX = "edgesocket_agent"

STALE_S = 60.0
"""An intake thread that has not gone round for so long hangs: in a disk that does not answer, say."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of the metrics."""


@dataclass(frozen=True, slots=True)
class InputView:
    """One input. Attributes: its name and type, totals since the start, and what is wrong with it, or ""."""

    name: str
    type: str
    records: int
    bytes: int
    counts: Mapping[str, int]
    problem: str


@dataclass(frozen=True, slots=True)
class AgentView:
    """The agent at one moment.

    Attributes:
        to: the ingress.
        uptime_s: since the start.
        started_at: Unix time of that.
        inputs: each of them.
        spool: what it says of itself.
        spool_max_bytes: what it may hold.
        sender: what the sender is doing.
        full_s: since when, in seconds, nothing is read because the spool is full; None: it is not.
        failing_s: since when nothing can be written; None: it can.
        failure: why.
        round_age_s: how long ago the intake thread last went round.
    """

    to: str
    uptime_s: float
    started_at: float
    inputs: Sequence[InputView]
    spool: SpoolState
    spool_max_bytes: int
    sender: SenderView
    full_s: float | None
    failing_s: float | None
    failure: str
    round_age_s: float

    @property
    def problems(self) -> list[str]:
        """What somebody should know, in sentences; empty: all is well."""
        found: list[str] = []
        if self.round_age_s > STALE_S:
            found.append(f"the inputs have not been looked at for {self.round_age_s:.0f} s")
        if self.failing_s is not None:
            found.append(f"the spool cannot be written since {self.failing_s:.0f} s: {self.failure}")
        if self.full_s is not None:
            found.append(f"the spool is full since {self.full_s:.0f} s: the inputs are not read")
        if self.sender.phase is not Phase.STREAMING:
            found.append(f"nothing is delivered: {self.sender.problem or self.sender.phase.value}")
        found += [one.problem for one in self.inputs if one.problem]
        return found

    @property
    def alive(self) -> bool:
        """Whether the process does its work; a restart may help where it does not."""
        return self.round_age_s <= STALE_S

    @property
    def ready(self) -> bool:
        """Whether records come in and go out."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """For `/status`."""
        return {
            "version": edgesocket.__version__,
            "to": self.to,
            "uptime_s": round(self.uptime_s, 1),
            "problems": self.problems,
            "connection": self.sender.phase.value,
            "watermark": self.sender.watermark,
            "delivery": asdict(self.sender.counts),
            "spool": {**asdict(self.spool), "max_bytes": self.spool_max_bytes},
            "inputs": [
                {
                    "name": one.name,
                    "type": one.type,
                    "records": one.records,
                    "bytes": one.bytes,
                    **({"problem": one.problem} if one.problem else {}),
                    "counts": dict(one.counts),
                }
                for one in self.inputs
            ],
        }


_GAUGES = {"files_followed": "followed", "files_open": "open"}
"""What inputs count that goes down, too."""

_Sample = tuple[Mapping[str, str], float]


def render_metrics(view: AgentView) -> bytes:
    """The picture in Prometheus' text format."""
    lines: list[str] = []
    for name, kind, meaning, samples in _metrics(view):
        full = f"{PREFIX}_{name}"
        lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
        for labels, value in samples:
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"{full}{{{shown}}} {value:.15g}" if shown else f"{full} {value:.15g}")
    return ("\n".join(lines) + "\n").encode()


def _metrics(view: AgentView) -> Iterator[tuple[str, str, str, list[_Sample]]]:
    """Name, type, meaning and samples of each metric."""

    def one(name: str, kind: str, meaning: str, value: float | None) -> tuple[str, str, str, list[_Sample]]:
        return name, kind, meaning, [({}, float(value or 0))]

    spool, sender = view.spool, view.sender
    version = {"version": edgesocket.__version__}
    yield "info", "gauge", "Always 1; the labels say what runs.", [(version, 1.0)]
    yield one("start_time_seconds", "gauge", "Unix time of the start.", view.started_at)
    yield one("ready", "gauge", "Whether records come in and go out.", view.ready)
    yield one("intake_round_age_seconds", "gauge", "Time since the inputs were looked at.", view.round_age_s)
    for name, meaning, values in (
        ("input_records_total", "Records taken into the spool.", [one.records for one in view.inputs]),
        ("input_bytes_total", "Their bytes.", [one.bytes for one in view.inputs]),
    ):
        labels = [{"input": each.name, "type": each.type} for each in view.inputs]
        yield name, "counter", meaning, [(of, float(value)) for of, value in zip(labels, values, strict=True)]
    yield (
        "input_working",
        "gauge",
        "Whether an input is open.",
        [({"input": each.name, "type": each.type}, float(not each.problem)) for each in view.inputs],
    )
    events: list[_Sample] = [
        ({"input": each.name, "event": event}, float(value))
        for each in view.inputs
        for event, value in each.counts.items()
        if event not in _GAUGES
    ]
    yield "input_events_total", "counter", "What else an input counts, by event.", events
    files: list[_Sample] = [
        ({"input": each.name, "state": _GAUGES[event]}, float(value))
        for each in view.inputs
        for event, value in each.counts.items()
        if event in _GAUGES
    ]
    yield "input_files", "gauge", "Files of an input now, by state.", files
    yield one("spool_bytes", "gauge", "Size of the spool's files.", spool.bytes)
    yield one("spool_max_bytes", "gauge", "What they may have.", view.spool_max_bytes)
    yield one("spool_records", "gauge", "Records that are not confirmed.", spool.records)
    yield one("spool_segments", "gauge", "Files of the spool.", spool.segments)
    yield one("spool_full_seconds", "gauge", "How long nothing has been read for want of room.", view.full_s)
    yield one("spool_write_failing_seconds", "gauge", "How long nothing could be written.", view.failing_s)
    dropped: list[_Sample] = [
        ({"which": "oldest"}, float(spool.dropped_oldest_records)),
        ({"which": "newest"}, float(spool.dropped_newest_records)),
    ]
    yield "spool_dropped_records_total", "counter", "Records lost to when_full.", dropped
    yield one("spool_damaged_parts_total", "counter", "Parts of the spool that could not be read.", spool.damaged_parts)
    yield one("spool_lost_records_total", "counter", "Records in them, as far as known.", spool.lost_records)
    yield one("dead_letters", "gauge", "Records that were refused for good and are kept.", spool.dead_letters)
    yield one("dead_letters_dropped_total", "counter", "Of those, lost to their limit.", spool.dead_letters_dropped)
    yield one("connected", "gauge", "Whether records can go out.", sender.phase is Phase.STREAMING)
    yield one(
        "clients_total", "counter", "Clients made; more than one says that something was refused.", sender.connects
    )
    yield one("watermark", "gauge", "The highest confirmed batch id.", sender.watermark)
    yield one("unconfirmed_records", "gauge", "Records sent or about to be, not confirmed.", sender.taken)
    for name, meaning in (
        ("sent", "Records that went out at least once."),
        ("received", "Records that were answered RECEIVED."),
        ("confirmed", "Records that a completed checkpoint covers."),
        ("refused", "Records that were refused for good."),
        ("resent", "How often a record went out again."),
    ):
        yield one(f"{name}_records_total", "counter", meaning, getattr(sender.counts, name))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
