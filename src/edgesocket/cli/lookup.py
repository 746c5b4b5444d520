"""`edgesocket lookup`: answer over HTTP where a job is now, for collectors that follow it from worker to worker.

It reads the shared store and nothing else, so it works with Ray down, and several may run.
"""

from __future__ import annotations

import argparse
import signal
import threading

from edgesocket.cli.cluster_options import add_cluster_argument, cluster_jobs
from edgesocket.cluster.lookup import Directory, LookupServer
from edgesocket.config.agent_options import split_address
from edgesocket.config.convert import Refused
from edgesocket.errors import ExitCode, ListenerError, UsageError

LISTEN = "127.0.0.1:8090"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "lookup",
        help="answer where jobs are, for collectors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="GET /jobs/NAME answers endpoint, address, epoch, since, running; GET /jobs all of them.",
    )
    add_cluster_argument(parser)
    parser.add_argument("--listen", metavar="HOST:PORT", default=LISTEN, help=f"where to listen (default: {LISTEN})")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    try:
        address = split_address(args.listen)
    except Refused as refused:
        raise UsageError(f"--listen: {refused.message}") from None
    jobs = cluster_jobs(args)
    try:
        server = LookupServer(address, Directory(jobs))
    except OSError as error:
        raise ListenerError(f"{args.listen}: {error.strerror or error}") from error
    with server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
        print(f"answering http://{args.listen}/jobs/NAME from {jobs.root.text}", flush=True)
        server.serve_forever()
    return ExitCode.OK
