"""TLS, tokens and keys that change under a job and an agent that go on, with real processes and certificates."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest

from edgesocket.errors import ExitCode
from tests.support.agents import AgentProcess
from tests.support.jobs import TOKEN, Job, edgesocket, free_port, rows, wait_until, write_job
from tests.support.tls import Authority

OPENSSL = shutil.which("openssl")
OLD_KEY, NEW_KEY = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def tls_block(certificate: Path, key: Path, *more: str) -> str:
    return f'tls {{ cert_file = "{certificate}"\n key_file = "{key}"\n {" ".join(more)} }}'


def replace(path: Path, content: bytes | str) -> None:
    """Put a new file in the place of the old one, as careful people and Kubernetes do."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content if isinstance(content, bytes) else content.encode())
    fresh.rename(path)


def append(path: Path, *lines: str) -> None:
    with path.open("a") as stream:
        stream.write("".join(f"{line}\n" for line in lines))


def test_certificate_token_and_key_change_under_a_collector_that_never_notices(
    tmp_path: Path, authority: Authority
) -> None:
    """The agent stays connected through all of it, and comes back with the new ones when the job is started anew."""
    port = free_port()
    certificate, key = authority.issue("server", "localhost")
    tokens, token, keys, packet_key = (tmp_path / name for name in ("tokens", "a.token", "keys", "a.key"))
    tokens.write_text("# of the plant\nold-token\n")
    token.write_text("old-token\n")
    keys.write_text(f"old:{OLD_KEY}\n")
    packet_key.write_text(OLD_KEY)
    source = (
        f'token_file = "{tokens}"\n packet_mode = PACKET\n secret_key_file = "{keys}"\n require_encryption = true\n'
        f"{tls_block(certificate, key)}"
    )
    conf = write_job(tmp_path, port, source=source)
    conf.write_text(conf.read_text().replace(f'token = "{TOKEN}"\n', ""))
    log = tmp_path / "app.log"
    append(log, "one")
    config = tmp_path / "agent.yaml"
    config.write_text(
        f"to: localhost:{port}\ntoken_file: {token}\nspool: {{directory: {tmp_path}/spool}}\n"
        f"tls: {{ca_file: {authority.file}}}\npacket: {{compression: gzip, key_file: {packet_key}}}\n"
        f"inputs: [{{type: file, paths: ['{log}'], from_beginning: true}}]\n"
    )
    out = tmp_path / "out"
    with Job(conf) as job, AgentProcess(config, log=tmp_path / "agent.log") as agent:
        wait_until(lambda: rows(out) == ["one"], what="the first row")

        authority.issue("server", "localhost")  # writes both files anew
        replace(tokens, "old-token\nnew-token\n")
        replace(keys, f"new:{NEW_KEY}\nold:{OLD_KEY}\n")
        append(log, "two")
        wait_until(lambda: rows(out) == ["one", "two"], what="the second row")
        replace(token, "new-token\n")
        replace(packet_key, NEW_KEY)
        wait_until(lambda: "secrets reloaded: what=keys" in job.log_text(), what="the new keys")
        append(log, "three")
        wait_until(lambda: len(rows(out)) == 3, what="the third row")
        assert job.log_text().count("collector connected") == 1
        assert "collector disconnected" not in job.log_text()
        assert "lost the connection" not in agent.log_text()

        assert job.stop() == ExitCode.OK
        replace(tokens, "new-token\n")
        replace(keys, f"new:{NEW_KEY}\n")
        with Job(conf) as again:
            append(log, "four")
            wait_until(lambda: len(rows(out)) == 4, what="the fourth row")
            assert agent.stop() == ExitCode.OK
            wait_until(lambda: "listener opened" in again.log_text().split("collector disconnected")[-1])
            trust = ("--tls-ca", authority.file, "--packet")
            secrets = {"EDGESOCKET_SECRET_KEY": NEW_KEY}
            old = edgesocket(
                "send", f"localhost:{port}", *trust, input="x\n",
                env={**os.environ, **secrets, "EDGESOCKET_TOKEN": "old-token"},
            )  # fmt: skip
            assert old.returncode == ExitCode.AUTH, old.stderr
            new = edgesocket(
                "send", f"localhost:{port}", *trust, "--key-id", "new", "--commit", input="five\n",
                env={**os.environ, **secrets, "EDGESOCKET_TOKEN": "new-token"},
            )  # fmt: skip
            assert new.returncode == ExitCode.OK, new.stderr
            assert again.stop() == ExitCode.OK
    assert rows(out) == ["one", "two", "three", "four", "five"]
    for text in (job.log_text(), again.log_text(), agent.log_text()):
        assert "new-token" not in text
        assert "old-token" not in text
        assert NEW_KEY[:12] not in text


def test_a_token_file_is_read_again_at_a_login_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    port = free_port()
    tokens = tmp_path / "tokens"
    tokens.write_text("first\n")
    conf = write_job(tmp_path, port, source=f'token_file = "{tokens}"')

    def send(token: str) -> int:
        environment = {**os.environ, "EDGESOCKET_TOKEN": token}
        address = f"127.0.0.1:{port}"
        return edgesocket("send", address, "--connect-timeout", "5", input="x\n", env=environment).returncode

    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        assert [send(TOKEN), send("first"), send("second")] == [ExitCode.OK, ExitCode.OK, ExitCode.AUTH]
        tokens.write_text("first\nsecond\n")
        assert [send("first"), send("second")] == [ExitCode.OK, ExitCode.OK]
        tokens.write_text("")
        assert [send("first"), send("second")] == [ExitCode.OK, ExitCode.OK]
        assert f"secrets refused: what=tokens cause=there is no token in {tokens}" in job.log_text()
        assert job.stop() == ExitCode.OK


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "the certificate of the ingress is not accepted"),
        (["--tls-ca", "CA", "--tls-server-name", "else.example"], "Hostname mismatch"),
        (["--tls-ca", "CA"], "the ingress does not accept this side's certificate"),
        (["--tls-ca", "CA", "--tls-cert", "CERT", "--tls-key", "KEY"], ""),
    ],
    ids=["not trusted", "another name", "no certificate of its own", "good"],
)
def test_send_says_who_does_not_trust_whom(tmp_path: Path, authority: Authority, options: list[str], said: str) -> None:
    port = free_port()
    more = (f'client_ca_file = "{authority.file}"\n', 'client_names = ["pump-7"]')
    conf = write_job(tmp_path, port, source=tls_block(*authority.issue("server", "localhost"), *more))
    certificate, key = authority.issue("pump", "pump-7")
    names = {"CA": str(authority.file), "CERT": str(certificate), "KEY": str(key)}
    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        sent = edgesocket(
            "send", f"localhost:{port}", "--tls", *(names.get(one, one) for one in options), "--commit", input="x\n",
            env={**os.environ, "EDGESOCKET_TOKEN": TOKEN},
        )  # fmt: skip
        assert sent.returncode == (ExitCode.AUTH if said else ExitCode.OK), sent.stderr
        assert said in sent.stderr
        assert rows(tmp_path / "out") == ([] if said else ["x"])


def test_send_to_a_port_that_does_not_speak_its_language_says_so(tmp_path: Path, authority: Authority) -> None:
    plain_port, tls_port = free_port(), free_port()
    plain = write_job(tmp_path, plain_port, name="plain")
    tls = write_job(tmp_path, tls_port, source=tls_block(*authority.issue("server", "localhost")), name="tls")
    environment = {**os.environ, "EDGESOCKET_TOKEN": TOKEN}
    with Job(plain) as one, Job(tls) as other:
        assert one.wait_until_listening()
        assert other.wait_until_listening()
        quick = ("--connect-timeout", "3")
        sent = edgesocket("send", f"localhost:{plain_port}", "--tls", *quick, input="x\n", env=environment)
        assert sent.returncode == ExitCode.UNAVAILABLE
        assert "does it use TLS?" in sent.stderr
        assert "tls peer on plain port: peer=127.0.0.1" in one.log_text()
        sent = edgesocket("send", f"localhost:{tls_port}", *quick, input="x\n", env=environment)
        assert sent.returncode == ExitCode.AUTH
        assert "plain peer on tls port: peer=127.0.0.1" in other.log_text()


@pytest.mark.skipif(OPENSSL is None, reason="there is no openssl on this machine")
def test_what_is_piped_into_openssl_s_client_arrives(tmp_path: Path, authority: Authority) -> None:
    port = free_port()
    conf = write_job(tmp_path, port, source=tls_block(*authority.issue("server", "localhost")))
    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        collector = subprocess.run(
            [str(OPENSSL), "s_client", "-quiet", "-no_ign_eof", "-verify_return_error",
             "-CAfile", str(authority.file), "-servername", "localhost", "-connect", f"localhost:{port}"],
            input=f"__AUTH__:{TOKEN}\n__BATCH__:1:hello\n__COMMIT__:7\n".encode(),
            capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        assert b"AUTH_FAILED" not in collector.stdout
        wait_until(lambda: rows(tmp_path / "out") == ["hello"], what="the row")
        assert job.stop() == ExitCode.OK


@pytest.mark.skipif(OPENSSL is None, reason="there is no openssl on this machine")
def test_a_conversation_with_openssl_s_client(tmp_path: Path, authority: Authority) -> None:
    port = free_port()
    conf = write_job(tmp_path, port, source=tls_block(*authority.issue("server", "localhost")))
    command = [str(OPENSSL), "s_client", "-quiet", "-verify_return_error", "-CAfile", str(authority.file)]
    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        with subprocess.Popen(
            [*command, "-connect", f"localhost:{port}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        ) as collector:  # fmt: skip
            assert collector.stdin is not None
            assert collector.stdout is not None

            def ask(line: str) -> str:
                assert collector.stdin is not None
                assert collector.stdout is not None
                collector.stdin.write(line.encode() + b"\n")
                collector.stdin.flush()
                return collector.stdout.readline().decode().strip()

            assert ask(f"__AUTH__:{TOKEN}") == "ACK"
            assert ask("__BATCH__:1:hello") == "RECEIVED"
            wait_until(lambda: ask("__COMMIT__:1") == "ACK:1", what="ACK:1")
            collector.terminate()
        assert rows(tmp_path / "out") == ["hello"]
        assert job.stop() == ExitCode.OK


def test_nobody_but_the_owner_can_read_state_and_spool(tmp_path: Path) -> None:
    """Whatever the umask of the process is."""
    port = free_port()
    conf = write_job(tmp_path, port)
    log, spool = tmp_path / "app.log", tmp_path / "spool"
    append(log, "one", "two")
    umask = os.umask(0)
    try:
        with Job(conf) as job:
            assert job.wait_until_listening(), job.log_text()
            collected = ("--file", str(log), "--from-beginning", "--to", f"localhost:{port}", "--spool", str(spool))
            with AgentProcess(*collected, log=tmp_path / "agent.log") as agent:
                wait_until(lambda: len(rows(tmp_path / "out")) == 2, what="the rows")
                open_ones = _readable(tmp_path / ".edgesocket") + _readable(spool)
                assert agent.stop() == ExitCode.OK
            assert job.stop() == ExitCode.OK
        open_ones += _readable(tmp_path / ".edgesocket") + _readable(spool)
    finally:
        os.umask(umask)
    assert open_ones == []


def _readable(top: Path) -> list[str]:
    """Files that others may read or write, and directories they may look into."""
    assert top.is_dir()
    found = []
    for path in (top, *top.rglob("*")):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & 0o077:
            found.append(f"{path} {stat.S_IMODE(mode):o}")
    return found


def test_guesses_from_one_address_take_longer_each_time_and_change_nothing_for_another(tmp_path: Path) -> None:
    port = free_port()
    conf = write_job(tmp_path, port, source="auth_backoff_max_ms = 300")
    with Job(conf) as job:
        assert job.wait_until_listening(), job.log_text()
        started = time.monotonic()
        for _ in range(8):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
                peer.sendall(b"__AUTH__:guess\n")
                assert peer.recv(100) == b"AUTH_FAILED\n"
        assert time.monotonic() - started > 0.5
        with socket.create_connection(("127.0.0.1", port), timeout=10, source_address=("127.0.0.2", 0)) as good:
            good.sendall(f"__AUTH__:{TOKEN}\n".encode())
            assert good.recv(100) == b"ACK\n"
        assert "address slowed down: address=127.0.0.1" in job.log_text()
