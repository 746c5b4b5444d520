"""What we ask of the kernel for one TCP connection, and what we ask it about one.

Options that a platform lacks are left out: the conversation is then only as patient as that kernel is.
"""

from __future__ import annotations

import select
import socket
import struct
import sys

from edgesocket.net.options import ListenOptions

_LINUX = sys.platform == "linux"
_SIOCOUTQ = 0x5411  # bytes not yet acknowledged, sent or not (Linux)
_SIOCOUTQNSD = 0x894B  # bytes not yet sent (Linux)
_RESET = select.POLLERR | select.POLLHUP
_HUNG_UP = getattr(select, "POLLRDHUP", 0)


def tune(sock: socket.socket, options: ListenOptions) -> None:
    """Prepare the elected collector's connection: replies leave at once, a dead peer is noticed, receives time out.

    Buffer sizes are left alone on purpose: asking for one turns the kernel's autotuning off.
    """
    sock.setblocking(True)
    seconds, millis = divmod(options.tick_ms, 1000)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", seconds, millis * 1000))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # macOS calls the idle time TCP_KEEPALIVE.
    idle = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"
    _set_if_known(sock, idle, options.keepalive_idle_s)
    _set_if_known(sock, "TCP_KEEPINTVL", options.keepalive_interval_s)
    _set_if_known(sock, "TCP_KEEPCNT", options.keepalive_probes)
    set_user_timeout(sock, options.user_timeout_ms)


def set_user_timeout(sock: socket.socket, timeout_ms: int) -> None:
    """How long the kernel lets sent bytes stay unacknowledged; 0 = the kernel's own, long patience."""
    _set_if_known(sock, "TCP_USER_TIMEOUT", timeout_ms)


def reset_on_close(sock: socket.socket) -> None:
    """Make close() throw away what the kernel still holds, with a RST in place of the usual goodbye."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
    except OSError:
        pass  # the connection is gone, and what the kernel held with it


def outgoing(sock: socket.socket) -> tuple[int, int]:
    """How many bytes the kernel holds for the peer, as (unsent, sent but not acknowledged); zeros where unknown."""
    if not _LINUX:
        return 0, 0
    import fcntl

    unsent = _int_ioctl(fcntl.ioctl(sock, _SIOCOUTQNSD, bytes(4)))
    return unsent, max(0, _int_ioctl(fcntl.ioctl(sock, _SIOCOUTQ, bytes(4))) - unsent)


def has_reset(sock: socket.socket) -> bool:
    """Whether the connection is dead already."""
    return bool(_poll_now(sock, 0) & _RESET)


def has_hung_up(sock: socket.socket) -> bool:
    """Whether the peer's FIN is here, even behind bytes that are still unread (where the platform can tell)."""
    if _HUNG_UP:
        return bool(_poll_now(sock, _HUNG_UP) & _HUNG_UP)
    return unread(sock) == b""


def unread(sock: socket.socket) -> bytes | None:
    """The next byte without taking it: b"" where none can come any more, None where nothing is there yet."""
    try:
        return sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _poll_now(sock: socket.socket, interest: int) -> int:
    poller = select.poll()
    poller.register(sock, interest)
    ready = poller.poll(0)
    return ready[0][1] if ready else 0


def _int_ioctl(answer: bytes) -> int:
    return int(struct.unpack("@i", answer)[0])


def _set_if_known(sock: socket.socket, name: str, value: int) -> None:
    option = getattr(socket, name, None)
    if option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
