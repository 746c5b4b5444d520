"""What a part is, and what it is given."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.harness.build import Toolbox
from bench.harness.measure import Bench
from bench.harness.report import PartResult
from bench.harness.servers import Server, ServerSpec, running


@dataclass(frozen=True)
class Context:
    """What every part is given.

    Attributes:
        options: the command line, with what the part itself added to it.
        bench: runs the generator.
        tools: the compiled programs.
        product: the command of the server under test, or None when it is left out.
        echo: prints a line of progress.
    """

    options: argparse.Namespace
    bench: Bench
    tools: Toolbox
    product: tuple[str, ...] | None
    echo: Callable[[str], None]

    @contextmanager
    def servers(self, specs: Sequence[ServerSpec]) -> Iterator[list[Server]]:
        """These servers, running, each in a directory of its own that goes away afterwards."""
        with (
            tempfile.TemporaryDirectory(prefix="edgesocket-bench-") as scratch,
            running(specs, self.bench.pins, Path(scratch)) as servers,
        ):
            yield servers


@dataclass(frozen=True)
class Part:
    """One part: its name for `--part`, what it is about, its options, and how to run it."""

    name: str
    summary: str
    run: Callable[[Context], PartResult]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda _parser: None
