"""The screenshots of docs/dashboard.md and docs/terminal.md: real jobs, real collectors and real troubles.

    make screenshots

Runs for about a minute. Writes docs/images/dashboard-*.png, seen in Chromium, with a palette, so that each stays below
150 kB, and docs/images/terminal-top.svg, what `edgesocket top` draws on a terminal.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.browser.conftest import CHROMIUM, FLAGS
from tests.browser.real_jobs import Process, connected, free_ports, write_job
from tests.support.http_server import answer, serving
from tests.support.jobs import ROOT, Wire, wait_until

IMAGES = ROOT / "docs" / "images"
MAX_BYTES = 150_000
COLOURS = 256
SEEN_FOR_S = 45
TROUBLE_S = 20
TERMINAL_COLUMNS = 118

SQL = (
    'Sql { plugin_input = "read", plugin_output = "shaped", '
    'query = "select meter, place, kwh * 1000 as wh from read where kwh >= 0" }'
)
FIELDS = "plugin_output = read\n schema { fields { meter = string, place = string, kwh = double } }"


def main() -> int:
    """Make all of them. Returns the exit code."""
    with tempfile.TemporaryDirectory() as directory, serving() as receiver, contextlib.ExitStack() as stack:
        receiver.rule = lambda _body: answer(503) if full.is_set() else None
        ports = write_jobs(Path(directory), receiver.url)
        process = stack.enter_context(Process(Path(directory)))
        for name, (rate, text) in TRAFFIC.items():
            stack.enter_context(sending(ports[name], rate, text))
        with contextlib.closing(stuck(ports["alarms"])):
            time.sleep(SEEN_FOR_S - TROUBLE_S)
            full.set()
            with broken(process.state("frames") / "state"):
                shoot(process)
                shoot_terminal(process)
            full.clear()
    return 0


full = threading.Event()
"""Set while the receiver of job `orders` refuses rows."""


def write_jobs(directory: Path, url: str) -> dict[str, int]:
    """The job files. Returns the ports by job."""
    ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
    letters = f'dead_letter {{ DeadLetter {{ path = "{directory / "dead"}" }} }}'
    files = f'LocalFile {{ path = "{directory / "out"}", file_format_type = json }}'
    for name, port in ports.items():
        env, source, sink, more = "checkpoint.interval = 3000", "", "", ""
        if name == "meters":
            source = f"{FIELDS}\n on_bad_record = dead_letter"
            sink, more = f"{files}\n Null {{ plugin_input = shaped }}", f"transform {{ {SQL} }}\n{letters}"
            sink = sink.replace('path = "', 'plugin_input = shaped, path = "')
        elif name == "orders":
            source, sink = "local_queue_capacity = 2000", f'Http {{ url = "{url}", retry_backoff_max_ms = 500 }}'
        elif name == "alarms":
            source = "batch_id_gaps = hold"
        write_job(directory, name, port, env=env, source=source, sink=sink, more=more)
    return ports


NAMES = ("meters", "orders", "alarms", "frames", "clicks", "gps", "audit", "doors", "scans", "syslog")

Text = Callable[[int], str]


def meter(n: int) -> str:
    """A reading; one in a few thousand cannot be read."""
    kwh = '"n/a"' if n % 4001 == 4000 else f"{n % 97 * 0.031:.3f}"
    return f'{{"meter": "m-{n % 89:03}", "place": "hall {n % 7}", "kwh": {kwh}}}'


def line(n: int) -> str:
    """Any line."""
    return f"event {n} of a machine that has much to say"


TRAFFIC: dict[str, tuple[int, Text]] = {
    "meters": (1800, meter),
    "orders": (300, line),
    "frames": (900, line),
    "clicks": (1200, line),
    "gps": (500, line),
    "audit": (40, line),
    "scans": (90, line),
    "syslog": (700, line),
}
"""Records a second, and what they are. `doors` has no collector, `alarms` one that misses a batch."""


@contextlib.contextmanager
def sending(port: int, rate: int, text: Text) -> Iterator[None]:
    """A collector that sends about so many records a second, a little more or less."""
    end = threading.Event()

    def run() -> None:
        chance = random.Random(port)
        wire, n = wait_until(lambda: connected(port)), 0
        while not end.wait(0.1):
            many = max(1, int(rate / 10 * (0.7 + 0.6 * chance.random())))
            wire.ask(*(f"__BATCH__:{n + i}:{text(n + i)}" for i in range(1, many + 1)))
            n += many
            wire.ask(f"__COMMIT__:{n}")
        wire.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    end.set()
    thread.join()


def stuck(port: int) -> Wire:
    """A collector that never sends batch 41."""
    wire: Wire = wait_until(lambda: connected(port))
    wire.ask(*(f"__BATCH__:{n}:{line(n)}" for n in range(1, 240) if n != 41))
    return wire


@contextlib.contextmanager
def broken(state: Path) -> Iterator[None]:
    """Checkpoints fail meanwhile: their directory is away."""
    away = state.rename(state.with_name("away"))
    state.write_text("")
    yield
    state.unlink()
    away.rename(state)


def shoot(process: Process) -> None:
    """Open the pages, let them live for a while, and take the pictures."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        pages = {name: open_page(browser, process, **how) for name, how in SHOTS.items()}
        for page in pages.values():
            page.wait_for_selector("#pulse.live")
        time.sleep(TROUBLE_S)
        for name, page in pages.items():
            page.bring_to_front()
            page.wait_for_timeout(1500)
            save(page.screenshot(full_page=SHOTS[name].get("whole", False)), IMAGES / f"dashboard-{name}.png")
        browser.close()


def shoot_terminal(process: Process) -> None:
    """What `edgesocket top` draws, colours and all."""
    from rich.console import Console
    from rich.text import Text as Styled

    command = f"{sys.executable} -m edgesocket top --once --state-dir {process.directory / 'state'}"
    wide = {**os.environ, "COLUMNS": str(TERMINAL_COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    drawn = subprocess.run(
        ["script", "-qec", f"stty cols {TERMINAL_COLUMNS} rows 50; {command}", "/dev/null"],
        env=wide, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=TERMINAL_COLUMNS, file=nowhere)
        console.print(Styled.from_ansi(drawn.replace("\r", "").strip()))
        # Without the fonts that it would load from elsewhere: whoever looks has one.
        svg = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="edgesocket top"), flags=re.DOTALL)
    path = IMAGES / "terminal-top.svg"
    path.write_text(svg, encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(svg) // 1000} kB")
    assert len(svg) <= MAX_BYTES


SHOTS: dict[str, dict[str, Any]] = {
    "jobs": {"job": "", "height": 720},
    "job": {"job": "meters/letters", "scheme": "dark", "whole": True},
    "held": {"job": "alarms", "height": 470},
    "failing": {"job": "frames", "height": 840},
    "full": {"job": "orders", "height": 560, "scheme": "dark"},
    "phone": {"job": "meters", "width": 360, "height": 860},
}


def open_page(browser: Any, process: Process, **how: Any) -> Any:
    """One page, as a shot wants it."""
    context = browser.new_context(
        viewport={"width": how.get("width", 1180), "height": how.get("height", 800)},
        color_scheme=how.get("scheme", "light"),
        locale="en-GB",
    )
    page = context.new_page()
    page.goto(f"{process.url}#/jobs/{how['job']}" if how["job"] else process.url)
    return page


def save(png: bytes, path: Path) -> None:
    """Write a picture with a palette."""
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    path.parent.mkdir(exist_ok=True)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {image.width} x {image.height}, {size // 1000} kB")
    assert size <= MAX_BYTES, f"{path} is larger than {MAX_BYTES} bytes"


if __name__ == "__main__":
    sys.exit(main())
