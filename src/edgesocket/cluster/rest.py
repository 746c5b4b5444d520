"""Ray's Jobs REST API: run one of our commands on a cluster that this machine is no node of. Standard library only.

Used to reconcile after an order was written, so the command line needs neither Ray nor the cluster's Python here.
"""

from __future__ import annotations

import json
import os
import shlex
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgesocket.errors import EdgeSocketError, ExitCode

REQUEST_S = 10.0
LOOK_S = 0.5
MOST_ANSWER_BYTES = 4 << 20
_ENDED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class RestError(EdgeSocketError):
    """The cluster's dashboard does not answer, refuses, or the command failed there."""

    exit_code = ExitCode.UNAVAILABLE


def is_rest(address: str) -> bool:
    """Whether an address is one of the dashboard."""
    return address.startswith(("http://", "https://"))


def run_there(
    address: str,
    arguments: Sequence[str],
    wait_s: float,
    *,
    environ: Mapping[str, str] = os.environ,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Run `edgesocket ARGUMENTS` on the cluster. Returns what it printed.

    Args:
        address: of the dashboard, `http://HEAD:8265`.
        arguments: of the command.
        wait_s: how long its end is waited for.
        environ: where the token is looked for.

    Raises:
        RestError: it could not be run, or failed, or has not ended in time.
    """
    base = address.rstrip("/")
    token = read_token(environ)
    command = shlex.join(["python", "-m", "edgesocket", *arguments])
    answer = _ask(f"{base}/api/jobs/", token, {"entrypoint": command})
    job = answer.get("submission_id") or answer.get("job_id")
    if not job:
        raise RestError(f"{base} gave the command no number; is this the address of Ray's dashboard?")
    deadline = now() + wait_s
    while True:
        told = _ask(f"{base}/api/jobs/{job}", token)
        if told.get("status") in _ENDED:
            break
        if now() > deadline:
            raise RestError(f"{base}: the command runs for longer than {wait_s:g} s; its number is {job}")
        sleep(LOOK_S)
    output = str(_ask(f"{base}/api/jobs/{job}/logs", token).get("logs", ""))
    if told["status"] != "SUCCEEDED":
        raise RestError(f"{base}: the command failed there: {output.strip()[-2000:] or told.get('message', '')}")
    return output


def read_token(environ: Mapping[str, str]) -> str:
    """The token of Ray's own authentication, from where Ray looks for it; "" where there is none."""
    if environ.get("RAY_AUTH_TOKEN"):
        return environ["RAY_AUTH_TOKEN"].strip()
    path = environ.get("RAY_AUTH_TOKEN_PATH") or str(Path(environ.get("HOME", "/")) / ".ray" / "auth_token")
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _ask(url: str, token: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310  http(s), see is_rest
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_S) as reply:  # noqa: S310
            answer: dict[str, Any] = json.loads(reply.read(MOST_ANSWER_BYTES))
            return answer
    except urllib.error.HTTPError as error:
        with error:
            hint = "; set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH" if error.code in (401, 403) else ""
            raise RestError(f"{url}: {error.code} {error.reason}{hint}") from None
    except (OSError, ValueError) as error:
        raise RestError(f"{url}: {getattr(error, 'reason', error)}") from error
