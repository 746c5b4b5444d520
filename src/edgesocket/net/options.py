"""What the network side of a source can be told."""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.net.allow_list import Network
from edgesocket.protocol.grammar import DEFAULT_MAX_LINE_BYTES

UNLIMITED_RETRIES = -1


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS on the port. All files are PEM.

    Attributes:
        cert_file: the certificate, and the chain above it.
        key_file: its key, without a passphrase.
        client_ca_file: what collectors' certificates have to be signed by; "" asks for no certificate.
        client_names: names of which a collector's certificate has to have one; none: any will do.
        min_version: "1.2" or "1.3".
    """

    cert_file: str
    key_file: str
    client_ca_file: str = ""
    client_names: tuple[str, ...] = ()
    min_version: str = "1.2"


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """Settings of an `IngressServer`. Times are in the unit their name ends with.

    Attributes:
        port: TCP port; 0 takes a free one, which is then kept at every reopening.
        job: name of the job, shown to another job that wants the same port.
        host: IPv4 address to bind.
        backlog: connections the kernel keeps for us between two accepts.
        max_retries: tries to bind after the first one; -1 is unlimited.
        reconnect_interval_ms: wait between two tries to bind.
        accept_timeout_ms: the longest time the receiver goes without looking at its own state. Never an idle limit.
        auth_timeout_ms: time a peer has for its whole first line.
        reply_stall_timeout_ms: how long replies may be owed without the peer taking or sending a byte.
        max_waiting_peers: peers that may be authenticating at one time.
        max_waiting_peers_per_address: the same for one address.
        keepalive_idle_s: silence after which the kernel asks the collector's kernel for a sign of life.
        keepalive_interval_s: wait between two such questions.
        keepalive_probes: unanswered questions after which the collector counts as gone.
        user_timeout_ms: how long sent bytes may stay unacknowledged by the collector's kernel.
        max_line_bytes: longest request line held in memory.
        check_utf8: whether the session proves that payloads are UTF-8.
        allow: networks that may connect; none: everybody may.
        auth_backoff_max_ms: the longest time an address that failed again and again has to wait until it is told that
            it failed once more, at most half of `auth_timeout_ms`; 0: none has to.
        tls: TLS on the port; None: plain.
        lock_directory: where the port's lock file lives; the same for all jobs of a host.
    """

    port: int
    job: str = ""
    host: str = "0.0.0.0"
    backlog: int = 1024
    max_retries: int = 3
    reconnect_interval_ms: int = 1000
    accept_timeout_ms: int = 1000
    auth_timeout_ms: int = 10_000
    reply_stall_timeout_ms: int = 60_000
    max_waiting_peers: int = 64
    max_waiting_peers_per_address: int = 8
    keepalive_idle_s: int = 15
    keepalive_interval_s: int = 5
    keepalive_probes: int = 3
    user_timeout_ms: int = 30_000
    max_line_bytes: int = DEFAULT_MAX_LINE_BYTES
    check_utf8: bool = True
    allow: tuple[Network, ...] = ()
    auth_backoff_max_ms: int = 0
    tls: TlsOptions | None = None
    lock_directory: str = "/tmp"  # noqa: S108 - `port_lock` says why this one and how it is opened

    @property
    def tick_ms(self) -> int:
        """How often a busy or waiting receiver looks at itself: a fraction of every limit it has to notice."""
        return max(
            10, min(self.accept_timeout_ms, self.reply_stall_timeout_ms // 4, self.user_timeout_ms // 8 or 1000, 1000)
        )
