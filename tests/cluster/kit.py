"""A Ray cluster of several machines on this one: each node in a network namespace of its own, behind one bridge.

Every node has its own address, ports, and (by a bind mount) its own boot id, so to EdgeSocket they are different hosts.
The file system, the clock and the processors are shared. Needs Linux, root and the `ip` command.

All names carry the pid and a random part, and everything is removed at the end.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "ray"
NODE_START_S = 120.0
HEAD_PORT = 6379
STARTED = "This command will now block forever"
"""What `ray start --block` prints when everything of the node runs. A command that connects earlier may hang."""


@dataclass
class Machine:
    """One machine: a network namespace. `index` gives its address; `labels` those of its Ray node."""

    network: Network
    index: int
    labels: str = ""
    raylet: subprocess.Popen[bytes] | None = None
    boot: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def name(self) -> str:
        """Of the namespace."""
        return f"{self.network.prefix}{self.index}"

    @property
    def address(self) -> str:
        """Of its one interface."""
        return f"10.98.{self.network.octet}.{self.index + 1}"

    @property
    def link(self) -> str:
        """Its end at the bridge."""
        return f"port{self.index}"

    def command(self, *arguments: str | Path) -> list[str]:
        """A command that runs on this machine."""
        boot_file = self.network.scratch / f"boot-{self.index}"
        boot_file.write_text(f"{self.boot}\n")
        script = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
        return ["ip", "netns", "exec", self.name, "sh", "-c", script, str(boot_file), *map(str, arguments)]

    def pids(self) -> list[int]:
        """Processes that run on it."""
        found = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def kill(self) -> None:
        """Pull its plug: every process on it dies at once."""
        for _ in range(20):
            pids = self.pids()
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        if self.raylet is not None:
            self.raylet.wait(10)
            self.raylet = None

    def cut(self) -> None:
        """Pull its network cable."""
        _ip("-n", self.network.hub, "link", "set", self.link, "down")

    def mend(self) -> None:
        """Put the cable back."""
        _ip("-n", self.network.hub, "link", "set", self.link, "up")


class Network:
    """Machines behind one bridge.

    Args:
        machines: how many.
    """

    def __init__(self, machines: int) -> None:
        self.prefix = f"es{os.getpid():x}{secrets.token_hex(1)}-"
        self.octet = secrets.randbelow(200) + 20
        self.hub = f"{self.prefix}hub"
        self.scratch = Path(tempfile.mkdtemp(prefix="esr"))
        self.machines = [Machine(self, index) for index in range(machines)]

    def make(self) -> None:
        """Make it all. Raises CalledProcessError."""
        _ip("netns", "add", self.hub)
        _ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.hub, "link", "set", "bridge", "up")
        for machine in self.machines:
            _ip("netns", "add", machine.name)
            peer = ("type", "veth", "peer", "name", "eth0", "netns", machine.name)
            _ip("-n", self.hub, "link", "add", machine.link, *peer)
            _ip("-n", self.hub, "link", "set", machine.link, "master", "bridge", "up")
            _ip("-n", machine.name, "link", "set", "lo", "up")
            _ip("-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            _ip("-n", machine.name, "link", "set", "eth0", "up")

    def remove(self) -> None:
        """Take it all away."""
        for machine in self.machines:
            machine.kill()
        for name in (*(machine.name for machine in self.machines), self.hub):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        shutil.rmtree(self.scratch, ignore_errors=True)


class RayMachines:
    """A head, which runs no jobs, and workers. The scripts of deploy/ray start them, with their settings.

    Attributes:
        network: machine 0 is the head, the last one is for collectors; those between are workers.
        root: where the states of the jobs lie.
    """

    def __init__(self, network: Network, root: Path) -> None:
        self.network = network
        self.root = root
        self.head, *self.workers, self.outside = network.machines
        token = network.scratch / "token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "EDGESOCKET_"))},
            "RAY": str(Path(sys.executable).parent / "ray"),
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_AUTH_MODE": "token",
            "EDGESOCKET_CLUSTER": str(root),
            "PYTHONPATH": str(ROOT),
            "HOME": str(network.scratch),
        }

    @property
    def head_address(self) -> str:
        """As `ray start --address` takes it."""
        return f"{self.head.address}:{HEAD_PORT}"

    def start_head(self) -> None:
        """Start it and wait until it answers."""
        more = [f"--temp-dir={self.network.scratch / 'ray'}", "--include-dashboard=false"]
        before = len(self.log_of(self.head))
        self._start(self.head, DEPLOY / "start-head", self.head.address, *more)
        deadline = time.monotonic() + NODE_START_S
        while STARTED not in self.log_of(self.head)[before:]:
            assert time.monotonic() < deadline, self.log_of(self.head)
            time.sleep(0.1)

    def start_worker(self, machine: Machine, labels: str) -> None:
        """Start it; does not wait."""
        machine.labels = labels
        self._start(machine, DEPLOY / "start-worker", machine.address, self.head_address, labels, "--num-cpus=2")

    def log_of(self, machine: Machine) -> str:
        """What `ray start` printed there."""
        path = self.network.scratch / f"ray-{machine.index}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _start(self, machine: Machine, *arguments: str | Path) -> None:
        with (self.network.scratch / f"ray-{machine.index}.log").open("ab") as log:
            machine.raylet = subprocess.Popen(
                machine.command(*arguments), env=self.environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/"
            )

    def edgesocket(
        self,
        *arguments: str | Path,
        machine: Machine | None = None,
        timeout_s: float = 60.0,
        ray_address: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run one command on a machine, the head if none is named."""
        command = (machine or self.head).command(sys.executable, "-m", "edgesocket", *arguments)
        environ = {**self.environ, "RAY_ADDRESS": self.head_address if ray_address is None else ray_address}
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=timeout_s, check=False)

    def popen(self, *arguments: str | Path, machine: Machine) -> subprocess.Popen[str]:
        """Start one command of ours on a machine."""
        command = machine.command(sys.executable, "-m", *arguments)
        return subprocess.Popen(
            command, env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
        )


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def why_not() -> str:
    """Why there can be no such cluster here, or an empty string."""
    if os.geteuid() != 0 or shutil.which("ip") is None or not sys.platform.startswith("linux"):
        return "needs Linux, root and the ip command for network namespaces"
    try:
        import ray  # noqa: F401
    except ImportError:
        return "needs Ray: pip install 'edgesocket[ray]'"
    return ""


@contextlib.contextmanager
def machines_or_skip(root: Path, count: int) -> Iterator[RayMachines]:
    """A head, `count` workers and a machine outside, none of them started; or the test is skipped with the reason."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    network = Network(count + 2)
    try:
        try:
            network.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr!r}")
        yield RayMachines(network, root)
    finally:
        network.remove()
