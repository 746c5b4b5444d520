"""The C programs, compiled when a benchmark starts; without a compiler the Python twins take their place.

A binary is named after a hash of its source and flags, so an unchanged program is compiled once and parallel runs never
see a half-written one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent
BUILD = BENCH / "results" / "build"
FLAGS = ("-O3", "-std=gnu11", "-pthread")


@dataclass(frozen=True)
class Program:
    """A program that can be run.

    Attributes:
        command: the first words of its command line.
        language: "C", or "Python" for the slower twin.
    """

    command: tuple[str, ...]
    language: str


def find_compiler() -> str | None:
    """A C compiler's path: `$CC` if it is set (empty: none), else what this machine has."""
    names = [os.environ["CC"]] if "CC" in os.environ else ["cc", "gcc", "clang"]
    return next((path for name in names if name and (path := shutil.which(name))), None)


def compile_c(source: Path, compiler: str) -> Path:
    """Compile one source file.

    Raises:
        subprocess.CalledProcessError: the compiler refused; its words are in `stderr`.
    """
    digest = hashlib.sha256(source.read_bytes() + " ".join((compiler, *FLAGS)).encode()).hexdigest()[:12]
    binary = BUILD / f"{source.stem}-{digest}"
    if not binary.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as scratch:
            made = Path(scratch) / source.stem
            subprocess.run([compiler, *FLAGS, "-o", made, source], check=True, capture_output=True, text=True)
            made.replace(binary)
    return binary


@dataclass(frozen=True)
class Toolbox:
    """The programs of a run, and why one of them is not the fast one ("" when all are)."""

    generator: Program
    blind_sink: Program
    complaint: str


def build_tools(*, python_only: bool = False) -> Toolbox:
    """Compile what can be compiled."""
    generator, blind_sink = BENCH / "loadgen", BENCH / "servers" / "blind_sink"

    def twins(complaint: str) -> Toolbox:
        programs = [Program((sys.executable, f"{path}.py"), "Python") for path in (generator, blind_sink)]
        return Toolbox(programs[0], programs[1], complaint)

    if python_only:
        return twins("asked for")
    compiler = find_compiler()
    if compiler is None:
        return twins("there is no C compiler here")
    try:
        programs = [
            Program((str(compile_c(path.with_suffix(".c"), compiler)),), "C") for path in (generator, blind_sink)
        ]
    except subprocess.CalledProcessError as error:
        return twins(f"{compiler} failed: {error.stderr.strip()}")
    return Toolbox(programs[0], programs[1], "")
