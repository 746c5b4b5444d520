"""The label by which the Service of a job finds the pod that runs it: one pod a job, and it moves with the job."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from edgesocket.cluster.lookup import Directory, LookupServer, describe
from edgesocket.cluster.pods import ApiServer, Pod, addresses_of, changes, pods_of, put_right
from tests.support.jobs import wait_until

HERE = "edgesocket.jobs/clicks"


def pod(name: str, address: str, *jobs: str, running: bool = True) -> Pod:
    return Pod(name, address, running, frozenset(jobs))


def test_a_job_that_was_placed_is_labelled() -> None:
    assert changes({"clicks": "10.0.0.1"}, [pod("a", "10.0.0.1"), pod("b", "10.0.0.2")]) == [("a", {HERE: "here"})]


def test_what_is_right_is_left_alone() -> None:
    assert changes({"clicks": "10.0.0.1"}, [pod("a", "10.0.0.1", "clicks"), pod("b", "10.0.0.2")]) == []


def test_the_old_pod_loses_the_label_before_the_new_one_gets_it() -> None:
    pods = [pod("new", "10.0.0.2"), pod("old", "10.0.0.1", "clicks")]
    assert changes({"clicks": "10.0.0.2"}, pods) == [("old", {HERE: None}), ("new", {HERE: "here"})]


@pytest.mark.parametrize("pods", [[pod("a", "10.0.0.1", "clicks", running=False)], [pod("a", "10.0.0.9", "clicks")]])
def test_a_job_whose_pod_is_gone_keeps_no_label(pods: list[Pod]) -> None:
    assert changes({"clicks": "10.0.0.1"}, pods) == [("a", {HERE: None})]


def test_a_job_that_is_nowhere_keeps_no_label() -> None:
    assert changes({}, [pod("a", "10.0.0.1", "clicks", "taps")]) == [("a", {HERE: None, "edgesocket.jobs/taps": None})]


def test_several_jobs_may_be_in_one_pod() -> None:
    assert changes({"b": "10.0.0.1", "a": "10.0.0.1"}, [pod("p", "10.0.0.1")]) == [
        ("p", {"edgesocket.jobs/a": "here", "edgesocket.jobs/b": "here"})
    ]


@pytest.mark.parametrize("name", ["two words", "a/b", "-a", "a" * 64, "ü"])
def test_a_name_that_can_be_no_label_is_passed_over(name: str) -> None:
    assert changes({name: "10.0.0.1"}, [pod("a", "10.0.0.1")]) == []


@pytest.mark.parametrize(
    ("address", "host"), [("10.0.0.1:10091", "10.0.0.1"), ("[fd00::1]:10091", "fd00::1"), ("", None), (None, None)]
)
def test_the_address_of_a_job_is_a_host_and_a_port(address: str | None, host: str | None) -> None:
    found = addresses_of({"jobs": {"clicks": {"endpoint": "lb.example.com:10091", "address": address}}})
    assert found == ({} if host is None else {"clicks": host})


def test_a_pod_that_has_no_address_yet_is_read() -> None:
    answer = {"items": [{"metadata": {"name": "a"}, "status": {"phase": "Pending"}}]}
    assert pods_of(answer) == [pod("a", "", running=False)]


class Kubernetes:
    """As much of an API server as is asked: pods that can be listed by a selector and patched, for one token."""

    def __init__(self, **pods: str) -> None:
        self.labels: dict[str, dict[str, str]] = {name: {"ray.io/cluster": "edge"} for name in pods}
        self.token = "first"
        kubernetes = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                assert (url.path, parse_qs(url.query)) == (
                    "/api/v1/namespaces/edge/pods",
                    {"labelSelector": ["ray.io/cluster=edge"]},
                )
                self.answer(
                    {
                        "items": [
                            {
                                "metadata": {"name": name, "labels": kubernetes.labels[name]},
                                "status": {"phase": "Running", "podIP": address},
                            }
                            for name, address in pods.items()
                        ]
                    }
                )

            def do_PATCH(self) -> None:
                assert self.headers["Content-Type"] == "application/merge-patch+json"
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                labels = kubernetes.labels[self.path.rpartition("/")[2]]
                for name, value in body["metadata"]["labels"].items():
                    if value is None:
                        labels.pop(name)
                    else:
                        labels[name] = value
                self.answer({})

            def answer(self, content: Any) -> None:
                known = self.headers["Authorization"] == f"Bearer {kubernetes.token}"
                text = json.dumps(content).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def kubernetes() -> Iterator[Kubernetes]:
    server = Kubernetes(a="10.0.0.1", b="10.0.0.2")
    yield server
    server.close()


def api_of(kubernetes: Kubernetes, account: Path) -> ApiServer:
    (account / "namespace").write_text("edge\n")
    (account / "token").write_text("first")
    return ApiServer(kubernetes.url, account)


def test_the_label_follows_the_job_through_the_api_server(tmp_path: Path, kubernetes: Kubernetes) -> None:
    api = api_of(kubernetes, tmp_path)
    assert api.namespace() == "edge"
    for address, here, elsewhere in (("10.0.0.1", "a", "b"), ("10.0.0.2", "b", "a")):
        said = put_right({"clicks": address}, api.ask, "edge", "ray.io/cluster=edge")
        assert f"pod {here}: clicks is here" in said
        assert kubernetes.labels[here] == {"ray.io/cluster": "edge", HERE: "here"}
        assert kubernetes.labels[elsewhere] == {"ray.io/cluster": "edge"}


def test_a_token_that_kubernetes_replaces_is_read_again(tmp_path: Path, kubernetes: Kubernetes) -> None:
    api = api_of(kubernetes, tmp_path)
    kubernetes.token = "second"
    with pytest.raises(OSError, match="401"):
        put_right({}, api.ask, "edge", "ray.io/cluster=edge")
    (tmp_path / "token").write_text("second")
    assert put_right({}, api.ask, "edge", "ray.io/cluster=edge") == []


def test_the_process_moves_the_label_with_the_job_and_leaves_it_while_the_lookup_is_silent(
    tmp_path: Path, kubernetes: Kubernetes
) -> None:
    """The real lookup server, which is asked by the process of the chart."""
    api_of(kubernetes, tmp_path)
    bound = SimpleNamespace(address="", endpoint="lb.example.com:10091", epoch=1, attempt=None, state="RUNNING")
    directory = SimpleNamespace(all=lambda: {"clicks": describe(cast(Any, bound))})
    options = [f"--api={kubernetes.url}", f"--account={tmp_path}", "--selector=ray.io/cluster=edge", "--every=0.05"]
    said = tmp_path / "said"
    lookup = LookupServer(("127.0.0.1", 0), cast(Directory, directory))
    serving = threading.Thread(target=lookup.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    command = [sys.executable, "-m", "edgesocket.cluster.pods", f"--lookup=http://127.0.0.1:{lookup.server_port}"]
    with said.open("w") as stream:
        process = subprocess.Popen([*command, *options], stderr=stream)
    try:
        for address, here, elsewhere in (("10.0.0.1", "a", "b"), ("10.0.0.2", "b", "a")):
            bound.address = f"{address}:10091"
            wait_until(lambda here=here: HERE in kubernetes.labels[here], what=f"the label on {here}")
            assert HERE not in kubernetes.labels[elsewhere]
    finally:
        lookup.shutdown()
        serving.join()
        lookup.server_close()
        try:
            wait_until(lambda: "labels stay as they are" in said.read_text(), what="a word of the trouble")
        finally:
            process.terminate()
            process.wait(10)
    assert HERE in kubernetes.labels["b"], "while the lookup does not answer, nothing changes"
    assert "pod b: clicks is here" in said.read_text()
    assert "Traceback" not in said.read_text()
