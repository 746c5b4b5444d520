"""A private Kafka broker for tests: one KRaft node on loopback ports, with data in a temporary directory.

`tests/conftest.py` makes it the fixture `kafka`. It is started once a session and stopped by process id. Its jars come
through Maven, once, into a cache directory. Tests that ask for it are skipped, with the reason, where that does not
work; they need `apt-get install openjdk-17-jre-headless maven`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.jobs import free_port

START_S = 60.0
"""Most time the broker may take to answer."""
DOWNLOAD_S = 300.0
READ_S = 20.0
_POM = Path(__file__).parent / "kafka_broker" / "pom.xml"
_JAVA = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
min.insync.replicas=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""


class KafkaMissingError(Exception):
    """There can be no broker here; says what is missing."""


class KafkaBroker:
    """A running broker.

    Args:
        directory: for its data; must be empty.

    Attributes:
        servers: `host:port`.

    Raises:
        KafkaMissingError: a program is missing, or the jars cannot be fetched.
    """

    def __init__(self, directory: Path) -> None:
        jars = _fetch_jars()
        self.port = free_port()
        self.servers = f"127.0.0.1:{self.port}"
        self._directory = directory
        self._class_path = f"{jars}/*"
        self._process: subprocess.Popen[bytes] | None = None
        properties = _PROPERTIES.format(port=self.port, controller=free_port(), data=directory / "data")
        (directory / "server.properties").write_text(properties, encoding="utf-8")
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        formatted = subprocess.run(
            [
                *self._java("kafka.tools.StorageTool"), "format",
                f"--cluster-id={cluster}",  # one word: an id may begin with a dash
                f"--config={directory / 'server.properties'}",
            ],
            capture_output=True, text=True, timeout=START_S, check=False,
        )  # fmt: skip
        assert formatted.returncode == 0, formatted.stderr
        self.start()

    def _java(self, main_class: str) -> list[str]:
        return ["java", *_JAVA, "-cp", self._class_path, main_class]

    def start(self) -> None:
        """Start it, with the data it has. Returns when it answers."""
        with (self._directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._directory / "server.properties")], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.admin().list_topics(timeout=1)
                return
            except KafkaException:
                text = (self._directory / "broker.log").read_text(encoding="utf-8")
                assert self._process.poll() is None, f"the broker ended:\n{text}"
                assert time.monotonic() < deadline, f"the broker does not answer:\n{text}"

    def pause(self) -> None:
        """Let it fall asleep: connections stay, nothing is answered from here on."""
        self._signal(signal.SIGSTOP)
        assert self._process is not None
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # a thread may be at work a moment longer

    def go_on(self) -> None:
        """Wake it."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once. `start` brings it back."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def admin(self) -> AdminClient:
        """A client for what the tests need."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic. Dots in the names of properties are written `__`. Returns its name."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        properties = {key.replace("__", "."): value for key, value in config.items()}
        admin = self.admin()  # it must live until the answer is there
        admin.create_topics([NewTopic(name, partitions, 1, config=properties)])[name].result(30)
        return name

    def read(self, topic: str, start: Mapping[int, int] | None = None, *, committed: bool = True) -> list[Read]:
        """All messages of a topic that are there now, partition by partition.

        Args:
            start: first offset by partition.
            committed: as a reader of committed messages sees them: up to the first open transaction.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
                "log_level": 0,
            }
        )
        found: list[Read] = []
        with contextlib.closing(consumer):
            partitions = consumer.list_topics(topic, 10).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, (start or {}).get(number, 0)) for number in partitions])
            left, deadline = set(partitions), time.monotonic() + READ_S
            while left:
                assert time.monotonic() < deadline, f"partitions {left} of {topic} cannot be read to their end"
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    left.discard(message.partition())
                else:
                    found.append(Read(message))
        return sorted(found, key=lambda read: (read.partition, read.offset))

    def values(self, topic: str) -> list[bytes]:
        """The values a reader of committed messages sees."""
        return [read.value for read in self.read(topic)]

    def close(self) -> None:
        """End it."""
        self.kill()


class Read:
    """A message that was read."""

    def __init__(self, message: object) -> None:
        self.partition: int = message.partition()  # type: ignore[attr-defined]
        self.offset: int = message.offset()  # type: ignore[attr-defined]
        self.key: bytes | None = message.key()  # type: ignore[attr-defined]
        self.value: bytes = message.value()  # type: ignore[attr-defined]
        self.headers: list[tuple[str, bytes | None]] = message.headers() or []  # type: ignore[attr-defined]


def _fetch_jars() -> Path:
    """The directory with the jars of the broker."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise KafkaMissingError(f"{program} is missing: apt-get install openjdk-17-jre-headless maven")
    version = hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgesocket-tests"
    jars = cache / f"kafka-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Maven's own cache is not made for two at once
        if not jars.is_dir():
            _fetch_into(jars, cache)
    return jars


def _fetch_into(jars: Path, cache: Path) -> None:
    fresh = Path(tempfile.mkdtemp(dir=cache))
    try:
        command = ["mvn", "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False)
        if done.returncode != 0:
            raise KafkaMissingError(f"Maven cannot fetch the broker: {(done.stdout + done.stderr)[-500:]}")
        fresh.rename(jars)
    except subprocess.TimeoutExpired:
        raise KafkaMissingError(f"Maven did not fetch the broker within {DOWNLOAD_S:g} s") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A broker for all tests of the session."""
    with tempfile.TemporaryDirectory(prefix="edgesocket-kafka-") as directory:
        try:
            broker = KafkaBroker(Path(directory))
        except KafkaMissingError as missing:
            pytest.skip(str(missing))
        try:
            yield broker
        finally:
            broker.close()
