"""Keeps a label on the one pod in which each job runs, so that the Service of a job reaches it wherever it was placed.

On Kubernetes a job runs in one of several worker pods, and collectors dial one address. A Service selects pods by
labels, so the label `edgesocket.jobs/NAME=here` follows the job: `edgesocket lookup` says at which IP the newest
incarnation of each job is bound, and the label is taken from other pods and put on the pod of that IP. What is asked
comes from the state of the jobs alone, so a job that moved is found while Ray or its head is down.

    python -m edgesocket.cluster.pods --lookup http://127.0.0.1:8088 --selector ray.io/cluster=edge

Runs beside the lookup, with the right to list and to patch pods of its own namespace, and nothing else. Standard
library only. While the lookup does not answer, labels stay as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import ssl
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

LABEL_PREFIX = "edgesocket.jobs/"
LABEL_VALUE = "here"

LOOK_S = 1.0
"""How often the lookup is asked, unless told otherwise. It reads the state of every job each time."""

RELIST_S = 10.0
"""How often pods are listed although no job has moved: a pod may have been made anew with another IP."""

TIMEOUT_S = 5.0
"""Longest wait for one answer."""

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""More than this is no answer."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "https://kubernetes.default.svc"

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")

Ask = Callable[[str, str, Any], Any]
"""Method, path below the API server and body (or None) of a request; returns what the answer says."""


@dataclass(frozen=True, slots=True)
class Pod:
    """What is needed of a pod: its name, IP, whether it runs, and the jobs that its labels say are here."""

    name: str
    address: str
    running: bool
    jobs: frozenset[str]


def pods_of(answer: Mapping[str, Any]) -> list[Pod]:
    """The pods of an answer of the API server (a PodList)."""
    found = []
    for item in answer.get("items", ()):
        meta, status = item["metadata"], item.get("status", {})
        labels = meta.get("labels") or {}
        jobs = frozenset(name.removeprefix(LABEL_PREFIX) for name in labels if name.startswith(LABEL_PREFIX))
        running = status.get("phase") == "Running"
        found.append(Pod(meta["name"], status.get("podIP", ""), running, jobs))
    return found


def addresses_of(answer: Mapping[str, Any]) -> dict[str, str]:
    """The IP of each job that is bound somewhere, from an answer of `edgesocket lookup` to `/jobs`."""
    found = {}
    for name, job in answer.get("jobs", {}).items():
        host = (job.get("address") or "").rpartition(":")[0].strip("[]")
        if host:
            found[name] = host
    return found


def changes(addresses: Mapping[str, str], pods: Iterable[Pod]) -> list[tuple[str, dict[str, str | None]]]:
    """What to change for the labels to be right: names of pods, and labels to set or (None) to take away.

    Labels are taken away before others are set, so that a Service never has two pods. A job whose address is that of
    no running pod keeps no label: nobody would answer there. Names that cannot be labels are passed over.
    """
    pods = list(pods)
    owner = {pod.address: pod.name for pod in pods if pod.running and pod.address}
    wanted: dict[str, set[str]] = {pod.name: set() for pod in pods}
    for job, address in addresses.items():
        if address in owner and _LABEL_NAME.fullmatch(job):
            wanted[owner[address]].add(job)
    taken: list[tuple[str, dict[str, str | None]]] = []
    given: list[tuple[str, dict[str, str | None]]] = []
    for pod in pods:
        if gone := pod.jobs - wanted[pod.name]:
            taken.append((pod.name, {LABEL_PREFIX + job: None for job in sorted(gone)}))
        if new := wanted[pod.name] - pod.jobs:
            given.append((pod.name, {LABEL_PREFIX + job: LABEL_VALUE for job in sorted(new)}))
    return taken + given


def put_right(addresses: Mapping[str, str], ask: Ask, namespace: str, selector: str) -> list[str]:
    """List the pods, and patch those whose labels are not right. Returns one sentence for each that was patched.

    Raises:
        OSError: the API server did not answer, or refused. What was patched before stays; the next time does the rest.
    """
    path = f"/api/v1/namespaces/{urllib.parse.quote(namespace)}/pods"
    listed = ask("GET", f"{path}?{urllib.parse.urlencode({'labelSelector': selector})}", None)
    said = []
    for pod, labels in changes(addresses, pods_of(listed)):
        ask("PATCH", f"{path}/{urllib.parse.quote(pod)}", {"metadata": {"labels": labels}})
        words = [
            f"{label.removeprefix(LABEL_PREFIX)} is {'here' if value else 'not here any more'}"
            for label, value in labels.items()
        ]
        said.append(f"pod {pod}: {', '.join(words)}")
    return said


class ApiServer:
    """The API server, as a pod reaches it. The token is read for every request, as Kubernetes replaces it."""

    def __init__(self, url: str, account: Path) -> None:
        self._url = url.rstrip("/")
        self._account = account
        ca = account / "ca.crt"
        self._context = ssl.create_default_context(cafile=str(ca)) if ca.is_file() else None

    def namespace(self) -> str:
        """That of the pod."""
        return (self._account / "namespace").read_text(encoding="utf-8").strip()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; returns the answer's JSON. Raises OSError."""
        token = (self._account / "token").read_text(encoding="utf-8").strip()
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)  # noqa: S310  the scheme is ours
        return _answer(request, self._context)


def _answer(request: urllib.request.Request | str, context: ssl.SSLContext | None = None) -> Any:
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:  # noqa: S310  as above
            text = answer.read(MAX_ANSWER_BYTES + 1)
        if len(text) > MAX_ANSWER_BYTES:
            raise OSError("the answer is too long")
        return json.loads(text)
    except urllib.error.HTTPError as error:
        with error:
            raise OSError(f"{error.code} {error.reason}") from None
    except (HTTPException, ValueError) as error:
        raise OSError(f"no proper answer: {error!r}") from error


def follow(
    look: Callable[[], Mapping[str, str]], put: Callable[[Mapping[str, str]], list[str]], every_s: float = LOOK_S
) -> None:
    """Look, and put labels right where something has moved or `RELIST_S` has passed; for ever."""
    known: Mapping[str, str] | None = None
    listed_at = 0.0
    trouble = ""
    while True:
        try:
            addresses = look()
            if addresses != known or time.monotonic() - listed_at >= RELIST_S:
                for sentence in put(addresses):
                    _say(sentence)
                known, listed_at = addresses, time.monotonic()
            if trouble:
                _say("it works again")
            trouble = ""
        except OSError as error:
            if str(error) != trouble:
                trouble = str(error)
                _say(f"labels stay as they are: {trouble}")
        time.sleep(every_s)


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def main(arguments: list[str] | None = None) -> None:
    """Run until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m edgesocket.cluster.pods", description=__doc__)
    parser.add_argument("--lookup", required=True, metavar="URL", help="of `edgesocket lookup`")
    parser.add_argument("--selector", required=True, help="which pods jobs can run in")
    parser.add_argument("--every", type=float, default=LOOK_S, metavar="S", help=f"how often to look ({LOOK_S:g})")
    parser.add_argument("--api", default=API, help=argparse.SUPPRESS)
    parser.add_argument("--account", type=Path, default=SERVICE_ACCOUNT, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    api = ApiServer(args.api, args.account)
    namespace = api.namespace()
    follow(
        lambda: addresses_of(_answer(f"{args.lookup.rstrip('/')}/jobs")),
        lambda addresses: put_right(addresses, api.ask, namespace, args.selector),
        args.every,
    )


if __name__ == "__main__":
    main()
