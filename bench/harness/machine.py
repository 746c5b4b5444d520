"""The machine: which CPUs to use, how busy they are, what a process has used, what to call it in a table."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LINUX = sys.platform.startswith("linux")


@dataclass(frozen=True)
class Pins:
    """CPUs for the server and for the generator (empty = wherever the system puts them), and the priority of both."""

    server: frozenset[int]
    generator: frozenset[int]
    nice: int = 0

    def __str__(self) -> str:
        nice = f", nice {self.nice}" if self.nice else ""
        if not self.server:
            return f"server and generator are not pinned{nice}"
        server, generator = (", ".join(map(str, sorted(cpus))) for cpus in (self.server, self.generator))
        return f"server on CPU {server}, generator on CPU {generator}{nice}"


def choose_pins(server: str, generator: str, nice: int = 0) -> Pins:
    """The CPUs asked for ("0,2"), or the first for every server and the next one for the generator."""
    if not hasattr(os, "sched_setaffinity"):
        return Pins(frozenset(), frozenset(), nice)
    usable = sorted(os.sched_getaffinity(0))

    def asked(text: str, default: int) -> frozenset[int]:
        return frozenset(map(int, text.split(","))) if text else frozenset([default])

    return Pins(asked(server, usable[0]), asked(generator, usable[min(1, len(usable) - 1)]), nice)


def settler(cpus: frozenset[int], nice: int) -> Callable[[], None]:
    """What a child does before it becomes its program: stay on these CPUs, at this priority (its threads do too)."""

    def settle() -> None:
        if cpus:
            os.sched_setaffinity(0, cpus)
        if nice:
            os.setsid()
            os.setpriority(os.PRIO_PROCESS, 0, nice)
            group = Path("/proc/self/autogroup")  # where Linux shares CPUs out by session first, a session has one too
            if group.exists():
                group.write_text(str(nice))

    return settle


def cpu_seconds(pid: int) -> float | None:
    """CPU time of all threads of a live process so far; None when it cannot be told."""
    try:
        if LINUX:
            return time.clock_gettime((~pid << 3) | 2)  # the kernel's clock id of another process's CPU time
        text = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        seconds = 0.0
        for part in text.strip().replace("-", ":").split(":"):
            seconds = seconds * 60 + float(part)
        return seconds
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def resident_bytes(pid: int) -> int | None:
    """Memory a live process has resident."""
    try:
        if LINUX:
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        text = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        return int(text) * 1024
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def busy_seconds(cpus: frozenset[int]) -> float | None:
    """How long these CPUs have been busy with anything at all since boot (what a hypervisor stole included)."""
    if not LINUX or not cpus:
        return None
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_model() -> str:
    """The processor's name."""
    if LINUX:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    elif sys.platform == "darwin":
        found = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.strip()
    return platform.processor() or platform.machine()


def describe() -> str:
    """One line for the head of a table."""
    words = [cpu_model(), f"{os.cpu_count()} CPUs", f"{platform.system()} {platform.release()}"]
    words.append(f"{platform.python_implementation()} {platform.python_version()}")
    try:
        words.append(f"numpy {version('numpy')}")
    except PackageNotFoundError:
        pass
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    if congestion.exists():
        words.append(f"TCP {congestion.read_text().strip()}")
    return ", ".join(words)
