"""Producer properties as Kafka's Java client spells them, turned into those of librdkafka.

Most have the same name. What differs is renamed, what only makes sense inside a Java process is left out and said so,
and what would lose its meaning is refused. Values never appear in a message: any of them may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_RENAMED = {
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "client.dns.lookup": "client.dns.lookup",
    "ssl.key.password": "ssl.key.password",
}
_IGNORED = (
    "key.serializer",
    "value.serializer",
    "bootstrap.servers",
    "partitioner.class",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.ignore.keys",
    "max.block.ms",
    "interceptor.classes",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "security.providers",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.provider",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
)
_REFUSED = {
    "transactional.id": ("is made of transaction_prefix, job and sink", "set transaction_prefix"),
    "delivery.report.only.error": ("is the sink's own", "delete it"),
    "ssl.truststore.location": ("is a Java key store", "set ssl.ca.location to a PEM file"),
    "ssl.truststore.password": ("belongs to a Java key store", "set ssl.ca.location to a PEM file"),
    "ssl.keystore.type": ("belongs to a Java key store", "set ssl.certificate.location and ssl.key.location (PEM)"),
    "sasl.login.callback.handler.class": ("is a Java class", "delete it"),
    "sasl.client.callback.handler.class": ("is a Java class", "delete it"),
    "sasl.login.class": ("is a Java class", "delete it"),
}
_JAAS = "sasl.jaas.config"
_JAAS_LOGIN = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;\"']+))")
_KIBIBYTE = 1024


@dataclass(slots=True)
class ClientProperties:
    """The outcome.

    Attributes:
        values: properties of librdkafka.
        ignored: names without effect here.
        refused: name -> what is wrong, and what to do instead.
    """

    values: dict[str, str] = field(default_factory=dict, repr=False)
    ignored: list[str] = field(default_factory=list)
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)


def client_properties(given: Mapping[str, str]) -> ClientProperties:
    """Translate the `kafka.config` of a job file."""
    made = ClientProperties()
    for name, value in given.items():
        if name in _REFUSED:
            made.refused[name] = _REFUSED[name]
        elif name in _IGNORED:
            made.ignored.append(name)
        elif name == _JAAS:
            _add_login(made, value)
        elif name == "buffer.memory":
            if value.isdecimal():
                made.values["queue.buffering.max.kbytes"] = str(max(1, int(value) // _KIBIBYTE))
            else:
                made.refused[name] = ("is not a number of bytes", "")
        elif name == "ssl.endpoint.identification.algorithm":
            made.values[name] = value or "none"
        else:
            made.values[_RENAMED.get(name, name)] = value
    return made


def _add_login(made: ClientProperties, value: str) -> None:
    """User and password out of a JAAS line."""
    login: dict[str, str] = {}
    for key, double, single, bare in _JAAS_LOGIN.findall(value):
        login[key] = re.sub(r"\\(.)", r"\1", double or single) or bare
    if "username" in login and "password" in login:
        made.values["sasl.username"] = login["username"]
        made.values["sasl.password"] = login["password"]
    else:
        made.refused[_JAAS] = ("names no username and password", "set sasl.username and sasl.password instead")
