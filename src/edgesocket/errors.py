"""Every exception of EdgeSocket, in one tree that says whose fault it is and what comes next.

::

    EdgeSocketError
    ├── UsageError              the command line is off                       exit 64
    ├── ConfigError             the job file is off; lists every problem       exit 78
    ├── ProtocolError
    │   ├── LocalProtocolError  our own code broke a rule: a bug               exit 70
    │   └── RemoteProtocolError the peer broke a rule; carries the reply       never leaves the session
    ├── PacketError             a packet cannot be read; carries the reply     never leaves the ingress
    │   ├── DecodeError         -> DECODE_FAILED
    │   └── DecryptError        -> DECRYPT_FAILED
    ├── BadRecordError          a record cannot become a row                   exit 65
    ├── SchemaMismatchError     a payload does not fit the schema              never leaves the source
    ├── ComponentError          a source or sink failed; may be tried again    exit 69
    ├── StoreError              the state store failed                         exit 69
    │   ├── DamagedStateError   a file fails its checksum; names it            exit 78
    │   └── FencedError         another incarnation owns the job               exit 75
    ├── NotOwnerError           the job runs elsewhere; names the holder       exit 75
    ├── ListenerError           the port cannot be bound                       exit 69
    └── CollectorError
        ├── AuthFailedError     the ingress refused the token                  exit 77
        ├── RejectedError       another collector is connected                 exit 75
        ├── SpoolFullError      nothing more fits until something is confirmed exit 75
        └── ConnectionLostError the connection ended; unconfirmed batches wait exit 75

Secrets (tokens, keys) never enter an exception's text or fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ExitCode:
    """Exit codes of every `edgesocket` command, after sysexits."""

    OK = 0
    USAGE = 64
    BAD_DATA = 65
    UNAVAILABLE = 69
    BUG = 70
    TRY_LATER = 75
    AUTH = 77
    CONFIG = 78


class EdgeSocketError(Exception):
    """Base of every error that EdgeSocket raises on purpose."""

    exit_code: int = ExitCode.BUG


class UsageError(EdgeSocketError):
    """The command line asks for something that cannot be."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing wrong with a job file.

    Attributes:
        path: the option, dotted from the root (`source.EdgeSocket.port`).
        message: what is wrong, without any secret value.
        fix: what to write instead, or an empty string.
        location: `file:line`, or an empty string where no line is known.
    """

    path: str
    message: str
    fix: str = ""
    location: str = ""

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        fix = f"\n      fix: {self.fix}" if self.fix else ""
        return f"{where}{self.path}: {self.message}{fix}"


class ConfigError(EdgeSocketError):
    """The job file cannot run as it is. Holds every problem found, not only the first."""

    exit_code = ExitCode.CONFIG

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(str(self))

    def __str__(self) -> str:
        count = len(self.problems)
        head = "1 problem in the job file" if count == 1 else f"{count} problems in the job file"
        return head + ":\n" + "\n".join(f"  {n}. {problem}" for n, problem in enumerate(self.problems, 1))


class ProtocolError(EdgeSocketError):
    """A rule of the line protocol was broken."""


class LocalProtocolError(ProtocolError):
    """Our own code asked a session for something its state does not allow: a bug on this side."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something the protocol does not allow.

    Attributes:
        reply: the reply word that answers it (`BAD_REQUEST`, `INVALID_PARAM`), or "" on the collector side.
    """

    exit_code = ExitCode.TRY_LATER

    def __init__(self, message: str, reply: str = "") -> None:
        self.reply = reply
        super().__init__(message)


class PacketError(EdgeSocketError):
    """A packet cannot be turned into a record. `reply` is the word that answers it."""

    exit_code = ExitCode.BAD_DATA
    reply = "DECODE_FAILED"


class DecodeError(PacketError):
    """The envelope, base64, compressed stream or text of a packet is broken or too large."""

    reply = "DECODE_FAILED"


class DecryptError(PacketError):
    """The packet cannot be decrypted: no key, bad iv, wrong key or damaged bytes."""

    reply = "DECRYPT_FAILED"


class BadRecordError(EdgeSocketError):
    """A queued record cannot become a row, or a sink refuses it for good.

    Attributes:
        batch_id: the batch it came in.
        reason: what is wrong, with at most 200 characters of the value.
    """

    exit_code = ExitCode.BAD_DATA

    def __init__(self, batch_id: int, reason: str) -> None:
        self.batch_id = batch_id
        self.reason = reason
        super().__init__(f"batch {batch_id}: {reason}")


class RuleBrokenError(EdgeSocketError):
    """A sink finds at the end of a run that its rows as a whole break a rule of the job."""

    exit_code = ExitCode.BAD_DATA


MAX_SHOWN_CHARS = 200
"""So much of a value is shown in the message about it."""


class SchemaMismatchError(EdgeSocketError):
    """A payload does not fit the schema. The source turns it into what `on_bad_record` asks for.

    Attributes:
        field: path of the field (`info.tags[2]`), or an empty string for the payload as a whole.
        expected: the type it should have, as a job file writes it.
        value: what is there instead, as written, at most 200 characters of it.
        why: more about it, or an empty string.
    """

    exit_code = ExitCode.BAD_DATA

    def __init__(self, field: str, expected: str, value: str, why: str = "") -> None:
        self.field = field
        self.expected = expected
        self.value = value if len(value) <= MAX_SHOWN_CHARS else value[:MAX_SHOWN_CHARS] + "..."
        self.why = why
        where = f"field {field}" if field else "payload"
        super().__init__(f"{where}: expected {expected}, got {self.value}" + (f" ({why})" if why else ""))


class ComponentError(EdgeSocketError):
    """A source or sink failed. The job may try again from its last checkpoint.

    Attributes:
        retryable: False when no retry can heal it.
        reopen: it can only be healed by opening the component again, not by the same call once more.
    """

    exit_code = ExitCode.UNAVAILABLE

    def __init__(self, message: str, *, retryable: bool = True, reopen: bool = False) -> None:
        self.retryable = retryable
        self.reopen = reopen
        super().__init__(message)


class StoreError(EdgeSocketError):
    """The state store did not do what it was asked. What was asked may or may not have happened."""

    exit_code = ExitCode.UNAVAILABLE


class DamagedStateError(StoreError):
    """A state file is there but fails its checksum or format. Names the file and the way on."""

    exit_code = ExitCode.CONFIG

    def __init__(self, name: str, reason: str, way_on: str = "") -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}" + (f"\n{way_on}" if way_on else ""))


class FencedError(StoreError):
    """Another incarnation has claimed the job: this one must close without another byte."""

    exit_code = ExitCode.TRY_LATER


class NotOwnerError(EdgeSocketError):
    """The job is owned by a live process. Names host, pid and since when."""

    exit_code = ExitCode.TRY_LATER


class ListenerError(EdgeSocketError):
    """The port cannot be bound. Names port, cause and how often it was tried."""

    exit_code = ExitCode.UNAVAILABLE


class CollectorError(EdgeSocketError):
    """The collector side cannot go on."""

    exit_code = ExitCode.TRY_LATER


class AuthFailedError(CollectorError):
    """The ingress answered AUTH_FAILED."""

    exit_code = ExitCode.AUTH


class RejectedError(CollectorError):
    """The ingress answered REJECTED: another collector holds the connection."""


class ConnectionLostError(CollectorError):
    """The connection could not be made, or ended before everything was answered."""


class SpoolFullError(CollectorError):
    """The spool has no room for these records, and may not drop any. It is as it was: append again later."""
