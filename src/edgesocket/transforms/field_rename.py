"""FieldRename: new names for columns by rules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from edgesocket.errors import ConfigProblem
from edgesocket.rows import Rows
from edgesocket.transforms.columns import missing_fields, refuse
from edgesocket.transforms.java_regex import Untranslatable, compile_java


class FieldRenameTransform:
    """Renames columns. A `specific` name wins over every rule.

    Otherwise, in this order: the letter case is changed, what the last matching rule of `replacements_with_regex` found
    in the name as it was is replaced, and prefix and suffix are put around it.

    Guarantees: every row stays; no column is copied; one thread.
    """

    def __init__(
        self,
        *,
        convert_case: str | None = None,
        prefix: str | None = None,
        suffix: str | None = None,
        replacements_with_regex: Sequence[Mapping[str, Any]] = (),
        specific: Sequence[Mapping[str, str]] = (),
    ) -> None:
        """Take the rules.

        Args:
            convert_case: UPPER or LOWER.
            prefix, suffix: put around the name.
            replacements_with_regex: maps of replace_from, replace_to and is_regex.
            specific: maps of field_name and target_name.
        """
        self._case = convert_case
        self._prefix = (prefix or "").strip()
        self._suffix = (suffix or "").strip()
        self._rules = tuple(replacements_with_regex)
        self._specific = {one["field_name"]: one["target_name"] for one in specific}
        self._patterns: list[tuple[re.Pattern[str], str]] = []
        self._schema: pa.Schema = pa.schema([])

    def bind(self, schema: pa.Schema) -> pa.Schema:
        """Make the new names.

        Raises:
            ConfigError: a specific name is no field, a pattern cannot be used, or two fields would get one name.
        """
        problems = missing_fields("specific", self._specific, schema)
        self._patterns = []
        for number, rule in enumerate(self._rules, 1):
            try:
                self._patterns.append(_rule(rule))
            except Untranslatable as error:
                path = f"replacements_with_regex[{number}].replace_from"
                problems.append(ConfigProblem(path, f"the pattern {error}"))
        refuse(problems)
        befores: dict[str, list[str]] = {}
        for name in schema.names:
            befores.setdefault(self.renamed(name), []).append(name)
        for after, before in befores.items():
            if len(before) > 1:
                problems.append(ConfigProblem("specific", f'{" and ".join(before)} would both be called "{after}"'))
            if not after:
                problems.append(ConfigProblem("replacements_with_regex", f"{before[0]} would have no name"))
        refuse(problems)
        fields = [field.with_name(self.renamed(field.name)) for field in schema]
        self._schema = pa.schema(fields, metadata=schema.metadata)
        return self._schema

    def apply(self, rows: Rows) -> Rows:
        """The rows with the columns' new names."""
        return rows.with_batch(pa.RecordBatch.from_arrays(rows.batch.columns, schema=self._schema))

    def close(self) -> None:
        """Nothing is held."""

    def renamed(self, name: str) -> str:
        """The name a column gets."""
        if name in self._specific:
            return self._specific[name]
        spans: list[tuple[int, int]] = []
        replacement = ""
        for pattern, replace_to in self._patterns:
            found = [match.span() for match in pattern.finditer(name)]
            if found:
                spans, replacement = found, replace_to
        cased = name if self._case is None else name.upper() if self._case == "UPPER" else name.lower()
        if len(cased) != len(name):  # a letter that grows in upper case would move the spans: change only the others
            cased = "".join(_cased(letter, self._case) for letter in name)
        for start, end in reversed(spans):
            cased = cased[:start] + replacement + cased[end:]
        return f"{self._prefix}{cased}{self._suffix}"


def _cased(letter: str, case: str | None) -> str:
    changed = letter.upper() if case == "UPPER" else letter.lower()
    return changed if len(changed) == 1 else letter


def _rule(rule: Mapping[str, Any]) -> tuple[re.Pattern[str], str]:
    """Where a rule matches, and what it puts there. A rule that is no regular expression matches the whole name."""
    replace_to = str(rule["replace_to"]).strip()
    if rule.get("is_regex", True):
        return compile_java(rule["replace_from"]), replace_to
    return re.compile(rf"\A{re.escape(rule['replace_from'])}\Z"), replace_to
