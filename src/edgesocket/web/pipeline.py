"""The picture of a job: nodes and edges, from the collector to the sinks. Pure."""

from __future__ import annotations

from typing import Literal, TypedDict

from edgesocket.config.specs import DEAD_LETTER, JobSpec

COLLECTOR = "collector"
QUEUE = "queue"


class PipelineNode(TypedDict):
    """One part of the picture. `plugin` is empty for what is no plugin."""

    id: str
    kind: Literal["collector", "source", "queue", "transform", "sink"]
    plugin: str
    label: str


class Pipeline(TypedDict):
    """The picture: `edges` are pairs of ids, from and to."""

    nodes: list[PipelineNode]
    edges: list[tuple[str, str]]


def picture_of(spec: JobSpec) -> Pipeline:
    """Where rows of a job go. What is refused goes to the sink with the id `dead_letter`, if the job has one."""
    source = spec.sources[0]
    nodes: list[PipelineNode] = [
        {"id": COLLECTOR, "kind": "collector", "plugin": "", "label": "collector"},
        {"id": source.id, "kind": "source", "plugin": source.plugin, "label": f"{source.id} :{source.options.port}"},
        {"id": QUEUE, "kind": "queue", "plugin": "", "label": "queue"},
    ]
    edges = [(COLLECTOR, source.id), (source.id, QUEUE)]
    for transform in spec.transforms:
        nodes.append({"id": transform.id, "kind": "transform", "plugin": transform.plugin, "label": transform.id})
        edges += [(QUEUE if name == source.id else name, transform.id) for name in transform.inputs]
    for sink in spec.sinks:
        nodes.append({"id": sink.id, "kind": "sink", "plugin": sink.plugin, "label": sink.id})
        edges += [(QUEUE if name == source.id else name, sink.id) for name in sink.inputs or (source.id,)]
    if spec.dead_letter is not None:
        plugin = spec.dead_letter.plugin
        nodes.append({"id": DEAD_LETTER, "kind": "sink", "plugin": plugin, "label": f"dead letters ({plugin})"})
        if source.options.on_bad_record == "dead_letter":
            edges.append((QUEUE, DEAD_LETTER))
        edges += [(sink.id, DEAD_LETTER) for sink in spec.sinks if sink.on_rejected_row == "dead_letter"]
    return {"nodes": nodes, "edges": edges}
