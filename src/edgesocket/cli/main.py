"""`edgesocket VERB ...`: finds the verb, and turns what goes wrong into a message and an exit code.

Each verb is a module with `add_parser(subparsers)` and `run(args) -> int`. A verb's module is imported only when it
is asked for (or help is), so that `edgesocket send` runs on the core install.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

import edgesocket
from edgesocket.errors import EdgeSocketError, ExitCode

VERBS = {
    "run": "run jobs",
    "serve": "run the jobs that are submitted over HTTP",
    "check": "say what is wrong with job files, or what they will do",
    "options": "every option of a job file",
    "jobs": "the jobs that have state here, and how they fare",
    "savepoint": "stop a job with a last checkpoint, and wait for it",
    "cancel": "stop a job",
    "send": "send lines to an ingress, as a collector does",
    "collect": "run the edge agent: inputs, spool, delivery",
    "spool": "look after the spool of an edge agent",
    "status": "what a job is doing",
    "top": "what jobs are doing, once a second",
    "tail": "sample rows in flight",
    "dead-letters": "list, show and replay the records a job refused",
    "settle": "give up batches that hold the watermark",
    "restore": "go on from an older checkpoint when the newest is damaged",
    "submit": "hand jobs to a cluster",
    "move": "put a job of a cluster on another worker",
    "logs": "the log of a job of a cluster",
    "reconcile": "start again what a cluster has forgotten",
    "lookup": "answer where the jobs of a cluster are, for collectors",
    "size": "which queue capacity fits real payloads",
    "completion": "print a script for the shell that completes commands",
}

_OWN_OPTIONS = ("-h", "--help", "--version")
"""Any other option in the place of a verb begins a command line of SeaTunnel."""

_MODULES = {"dead-letters": "dead_letters", "jobs": "job_list"}
"""Modules that are not called as their verb."""

EXTRA_OF_MODULE = {
    "numpy": "engine",
    "pyarrow": "engine",
    "xxhash": "engine",
    "cryptography": "crypto",
    "msgspec": "engine",
    "duckdb": "sql",
    "jsonpath": "jsonpath",
    "confluent_kafka": "kafka",
    "sqlalchemy": "jdbc",
    "psycopg": "postgresql",
    "pymysql": "mysql",
    "boto3": "s3",
    "obstore": "s3",
    "urllib3": "http",
    "starlette": "web",
    "uvicorn": "web",
    "prometheus_client": "web",
    "opentelemetry": "otel",
    "yaml": "yaml",
    "rich": "terminal",
    "ray": "ray",
}
"""Which extra brings a missing library."""


class Parser(argparse.ArgumentParser):
    """Ends with the exit code for a wrong command line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.print_usage(sys.stderr)
        self.exit(ExitCode.USAGE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code (see `errors.ExitCode`)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments and arguments[0].startswith("-") and arguments[0] not in _OWN_OPTIONS:
            seatunnel = importlib.import_module("edgesocket.cli.seatunnel")
            answer: int = seatunnel.main(arguments)
            return answer
        verb = next((argument for argument in arguments if not argument.startswith("-")), "")
        parser, modules = _parser(verb)
        parsed = parser.parse_args(arguments)
        if not parsed.verb:
            parser.print_help(sys.stderr)
            return ExitCode.USAGE
        code: int = modules[parsed.verb].run(parsed)
        return code
    except EdgeSocketError as error:
        print(f"edgesocket: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        extra = EXTRA_OF_MODULE.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        print(f"edgesocket: this needs {error.name}: pip install 'edgesocket[{extra}]'", file=sys.stderr)
        return ExitCode.UNAVAILABLE
    except BrokenPipeError:
        return ExitCode.UNAVAILABLE
    except Exception:  # a bug: say all there is to say, with the code that says so
        traceback.print_exc()
        return ExitCode.BUG


def verb_module(verb: str) -> ModuleType:
    """The module of a verb, imported now."""
    return importlib.import_module(f"edgesocket.cli.{_MODULES.get(verb, verb)}")


def _parser(verb: str) -> tuple[argparse.ArgumentParser, dict[str, ModuleType]]:
    parser = Parser(
        prog="edgesocket",
        description="A streaming ingress for edge collectors, and the jobs behind it.",
        epilog="SeaTunnel's command line works too: edgesocket -c JOB -e local -i KEY=VALUE (see edgesocket -l -h).",
    )
    parser.add_argument("--version", action="version", version=f"edgesocket {edgesocket.__version__}")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB")
    modules: dict[str, ModuleType] = {}
    for name, summary in VERBS.items():
        if name == verb:
            modules[name] = verb_module(name)
            modules[name].add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser, modules
