"""The options of `CollectorClient`, and what it does about time by default."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgesocket.collector.window import WindowLimits


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS on the way to the ingress. All files are PEM.

    Attributes:
        ca_file: certificates to trust; None: those that the system trusts.
        server_name: name that the certificate of the ingress must have, and that it is asked for; None: the host that
            is connected to.
        cert_file: certificate of this side, where the ingress asks for one, and the chain above it.
        key_file: its key, without a passphrase; None: it stands in `cert_file`.
    """

    ca_file: str | None = None
    server_name: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How a client behaves.

    Attributes:
        commit: keep batches until an ACK covers them, and poll for it. The ids must never start again then.
        limits: how much is taken on before `send` waits.
        connect_timeout_s: how long `connect` tries, and how long one attempt (authentication included) may take.
        progress_timeout_s: give up when for so long nothing was received, confirmed or refused for good, and no new
            batch was being written, although something is left to do; lost connections are made again until then.
            None: never give up.
        poll_least_s, poll_most_s: interval of the commit polls; it grows while there is no news.
        reconnect_least_s, reconnect_most_s: bounds of the (jittered) waits between connections.
        tls: how to use TLS; None: the connection is plain.
    """

    commit: bool = False
    limits: WindowLimits = field(default_factory=WindowLimits)
    connect_timeout_s: float = 10.0
    progress_timeout_s: float | None = 60.0
    poll_least_s: float = 0.2
    poll_most_s: float = 1.0
    reconnect_least_s: float = 0.2
    reconnect_most_s: float = 30.0
    tls: TlsOptions | None = None
