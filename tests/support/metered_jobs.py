"""Real jobs inside the test's process, with sinks that a test can hold up or break, and their metrics as numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from edgesocket.cli.jobs import make_plan, this_host
from edgesocket.components.sink import CommitRole, Manifest, SinkContext
from edgesocket.config.job import load_job
from edgesocket.engine.plan import SinkPlan
from edgesocket.engine.runner import JobRunner
from edgesocket.errors import EdgeSocketError
from edgesocket.rows import Rows
from edgesocket.store.place import place_of
from edgesocket.telemetry.journal import Journal
from edgesocket.telemetry.metrics import Reading
from edgesocket.web.metrics import render
from tests.support.jobs import TOKEN, Wire, free_port, wait_until

Values = dict[str, float]
"""Sum of the samples of each metric; of a histogram, its count."""


class GatedSink:
    """Takes rows and forgets them, unless it is told to wait or to fail."""

    commit_role = CommitRole.NONE

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def open(self, context: SinkContext) -> None: ...

    def write(self, rows: Rows) -> None:
        self._gate.wait()
        if self._gate.write_error is not None:
            raise self._gate.write_error

    def prepare(self, checkpoint: int) -> Manifest:
        if self._gate.prepare_error is not None:
            raise self._gate.prepare_error
        return {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None: ...

    def close(self) -> None: ...


class Gate:
    """What a test tells the sinks of a job, over all of its incarnations."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.before_it = threading.Event()
        self.write_error: Exception | None = None
        self.prepare_error: Exception | None = None

    def close(self) -> None:
        """From here on, whoever writes waits."""
        self.before_it.clear()
        self.open.clear()

    def wait(self) -> None:
        """Of a sink that writes: return when it is open."""
        if not self.open.is_set():
            self.before_it.set()
            self.open.wait(30)


class MeteredJob:
    """One job on a thread of its own.

    Args:
        directory: for its state.
        name: of the job.
        source, env: further options of its job file.
    """

    def __init__(self, directory: Path, name: str, *, source: str = "", env: str = "") -> None:
        self.port = free_port()
        self.gate = Gate()
        self.ids = 0
        text = (
            f"env {{ job.mode = STREAMING\n job.name = {name}\n checkpoint.interval = 100\n {env} }}\n"
            f'source {{ EdgeSocket {{ port = {self.port}\n token = "{TOKEN}"\n'
            f"queue_full_wait_ms = 0\n {source} }} }}\n"
            f'sink {{ Null {{}} }}\n dead_letter {{ DeadLetter {{ path = "{directory}" }} }}\n'
        )
        place = place_of(str(directory / name))
        plan = make_plan(load_job(text, f"{name}.conf"), place)
        plan = replace(
            plan,
            sinks=(SinkPlan("rows", lambda: GatedSink(self.gate)),),
            dead_letter=SinkPlan("letters", lambda: GatedSink(Gate())),
            retry_interval_s=0.05,
        )
        self.journal = Journal(threading.Lock(), lambda: 0)
        owner: Callable[[], Any] = partial(place.owner, name)
        self.runner = JobRunner(plan, place.open_store, owner, this_host(), self.journal)
        self.name = name
        self.error: EdgeSocketError | None = None
        self._thread = threading.Thread(target=self._run, name=f"metered-{name}", daemon=True)
        self._wire: Wire | None = None

    def _run(self) -> None:
        try:
            self.runner.run()
        except EdgeSocketError as error:
            self.error = error

    def start(self) -> None:
        """Run, and return when the port is open."""
        self._thread.start()
        wait_until(lambda: self.runner.status()["state"] == "running")
        wait_until(lambda: self.runner.status()["source"]["listener"]["state"] == "listening")

    def stop(self) -> None:
        """End well."""
        self.hang_up()
        self.gate.open.set()
        self.gate.write_error = self.gate.prepare_error = None
        self.runner.stop()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def reading(self) -> Reading:
        """What there is to know of it now."""
        return Reading(self.name, self.runner.status(), self.journal)

    @property
    def wire(self) -> Wire:
        """The collector's connection; a new one where there is none."""
        if self._wire is None:
            wait_until(lambda: self.reading().status["source"]["listener"]["state"] == "listening")
            self._wire = Wire(self.port)
        return self._wire

    def hang_up(self) -> None:
        """The collector goes away."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def send(self, *payloads: str | bytes) -> list[str]:
        """Each payload as the next batch. Returns the replies."""
        return [self.send_as(self.ids + 1, payload) for payload in payloads]

    def catch_up(self) -> None:
        """Send again what was refused or lost, until everything is confirmed."""

        def all_confirmed() -> bool:
            status = self.reading().status["source"]
            for first in range(status["watermark"] + 1, self.ids + 1):
                if self.wire.ask(f"__COMMIT__:{first}") in ("RETRY", "RESEND"):
                    self.send_as(first, '{"n":1}')
            return bool(self.reading().status["source"]["watermark"] == self.ids)

        wait_until(all_confirmed, what=f"catching up of {self.name}")

    def send_as(self, batch_id: int, payload: str | bytes) -> str:
        """One batch. Returns the reply."""
        self.ids = max(self.ids, batch_id)
        data = payload.encode() if isinstance(payload, str) else payload
        return self.wire.ask(b"__BATCH__:%d:%s" % (batch_id, data))


class Metered:
    """Several jobs, as `web.metrics` reads them."""

    def __init__(self, *jobs: MeteredJob) -> None:
        self.jobs = jobs

    def readings(self) -> list[Reading]:
        """Of each job."""
        return [job.reading() for job in self.jobs]

    def text(self) -> str:
        """As `/metrics` answers."""
        return render(self)[0].decode()

    def values(self) -> Values:
        """Every metric of EdgeSocket, samples of all labels added up."""
        found: Values = {}
        for name, _, value in self.samples():
            found[name] = found.get(name, 0.0) + value
        return found

    def samples(self) -> list[tuple[str, dict[str, str], float]]:
        """Every sample of EdgeSocket; a histogram as its count, under its own name."""
        return [
            (sample.name.removesuffix("_count") if family.type == "histogram" else sample.name, *_rest(sample))
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
            if sample.name.startswith("edgesocket_") and not sample.name.endswith(("_bucket", "_sum"))
        ]


def _rest(sample: Any) -> tuple[dict[str, str], float]:
    return sample.labels, sample.value
