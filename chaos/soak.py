"""`make soak HOURS=1`: what stays flat, and figures of it in docs/soak.md. `--part NAME` for the other parts."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.cycle import run_cycle
from chaos.docs import put_between
from chaos.parts import run_connects, run_many_sources, run_slow_sink
from chaos.soak_text import problems, text_of

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "soak.md"
WARM_UP = 0.25
"""Of the time, in the first hour; what is allocated once has been by then."""
MOST_WARM_UP_S = 900.0


def main() -> int:
    """The command. Returns 1 where something grew, was lost or doubled."""
    args = _parser().parse_args()
    seconds = args.seconds or args.hours * 3600
    note = args.results / f"soak-{args.part}-samples.jsonl"
    args.results.mkdir(parents=True, exist_ok=True)
    note.unlink(missing_ok=True)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "cycle": lambda: run_cycle(seconds, args.seed, note, args.warm_up or min(WARM_UP * seconds, MOST_WARM_UP_S)),
        "many-sources": lambda: run_many_sources(args.count or 200, args.seconds or 60.0),
        "slow-sink": lambda: run_slow_sink(args.seconds or 600.0, note),
        "connects": lambda: run_connects(args.count or 100_000),
    }
    figures = {"part": args.part, "day": time.strftime("%Y-%m-%d"), **parts[args.part]()}
    with (args.results / "soak.jsonl").open("a") as file:
        file.write(json.dumps(figures) + "\n")
    print(json.dumps(figures, indent=1))
    if not args.no_docs:
        put_between(PAGE, args.part, text_of(figures))
    wrong = problems(figures)
    for one in wrong:
        print(f"NOT GOOD: {one}")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos.soak", description=__doc__)
    parser.add_argument("--part", choices=("cycle", "many-sources", "slow-sink", "connects"), default="cycle")
    parser.add_argument("--hours", type=float, default=1.0, help="of the cycling load (1)")
    parser.add_argument("--seconds", type=float, help="instead of hours; for many-sources and slow-sink, too")
    parser.add_argument(
        "--warm-up",
        type=float,
        metavar="SECONDS",
        help="what does not count for the slopes (a quarter, at most 900; the commit log takes some 2,000 to fill)",
    )
    parser.add_argument("--count", type=int, help="sources (200) or connections (100000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/soak.md alone")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
