"""Reads a whole job file: its text, the files it includes, variables, and strict JSON where that is promised."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from edgesocket.config.hocon import MAX_NESTING, Include, Parser, SyntaxStop
from edgesocket.config.nodes import Location, ObjectNode, Report
from edgesocket.config.resolve import EndlessValues, Resolver
from edgesocket.config.syntax import Object
from edgesocket.config.variables import substitute
from edgesocket.errors import ConfigError

MAX_INCLUDES = 16
"""Files that include each other in a chain."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read. `name`: how messages call it, and what its own includes are relative to."""

    name: str
    text: str


class ReadFile(Protocol):
    """Reads an included file."""

    def __call__(self, name: str, including: str, /) -> SourceFile | None:
        """Read `name`, as written in the file `including` and relative to it. None: there is no such file.

        Raises:
            OSError: it is there and cannot be read.
            UnicodeDecodeError: it is not UTF-8.
        """


def no_files(_name: str, _including: str, /) -> SourceFile | None:
    """A ReadFile that finds nothing."""
    return None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a job file may draw on: included files, variables of `-i`, the environment."""

    read_file: ReadFile = no_files
    variables: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """A job file with everything looked up.

    Attributes:
        root: its values.
        used: names that some substitution looked up, so that helper keys can be told from misplaced ones.
    """

    root: ObjectNode
    used: frozenset[str]


def read_document(text: str, name: str, surroundings: Surroundings, report: Report) -> Document:
    """Read a job file.

    Args:
        text: its content, decoded; a byte order mark and CRLF are fine.
        name: its name for messages. An ending `.json` in any letter case means strict JSON, all others HOCON.
        surroundings: see Surroundings.
        report: takes every problem that leaves the rest readable; the values concerned become BrokenNode.

    Raises:
        ConfigError: the rest cannot be read: broken syntax, or values without an end. Holds all problems found so far.
    """
    reading = _Reading(surroundings, report, [name])
    root = Object(Location(name, 1))
    try:
        reading.read_into(root, SourceFile(name, text))
    except SyntaxStop:
        raise ConfigError(report.sorted_problems(name)) from None
    resolver = Resolver(root, reading.statements, surroundings.variables, surroundings.environ, report)
    try:
        values = resolver.resolve()
    except EndlessValues:
        raise ConfigError(report.sorted_problems(name)) from None
    return Document(values, frozenset(resolver.used))


@dataclass(slots=True)
class _Reading:
    """What the parsers of one job file and of its includes share. `chain`: the files being read, innermost last."""

    surroundings: Surroundings
    report: Report
    chain: list[str]
    statements: int = 0

    def read_into(self, target: Object, file: SourceFile, *, path: str = "", depth: int = 0) -> None:
        text = file.text.removeprefix("\ufeff")
        if file.name.lower().endswith(".json"):
            _check_json(text, file.name, self.report)
        Parser(text, file.name, self, path=path, depth=depth).document(target)

    def next_order(self) -> int:
        self.statements += 1
        return self.statements

    def substitute(self, text: str) -> str:
        return substitute(text, self.surroundings.variables, self.surroundings.environ)

    def problem(self, location: Location, path: str, message: str, fix: str = "") -> None:
        self.report.problem(location, path, message, fix, exact=True)

    def include(self, include: Include) -> None:
        found = self._find(include)
        if found is None:
            return
        if found.name in self.chain:
            self._refuse(include, f"a file includes itself: {' -> '.join((*self.chain, found.name))}")
        elif len(self.chain) > MAX_INCLUDES:
            self._refuse(include, f"more than {MAX_INCLUDES} files include each other")
        else:
            self.chain.append(found.name)
            self.read_into(include.target, found, path=include.path, depth=include.depth)
            self.chain.pop()

    def _find(self, include: Include) -> SourceFile | None:
        """The included file. A name without a known ending also stands for name.conf and name.json."""
        name = include.name
        endings = ("",) if name.lower().endswith((".conf", ".json")) else ("", ".conf", ".json")
        for ending in endings:
            try:
                found = self.surroundings.read_file(name + ending, self.chain[-1])
            except OSError as error:
                self._refuse(include, f"{name + ending} cannot be read: {error.strerror or type(error).__name__}")
                return None
            except UnicodeDecodeError as error:
                self._refuse(include, f"{name + ending} is not UTF-8 (byte {error.start})")
                return None
            if found is not None:
                return found
        if include.required:
            self._refuse(include, f"the required file {name} does not exist")
        return None

    def _refuse(self, include: Include, message: str) -> None:
        self.report.problem(include.location, include.path or "include", message)


def _check_json(text: str, name: str, report: Report) -> None:
    """Refuse what is HOCON but not JSON. The values themselves come from the parser, which knows their lines."""

    def refuse(constant: str) -> NoReturn:
        raise json.JSONDecodeError(f"{constant} is no JSON", text, max(text.find(constant), 0))

    try:
        json.loads(text, parse_constant=refuse, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        report.problem(Location(name, error.lineno, error.colno), "JSON", error.msg, exact=True)
    except RecursionError:
        report.problem(Location(name, 1), "JSON", f"blocks and lists nest deeper than {MAX_NESTING}")
    else:
        return
    raise SyntaxStop
