"""What TLS costs the receiver: bytes a second, plain, through our channel, and in a bare loop around Python's `ssl`.

    python -m bench.micro_tls [--megabytes 512] [--rounds 5]

Three receivers take turns, each with a sender in a process of its own that writes as fast as it can (over TLS: Python's
`ssl.SSLSocket`):

- `plain`   `net.channel.PlainChannel`, which is the socket's own recv_into;
- `channel` `net.tls_channel.TlsChannel`;
- `loop`    `ssl.SSLSocket.recv_into` and nothing else.

Figures are ratios to `plain`, medians over the rounds: of the receiver's processor time, which is the one to look at on
a busy machine, and of the clock. `openssl` makes the certificate.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from edgesocket.net.channel import PlainChannel
from edgesocket.net.control import Control
from edgesocket.net.options import TlsOptions
from edgesocket.net.tls import make_context
from edgesocket.net.tls_channel import TlsChannel

ROOM_BYTES = 2 << 20
PIECE = b"x" * (1 << 20)
KINDS = ("plain", "channel", "loop")

Rates = tuple[float, float]
"""Bytes a second of the receiver's processor time, and of the clock."""


def make_certificate(directory: Path) -> TlsOptions:
    """One that signs itself."""
    certificate, key = directory / "tls.crt", directory / "tls.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=bench", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return TlsOptions(str(certificate), str(key))


def send(port: int, pieces: int, tls: bool) -> None:
    """The other side."""
    sock = socket.create_connection(("127.0.0.1", port))
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        sock = context.wrap_socket(sock)
    for _ in range(pieces):
        sock.sendall(PIECE)
    sock.close()


def receiver(kind: str, sock: socket.socket, files: TlsOptions, control: Control) -> Callable[[memoryview], int]:
    """What takes bytes off the connection."""
    if kind == "plain":
        return PlainChannel(sock, control).receive
    if kind == "channel":
        return TlsChannel(sock, control, make_context(files)).receive
    wrapped = make_context(files).wrap_socket(sock, server_side=True)
    return lambda room: wrapped.recv_into(room)


def measure(kind: str, pieces: int, files: TlsOptions) -> Rates:
    """One round of one receiver."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if not child:
            try:
                send(listener.getsockname()[1], pieces, kind != "plain")
            finally:
                os._exit(0)
        sock, _ = listener.accept()
    control = Control(lambda: True)
    receive = receiver(kind, sock, files, control)
    room, total = memoryview(bytearray(ROOM_BYTES)), 0
    processor, clock = time.thread_time(), time.perf_counter()
    while count := receive(room):
        total += count
    processor, clock = time.thread_time() - processor, time.perf_counter() - clock
    os.waitpid(child, 0)
    control.wake.close()
    assert total == pieces * len(PIECE)
    return total / processor, total / clock


def main() -> None:
    """Measure, and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        files = make_certificate(Path(directory))
        rounds = [{kind: measure(kind, args.megabytes, files) for kind in KINDS} for _ in range(args.rounds)]
    for kind in KINDS:
        by_processor, by_clock = (
            statistics.median(one[kind][which] / one["plain"][which] for one in rounds) for which in (0, 1)
        )
        print(f"{kind:8} {by_processor:5.2f} of plain by processor time, {by_clock:5.2f} by the clock")


if __name__ == "__main__":
    main()
