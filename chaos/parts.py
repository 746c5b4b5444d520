"""The shorter soaks: many sources in one process, a slow sink, and connections that come to nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import struct
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from chaos.counting import line_of, tally
from chaos.cycle import PATIENCE_S, Counter
from chaos.destinations import Files, Servers
from chaos.sampling import MIB, Sampler, sample
from chaos.world import World
from tests.support.jobs import TOKEN, EagerCollector, Job, Wire, free_port

SLOW_RATE = 1000
SLOW_BYTES_A_SECOND = 30_000
_READY_S = 300.0
_IDLE_S = 20.0
_ROUND_S = 0.1
_ADDRESSES = 50
_BETWEEN_VISITS_S = 0.5
_REFUSED_S = 0.005
_RESET = struct.pack("ii", 1, 0)


def run_slow_sink(seconds: float, note: Path | None) -> dict[str, Any]:
    """A disk below the sink that takes a third of what comes; then it is quick again."""
    with tempfile.TemporaryDirectory(prefix="edgesocket-soak-") as directory:
        world = World(
            Path(directory), sink="files", servers=Servers(), dice=random.Random("slow-sink"),
            rate=lambda _: SLOW_RATE, shims="ingress:out", long=True,
        )  # fmt: skip
        with world:
            return _slow_sink(world, seconds, note)


def _slow_sink(world: World, seconds: float, note: Path | None) -> dict[str, Any]:
    assert world.shim is not None
    recovered_s, most_waiting = None, 0
    counter = Counter(world)
    pids = {"agent": world.agent.process.pid, "ingress": world.ingress.process.pid}
    try:
        world.begin()
        with Sampler(pids, note=note) as sampler:
            world.shim.slow(SLOW_BYTES_A_SECOND)
            began, confirmed = time.monotonic(), world.link.promises.count
            while time.monotonic() - began < seconds:
                time.sleep(0.2)
                most_waiting = max(most_waiting, world.writer.lines - world.link.promises.count)
            rows_a_second = (world.link.promises.count - confirmed) / seconds
            world.writer.end()
            world.shim.slow(0)
            healed = time.monotonic()
            while world.link.promises.count < world.writer.lines and time.monotonic() < healed + PATIENCE_S:
                time.sleep(0.1)
            if world.link.promises.count >= world.writer.lines:
                recovered_s = round(time.monotonic() - healed, 1)
        ends = world.ends()
        stopped = (world.agent.stop(), world.ingress.stop())
    finally:
        counter.end()
    written = world.writer.lines
    return {
        "seconds": round(seconds), "rate": SLOW_RATE, "rows_a_second": round(rows_a_second), "written": written,
        "most_waiting": most_waiting, "lost": counter.tape.lost(written), "doubled": counter.tape.doubled,
        "strange": counter.tape.strange, "recovered_s": recovered_s, "ended_by_itself": ends, "stopped": stopped,
        "processes": sampler.figures(min(60.0, seconds / 4)),
    }  # fmt: skip


def run_many_sources(count: int, seconds: float) -> dict[str, Any]:
    """So many jobs in one process: idle, then with a collector for each."""
    with tempfile.TemporaryDirectory(prefix="edgesocket-soak-") as name:
        directory = Path(name)
        (directory / "jobs").mkdir()
        ports = _free_ports(count)
        for index, port in enumerate(ports):
            _write_small_job(directory, index, port)
        began = time.monotonic()
        options = ("--state-dir", str(directory / "state"))
        with Job(directory / "jobs", *options, env={"EDGESOCKET_HTTP": "off"}) as job:
            _wait_for_all(job, count)
            ready_s = round(time.monotonic() - began, 1)
            idle = _idle(job.pid)
            busy = _feed(ports, seconds, job.pid)
            written = busy.pop("each")
            stopped = job.stop(120.0)
        ends = [tally(written, Files(directory / "out" / str(index)).numbers()) for index in range(count)]
        return {
            "sources": count, "ready_s": ready_s, **idle, **busy, "seconds": seconds, "written": written * count,
            "lost": sum(len(end.lost) for end in ends), "doubled": sum(len(end.doubled) for end in ends),
            "strange": sum(end.strange for end in ends), "stopped": (stopped,),
        }  # fmt: skip


def _free_ports(count: int) -> list[int]:
    """Different ones: all are held until the last is known."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in held]


def _write_small_job(directory: Path, index: int, port: int) -> None:
    (directory / "jobs" / f"job-{index}.conf").write_text(
        f'env {{ job.name = "job-{index}"\n job.mode = STREAMING\n checkpoint.interval = 2000 }}\n'
        f'source {{ EdgeSocket {{ port = {port}\n token = "{TOKEN}"\n deduplicate = true }} }}\n'
        f'sink {{ LocalFile {{ path = "{directory / "out" / str(index)}", file_format_type = text }} }}\n'
    )


def _wait_for_all(job: Job, count: int) -> None:
    deadline = time.monotonic() + _READY_S
    while job.log_text().count("listener opened") < count:
        assert job.process.poll() is None, job.log_text()[-2000:]
        assert time.monotonic() < deadline, "not all sources are listening"
        time.sleep(0.1)


def _idle(pid: int) -> dict[str, Any]:
    time.sleep(2.0)
    before, began = _cpu_s(pid), time.monotonic()
    time.sleep(_IDLE_S)
    used = (_cpu_s(pid) - before) / (time.monotonic() - began)
    return {
        "idle_rss_mb": round(sample(pid, 0).rss / MIB, 1),
        "idle_threads": len(list(Path(f"/proc/{pid}/task").iterdir())),
        "idle_cpu_percent": round(100 * used, 1),
    }


def _feed(ports: list[int], seconds: float, pid: int) -> dict[str, Any]:
    """A batch to each in turn, and in the end polls until everything is acknowledged."""
    each = 0
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(port)) for port in ports]
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            started = time.monotonic()
            each += 1
            for wire in wires:
                wire.send(f"__BATCH__:{each}:{line_of(each - 1)}")
            for wire in wires:
                reply = wire.read()
                assert reply == "RECEIVED", reply
            time.sleep(max(0.0, _ROUND_S - (time.monotonic() - started)))
        rss = sample(pid, 0).rss
        ended = time.monotonic()
        left = list(wires)
        while left and time.monotonic() < ended + PATIENCE_S:
            left = [wire for wire in left if wire.ask(f"__COMMIT__:{each}") != f"ACK:{each}"]
            time.sleep(0.05)
    return {
        "each": each,
        "busy_rss_mb": round(rss / MIB, 1),
        "recovered_s": None if left else round(time.monotonic() - ended, 1),
    }


def run_connects(count: int) -> dict[str, Any]:
    """Connections from several addresses, closed with RST, beside a collector that delivers."""
    with tempfile.TemporaryDirectory(prefix="edgesocket-soak-") as name:
        directory, port = Path(name), free_port()
        _jobs(directory)
        _write_small_job(directory, 0, port)
        conf = directory / "jobs" / "job-0.conf"
        with Job(conf, "--state-dir", str(directory / "state"), env={"EDGESOCKET_HTTP": "off"}) as job:
            assert job.wait_until_listening(), job.log_text()
            collector = EagerCollector(payload=lambda id_: line_of(id_ - 1))
            assert collector.run(port, 200)
            for _ in range(min(count // 10, 2000)):
                _connect(port, random.randrange(_ADDRESSES))  # what is allocated once has been by then
            time.sleep(1.0)
            before = sample(job.pid, 0)
            done = _storm(port, count, collector)
            time.sleep(2.0)
            after = sample(job.pid, 0)
            stopped = job.stop()
        end = tally(collector.next_id - 1, Files(directory / "out" / "0").numbers())
        return {
            **done, "addresses": _ADDRESSES, "written": end.written, "lost": len(end.lost),
            "doubled": len(end.doubled), "strange": end.strange, "stopped": (stopped,),
            "rss_mb_before": round(before.rss / MIB, 1), "rss_mb_after": round(after.rss / MIB, 1),
            "rss_mb_grown": round((after.rss - before.rss) / MIB, 1), "files_before": before.files,
            "files_after": after.files, "files_grown": after.files - before.files,
        }  # fmt: skip


def _jobs(directory: Path) -> None:
    (directory / "jobs").mkdir()


def _storm(port: int, count: int, collector: EagerCollector) -> dict[str, Any]:
    over = threading.Event()
    visits = 0

    def deliver() -> None:
        nonlocal visits
        while not over.wait(_BETWEEN_VISITS_S):
            visits += collector.run(port, collector.next_id + 20)

    delivering = threading.Thread(target=deliver, name="collector")
    delivering.start()
    began, taken, refused = time.monotonic(), 0, 0
    while taken < count:
        if _connect(port, taken % _ADDRESSES):
            taken += 1
        else:
            refused += 1
            time.sleep(_REFUSED_S)
    took_s = time.monotonic() - began
    over.set()
    delivering.join()
    deadline = time.monotonic() + PATIENCE_S
    while not collector.run(port, collector.next_id - 1):
        assert time.monotonic() < deadline, "the collector cannot finish"
        time.sleep(0.1)
    return {
        "connects": count, "met_a_closed_port": refused, "visits": visits, "seconds": round(took_s, 1),
        "connects_a_second": round(count / took_s),
    }  # fmt: skip


def _connect(port: int, address: int) -> bool:
    """Connect and reset. False where it was refused: a collector is connected, so the port is closed."""
    with socket.socket() as one:
        one.settimeout(10)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        one.bind((f"127.0.1.{address + 1}", 0))
        try:
            one.connect(("127.0.0.1", port))
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.ECONNRESET):
                raise
            return False
    return True


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
