"""A small server that plays the HTTP API of a process with jobs, and serves the page: for states that are hard to make.

    python -m tests.browser.fake_server many --port 8099

The page cannot tell it from the real one; whether the real one speaks like this is tested against real jobs.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.browser.fake_figures import (
    bare_job,
    busy_job,
    fail_checkpoints,
    fill_queue,
    forked_pipeline,
    hold,
    many_jobs,
)

Figures = Callable[[int, float], list[dict[str, Any]]]
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css",
    "svg": "image/svg+xml",
}
PAGE = files("edgesocket.web") / "page"


class FakeServer:
    """Serves what `figures(tick, time)` gives, once every `every_s`.

    Attributes:
        token: what requests must carry; "" for a server without one.
        posted: the bodies of all POST requests, by path.
        letters: the dead letters of every job.
    """

    def __init__(self, figures: Figures, *, port: int = 0, token: str = "", every_s: float = 1.0) -> None:
        self.figures = figures
        self.token = token
        self.every_s = every_s
        self.tick = 0
        self.broken = threading.Event()
        self.posted: list[tuple[str, Any]] = []
        self.letters: list[dict[str, Any]] = []
        self.log_lines: list[tuple[str, str]] = []
        self._ended = threading.Event()
        owner = self

        class Handler(_Handler):
            server_of_jobs = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True),
            threading.Thread(target=self._count, daemon=True),
        ]

    def __enter__(self) -> FakeServer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        for thread in self._threads:
            thread.join()
        self._server.server_close()

    def now(self) -> dict[str, Any]:
        """The present figures, as GET /api/jobs gives them."""
        moment = time.time()
        jobs = self.figures(self.tick, moment - self.tick)
        return {"version": "0.1.0", "time": moment, "host": "edge-gw-1", "jobs": jobs}

    @property
    def ended(self) -> bool:
        """Whether streams shall end."""
        return self._ended.is_set() or self.broken.is_set()

    def wait(self) -> bool:
        """Until the next figures are due; whether streams shall end."""
        self._ended.wait(self.every_s)
        return self.ended

    def _count(self) -> None:
        while not self._ended.wait(self.every_s):
            self.tick += 1


class _Handler(BaseHTTPRequestHandler):
    server_of_jobs: FakeServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        owner = self.server_of_jobs
        path = urlsplit(self.path).path
        if path == "/" or path.startswith("/static/"):
            return self._page("index.html" if path == "/" else path.removeprefix("/static/"))
        if owner.broken.is_set():
            return self._json(503, {"status": "fail", "message": "the server is going away"})
        if owner.token and self.headers.get("Authorization") != f"Bearer {owner.token}":
            return self._json(401, {"status": "fail", "message": "a bearer token is needed"})
        if path == "/api/jobs":
            return self._json(200, owner.now())
        if path == "/api/stream":
            return self._events(lambda: [("jobs", owner.now())], endless=True)
        return self._of_job(path)

    def do_POST(self) -> None:
        owner = self.server_of_jobs
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))) or "null")
        if not owner.token:
            return self._json(
                403, {"status": "fail", "message": "this server is read-only: start it with --http-token-file"}
            )
        if self.headers.get("Authorization") != f"Bearer {owner.token}":
            return self._json(401, {"status": "fail", "message": "a bearer token is needed"})
        owner.posted.append((self.path, body))
        if self.path.endswith("/replay"):
            gone = [x for x in owner.letters if body.get("all") or x["position"] in body["positions"]]
            owner.letters = [x for x in owner.letters if x not in gone]
            return self._json(200, {"replayed": len(gone), "failed": 0, "job": "replay"})
        return self._json(200, {"status": "ok"})

    def _of_job(self, path: str) -> None:
        owner = self.server_of_jobs
        query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        what = unquote(path).rpartition("/")[2]
        if what == "log":
            after = int(query.get("after", "0"))
            start = int(time.time() * 1000) - 1000 * len(owner.log_lines)
            lines = [
                {"seq": seq, "time_ms": start + seq * 1000, "level": level, "text": text}
                for seq, (level, text) in enumerate(owner.log_lines, 1)
                if seq > after
            ]
            return self._json(200, {"lines": lines, "next": len(owner.log_lines)})
        if what == "dead-letters":
            return self._json(200, {"letters": owner.letters, "next": None})
        if what == "tail":
            rows = int(query.get("rows", "20"))
            return self._events(
                lambda: [("row", {"batch_id": 9_007_199_254_740_993 + n, "row": _row(n)}) for n in range(rows)],
                endless=False,
            )
        return self._json(404, {"status": "fail", "message": f"nothing at {path}"})

    def _page(self, name: str) -> None:
        found = PAGE / name
        if "/" in name or not found.is_file():
            return self._json(404, {"status": "fail", "message": f"no {name}"})
        self._answer(200, TYPES[name.rpartition(".")[2]], found.read_bytes())
        return None

    def _json(self, code: int, value: Any) -> None:
        self._answer(code, "application/json", json.dumps(value).encode())

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-cache")):
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", CSP)
        self.end_headers()
        self.wfile.write(body)

    def _events(self, events: Callable[[], list[tuple[str, Any]]], *, endless: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            while True:
                for name, value in events():
                    self.wfile.write(f"event: {name}\ndata: {json.dumps(value)}\n\n".encode())
                self.wfile.flush()
                if not endless or self.server_of_jobs.wait():
                    return
        except OSError:
            return  # the page went away


def _row(n: int) -> dict[str, Any]:
    return {"meter": f"m-{n * 7919 % 997:03}", "place": "Hall 4", "kwh": round(3.1 + n * 0.37 % 9, 2), "ok": n % 7 != 0}


LOG = [
    ("INFO", "job meters: EdgeSocket 0.0.0.0:9999 -> Sql -> LocalFile; state in /srv/state/meters"),
    ("INFO", "run 4 begins: checkpoint 99 restored, watermark 8634000, 120 records queued"),
    ("INFO", "listener opened on port 9999"),
    ("INFO", "collector 10.20.3.17:51512 connected"),
    (
        "WARNING",
        "2 batches came under an id already used, with another payload (last: 8634120); each is one more record",
    ),
    ("INFO", "checkpoint 100 completed in 0.12 s, 1.8 MB"),
]

SCENES: dict[str, Figures] = {
    "busy": lambda tick, at: [{**busy_job("meters", tick, time=at), "pipeline": forked_pipeline()}],
    "stuck": lambda tick, at: [
        hold(busy_job("meters", tick, time=at), 8_634_121, "held", 74.0 + tick),
    ],
    "full": lambda tick, at: [fill_queue(busy_job("meters", tick, time=at))],
    "failing": lambda tick, at: [fail_checkpoints(busy_job("meters", tick, time=at))],
    "many": lambda tick, at: many_jobs(100, tick, at),
    "few": lambda tick, at: many_jobs(14, tick, at),
    "early": lambda tick, at: [bare_job("meters", "starting"), bare_job("meters-2", "ended")],
    "none": lambda tick, at: [],
}


def main() -> None:
    """Serve one scene until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scene", choices=SCENES)
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--token", default="")
    args = parser.parse_args()
    with FakeServer(SCENES[args.scene], port=args.port, token=args.token) as server:
        server.log_lines = LOG
        print(server.url)
        threading.Event().wait()


if __name__ == "__main__":
    main()
