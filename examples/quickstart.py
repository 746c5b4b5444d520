"""The quick start: a job, a collector that streams real lines to it, and what became of them.

Starts `examples/quickstart.conf`, sends this computer's logs to it (or a bundled sample where none is readable), waits
until every line is confirmed, stops the job, and says where the rows lie. Ends within a minute.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
JOB = HERE / "quickstart.conf"
SAMPLE = HERE / "sample.log"
OUT = Path("out/quickstart")
TOKEN = "my-edge-token"
LOGS = ("/var/log/syslog", "/var/log/system.log", "/var/log/messages", "/var/log/dpkg.log", "/var/log/install.log")
MAX_LINES = 20_000
DEADLINE_S = 50.0


def main() -> int:
    """Run it all. Returns the exit code: 0 when every line is confirmed and the job ended cleanly."""
    started = time.monotonic()
    for old in (OUT, HERE / ".edgesocket" / "quickstart"):
        shutil.rmtree(old, ignore_errors=True)
    OUT.mkdir(parents=True)
    lines_file, origin = collect_lines()
    port = free_port(9999)
    print(f"1. Starting the job {JOB.relative_to(HERE.parent)} on port {port}.")
    command = [sys.executable, "-m", "edgesocket"]
    log = OUT / "job.log"
    with log.open("wb") as log_stream:
        job = subprocess.Popen(
            [*command, "run", str(JOB)], stderr=log_stream, env={**os.environ, "EDGESOCKET_PORT": str(port)}
        )
    try:
        wait_until_listening(job, log, started)
        print(f"2. Streaming {origin} to it, one batch a line, until a checkpoint confirms the last one.")
        sent = subprocess.run(
            [*command, "send", f"127.0.0.1:{port}", str(lines_file), "--commit", "--format", "json"],
            stdout=subprocess.PIPE,
            env={**os.environ, "EDGESOCKET_TOKEN": TOKEN},
            timeout=max(1.0, DEADLINE_S - (time.monotonic() - started)),
            check=False,
        )
        summary = json.loads(sent.stdout)
        subprocess.run([*command, "status", str(JOB)], env={**os.environ, "EDGESOCKET_PORT": str(port)}, check=False)
    finally:
        job.terminate()
        job_code = job.wait(20)
    return report(summary, sent.returncode, job_code, time.monotonic() - started)


def collect_lines() -> tuple[Path, str]:
    """A file with at most `MAX_LINES` lines of this computer's logs, or of the sample, and what to call it."""
    target = OUT / "sent-lines.txt"
    for name in LOGS:
        try:
            data = Path(name).read_bytes()
        except OSError:
            continue
        lines = [line for line in data.split(b"\n") if is_text(line)][-MAX_LINES:]
        if len(lines) >= 10:
            target.write_bytes(b"\n".join(lines) + b"\n")
            return target, f"the last {len(lines)} lines of {name}"
    shutil.copyfile(SAMPLE, target)
    return target, f"the bundled sample ({SAMPLE.name})"


def is_text(line: bytes) -> bool:
    """Whether a line is not empty and UTF-8: RAW mode takes text."""
    try:
        return bool(line.decode("utf-8").strip())
    except UnicodeDecodeError:
        return False


def free_port(preferred: int) -> int:
    """`preferred`, or another port where that one is taken."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise SystemExit("no free TCP port on this computer")


def wait_until_listening(job: subprocess.Popen[bytes], log: Path, started: float) -> None:
    """Return when the job has opened its port (its log says so)."""
    while time.monotonic() - started < DEADLINE_S / 2:
        if "listener opened" in log.read_text():
            return
        if job.poll() is not None:
            break
        time.sleep(0.05)
    raise SystemExit(f"the job did not start:\n{log.read_text()}")


def report(summary: dict[str, int], send_code: int, job_code: int, seconds: float) -> int:
    """Print what happened; returns the exit code."""
    files = sorted(OUT.glob("part-*.json"))
    rows = sum(path.read_bytes().count(b"\n") for path in files)
    print(f"3. Stopped the job (exit code {job_code}) after {seconds:.1f} s. What happened:")
    print(f"     lines sent                {summary['sent']}")
    print(f"     answered RECEIVED         {summary['received']}")
    print(f"     confirmed by checkpoints  {summary['confirmed']}")
    print(f"     rows in {len(files)} files           {rows}")
    print(f"   The rows lie in {OUT.resolve()}; the first one is:")
    if files:
        print("     " + files[0].read_text(encoding="utf-8").splitlines()[0][:100])
    print(f"   The job's log is {OUT / 'job.log'}.")
    good = send_code == job_code == 0 and rows == summary["sent"] == summary["confirmed"]
    if not good:
        print(f"Something is not as it should be: send ended with {send_code}, the job with {job_code}.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
