"""The events of a job but for those of its port (`net/events.py`): of checkpoints, sinks, the source, its end.

One that says that something fails comes once, when it begins, and its counterpart when it ends, with how long it took.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgesocket.telemetry.event import Level, event

_SETTLE = "edgesocket settle {job} {batch_id} --reason TEXT"

# ---- checkpoints -----------------------------------------------------------------------------------------------------


@event(Level.DEBUG, "checkpoint {number} completed in {duration_s:.3f} s, {state_bytes} bytes of state")
@dataclass(frozen=True, slots=True)
class CheckpointCompleted:
    """A checkpoint completed: the confirmed watermark may move."""

    number: int
    duration_s: float
    state_bytes: int
    """Size of the state it wrote; 0 if there was nothing new to write."""


@event(Level.DEBUG, "checkpoint {number} was aborted after {duration_s:.3f} s: {reason}")
@dataclass(frozen=True, slots=True)
class CheckpointAborted:
    """A checkpoint ended without completing; the next one takes over what it covered."""

    number: int
    duration_s: float
    reason: str


@event(Level.WARNING, "checkpoint {number} did not complete: {reason}; no ACK until one does")
@dataclass(frozen=True, slots=True)
class CheckpointsFailed:
    """Checkpoints began to fail, so nothing is confirmed any more until one completes."""

    number: int
    reason: str


@event(Level.INFO, "checkpoints complete again after {failed_for_s:.0f} s")
@dataclass(frozen=True, slots=True)
class CheckpointsRecovered:
    """A checkpoint completed after some had failed."""

    failed_for_s: float


@event(Level.WARNING, "checkpoint {number}: {findings}")
@dataclass(frozen=True, slots=True)
class StateGrewLarge:
    """The state that every checkpoint writes has become larger than it should be."""

    number: int
    findings: str


@event(Level.INFO, "checkpoint {number}: its state is below {limit} again")
@dataclass(frozen=True, slots=True)
class StateShrank:
    """The state is small again."""

    number: int
    limit: str


@event(Level.WARNING, "the commit log cannot be read: {cause}")
@dataclass(frozen=True, slots=True)
class CommitLogUnreadable:
    """A look at the commit log failed: what operators settle is not seen until one works."""

    cause: str


@event(Level.WARNING, "no sign of life could be shown: {cause}")
@dataclass(frozen=True, slots=True)
class BeatMissed:
    """The owner's sign of life could not be written; after the lease another process may take the job over."""

    cause: str


# ---- sinks -----------------------------------------------------------------------------------------------------------


@event(Level.WARNING, "sink {sink} does not take rows: {cause}; they wait in the queue, and no ACK until it does")
@dataclass(frozen=True, slots=True)
class SinkFailed:
    """A sink began to fail; it is tried again and again."""

    sink: str
    cause: str


@event(Level.INFO, "sink {sink} takes rows again after {failed_for_s:.0f} s")
@dataclass(frozen=True, slots=True)
class SinkRecovered:
    """A sink works again."""

    sink: str
    failed_for_s: float


@event(Level.WARNING, "closing sink {sink}: {cause}")
@dataclass(frozen=True, slots=True)
class SinkCloseFailed:
    """A sink could not be closed in good order. What a checkpoint covers is not concerned."""

    sink: str
    cause: str


# ---- the life of a job -----------------------------------------------------------------------------------------------


@event(Level.WARNING, "the job failed: {cause}; starting again in {wait_s:g} s ({left} restarts left)")
@dataclass(frozen=True, slots=True)
class RestartScheduled:
    """An incarnation failed, and another one follows."""

    cause: str
    wait_s: float
    left: int


@event(Level.ERROR, "the job has ended: {cause}")
@dataclass(frozen=True, slots=True)
class JobFailed:
    """The job failed, and no restart is left or none can heal it."""

    cause: str


@event(Level.ERROR, "the job has ended by a bug:\n{trace}")
@dataclass(frozen=True, slots=True)
class JobCrashed:
    """The job ended by an error that the program does not know."""

    trace: str


@event(Level.ERROR, "another process may own this job, and it does not end by itself: nothing waits for it any more")
@dataclass(frozen=True, slots=True)
class JobAbandoned:
    """A job that was fenced hangs in a disk or a sink."""


@event(Level.INFO, "asked to stop by {by}")
@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody asked the job to stop through its state."""

    by: str


@event(Level.INFO, "stopped; every batch received is confirmed (watermark {watermark})")
@dataclass(frozen=True, slots=True)
class JobStopped:
    """The job ended as it was asked to; its last checkpoint covers everything."""

    watermark: int


@event(Level.WARNING, "stopped before everything was confirmed; the last confirmed batch is {watermark}")
@dataclass(frozen=True, slots=True)
class JobStoppedEarly:
    """The job ended without a last checkpoint; collectors send what is not confirmed again."""

    watermark: int


@event(Level.ERROR, "not stopped within {limit_s:g} s; the last confirmed batch is {watermark}")
@dataclass(frozen=True, slots=True)
class StopTimedOut:
    """The job did not stop in time; the process ends all the same, and nothing acknowledged is lost."""

    limit_s: float
    watermark: int


@event(Level.WARNING, "not everything could be written before the end: {cause}")
@dataclass(frozen=True, slots=True)
class DrainFailed:
    """A sink failed while the job was stopping; what it did not take stays in the state for the next run."""

    cause: str


@event(Level.WARNING, "what was under way has failed too: {cause}")
@dataclass(frozen=True, slots=True)
class LastStepFailed:
    """The job had failed, and the checkpoint that was running failed with it."""

    cause: str


@event(Level.WARNING, "the end could not be written to the log: {cause}")
@dataclass(frozen=True, slots=True)
class EndNotWritten:
    """The next run will find the end of this one unknown, and look at the arrival log more closely."""

    cause: str


@event(Level.INFO, "the schema changed since the last run; going on with the new one")
@dataclass(frozen=True, slots=True)
class SchemaChanged:
    """The type of the rows is not that of the last run."""


@event(Level.WARNING, "{findings}")
@dataclass(frozen=True, slots=True)
class CheckpointRepaired:
    """Something of the newest checkpoint was missing or damaged at the start, and was made good as far as it can be."""

    findings: str


@event(Level.WARNING, "metrics cannot be exported: {cause}")
@dataclass(frozen=True, slots=True)
class MetricsExportFailed:
    """Exports to OpenTelemetry began to fail; the jobs go on, and each next export is tried."""

    cause: str


@event(Level.INFO, "metrics are exported again after {failed_for_s:.0f} s")
@dataclass(frozen=True, slots=True)
class MetricsExportRecovered:
    """Exports to OpenTelemetry work again."""

    failed_for_s: float


# ---- the source ------------------------------------------------------------------------------------------------------


@event(
    Level.WARNING,
    "batch {batch_id} ({state}) has held the watermark for {held_for_s:.0f} s",
    "if the collector will not send it (again), run: " + _SETTLE,
)
@dataclass(frozen=True, slots=True)
class WatermarkHeld:
    """A batch that is not here keeps everything behind it unconfirmed; only its collector or an operator can help."""

    batch_id: int
    state: str
    held_for_s: float
    job: str = "JOB"


@event(
    Level.WARNING,
    "batch {batch_id} (received) has held the watermark for {held_for_s:.0f} s; it is queued and waits for the sinks",
)
@dataclass(frozen=True, slots=True)
class SinksAwaited:
    """The oldest batch is still queued: the sinks are behind, or one of them fails."""

    batch_id: int
    held_for_s: float


@event(
    Level.WARNING,
    "batch {batch_id} (captured) has held the watermark for {held_for_s:.0f} s; it went to the sinks and waits for a "
    "checkpoint to complete",
)
@dataclass(frozen=True, slots=True)
class CheckpointAwaited:
    """The oldest batch is with the sinks: no checkpoint has completed since."""

    batch_id: int
    held_for_s: float


@event(
    Level.WARNING,
    "{batches} batches came under an id already used, with another payload (last: {last_id}); each is one more record",
)
@dataclass(frozen=True, slots=True)
class BatchIdsReused:
    """A collector used batch ids twice: it has no counter of its own, or lost it."""

    batches: int
    last_id: int


@event(Level.WARNING, "{records} records were not UTF-8; bad bytes became U+FFFD")
@dataclass(frozen=True, slots=True)
class TextReplaced:
    """Records were changed on their way because they were not UTF-8."""

    records: int


@event(
    Level.ERROR,
    "{packets} encrypted packets had an iv that another record had: that gives their texts away; a collector has to "
    "make a new one for each packet",
)
@dataclass(frozen=True, slots=True)
class IvsReused:
    """A collector encrypts in a way that can be read by others."""

    packets: int


@event(
    Level.ERROR,
    "the ledger holds as many id ranges as it may, so every batch is answered QUEUE_FULL: what is refused, lost or "
    "passed over has to be sent (again) or settled",
)
@dataclass(frozen=True, slots=True)
class LedgerFilled:
    """There are so many holes in the ids that no more can be remembered."""


@event(Level.INFO, "the ledger has room for id ranges again")
@dataclass(frozen=True, slots=True)
class LedgerEmptied:
    """Batches are taken again."""


@event(Level.ERROR, "the arrival log fails: {cause}; no batch is answered until it can be written again")
@dataclass(frozen=True, slots=True)
class ArrivalLogFailed:
    """The arrival log cannot be written: usually the disk is full or read-only."""

    cause: str


@event(Level.INFO, "the arrival log can be written again after {failed_for_s:.0f} s")
@dataclass(frozen=True, slots=True)
class ArrivalLogRecovered:
    """Batches are answered again."""

    failed_for_s: float


@event(Level.WARNING, "the arrival log cannot be synced, so a power cut may cost more of it: {cause}")
@dataclass(frozen=True, slots=True)
class ArrivalLogSyncFailed:
    """What was noted is with the kernel and not on the disk."""

    cause: str


@event(Level.INFO, "the arrival log can be synced again")
@dataclass(frozen=True, slots=True)
class ArrivalLogSynced:
    """What was noted is on the disk again."""


@event(Level.WARNING, "the arrival log could not be closed: {cause}")
@dataclass(frozen=True, slots=True)
class ArrivalLogCloseFailed:
    """The next run will find the end of this one unknown."""

    cause: str


@event(Level.WARNING, "old segments of the arrival log stay for now: {cause}")
@dataclass(frozen=True, slots=True)
class ArrivalSegmentsKept:
    """Files that nobody needs any more could not be removed; the next checkpoint tries again."""

    cause: str


@event(Level.INFO, "operator settled {what}; {discarded} queued records dropped")
@dataclass(frozen=True, slots=True)
class BatchesSettled:
    """An operator gave batches up."""

    what: str
    discarded: int


@event(
    Level.WARNING,
    "not all that was received last is known here (the host went down, or the arrival log was on another disk): "
    "batches above {batch_id} that are passed over count as lost until the operator settles them",
)
@dataclass(frozen=True, slots=True)
class ArrivalsUnknown:
    """It is not known which batches were accepted last; their collector is asked to send them again."""

    batch_id: int


@event(Level.WARNING, "{records} queued records are in no readable blob: they are lost here and answer RESEND")
@dataclass(frozen=True, slots=True)
class QueuedRecordsLost:
    """Records of a damaged checkpoint; their collector is asked to send them again."""

    records: int


@event(Level.WARNING, "queue not restored: {cause}")
@dataclass(frozen=True, slots=True)
class QueueUnreadable:
    """The queue of the last checkpoint is damaged."""

    cause: str


@event(Level.WARNING, "fingerprints not restored, resends of older batches may be written twice: {cause}")
@dataclass(frozen=True, slots=True)
class FingerprintsUnreadable:
    """The fingerprints of the last checkpoint are damaged."""

    cause: str


@event(Level.WARNING, "{segment}: the {notes} notes before number {number} are gone")
@dataclass(frozen=True, slots=True)
class ArrivalNotesMissing:
    """Something is missing in the middle of the arrival log; what was passed over there counts as lost."""

    segment: str
    notes: int
    number: int


@event(Level.WARNING, "{segment}: {damage}; what it said after that is not known")
@dataclass(frozen=True, slots=True)
class ArrivalSegmentDamaged:
    """A file of the arrival log is damaged; what was passed over after that counts as lost."""

    segment: str
    damage: str
