"""One cluster for all tests of this directory: starting it takes longer than most of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.kit import machines_or_skip
from tests.cluster.rig import LOOKUP_PORT, Rig, wait_until


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A head, two workers that run, one that does not yet, and a machine outside with a lookup."""
    directory = Path(tmp_path_factory.mktemp("cluster"))
    with machines_or_skip(directory / "states", 3) as machines:
        rig = Rig(machines, directory)
        machines.start_head()
        machines.start_worker(machines.workers[0], "zone=a,edge-ingress=true")
        machines.start_worker(machines.workers[1], "zone=b,edge-ingress=true")
        rig.workers_alive(2)
        lookup = subprocess.Popen(
            machines.outside.command(
                sys.executable, "-m", "edgesocket", "lookup", "--listen", f"{machines.outside.address}:{LOOKUP_PORT}"
            ),
            env=machines.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        try:
            wait_until(lambda: rig.listens(machines.outside, LOOKUP_PORT), 20, "the lookup listening")
            yield rig
        finally:
            lookup.kill()
            lookup.wait()
