"""From syslog messages to records: as they came, their fields as JSON, with or without an envelope."""

from __future__ import annotations

from collections.abc import Sequence

from edgesocket.collector.intake.enveloping import Envelope
from edgesocket.collector.intake.syslog_message import syslog_json


class SyslogRecords:
    """Makes the records of one input."""

    def __init__(self, *, parse: bool, envelope: Envelope | None) -> None:
        """Args: whether records are the fields of messages, and what puts them into envelopes."""
        self._parse = parse
        self._envelope = envelope

    def make(self, messages: Sequence[bytes], peer: str) -> list[bytes]:
        """The records. `peer`: the sender's address; it and what else an envelope holds stand before the fields."""
        if self._parse:
            fields = {} if self._envelope is None else self._envelope.fields(peer=peer)
            return [syslog_json(message, **fields) for message in messages]
        return list(messages) if self._envelope is None else self._envelope.wrap(messages, peer=peer)
