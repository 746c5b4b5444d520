"""`edgesocket tail JOB`: sample rows in flight, as the source gives them to the transforms.

The process that runs the job is asked over its HTTP server. Looking costs the job next to nothing: what is shown are
samples, one block at a time, and not every row. It ends after -n rows, and with --follow when it is interrupted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from edgesocket.cli.asking import COMMENT, Asking, add_token_arguments, token_of
from edgesocket.cli.job_files import add_job_arguments, find_state
from edgesocket.cli.output import Progress, add_format_argument, wants_json
from edgesocket.cli.processes import NotRunningError, http_of
from edgesocket.errors import ExitCode

DEFAULT_ROWS = 20
MAX_ROWS = 1_000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "tail",
        help="sample rows in flight",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_job_arguments(parser, short_name=False)
    parser.add_argument(
        "-n", "--rows", type=_count, default=DEFAULT_ROWS, metavar="N", help="end after so many rows (default: 20)"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until it is interrupted")
    parser.add_argument(
        "--where",
        metavar="FIELD=VALUE",
        help="only such rows; FIELD~TEXT looks for a part of a value, a.b is field b inside a, batch_id is the batch",
    )
    add_token_arguments(parser)
    add_format_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    name, place = find_state(args)
    asking = Asking(http_of(name, place), token_of(args), args.http_ca)
    asked = {"rows": str(args.rows), **({"where": args.where} if args.where else {})}
    path = f"/api/jobs/{quote(name, safe='')}/tail?{urlencode(asked)}"
    try:
        shown = 0
        while shown < args.rows or args.follow:
            before = shown
            for found in _rows(asking, path, name):
                print(json.dumps(found, ensure_ascii=False) if wants_json(args) else _line(found), flush=True)
                shown += 1
            if shown - before < args.rows:
                raise NotRunningError(f"the process ended the stream after {shown} rows: edgesocket status {name}")
    except KeyboardInterrupt:
        pass
    return ExitCode.OK


def _rows(asking: Asking, path: str, name: str) -> Iterator[dict[str, Any]]:
    """The rows of one stream. What there is to wait for is said where somebody looks."""
    with Progress() as progress:
        for event, found in asking.events(path):
            if event == COMMENT:
                progress(f"waiting for rows of job {name}; Ctrl-C ends")
            else:
                progress.close()
                yield found


def _line(found: dict[str, Any]) -> str:
    row = found["row"]
    if row is None:
        return f"{found['batch_id']}  {found['text']}... ({found['bytes']:,} bytes)"
    return f"{found['batch_id']}  {json.dumps(row, ensure_ascii=False)}"


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= MAX_ROWS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows from 1 to {MAX_ROWS}")
    return int(text)
