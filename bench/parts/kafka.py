"""The Kafka sink beside a bare loop of the client it uses; see `bench.kafka_loop`. Needs a broker, as the tests do."""

from __future__ import annotations

import argparse
import importlib
import importlib.util

from bench.harness.report import PartResult
from bench.parts.part import Context, Part

NEEDED = ("confluent_kafka", "pytest")


def run(context: Context) -> PartResult:
    """Measure it, or say why not."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return PartResult(notes=[f"Kafka was not measured: it needs {', '.join(missing)} (`make test` installs it)."])
    options = context.options
    try:
        result: PartResult = importlib.import_module("bench.kafka_loop").compare(options.windows, options.kafka_rows)
    except importlib.import_module("tests.support.kafka").KafkaMissingError as error:
        return PartResult(notes=[f"Kafka was not measured: {error}."])
    for table in result.tables:
        context.echo(table.render())
    return result


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this part."""
    parser.add_argument("--kafka-rows", type=int, default=200_000, help="rows a round (default 200,000)")


PART = Part("kafka", "the Kafka sink beside a bare producer", run, add_options)
