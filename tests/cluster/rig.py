"""What the tests of the cluster ask and do: jobs, a collector under load, where a job runs, what is in its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.kit import Machine, RayMachines

TOKEN = "edge-token"
LOOKUP_PORT = 8090
QUIET_LOAD_S = 1.0
"""How long a quiet machine takes to load what a host process loads."""


def wait_until(condition: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """Poll until it is true; returns what it returned."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s:g} s"
        time.sleep(0.02)
    return found


class Crowd:
    """Knows how many processes wanted a processor, so that a time is compared with what this machine could do then."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def slowness(self, since: float, seconds: float) -> float:
        """How many times longer things took in that time than on a machine that does nothing else; at least 1."""
        there = [wanting for at, wanting in self._seen if since <= at <= since + seconds]
        return max(1.0, sum(there) / len(there) / (os.cpu_count() or 1)) if there else 1.0

    def _watch(self) -> None:
        while True:
            running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
            self._seen.append((time.monotonic(), running))
            time.sleep(0.05)


class Rig:
    """A running cluster. See the fixture in `conftest.py`."""

    def __init__(self, machines: RayMachines, directory: Path) -> None:
        self.machines = machines
        self.directory = directory
        self.crowd = Crowd()
        self.lookup_url = f"http://{machines.outside.address}:{LOOKUP_PORT}"

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def write_job(self, name: str, port: int, tag_filter: str, *, source: str = "") -> Path:
        """A job as in the reference: a tag_filter, a port, a token; rows go to text files."""
        path = self.directory / f"{name}.conf"
        path.write_text(
            f"env {{\n  job.mode = STREAMING\n  checkpoint.interval = 300\n  tag_filter {{ {tag_filter} }}\n}}\n"
            f'source {{ EdgeSocket {{\n  port = {port}\n  token = "{TOKEN}"\n  {source}\n}} }}\n'
            f'sink {{ LocalFile {{ path = "{self.out(name)}", file_format_type = text }} }}\n'
        )
        return path

    def out(self, name: str) -> Path:
        """Where the rows of a job go."""
        return self.directory / "out" / name

    def rows(self, name: str) -> set[str]:
        """Every row that is published."""
        found: set[str] = set()
        for path in self.out(name).glob("part-*"):
            found |= set(path.read_text().split("\n")[:-1])
        return found

    def submit(self, conf: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """Submit a job on the head."""
        return self.machines.edgesocket("submit", conf, *more)

    def cluster_status(self, name: str) -> dict[str, Any]:
        """What `status --format json` says of the job's place in the cluster; asks the store alone."""
        done = self.machines.edgesocket("status", name, "--format", "json", machine=self.machines.outside)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)["cluster"]
        return found

    def status(self, name: str) -> dict[str, Any]:
        """The status file of a job; empty where there is none yet."""
        try:
            found: dict[str, Any] = json.loads((self.machines.root / name / "status.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found

    def attempt(self, name: str) -> dict[str, Any]:
        """The newest start of a job on a host."""
        found = sorted((self.machines.root / name / "attempts").glob("*.json"))
        attempt: dict[str, Any] = json.loads(found[-1].read_bytes()) if found else {}
        return attempt

    def runs_on(self, name: str) -> Machine:
        """The machine that a job was started on last."""
        address = self.attempt(name).get("address")
        return next(machine for machine in self.machines.workers if machine.address == address)

    def wait_until_runs(self, name: str, timeout_s: float = 20.0, after: int = 0) -> int:
        """Wait until the job accepts in an incarnation after `after`. Returns its epoch."""

        def epoch() -> int:
            status = self.status(name)
            found = int(status.get("epoch", 0))
            return found if status.get("state") == "running" and found > after else 0

        return int(wait_until(epoch, timeout_s, f"{name} running"))

    def wait_until_runs_elsewhere(self, name: str, machine: Machine, timeout_s: float = 20.0) -> int:
        """Wait until the job accepts on another machine than this one. Returns its epoch.

        The one before may have started it again meanwhile: who is cut off from the network still reaches the states.
        """

        def epoch() -> int:
            status, attempt = self.status(name), self.attempt(name)
            moved = attempt.get("address") != machine.address and status.get("pid") == attempt.get("pid")
            return int(status.get("epoch", 0)) if moved and status.get("state") == "running" else 0

        return int(wait_until(epoch, timeout_s, f"{name} running elsewhere"))

    def workers_alive(self, count: int, timeout_s: float = 120.0) -> None:
        """Wait until so many workers have joined."""
        code = (
            "import sys, logging, time, ray\n"
            "ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)\n"
            "deadline = time.monotonic() + float(sys.argv[3])\n"
            "while True:\n"
            "    alive = sum(n['Alive'] and n['Resources'].get('CPU', 0) > 0 for n in ray.nodes())\n"
            "    if alive >= int(sys.argv[2]): break\n"
            "    assert time.monotonic() < deadline, ray.nodes()\n"
            "    time.sleep(0.1)\n"
        )
        machines = self.machines
        command = machines.head.command(sys.executable, "-c", code, machines.head_address, str(count), str(timeout_s))
        with subprocess.Popen(
            command, env=machines.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as asking:
            while asking.poll() is None:
                for machine in machines.workers:
                    if machine.raylet is not None and machine.raylet.poll() is not None:
                        machine.kill()  # Ray gives a slow machine 30 s to start; a service manager tries again
                        machines.start_worker(machine, machine.labels)
                time.sleep(0.2)
            assert asking.returncode == 0, asking.communicate()[1]

    def slowness(self, since: float, seconds: float) -> float:
        """How many times longer things took in that time than on the quiet machine that the targets are for.

        The larger of two views: how many processes wanted each processor, and how long it takes now to load what a
        host process loads, which is most of every restart.
        """
        began = time.monotonic()
        code = "import ray, edgesocket.cli.hosted"
        subprocess.run([sys.executable, "-c", code], env=self.machines.environ, check=True, capture_output=True)
        return max(self.crowd.slowness(since, seconds), (time.monotonic() - began) / QUIET_LOAD_S)

    def listens(self, machine: Machine, port: int) -> bool:
        """Whether somebody listens on a port of a machine."""
        done = subprocess.run(
            ["ip", "netns", "exec", machine.name, "ss", "-Hltn", f"sport = :{port}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return bool(done.stdout.strip())


class Collector:
    """`tests.cluster.load` on the machine outside."""

    def __init__(self, rig: Rig, job: str) -> None:
        self._rig = rig
        self._job = job
        self.events_file = rig.directory / f"{job}.events"
        command = rig.machines.outside.command(
            sys.executable, "-m", "tests.cluster.load", rig.lookup_url, job, TOKEN, str(self.events_file)
        )
        self._process = subprocess.Popen(
            command, env=rig.machines.environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/"
        )

    def events(self) -> list[dict[str, Any]]:
        """What it has told so far."""
        assert self._process.poll() is None or self._process.returncode == 0, self._process.communicate()[1]
        text = self.events_file.read_text() if self.events_file.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def watermark(self) -> int:
        """What was acknowledged so far."""
        events = self.events()
        return int(events[-1]["watermark"]) if events else 0

    def wait_for_progress(self, timeout_s: float = 20.0) -> None:
        """Return when something more was acknowledged than now."""
        before = self.watermark()
        wait_until(lambda: self.watermark() > before, timeout_s, "a further ACK")

    def accepted_after(self, moment: float, timeout_s: float) -> float:
        """Seconds from `moment` (steady clock) until an ingress had accepted this collector again."""

        def found() -> float:
            times = [event["at"] for event in self.events() if event["event"] == "streaming" and event["at"] > moment]
            return times[0] - moment if times else 0.0

        return float(wait_until(found, timeout_s, "accepting again"))

    def lost_before(self) -> int:
        """How often the connection was lost."""
        return sum(event["event"] == "lost" for event in self.events())

    def finish(self) -> int:
        """Flush everything. Returns how many batches were sent; all are confirmed, and in the files."""
        _, errors = self._process.communicate("end\n", timeout=90)
        assert self._process.returncode == 0, errors
        last = self.events()[-1]
        assert last["event"] == "end", last
        assert last["left"] == 0, last
        self.check_files(last["sent"])
        return int(last["sent"])

    def check_files(self, up_to: int | None = None) -> None:
        """Nothing at or below an ACK is missing in the files of the sink."""
        acknowledged = self.watermark() if up_to is None else up_to
        there = self._rig.rows(self._job)
        missing = [n for n in range(1, acknowledged + 1) if f"p{n}" not in there]
        assert not missing, f"acknowledged up to {acknowledged}, missing {missing[:10]} ({len(missing)})"

    def close(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
