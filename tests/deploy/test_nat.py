"""An ingress behind a port forward and a source NAT, and a NAT that forgets connections: nothing is lost.

The real `edgesocket run` and `edgesocket collect`, each in a network of its own. Rows come exactly once, as the ingress
recognises what is sent again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nat_kit import INNER, OUTER, PORT, NatNetwork, nat_or_skip

from tests.support.jobs import ROOT, TOKEN, Job, rows, wait_until, write_job

QUICK = ("keepalive_idle_s = 1", "keepalive_interval_s = 1", "keepalive_probes = 2", "user_timeout_ms = 3000")
"""The ingress notices a dead connection within three seconds; `quick_collect` the same."""


class Edge:
    """A collector in one network, which follows a file, and an ingress in another one, with the NAT between them."""

    def __init__(self, network: NatNetwork, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "edge.log"
        self._file.touch()
        self._sent = 0
        options = (f'endpoint = "{OUTER}:{PORT}"', "deduplicate = true", *QUICK)
        conf = write_job(directory, PORT, source="\n ".join(options))
        with network.inside("ingress"):
            self.job = Job(conf)
        assert self.job.wait_until_listening()
        command = [sys.executable, str(Path(__file__).with_name("quick_collect.py")), "--file", str(self._file)]
        more = ["--from-beginning", "--to", f"{OUTER}:{PORT}", "--spool", str(directory / "spool")]
        with network.inside("collector"), (directory / "agent.log").open("wb") as log:
            self._agent = subprocess.Popen(
                [*command, *more], stderr=log, cwd=ROOT, env={**os.environ, "EDGESOCKET_TOKEN": TOKEN}
            )

    def say(self, count: int) -> None:
        """Append lines to the file that is followed."""
        first, self._sent = self._sent, self._sent + count
        with self._file.open("a") as stream:
            stream.writelines(f"line {number}\n" for number in range(first, self._sent))

    def wait_until_there(self, timeout_s: float = 30.0) -> None:
        """Return when every line is in a published file, once."""
        out = self._directory / "out"
        wait_until(lambda: len(rows(out)) >= self._sent, timeout_s, f"{self._sent} rows")
        assert sorted(rows(out)) == sorted(f"line {number}" for number in range(self._sent))

    def conversations(self) -> int:
        """How often a collector was let in."""
        return self.job.log_text().count("collector connected")

    def close(self) -> None:
        """End both."""
        self._agent.kill()
        self._agent.wait(30)
        self.job.kill()


@contextlib.contextmanager
def edge_behind_nat(directory: Path, *, silent: bool = False) -> Iterator[tuple[NatNetwork, Edge]]:
    with nat_or_skip(silent=silent) as network:
        edge = Edge(network, directory)
        try:
            yield network, edge
        finally:
            edge.close()


def test_through_a_nat_both_sides_see_the_router_only(tmp_path: Path) -> None:
    with edge_behind_nat(tmp_path) as (network, edge):
        edge.say(100)
        edge.wait_until_there()
        assert f"collectors dial {OUTER}:{PORT}" in edge.job.log_text()
        assert f"peer={INNER}:" in edge.job.log_text()
        assert network.known() == 1
        assert edge.conversations() == 1


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True], ids=["with resets", "in silence"])
def test_a_nat_that_forgets_a_connection_in_use_costs_time_and_no_line(tmp_path: Path, silent: bool) -> None:
    with edge_behind_nat(tmp_path, silent=silent) as (network, edge):
        edge.say(1000)
        edge.wait_until_there()
        for round_ in range(1, 2 if silent else 4):
            edge.say(5000)
            network.forget()
            edge.say(5000)
            edge.wait_until_there()
            assert edge.conversations() == 1 + round_


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True], ids=["with resets", "in silence"])
def test_a_connection_that_was_forgotten_while_idle_is_made_again(tmp_path: Path, silent: bool) -> None:
    """Both ends notice by themselves: nobody has anything to say."""
    with edge_behind_nat(tmp_path, silent=silent) as (network, edge):
        edge.say(10)
        edge.wait_until_there()
        network.forget()
        wait_until(lambda: edge.conversations() == 2, what="a new conversation")
        edge.say(10)
        edge.wait_until_there()
        assert network.known() == 1


@pytest.mark.slow
def test_signs_of_life_keep_an_idle_connection_known(tmp_path: Path) -> None:
    """The NAT forgets after two seconds without a packet; both ends ask the other one after a second."""
    with edge_behind_nat(tmp_path) as (network, edge):
        network.set("net.netfilter.nf_conntrack_tcp_timeout_established=2")
        edge.say(10)
        edge.wait_until_there()
        assert network.remembers_for_s() <= 2
        time.sleep(5)
        assert network.known() == 1
        edge.say(10)
        edge.wait_until_there()
        assert edge.conversations() == 1
