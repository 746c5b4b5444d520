"""Options that every sink has, and those that every transform has."""

from __future__ import annotations

from edgesocket.config.options import Kind, Option

COMMON = (
    Option(
        name="plugin_input",
        kind=Kind.TEXT_LIST,
        default=(),
        aliases=("source_table_name",),
        example='"edge"',
        description="Names of the outputs this sink takes rows from; may be left out where there is no choice.",
    ),
    Option(
        name="on_rejected_row",
        kind=Kind.CHOICE,
        default="fail",
        choices=("fail", "dead_letter"),
        example="dead_letter",
        description="A row the sink refuses for good: fail ends the job, dead_letter sends it to that block.",
    ),
    Option(
        name="parallelism",
        kind=Kind.LATER,
        harmless=("1",),
        description="a job has one source, and its sinks run with it",
    ),
    Option(
        name="multi_table_sink_replica",
        kind=Kind.LATER,
        harmless=("1",),
        description="there is one table",
    ),
)
"""Options of every sink. They are part of `SinkSpec`, the others make the sink."""


COMMON_TRANSFORM = (
    Option(
        name="plugin_input",
        kind=Kind.TEXT_LIST,
        default=(),
        aliases=("source_table_name",),
        example='"edge"',
        description="Names of the outputs this transform takes rows from; may be left out where there is no choice.",
    ),
    Option(
        name="plugin_output",
        kind=Kind.TEXT,
        aliases=("result_table_name",),
        example='"clean"',
        description="Name under which later transforms and sinks find the rows this transform makes.",
    ),
    Option(
        name="parallelism",
        kind=Kind.LATER,
        harmless=("1",),
        description="a job has one source, and its transforms run with it",
    ),
)
"""Options of every transform. They are part of `TransformSpec`, the others make the transform."""
