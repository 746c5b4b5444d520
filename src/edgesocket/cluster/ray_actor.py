"""The Ray actor of a host: it starts the process of the host's jobs, and starts it again when that ends.

Imported by Ray's workers; Ray itself is imported only inside. The jobs are not in the actor's own process because Ray
takes more than a second to start one, and starts it anywhere; this one is back sooner, on the same worker,
where the successor of a dead owner need not wait for a lease. What Ray is for is the loss of the worker.

The constructor returns at once and never fails: Ray does not start an actor again whose constructor raised, and starts
one that died in it again without any pause. All work is done by a thread of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from edgesocket.cluster.host_link import Answers, Asked, Link, complain
from edgesocket.cluster.watchdog import watch_this_process
from edgesocket.errors import ExitCode

BROKEN_PAUSE_S = 30.0
"""Between tries to begin where something is missing on this worker."""

WATCHDOG_S = 60.0
"""An actor without a sign of life for so long is killed by the kernel, its jobs with it, and Ray makes another."""

_WRONG_OPTIONS = 2
"""How a process ends that does not know its command line: it is of another version than this one."""

STATES_S = 1.5
"""How long the process of the jobs may take to say what they do."""


class Surrounding(Asked, Protocol):
    """Ray, as the actor uses it."""

    def own_node(self) -> tuple[str, str]:
        """Id and IP address of the node that this process is on."""


class HostActor:
    """One host.

    Args:
        root: where the states of the cluster's jobs lie, as text.
        name: of this host.
        factory: `module:function`, see `cluster.jobs_process.Factory`.
        connect: connects to Ray; for tests.
        end: ends this process; for tests.
    """

    def __init__(
        self,
        root: str,
        name: str,
        factory: str,
        connect: Callable[[str], Surrounding] | None = None,
        end: Callable[[int], Any] = os._exit,
    ) -> None:
        self._root, self._name, self._factory = root, name, factory
        self._connect = connect or _connect
        self._end = end
        self._below: _Below | None = None
        self._follows = self._before = 0
        self._retires = False
        self._problem = ""
        self._closed = threading.Event()
        # The kernel ends the process of the jobs with the thread that started it: this one is there for ever.
        threading.Thread(target=self._serve, name="edgesocket-host", daemon=True).start()
        if connect is None:
            watch_this_process(WATCHDOG_S)

    def look(self, job: str) -> int:
        """There is a new order for this job. Returns the actor's pid. Raises RuntimeError where the host retires."""
        if self._retires:
            raise RuntimeError(f"host {self._name} retires")
        below = self._below
        if below is not None:  # else the next process looks at all orders as it begins
            below.link.send("look", job)
        return os.getpid()

    def states(self) -> dict[str, Any]:
        """What this host and its jobs are doing, as JSON. `pid`: of the process of the jobs; 0: there is none."""
        below, problem, jobs = self._below, self._problem, {}
        if below is not None:
            try:
                (jobs,) = below.answers.ask("states", timeout_s=STATES_S)
            except TimeoutError:
                problem = problem or "the process of the jobs does not answer"
        return {"pid": 0 if below is None else below.process.pid, "problem": problem, "jobs": jobs}

    def close(self) -> None:
        """End the process of the jobs, and start no other."""
        self._closed.set()
        below = self._below
        if below is not None:
            below.process.kill()

    def _serve(self) -> None:
        while not self._closed.is_set():
            begun = False
            try:
                begun = self._look_after_one()
            except Exception as error:
                self._problem = f"{type(error).__name__}: {error}"
                complain(f"host {self._name} does not work:\n{traceback.format_exc()}")
            if not begun:  # one that had begun paces itself, by the starts that it finds noted
                self._closed.wait(BROKEN_PAUSE_S)

    def _look_after_one(self) -> bool:
        """Start the process of the jobs and stay until it ends. Returns whether it had begun as the host."""
        around = self._connect(self._root)
        node, address = around.own_node()
        here, there = multiprocessing.Pipe()
        try:
            process = self._start(node, address, there.fileno())
        finally:
            there.close()
        below = self._below = _Below(Link(here), process, around)
        try:
            while (message := below.link.receive()) is not None:
                self._hear(below, *message)
        finally:
            self._below = None
            self._retires = False
            self._before = process.pid
            below.end()
        if not below.begun:
            self._explain(process.returncode)
        return below.begun

    def _hear(self, below: _Below, kind: str, *rest: Any) -> None:
        if kind == "begun":
            below.begun, self._follows, self._problem = True, rest[0], ""
        elif kind == "problem":
            self._problem = rest[0]
        elif kind == "replaced":
            self._end(ExitCode.TRY_LATER)
        elif kind == "states":
            below.answers.take(rest[0], tuple(rest[1:]))
        else:
            number, what, arguments = rest
            self._retires |= what == "end_host" and arguments == (self._name,)
            below.ask_ray(number, what, arguments)

    def _explain(self, code: int) -> None:
        """Why there is no host, where the process did not say so itself."""
        self._problem = self._problem or f"the process of the jobs ended with {code} before it had begun, see Ray's log"
        if code == _WRONG_OPTIONS:
            self._closed.wait(BROKEN_PAUSE_S)
            self._end(ExitCode.TRY_LATER)

    def _start(self, node: str, address: str, fd: int) -> subprocess.Popen[bytes]:
        options = {
            "factory": self._factory, "root": self._root, "name": self._name, "node": node, "address": address,
            "fd": fd, "parent": os.getpid(), "follows": self._follows, "before": self._before,
        }  # fmt: skip
        command = [sys.executable, "-P", "-m", "edgesocket.cluster.jobs_process"]
        for option, value in options.items():
            command.append(f"--{option}={value}")
        # Whatever Ray made importable here is to be importable there.
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)}
        return subprocess.Popen(  # noqa: S603  # nosec B603 - our own module, no shell
            command, pass_fds=[fd], stdin=subprocess.DEVNULL, env=environ
        )


class _Below:
    """The process of the jobs, as its actor sees it."""

    def __init__(self, link: Link, process: subprocess.Popen[bytes], around: Asked) -> None:
        self.link = link
        self.process = process
        self.answers = Answers(link)
        self.begun = False
        self._around = around
        self._asking = threading.Lock()
        self._over = False
        self._waits = threading.Thread(target=self._wait, name="edgesocket-wait", daemon=True)
        self._waits.start()

    def _wait(self) -> None:
        """Until it ends. Then so does the link, even if something that it had started has it open."""
        self.process.wait()
        self.link.hang_up()

    def end(self) -> None:
        """End it, and what is between us."""
        self._over = True
        self.process.kill()
        self._waits.join()  # before the link is closed: its descriptor will be another one's
        self.link.close()

    def ask_ray(self, number: int, what: str, arguments: tuple[Any, ...]) -> None:
        """Ask Ray on a thread of its own, one question at a time: it may not answer for long."""
        if not self._asking.acquire(blocking=False):
            self.link.send("answer", number, None, "Ray has not answered the question before yet")
            return
        threading.Thread(target=self._ask, args=(number, what, arguments), name="edgesocket-ray", daemon=True).start()

    def _ask(self, number: int, what: str, arguments: tuple[Any, ...]) -> None:
        value, problem = None, ""
        try:
            if not self._over:  # who asked may be gone, and its successor has other wishes
                value = getattr(self._around, what)(*arguments)
        except Exception as error:
            problem = str(error) or type(error).__name__
        finally:
            self._asking.release()
        self.link.send("answer", number, value, problem)


def _connect(root: str) -> Surrounding:
    from edgesocket.cluster.ray_cluster import RayCluster

    return RayCluster(root, "")


def ancestors(pid: int) -> Iterator[list[str]]:
    """Command lines of the processes above this one, the nearest first. Linux; nothing elsewhere."""
    while pid > 1:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stream:  # noqa: PTH123  runs on any worker
                pid = int(stream.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{pid}/cmdline", "rb") as stream:  # noqa: PTH123
                yield stream.read().decode(errors="replace").split("\0")
        except (OSError, ValueError, IndexError):
            return


def raylet_command() -> list[str]:
    """The command line of the raylet that started this process, or the one above it; empty where there is none."""
    for command in ancestors(os.getpid()):
        if command and command[0].rpartition("/")[2] == "raylet":
            return command
    return []
