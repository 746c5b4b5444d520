"""The sink that checks rows and keeps none of them: delivery guarantee none, what it takes is gone.

It is for tests of a job, and beside other sinks as a gate that refuses what should not have come this far. A row that
breaks a field rule is refused at once, with the field, the rule and the value. Every row of a block is checked by
columns, so a row that is fine costs next to nothing.

Row counts are of one run of the job: nothing of them is kept over a restart, and rows since the last checkpoint
come again. MAX_ROW refuses every row that is one too many, as soon as it comes. MIN_ROW cannot be known before the
end: it is judged by `close`, but only where a checkpoint has covered every row before, as the last one of a graceful
end does. A run that was cut short is not blamed for its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgesocket.components.sink import CommitRole, Manifest, RejectedRow, SinkContext
from edgesocket.errors import ConfigError, RuleBrokenError
from edgesocket.rows import Rows
from edgesocket.sinks.assert_rules import FieldCheck, compile_rules
from edgesocket.sinks.encoding import json_rows

_FINE, _TOO_MANY = -1, -2


class AssertSink:
    """Checks every row against the rules.

    Guarantees: no delivery; a row is checked before the checkpoint that covers it; a write whose `reject` failed goes
    on behind the rows that were rejected when it is given the same rows. One thread.
    """

    commit_role = CommitRole.NONE

    def __init__(self, *, rules: Mapping[str, Any]) -> None:
        """Take checked rules.

        Args:
            rules: see `config.plugins.assert_.AssertOptions`.
        """
        self._rules = rules
        limits = [(rule["rule_type"], int(rule["rule_value"])) for rule in rules.get("row_rules") or ()]
        self._least = max((value for kind, value in limits if kind == "MIN_ROW"), default=0)
        self._most = min((value for kind, value in limits if kind == "MAX_ROW"), default=None)
        self._checks: list[FieldCheck] = []
        self._context: SinkContext | None = None
        self._count = 0
        self._covered = False  # a checkpoint has covered every row, and nothing failed since
        self._unfinished: Rows | None = None
        self._settled = 0  # rows of the unfinished write that need no second look

    def open(self, context: SinkContext) -> None:
        """Check the rules against the columns.

        Raises:
            ConfigError: a field is not there, or a rule does not fit its type; names all that are wrong.
        """
        self._checks, problems = compile_rules(self._rules, context.schema, f"sink.{context.sink_id}.rules")
        if problems:
            raise ConfigError(problems)
        self._context = context
        self._covered = True

    def write(self, rows: Rows) -> None:
        """Check the rows and reject those that break a rule.

        Raises:
            BadRecordError: a row breaks a rule, and the job says that this ends it.
            ComponentError: a row could not be rejected for now.
        """
        self._covered = False
        if rows is not self._unfinished:
            self._unfinished, self._settled = rows, 0
        broken = self._broken(rows)
        for index in np.flatnonzero(broken != _FINE).tolist():
            if index >= self._settled:
                self._reject(rows, index, int(broken[index]))
                self._settled = index + 1
        self._count += rows.count
        self._unfinished = None

    def prepare(self, checkpoint: int) -> Manifest:  # noqa: ARG002  the contract
        """Every row has been checked when it was written."""
        self._covered = self._unfinished is None
        return {}

    def commit(self, checkpoint: int, manifest: Manifest) -> None:
        """Nothing to publish."""

    def close(self) -> None:
        """Judge MIN_ROW, where the run came to a graceful end.

        Raises:
            RuleBrokenError: too few rows came.
        """
        covered, self._covered = self._covered, False
        if covered and self._count < self._least:
            raise RuleBrokenError(
                f"Assert sink: the rule MIN_ROW {self._least} is broken: {self._count} rows came in this run"
            )

    def _broken(self, rows: Rows) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The first rule that each row breaks: an index into the checks, or one of the marks."""
        broken = np.full(rows.count, _FINE, dtype=np.int64)
        for number, check in enumerate(self._checks):
            broken[check.failures(rows.batch) & (broken == _FINE)] = number
        if self._most is not None and self._count + rows.count > self._most:
            broken[max(self._most - self._count, 0) :] = _TOO_MANY
        return broken

    def _reject(self, rows: Rows, index: int, rule: int) -> None:
        assert self._context is not None, "open first"
        if rule == _TOO_MANY:
            reason = f"row {self._count + index + 1} of this run breaks the rule MAX_ROW {self._most}"
        else:
            reason = self._checks[rule].explain(rows.batch, index)
        text = rows.records.payload(index) if rows.records is not None else json_rows(rows.part(index, index + 1))[0]
        self._context.reject(RejectedRow(rows.id_at(index), reason, text))
