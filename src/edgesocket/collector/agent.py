"""The edge agent: from inputs into a spool, and from the spool to an ingress, until somebody stops it.

Guarantees: a record is delivered at least once from the moment it is in the spool, and a file's line from the moment it
is in the file; with `deduplicate` at the ingress and a sink that is exactly once, exactly once. Nothing is given up
because of an outage, a refusal or a full disk.

Three threads: intake (inputs -> spool), sender (spool -> ingress), and the one that calls `run`, which takes signals,
answers about health, and sees that the other two live.
"""

from __future__ import annotations

import os
import select
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgesocket.collector.agent_inputs import make_feed, spool_options
from edgesocket.collector.agent_intake import IntakeLoop
from edgesocket.collector.agent_secrets import read_key, read_token, tls_options
from edgesocket.collector.agent_sender import SenderLoop
from edgesocket.collector.agent_service import AgentService
from edgesocket.collector.agent_signals import RELOAD, STOP, Signals
from edgesocket.collector.agent_status import AgentView, InputView
from edgesocket.collector.agent_wake import Wake
from edgesocket.collector.agent_writer import MOST_RECORD_BYTES, WriterOptions
from edgesocket.collector.client import CollectorClient
from edgesocket.collector.lookup import JobFinder
from edgesocket.collector.options import ClientOptions, TlsOptions
from edgesocket.collector.spool.options import FsyncPolicy, WhenFull
from edgesocket.collector.spool.spool import Spool
from edgesocket.collector.window import WindowLimits
from edgesocket.compression import Compression
from edgesocket.config.agent import AgentSpec
from edgesocket.errors import CollectorError, EdgeSocketError, ExitCode
from edgesocket.packet.codec import PacketEncoder

TICK_S = 1.0
"""How often the main thread looks round."""

ONCE_TICK_S = 0.05
"""The same while it waits for a known end."""

SENDER_END_S = 5.0
"""How long the sender may take to end. It may be in a look-up of a name, which nothing can interrupt."""

INTAKE_END_S = 5.0
"""How long the intake may take to end beyond `drain_timeout_s`. It may be in a call to a disk that does not answer."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where records go and how. Two that are equal need no new connection.

    Attributes:
        to: host and port.
        token, key: the secrets, not part of `repr`.
        key_id: name of the key, said in packets.
        compression: of packets; None sends records as they are.
        tls: of the connection; None: it is plain.
        find: the lookup that is asked instead of `to`, and for which job.
        limits: of the window.
    """

    to: tuple[str, int]
    token: bytes = field(repr=False)
    key: bytes | None = field(repr=False)
    compression: Compression | None
    limits: WindowLimits
    key_id: str | None = None
    tls: TlsOptions | None = None
    find: tuple[str, str] | None = None


def read_delivery(spec: AgentSpec, environ: Mapping[str, str] = os.environ) -> Delivery:
    """Read what a connection needs, secrets included.

    Raises:
        SecretError: one of them cannot be read.
    """
    packet = spec.packet
    return Delivery(
        spec.to or ("", 0),
        read_token(spec, environ),
        None if packet is None else read_key(packet, environ),
        None if packet is None else Compression[packet.compression.upper()],
        WindowLimits(batches=spec.window.batches, payload_bytes=spec.window.bytes),
        None if packet is None else packet.key_id,
        tls_options(spec.tls),
        None if spec.via is None else (spec.via, spec.job or ""),
    )


def make_encoder(delivery: Delivery) -> PacketEncoder | None:
    """What packs records. Raises ComponentError where `cryptography` is needed and missing."""
    if delivery.compression is None:
        return None
    return PacketEncoder(delivery.compression, delivery.key, os.urandom, delivery.key_id)


class Agent:
    """See the module's text. `run` it once."""

    def __init__(
        self,
        spec: AgentSpec,
        *,
        report: Callable[[str], None],
        load: Callable[[], AgentSpec] | None = None,
        on_tick: Callable[[AgentView], object] | None = None,
        once: bool = False,
        once_timeout_s: float | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Get ready; nothing is opened before `run`.

        Args:
            spec: what to do, checked.
            report: takes a line for the log.
            load: reads the configuration again, for SIGHUP; None: it cannot be read again.
            on_tick: gets a picture about once a second.
            once: end when what is there now has been read and is confirmed.
            once_timeout_s: with `once`, give up then; what is not confirmed stays in the spool.
            environ: environment variables.
        """
        self._spec = spec
        self._report = report
        self._load = load
        self._on_tick = on_tick
        self._once = once
        self._once_timeout_s = once_timeout_s
        self._environ = environ
        self._wake = Wake()
        self._stopping = False
        self._hurried = False
        self._reload_wanted = False
        self._crash = ""
        self._began = time.monotonic()
        self._started_at = time.time()
        self._delivery: Delivery | None = None
        self._encoder: PacketEncoder | None = None
        self._sealing_key: tuple[bytes | None, str | None] = (None, None)
        self._spool: Spool | None = None
        self._intake: IntakeLoop | None = None
        self._sender: SenderLoop | None = None
        self._service: AgentService | None = None
        self._spool_max_bytes = spec.spool.max_bytes
        self.left = 0
        """Records that were in the spool when it ended, not confirmed."""

    def stop(self) -> None:
        """Ask it to end, as SIGTERM does. Any thread."""
        self._stopping = True
        self._wake.set()

    def reload(self) -> None:
        """Ask it to read its configuration again, as SIGHUP does. Any thread."""
        self._reload_wanted = True
        self._wake.set()

    @property
    def service_port(self) -> int | None:
        """Where health and metrics are answered; None: nowhere."""
        return None if self._service is None else self._service.port

    def run(self) -> int:
        """Work until stopped, or until all is done where it has an end.

        Returns:
            The exit code: 0, or 70 after a bug, or 75 where a disk did not let it end. With `once` also 75 where the
            time was over, and 77 where the ingress refused the token or the key.

        Raises:
            CollectorError: it cannot begin: a port is taken, the spool belongs to another agent.
            OSError: the spool cannot be opened.
        """
        with Signals(self._wake):
            try:
                self._open()
                return self._work()
            finally:
                self._close()

    # --- begin and end ---------------------------------------------------------------------------

    def _open(self) -> None:
        spec = self._spec
        self._delivery = read_delivery(spec, self._environ)
        make_encoder(self._delivery)
        feeds = [make_feed(one, spec.host, self._report, self._environ, once=self._once) for one in spec.inputs]
        options = spool_options(spec.spool)
        self._spool = Spool.open(Path(spec.spool.directory), options, on_notice=self._report)
        self._sender = SenderLoop(self._make_client, report=self._report)
        self._intake = IntakeLoop(
            self._spool,
            feeds,
            on_durable=self._sender.records_are_there,
            report=self._report,
            writing=WriterOptions(
                blocks_when_full=options.when_full is WhenFull.BLOCK,
                sync_every_s=options.interval_s if options.fsync is FsyncPolicy.INTERVAL else None,
                most_record_bytes=min(MOST_RECORD_BYTES, spec.spool.max_bytes // 2),
            ),
            pace=self._spool.let_sender_come,
            once=self._once,
            drain_timeout_s=spec.drain_timeout_s,
        )
        self._intake.open()
        self._open_service(spec)

    def _open_service(self, spec: AgentSpec) -> None:
        if self._service is not None:
            self._service.close()
            self._service = None
        if spec.http is None:
            return
        service = AgentService(spec.http.address, spec.http.port, self.view)
        service.open()
        self._service = service

    def _close(self) -> None:
        if self._service is not None:
            self._service.close()
        if self._intake is not None:
            self._intake.close()
        if self._sender is not None:
            self._sender.close()
        if self._spool is not None:
            self.left = self._spool.state().records
            try:
                self._spool.close()
            except OSError as problem:
                self._report(f"the spool: {problem.strerror or problem}")
        self._wake.close()

    def _make_client(self) -> CollectorClient:
        """A client on the spool. Each of its connections has the secrets as they are then."""
        delivery = self._delivery = read_delivery(self._spec, self._environ)
        self._encoder, self._sealing_key = make_encoder(delivery), (delivery.key, delivery.key_id)
        return CollectorClient(
            *delivery.to,
            self._token_now,
            ClientOptions(commit=True, limits=delivery.limits, progress_timeout_s=None, tls=delivery.tls),
            source=self._spool,
            seal=None if self._encoder is None else self._seal,
            on_notice=self._report,
            find=None if delivery.find is None else JobFinder(*delivery.find),
        )

    def _token_now(self) -> bytes:
        """The token for a new connection, which also encrypts with the key that is there now."""
        fresh = read_delivery(self._spec, self._environ)
        if self._encoder is not None and (fresh.key, fresh.key_id) != self._sealing_key:
            self._encoder, self._sealing_key = make_encoder(fresh), (fresh.key, fresh.key_id)
        return fresh.token

    def _seal(self, payload: bytes) -> bytes:
        assert self._encoder is not None
        return self._encoder.seal(payload)

    # --- the main thread -------------------------------------------------------------------------

    def _work(self) -> int:
        assert self._intake is not None
        assert self._sender is not None
        intake = self._thread(self._intake.run, "edgesocket-intake")
        sender = self._thread(self._sender.run, "edgesocket-sender")
        code = ExitCode.OK
        try:
            while not self._crash and not self._stopping and intake.is_alive() and code == ExitCode.OK:
                self._look_round(TICK_S)
                code = self._why_give_up()
            while not self._crash and not self._stopping and code == ExitCode.OK and self._unconfirmed():
                self._look_round(ONCE_TICK_S)
                code = self._why_give_up()
        finally:
            ended = self._end(intake, sender)
        if self._crash:
            self._report(f"the agent has ended by a bug:\n{self._crash}")
            return ExitCode.BUG
        return code if ended else ExitCode.TRY_LATER

    def _unconfirmed(self) -> int:
        """Records that are not confirmed. Asked when the inputs have ended."""
        assert self._spool is not None
        return self._spool.state().records

    def _why_give_up(self) -> int:
        """With `once`: the exit code for what keeps the end from coming; 0: nothing does."""
        assert self._sender is not None
        if not self._once:
            return ExitCode.OK
        if self._sender.refused_with == ExitCode.AUTH:
            return ExitCode.AUTH
        if self._once_timeout_s is not None and time.monotonic() - self._began >= self._once_timeout_s:
            self._report(f"not all is confirmed after {self._once_timeout_s:g} s; the rest stays in the spool")
            return ExitCode.TRY_LATER
        return ExitCode.OK

    def _end(self, intake: threading.Thread, sender: threading.Thread) -> bool:
        """Stop the threads, inputs first. Whether both have ended."""
        assert self._intake is not None
        assert self._sender is not None
        self._intake.stop()
        deadline = time.monotonic() + self._intake.drain_timeout_s + INTAKE_END_S
        while intake.is_alive() and time.monotonic() < deadline and not self._hurried:
            self._look_round(ONCE_TICK_S)
        self._sender.stop()
        sender.join(SENDER_END_S)
        if intake.is_alive():
            self._report("the inputs could not be closed in time")
            self._intake = None  # closing what it uses would only break it elsewhere
            self._spool = None
        if sender.is_alive():
            self._sender = None
            self._spool = None
        return not intake.is_alive()

    def _thread(self, work: Callable[[], object], name: str) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except BaseException:  # told by the main thread, which ends the process
                self._crash = self._crash or traceback.format_exc()
            finally:
                self._wake.set()

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    def _look_round(self, wait_s: float) -> None:
        """Wait for a signal, a question or the time, and deal with it."""
        poller = select.poll()
        poller.register(self._wake.fileno(), select.POLLIN)
        for descriptor in self._service.descriptors() if self._service is not None else ():
            poller.register(descriptor, select.POLLIN)
        poller.poll(wait_s * 1000)
        told = set(self._wake.clear())
        if told & STOP:
            self._hurried = self._stopping
            self._stopping = True
        if (told & RELOAD or self._reload_wanted) and not self._stopping:
            self._reload_wanted = False
            self._reload()
        if self._service is not None:
            self._service.serve(time.monotonic())
        if self._on_tick is not None:
            self._on_tick(self.view())

    # --- another configuration -------------------------------------------------------------------

    def _reload(self) -> None:
        """Take over what has changed; a configuration that is not right changes nothing."""
        if self._load is None:
            self._report("there is no file to read again: the agent was started with flags")
            return
        try:
            spec = self._load()
            delivery = read_delivery(spec, self._environ)
            make_encoder(delivery)
            wanted = [make_feed(one, spec.host, self._report, self._environ, once=self._once) for one in spec.inputs]
        except (EdgeSocketError, ValueError) as problem:
            self._report(f"the configuration was not taken over, the old one goes on: {problem}")
            return
        assert self._intake is not None
        assert self._sender is not None
        here = {feed.name: feed for feed in self._intake.feeds}
        names = {feed.name for feed in wanted}
        added = [feed for feed in wanted if feed.name not in here or here[feed.name].settings != feed.settings]
        changed = {feed.name for feed in added}
        gone = [feed for name, feed in here.items() if name not in names or name in changed]
        if gone or added:
            self._intake.replace(gone, added)
        old, self._spec = self._spec, spec
        self._intake.drain_timeout_s = spec.drain_timeout_s
        if delivery != self._delivery:
            self._sender.renew(self._make_client)
        if spec.http != old.http:
            try:
                self._open_service(spec)
            except CollectorError as problem:
                self._report(str(problem))
        if spec.spool != old.spool:
            self._report("spool: the new options take effect at the next start")
        shown = ", ".join(sorted(names & changed | (set(here) - names) | (names - set(here)))) or "none"
        self._report(f"the configuration was read again; inputs that changed: {shown}")

    # --- what it is doing ------------------------------------------------------------------------

    def view(self) -> AgentView:
        """A picture of the moment. The main thread's, while `run` runs."""
        assert self._intake is not None
        assert self._sender is not None
        assert self._spool is not None
        now = time.monotonic()
        intake = self._intake
        return AgentView(
            to=self._spec.target,
            uptime_s=now - self._began,
            started_at=self._started_at,
            inputs=[
                InputView(feed.name, feed.type, feed.records, feed.bytes, feed.counts, feed.problem)
                for feed in list(intake.feeds)
            ],
            spool=self._spool.state(),
            spool_max_bytes=self._spool_max_bytes,
            sender=self._sender.view,
            full_s=None if intake.writer.full_since is None else now - intake.writer.full_since,
            failing_s=None if intake.writer.failing_since is None else now - intake.writer.failing_since,
            failure=intake.writer.failure,
            round_age_s=now - intake.last_round,
        )
