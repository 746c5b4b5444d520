"""The rows of the table in docs/chaos.md: which fault, on which sink."""

from __future__ import annotations

from dataclasses import dataclass

from chaos import faults
from chaos.disk import why_no_disk
from chaos.faults import Fault
from chaos.wire import why_no_wire


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: on the command line and in results.
        fault: in words.
        sink: `files`, `kafka` or `postgresql`.
        strike: does it once.
        strikes: how often in a run.
        small, shims, apart, far: of `World`.
    """

    name: str
    fault: str
    sink: str
    strike: Fault
    strikes: int = 3
    small: str = ""
    shims: str = ""
    apart: bool = False
    far: bool = False

    def why_not(self) -> str:
        """Why it cannot run here; "" where it can. Programs that are missing show when they are started."""
        if self.small:
            return why_no_disk()
        return why_no_wire() if self.apart else ""


_LINKS = (faults.cut, faults.half_open, faults.slow)
_PROCESSES = (faults.kill_agent, faults.kill_ingress, faults.kill_both, faults.stop_agent, faults.stop_ingress)

ROWS = (
    Row("kill-agent", "kill -9 of the agent", "files", faults.kill_agent, 5),
    Row("kill-ingress", "kill -9 of the ingress", "files", faults.kill_ingress, 4),
    Row("kill-both", "kill -9 of both", "files", faults.kill_both, 3),
    Row("stop-agent", "the agent is stopped (SIGSTOP) and goes on", "files", faults.stop_agent),
    Row("stop-ingress", "the ingress is stopped (SIGSTOP) and goes on", "files", faults.stop_ingress),
    Row("take-over", "the ingress is stopped, another takes the job over, the first one wakes", "files",
        faults.take_over, 2),
    Row("cut", "the link breaks, at any byte", "files", faults.cut, 5),
    Row("half-open", "the link takes bytes and passes none on, then breaks", "files", faults.half_open),
    Row("dead-wire", "nothing passes between the hosts, no FIN, no RST", "files", faults.dead_wire, apart=True),
    Row("slow", "a slow link: 20 to 800 ms a piece, 20 to 300 kB/s", "files", faults.slow),
    Row("full-state", "the disk of the state is full", "files", faults.full_disk, small="state"),
    Row("full-spool", "the disk of the spool is full", "files", faults.full_disk, small="spool"),
    Row("full-out", "the disk of the sink's files is full", "files", faults.full_disk, small="out"),
    Row("failing-state", "writes, syncs, links and renames in the state fail (EIO, ENOSPC)", "files",
        faults.failing_disk, shims="ingress:state"),
    Row("failing-spool", "the same in the spool", "files", faults.failing_disk, shims="agent:spool"),
    Row("failing-out", "the same in the sink's directory", "files", faults.failing_disk, shims="ingress:out"),
    Row("clock-ingress", "the clock of the ingress jumps, up to a day", "files", faults.step_clock, 4,
        shims="ingress:state"),
    Row("clock-agent", "the clock of the agent jumps, up to a day", "files", faults.step_clock, 4,
        shims="agent:spool"),
    Row("kill-ingress-clock", "the clock of the ingress jumps, and it is killed", "files",
        faults.any_of(faults.step_clock, faults.kill_ingress), 6, shims="ingress:state"),
    Row("storm", "kills, stops and link faults, mixed", "files", faults.any_of(*_PROCESSES, *_LINKS), 8),
    Row("storm-state", "the same with a full disk of the state", "files",
        faults.any_of(*_PROCESSES, *_LINKS, *[faults.full_disk] * 4), 8, small="state"),
    Row("storm-failing", "the same with a failing disk of the state", "files",
        faults.any_of(*_PROCESSES, *_LINKS, *[faults.failing_disk] * 4), 8, shims="ingress:state"),
    Row("kill-ingress-kafka", "kill -9 of the ingress", "kafka", faults.kill_ingress, 4),
    Row("kill-both-kafka", "kill -9 of agent and ingress", "kafka", faults.kill_both, 3),
    Row("stop-ingress-kafka", "the ingress is stopped and goes on", "kafka", faults.stop_ingress),
    Row("take-over-kafka", "the ingress is stopped, another takes the job over, the first one wakes", "kafka",
        faults.take_over, 2),
    Row("kill-broker", "kill -9 of the broker", "kafka", faults.kill_broker, 2),
    Row("stop-broker", "the broker is stopped and goes on", "kafka", faults.stop_broker, 2),
    Row("storm-kafka", "the broker, kills, stops and link faults, mixed", "kafka",
        faults.any_of(*_PROCESSES, *_LINKS, *[faults.kill_broker] * 2, *[faults.stop_broker] * 2), 8),
    Row("kill-ingress-postgresql", "kill -9 of the ingress", "postgresql", faults.kill_ingress, 4),
    Row("kill-both-postgresql", "kill -9 of agent and ingress", "postgresql", faults.kill_both, 3),
    Row("stop-ingress-postgresql", "the ingress is stopped and goes on", "postgresql", faults.stop_ingress),
    Row("take-over-postgresql", "the ingress is stopped, another takes the job over, the first one wakes",
        "postgresql", faults.take_over, 2),
    Row("kill-database", "kill -9 of the database", "postgresql", faults.kill_database, 3),
    Row("stop-database", "the database is stopped and goes on", "postgresql", faults.stop_database),
    Row("cut-database", "the link to the database breaks, at any byte", "postgresql", faults.cut_database, 5,
        far=True),
    Row("full-database", "the disk of the database is full, and it ends", "postgresql", faults.full_database, 2,
        small="database"),
    Row("storm-postgresql", "the database and its link, kills, stops and link faults, mixed", "postgresql",
        faults.any_of(*_PROCESSES, *_LINKS, *[faults.kill_database] * 2, faults.stop_database,
                      *[faults.cut_database] * 2), 8, far=True),
)  # fmt: skip


def row_named(name: str) -> Row:
    """Raises KeyError."""
    return {row.name: row for row in ROWS}[name]
