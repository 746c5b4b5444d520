"""The agent as a process, against a real job: signals, reload, status, refusals, outages, a full disk."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import AgentProcess, ask, status, write_config
from tests.support.jobs import TOKEN, Job, free_port, rows, wait_until, write_job

ROOMY = "deduplicate = true\n local_queue_capacity = 200000"
"""A queue that is never full: then records arrive in order."""


@contextmanager
def job(directory: Path, port: int, **more: str) -> Iterator[Job]:
    with Job(write_job(directory, port, source=more.pop("source", ROOMY), **more)) as running:
        assert running.wait_until_listening(), running.log_text()
        yield running


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def http_input(port: int, **more: Any) -> dict[str, Any]:
    return {"type": "http", "port": port, **more}


def post(port: int, body: str) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        data = body.encode()
        raw.sendall(b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data))
        answer = b""
        while piece := raw.recv(4096):
            answer += piece
    return int(answer.split()[1])


def posted(port: int, body: str, expected: int = 200) -> None:
    def works() -> bool:
        try:
            return post(port, body) == expected
        except ConnectionError:
            return False

    wait_until(works, what=f"{expected} for a request")


def test_stdin_is_delivered_and_it_ends_when_all_is_confirmed(tmp_path: Path, out: Path) -> None:
    port = free_port()
    lines = [f"line {number}" for number in range(20_000)]
    with job(tmp_path, port), AgentProcess(
        "--stdin", "--to", f"127.0.0.1:{port}", "--spool", tmp_path / "spool",
        log=tmp_path / "agent.log", stdin=subprocess.PIPE,
    ) as agent:  # fmt: skip
        assert agent.process.stdin is not None
        agent.process.stdin.write("\n".join(lines).encode())
        agent.process.stdin.close()
        assert agent.wait() == 0
        assert rows(out) == lines, "confirmed means published"
        assert TOKEN not in agent.log_text()


def test_sigterm_drains_to_the_spool_and_the_next_start_delivers_it(tmp_path: Path, out: Path) -> None:
    port = free_port()
    arguments = ("--stdin", "--to", f"127.0.0.1:{port}", "--spool", tmp_path / "spool")
    with AgentProcess(*arguments, log=tmp_path / "agent.log", stdin=subprocess.PIPE) as agent:
        agent.wait_for_log("collecting from stdin")
        assert agent.process.stdin is not None
        agent.process.stdin.write(b"one\ntwo\nbegun")
        agent.process.stdin.flush()
        wait_until(lambda: "cannot connect" in agent.log_text())
        assert agent.stop() == 0
        agent.process.stdin.close()
    with job(tmp_path, port), AgentProcess(*arguments, log=tmp_path / "agent.log") as agent:
        assert agent.wait() == 0
        assert rows(out) == ["one", "two", "begun"]


def test_every_input_at_a_time_with_status_metrics_and_health(tmp_path: Path, out: Path) -> None:
    port, syslog, udp, hooks, health = (free_port() for _ in range(5))
    config = write_config(
        tmp_path / "agent.json", port, tmp_path / "spool",
        {"type": "syslog", "name": "tcp", "port": syslog, "address": "127.0.0.1", "parse": True},
        {"type": "syslog", "name": "udp", "port": udp, "address": "127.0.0.1", "protocol": "udp"},
        http_input(hooks, envelope=True),
        {"type": "exec", "command": [sys.executable, "-c", "print('from exec')"]},
        http={"port": health}, host="pump-7",
    )  # fmt: skip
    with job(tmp_path, port), AgentProcess(config, log=tmp_path / "agent.log") as agent:
        posted(hooks, "from http\n")
        with socket.create_connection(("127.0.0.1", syslog), timeout=10) as sender:
            sender.sendall(b"<13>Oct  1 22:14:15 host app: from tcp\n")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
                datagrams.sendto(b"<13>from udp", ("127.0.0.1", udp))
            found = wait_until(lambda: len(rows(out)) >= 4 and rows(out))
        assert {json.loads(row)["message"] for row in found if row.startswith("{")} == {"from tcp", "from http"}
        assert {row for row in found if not row.startswith("{")} == {"<13>from udp", "from exec"}
        assert next(json.loads(row) for row in found if "from http" in row)["host"] == "pump-7"
        wait_until(lambda: status(health)["spool"]["records"] == 0)
        seen = status(health)
        assert seen["problems"] == []
        assert seen["delivery"]["confirmed"] == 4
        assert {one["name"]: one["records"] for one in seen["inputs"]} == {"tcp": 1, "udp": 1, "http": 1, "exec": 1}
        code, text = ask(health, "/metrics")
        assert code == 200
        check_prometheus(text.decode())
        assert 'edgesocket_agent_input_records_total{input="tcp",type="syslog"} 1\n' in text.decode()
        assert "edgesocket_agent_confirmed_records_total 4\n" in text.decode()
        assert [ask(health, path)[0] for path in ("/health", "/ready", "/nothing")] == [200, 200, 404]
        assert agent.stop() == 0


def check_prometheus(text: str) -> None:
    """Every sample belongs to a metric with help and type; names and values are well formed."""
    declared: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert kind in ("counter", "gauge")
            assert (kind == "counter") == name.endswith("_total"), name
            declared.add(name)
        elif not line.startswith("# HELP "):
            found = re.fullmatch(r'([a-z_]+)(?:\{(?:[a-z]+="[^"]*",?)+\})? (-?[0-9.e+]+)', line)
            assert found, line
            assert found[1] in declared, line


def test_while_the_ingress_is_away_records_are_stored_and_delivered_later(tmp_path: Path, out: Path) -> None:
    port, hooks, health = free_port(), free_port(), free_port()
    config = write_config(tmp_path / "agent.json", port, tmp_path / "spool", http_input(hooks), http={"port": health})
    with AgentProcess(config, log=tmp_path / "agent.log") as agent:
        for number in range(20):
            posted(hooks, f"{number}\n")
        code, body = ask(health, "/ready")
        assert code == 503
        assert "nothing is delivered" in json.loads(body)["problems"][0]
        assert ask(health, "/health")[0] == 200
        with job(tmp_path, port) as running:
            wait_until(lambda: len(rows(out)) == 20)
            os.kill(running.pid, signal.SIGSTOP)
            for number in range(20, 40):
                posted(hooks, f"{number}\n")
            os.kill(running.pid, signal.SIGCONT)
            wait_until(lambda: len(rows(out)) == 40)
            assert rows(out) == [str(number) for number in range(40)]
            assert agent.stop() == 0


def test_a_refused_token_is_shown_and_a_corrected_file_is_enough(tmp_path: Path, out: Path) -> None:
    port, health = free_port(), free_port()
    token = tmp_path / "token"
    token.write_text("wrong\n")
    config = write_config(
        tmp_path / "agent.json", port, tmp_path / "spool", {"type": "exec", "command": "echo hello"},
        {"type": "http", "port": free_port()}, http={"port": health}, token_file=str(token),
    )  # fmt: skip
    with job(tmp_path, port), AgentProcess(config, log=tmp_path / "agent.log") as agent:
        agent.wait_for_log("the ingress refused the token; trying again")
        assert "refused the token" in status(health)["problems"][0]
        token.write_text(f"{TOKEN}\n")
        agent.signal(signal.SIGHUP)
        wait_until(lambda: rows(out) == ["hello"])
        wait_until(lambda: status(health)["problems"] == [])
        assert agent.stop() == 0


def test_sighup_takes_over_what_changed_and_refuses_what_is_wrong(tmp_path: Path, out: Path) -> None:
    port, first, second, health = (free_port() for _ in range(4))
    path, spool = tmp_path / "agent.json", tmp_path / "spool"
    write_config(path, port, spool, http_input(first), http={"port": health})
    with job(tmp_path, port), AgentProcess(path, log=tmp_path / "agent.log") as agent:
        posted(first, "a\n")
        write_config(path, port, spool, http_input(first, bodi="x"), http={"port": health})
        agent.signal(signal.SIGHUP)
        agent.wait_for_log("did you mean body?")
        agent.wait_for_log("the old one goes on")
        posted(first, "b\n")
        write_config(
            path, port, spool, http_input(second), {"type": "exec", "command": "echo c"}, http={"port": health}
        )
        agent.signal(signal.SIGHUP)
        posted(second, "d\n")
        wait_until(lambda: sorted(rows(out)) == ["a", "b", "c", "d"])
        with pytest.raises(ConnectionRefusedError):
            post(first, "e\n")
        assert {one["name"] for one in status(health)["inputs"]} == {"http", "exec"}
        write_config(path, port, spool, http_input(second), {"type": "exec", "command": "echo c"})
        agent.signal(signal.SIGHUP)
        agent.wait_for_log("inputs that changed: none")
        with pytest.raises(OSError):
            ask(health, "/status")
        posted(second, "f\n")
        assert agent.stop() == 0


def test_a_full_spool_makes_senders_wait_and_goes_on_by_itself(tmp_path: Path, out: Path) -> None:
    port, hooks, health = free_port(), free_port(), free_port()
    config = write_config(tmp_path / "agent.json", port, tmp_path / "spool", http_input(hooks), http={"port": health})
    values = json.loads(config.read_text())
    values["spool"]["max_bytes"] = "2 MiB"
    config.write_text(json.dumps(values))
    stored = 0
    with AgentProcess(config, log=tmp_path / "agent.log") as agent:
        agent.wait_for_log("cannot connect")
        while (answer := post(hooks, f"{stored:06d} {'x' * 100_000}\n")) == 200:
            stored += 1
        assert answer == 503
        assert 10 <= stored <= 20
        assert any("full since" in problem for problem in status(health)["problems"])
        with job(tmp_path, port):
            posted(hooks, "later\n")
            wait_until(lambda: len(rows(out)) == stored + 1)
            assert [row[:6] for row in rows(out)] == [*(f"{number:06d}" for number in range(stored)), "later"]
            wait_until(lambda: status(health)["problems"] == [])
            assert agent.stop() == 0


@pytest.mark.slow
def test_what_was_answered_200_survives_a_kill_of_the_agent(tmp_path: Path, out: Path) -> None:
    port, hooks = free_port(), free_port()
    config = write_config(tmp_path / "agent.json", port, tmp_path / "spool", http_input(hooks))
    dice = random.Random(4)
    stored: list[str] = []
    sent = 0
    with job(tmp_path, port):
        for _ in range(20):
            with AgentProcess(config, log=tmp_path / "agent.log") as agent:
                posted(hooks, f"first {sent}\n")
                stored.append(f"first {sent}")
                killer = threading.Timer(dice.uniform(0.0, 0.1), agent.process.kill)
                killer.start()
                try:
                    while True:
                        sent += 1
                        if post(hooks, f"{sent}\n") == 200:
                            stored.append(str(sent))
                except (OSError, IndexError):
                    killer.join()
        with AgentProcess(config, log=tmp_path / "agent.log") as agent:
            posted(hooks, "last\n")
            wait_until(lambda: "last" in rows(out))
            assert agent.stop() == 0
    found = rows(out)
    assert set(stored) <= set(found)
    assert len(found) == len(set(found)), "none of them twice"
    assert len(stored) > 100


@pytest.mark.slow
def test_a_reload_under_load_loses_nothing_and_doubles_nothing(tmp_path: Path, out: Path) -> None:
    port = free_port()
    path, log = tmp_path / "agent.json", tmp_path / "app.txt"
    log.touch()

    def configure(turn: int) -> None:
        one = {"type": "file", "paths": [str(log)], "from_beginning": True, "poll_ms": 50 + turn}
        fresh = tmp_path / "fresh.json"
        write_config(fresh, port, tmp_path / "spool", one)
        fresh.replace(path)

    configure(0)
    lines = 0
    with job(tmp_path, port), AgentProcess(path, log=tmp_path / "agent.log") as agent, log.open("a") as stream:
        agent.wait_for_log("collecting from")
        for turn in range(1, 16):
            for _ in range(50):
                stream.write("".join(f"{number}\n" for number in range(lines, lines + 100)))
                stream.flush()
                lines += 100
                if lines % 1000 == 0:
                    time.sleep(0.01)
            configure(turn)
            agent.signal(signal.SIGHUP)
            wait_until(lambda turn=turn: agent.log_text().count("configuration was read again") == turn)
        wait_until(lambda: len(rows(out)) >= lines, 60)
        assert rows(out) == [str(number) for number in range(lines)]
        assert agent.stop() == 0


def test_a_second_agent_on_the_spool_is_refused(tmp_path: Path) -> None:
    config = write_config(tmp_path / "agent.json", free_port(), tmp_path / "spool", http_input(free_port()))
    other = write_config(tmp_path / "other.json", free_port(), tmp_path / "spool", http_input(free_port()))
    with AgentProcess(config, log=tmp_path / "agent.log") as agent:
        agent.wait_for_log("cannot connect")
        with AgentProcess(other, log=tmp_path / "other.log") as second:
            assert second.wait() in (69, 75)
            assert str(agent.pid) in second.log_text()
        assert agent.stop() == 0


def test_a_port_that_is_taken_ends_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = write_config(tmp_path / "agent.json", free_port(), tmp_path / "spool", http_input(port))
        with AgentProcess(config, log=tmp_path / "agent.log") as agent:
            assert agent.wait() == 69
            assert f"input http: cannot listen on TCP 127.0.0.1:{port}" in agent.log_text()


@pytest.mark.parametrize("encrypted", [False, True])
def test_packets_compressed_and_encrypted(tmp_path: Path, out: Path, encrypted: bool) -> None:
    port, key = free_port(), "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    source = "packet_mode = PACKET\n deduplicate = true\n" + (
        f'secret_key = "{key}"\n require_encryption = true' if encrypted else ""
    )
    packet = {"compression": "gzip", **({"key_env": "AGENT_KEY"} if encrypted else {})}
    config = write_config(
        tmp_path / "agent.json", port, tmp_path / "spool", {"type": "exec", "command": "seq 1 500"}, packet=packet
    )
    with (
        job(tmp_path, port, source=source),
        AgentProcess(config, log=tmp_path / "agent.log", env={"AGENT_KEY": key}) as agent,
    ):
        assert agent.wait() == 0
        assert rows(out) == [str(number) for number in range(1, 501)]
        assert key not in agent.log_text()


def test_records_refused_for_good_are_dead_letters_and_the_rest_goes_on(tmp_path: Path, out: Path) -> None:
    port, health = free_port(), free_port()
    config = write_config(
        tmp_path / "agent.json", port, tmp_path / "spool",
        {"type": "exec", "command": ["printf", r"good\n\377bad\nfine\n"]},
        {"type": "http", "port": free_port()}, http={"port": health},
    )  # fmt: skip
    with job(tmp_path, port), AgentProcess(config, log=tmp_path / "agent.log") as agent:
        wait_until(lambda: rows(out) == ["good", "fine"])
        wait_until(lambda: agent.process.poll() is not None or status(health)["spool"]["dead_letters"] == 1)
        wait_until(lambda: status(health)["spool"]["records"] == 0)
        assert agent.stop() == 0
