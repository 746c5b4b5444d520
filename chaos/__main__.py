"""`make chaos ARGS='--row NAME --runs 20'`: run rows of the table and note how it went."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from chaos.destinations import Servers
from chaos.docs import seeds, write_table
from chaos.postgres import PostgresMissingError
from chaos.rows import ROWS, Row, row_named
from chaos.run import Result, run_row
from chaos.shim import ShimMissingError
from tests.support.kafka import KafkaMissingError

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """The command. Returns 1 where a promise was broken or a row that was named cannot run."""
    args = _parser().parse_args()
    if args.list:
        for row in ROWS:
            print(f"{row.name:24} {row.sink:11} {row.fault}")
        return 0
    if args.docs:
        write_table(args.results)
        return 0
    if not args.row and not args.all:
        print("say which: --row NAME (several times), or --all; --list says what there is", file=sys.stderr)
        return 64
    rows = ROWS if args.all else tuple(row_named(name) for name in args.row)
    return _run_rows(rows, args)


def _run_rows(rows: tuple[Row, ...], args: argparse.Namespace) -> int:
    servers, code = Servers(), 0
    try:
        for row in rows:
            why = row.why_not()
            try:
                code |= _cannot(row, why) if why else _run_row(row, args, servers)
            except (KafkaMissingError, PostgresMissingError, ShimMissingError) as missing:
                code |= _cannot(row, str(missing))
    finally:
        servers.close()
    return code


def _cannot(row: Row, why: str) -> int:
    print(f"{row.name}: not here: {why}", file=sys.stderr)
    return 1


def _run_row(row: Row, args: argparse.Namespace, servers: Servers) -> int:
    args.results.mkdir(parents=True, exist_ok=True)
    bad, noted = 0, set(seeds(args.results, row)) if args.missing else set()
    for seed in range(args.first, args.first + args.runs):
        if seed in noted:
            continue
        result = run_row(row, seed, servers, strikes=args.strikes, keep=args.keep, mutation=args.mutation)
        bad += not result.is_good
        if args.mutation:
            print(_told(result), flush=True)
            continue
        with (args.results / f"{row.name}.jsonl").open("a") as file:
            file.write(json.dumps(result.to_json()) + "\n")
        print(_told(result), flush=True)
    return 1 if bad else 0


def _told(result: Result) -> str:
    back = "NOT RECOVERED" if result.recover_s is None else f"back after {result.recover_s:.1f} s"
    return (
        f"{result.row} seed {result.seed}: {'good' if result.is_good else 'BAD'}, {result.written} lines, "
        f"lost {result.lost}, broken promises {result.broken}, doubled {result.doubled}, {back}, "
        f"ended by itself: {result.ends or 'never'}, exit codes {result.stopped}, {result.seconds:.0f} s"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--list", action="store_true", help="say what rows there are")
    parser.add_argument(
        "--row", action="append", metavar="NAME", choices=[row.name for row in ROWS], help="run this row"
    )
    parser.add_argument("--all", action="store_true", help="run every row")
    parser.add_argument("--runs", type=int, default=1, help="how often each (1)")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="seed of the first run (1)")
    parser.add_argument("--strikes", type=int, help="faults in a run, instead of what the row says")
    parser.add_argument("--keep", action="store_true", help="keep the directories of good runs, too")
    parser.add_argument(
        "--mutation",
        default="",
        metavar="NAME",
        help="a fault in the product (tests/simulation/mutations.py); not noted",
    )
    parser.add_argument("--missing", action="store_true", help="leave out seeds that are among the results")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where results are noted")
    parser.add_argument("--docs", action="store_true", help="write the table into docs/chaos.md")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
