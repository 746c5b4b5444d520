"""From the text of a job file to a checked `JobSpec`, or to every problem it has, all at once.

Nothing outside the process is touched here: no port is bound and no file is opened before a job file is known to be
right. What a job file may leave out is filled in, and each filling in is a line in the job's notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgesocket.config.convert import Refused, shorten
from edgesocket.config.document import Document, ReadFile, Surroundings, no_files, read_document
from edgesocket.config.edge_socket import EDGE_SOCKET, EdgeSocketOptions, check_edge_socket
from edgesocket.config.env import ENV, EnvSpec, check_job_name
from edgesocket.config.graph import Node as WireNode
from edgesocket.config.graph import Wiring, wire
from edgesocket.config.hocon import PLUGIN_BLOCKS
from edgesocket.config.nodes import (
    BrokenNode,
    Field,
    ListNode,
    Location,
    Node,
    ObjectNode,
    PluginNode,
    Report,
    Scalar,
    describe,
)
from edgesocket.config.options import Kind, Option, OptionTable, ParsedOptions, parse_options
from edgesocket.config.plugged import NothingPlugged, Plugged
from edgesocket.config.plugins.common import COMMON, COMMON_TRANSFORM
from edgesocket.config.shade import unshade
from edgesocket.config.sinks import SINKS, SINKS_TO_COME, SinkPlugin
from edgesocket.config.specs import DEAD_LETTER, SOURCE, JobSpec, SinkSpec, SourceSpec, TransformSpec
from edgesocket.config.transforms import TRANSFORMS, TRANSFORMS_TO_COME, TransformPlugin
from edgesocket.errors import ConfigError

NOTHING_PLUGGED = NothingPlugged()

FREQUENT_FLUSH_MS = 100
"""A shorter `sink.flush.interval` is noted."""

_SOURCE_EXAMPLE = 'source { EdgeSocket { port = 9999, token = "my-edge-token" } }'
_SINK_EXAMPLE = "sink { Console {} }"
_TRANSFORM_EXAMPLE = 'transform { Filter { include_fields = ["id", "event"] } }'
_DEAD_LETTER_EXAMPLE = 'dead_letter { DeadLetter { path = "/var/lib/edge/dead" } }'
_IN_ENV = "the env block"
_IN_SOURCE = "source { EdgeSocket { ... } }"


def load_job(
    text: str,
    name: str,
    *,
    read_file: ReadFile = no_files,
    environ: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    strict: bool = False,
    lenient: bool = False,
    env_defaults: Mapping[str, Field] | None = None,
    on_bad_record: str | None = None,
    plugged: Plugged = NOTHING_PLUGGED,
) -> JobSpec:
    """Read and check a job file.

    Args:
        text: its content, decoded as UTF-8.
        name: its name: stands in messages, names the job if `job.name` does not; an ending `.json` means JSON.
        read_file: reads included files, see `document.ReadFile`.
        environ: environment variables.
        variables: variables of `-i`, see `variables.parse_variables`.
        strict: what would be filled in with a note is a problem instead.
        lenient: an unknown option is a note instead of a problem.
        env_defaults: env options from elsewhere, older than everything the file says (`yaml_files.SeaTunnelYaml`).
        on_bad_record: instead of what the source says; one of the choices of that option.
        plugged: sinks and transforms beside the built-in ones.

    Raises:
        ConfigError: it cannot run. Holds every problem that could be found, in the order of the lines.
    """
    report = Report(lenient=lenient)
    document = read_document(text, name, Surroundings(read_file, variables or {}, environ or {}), report)
    reader = _JobReader(document, name, strict, report, env_defaults or {}, plugged)
    env = reader.env()
    source = reader.source(on_bad_record)
    transforms = reader.transforms()
    sinks = reader.sinks()
    dead_letter = reader.dead_letter()
    wiring = reader.wiring(source, transforms, sinks)
    reader.check_together(env, source, sinks, dead_letter)
    reader.leftovers()
    job_name = reader.name_of_job(env)
    if report.problems or source is None:
        raise ConfigError(report.sorted_problems(name))
    return JobSpec(
        name=job_name,
        env=EnvSpec(**env.values),
        sources=(_source_spec(source),),
        sinks=tuple(_sink_spec(sink, wiring.inputs[sink.id]) for sink in sinks),
        transforms=_transform_specs(transforms, wiring),
        dead_letter=_sink_spec(dead_letter, ()) if dead_letter else None,
        notes=tuple(report.notes),
        secrets=frozenset(report.secrets),
    )


@dataclass(frozen=True, slots=True)
class _Child:
    """A plugin block as it stands in the file. `block`: None if it has a reported fault."""

    name: str
    block: ObjectNode | None
    location: Location


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A plugin block, its options read. `how`: None for the source."""

    plugin: str
    id: str
    path: str
    location: Location
    options: ParsedOptions
    how: SinkPlugin | TransformPlugin | None = None

    @property
    def as_sink(self) -> SinkPlugin:
        """How it is read, of a sink."""
        assert isinstance(self.how, SinkPlugin)
        return self.how

    @property
    def places(self) -> dict[str, str]:
        """Where the options that were given stand."""
        return {key: str(place) for key, place in self.options.places.items()}


class _JobReader:
    """Reads one document block by block into one report."""

    def __init__(
        self,
        document: Document,
        name: str,
        strict: bool,
        report: Report,
        env_defaults: Mapping[str, Field],
        plugged: Plugged,
    ) -> None:
        self._plugged = plugged
        self._env_defaults = env_defaults
        self._root = unshade(document.root, report)
        self._used = document.used
        self._name = name
        self._strict = strict
        self._report = report
        self._top = Location(name, 1)

    def env(self) -> ParsedOptions:
        """The env block; `env.job.mode = ...` at the top level belongs to it too."""
        fields: dict[str, Field] = {}
        entry = self._root.fields.get("env")
        location = entry.location if entry else self._top
        if entry and isinstance(entry.node, ObjectNode):
            fields.update(entry.node.fields)
        elif entry and not isinstance(entry.node, BrokenNode):
            self._report.problem(
                location, "env", f"is a block, not {describe(entry.node)}", "env { job.mode = STREAMING }"
            )
        flat = {key[4:]: field for key, field in self._root.fields.items() if key.startswith("env.")}
        for key, field in flat.items():
            if key not in fields or fields[key].order < field.order:
                fields[key] = field
        defaults = {key: field for key, field in self._env_defaults.items() if key not in fields}
        parsed = parse_options(
            ENV, ObjectNode({**defaults, **fields}, location), "env", self._report, elsewhere=_ELSEWHERE_FROM_ENV
        )
        if 0 < parsed.values.get("flush_interval_ms", 0) < FREQUENT_FLUSH_MS:
            place = parsed.place("flush_interval_ms")
            self._report.note(f"{place}: env.sink.flush.interval below {FREQUENT_FLUSH_MS} ms costs more than it gives")
        if entry is None and not flat:
            self._fill_in("env", "env { job.mode = STREAMING }", location)
        elif "job_mode" in parsed.values and "job_mode" not in parsed.places:
            self._fill_in("env.job.mode", "job.mode = STREAMING", location)
        return parsed

    def source(self, on_bad_record: str | None) -> _Plugin | None:
        """The source. None: there is none that could be read."""
        children = self._children("source")
        if children == []:
            self._report.problem(self._top, "source", "the job has no source", _SOURCE_EXAMPLE)
        known = [child for child in children or () if self._is_source(child)]
        for child in known[1:]:
            message = f"a job has one {SOURCE} source, and there is one at {known[0].location} already"
            self._report.problem(child.location, f"source.{SOURCE}", message, "put the other one into a job of its own")
        plugins = []
        for child in known:
            if child.block is None:
                continue
            path = f"source.{SOURCE}"
            options = parse_options(EDGE_SOCKET, child.block, path, self._report, elsewhere=_ELSEWHERE_FROM_SOURCE)
            if on_bad_record is not None:
                options.values["on_bad_record"] = on_bad_record
                self._report.note(f"{path}.on_bad_record is {on_bad_record}, as the command line says")
            check_edge_socket(options, path, self._report)
            plugins.append(_Plugin(SOURCE, SOURCE, path, child.location, options))
        return plugins[0] if plugins else None

    def sinks(self) -> list[_Plugin]:
        """The sinks, Console if the file has none."""
        children = self._children("sink")
        if children == []:
            self._fill_in("sink", _SINK_EXAMPLE, self._top)
            children = [_Child("Console", ObjectNode({}, self._top), self._top)]
        return self._plugins("sink", children, SINKS, SINKS_TO_COME)

    def transforms(self) -> list[_Plugin]:
        """The transforms, in the order of the file."""
        return self._plugins("transform", self._children("transform"), TRANSFORMS, TRANSFORMS_TO_COME)

    def dead_letter(self) -> _Plugin | None:
        """The sink of the dead_letter block, if there is one."""
        children = self._children(DEAD_LETTER)
        if children == [] and DEAD_LETTER in self._root.fields:
            self._report.problem(
                self._root.fields[DEAD_LETTER].location, DEAD_LETTER, "names no sink", _DEAD_LETTER_EXAMPLE
            )
        found = self._plugins(DEAD_LETTER, children, SINKS, SINKS_TO_COME)
        for further in found[1:]:
            message = f"dead letters go to one sink, and there is one at {found[0].location} already"
            self._report.problem(further.location, "dead_letter", message, "delete one of them")
        return replace(found[0], id=DEAD_LETTER) if found else None

    def _plugins(
        self,
        kind: str,
        children: list[_Child] | None,
        known: Mapping[str, SinkPlugin] | Mapping[str, TransformPlugin],
        to_come: tuple[str, ...],
    ) -> list[_Plugin]:
        """The plugins of one kind, their options read and checked."""
        plugins: list[_Plugin] = []
        for child in children or ():
            try:
                plugin, how = self._find(kind, child.name, known)
            except Refused as refused:
                path = f"{kind}.{shorten(child.name)}"
                self._report.problem(child.location, path, refused.message, refused.fix)
                continue
            if how is None:
                more = self._plugged.names("transform" if kind == "transform" else "sink")
                self._unknown_plugin(kind, child, [*known, *more], to_come)
                continue
            number = 1 + sum(one.plugin == plugin for one in plugins)
            plugin_id = plugin if number == 1 else f"{plugin}-{number}"
            path = f"{kind}.{plugin_id}"
            if child.block is None:
                continue
            options = parse_options(how.table, child.block, path, self._report, elsewhere=_ELSEWHERE_FROM_SINK)
            if how.check is not None:
                how.check(options, path, self._report)
            plugins.append(_Plugin(plugin, plugin_id, path, child.location, options, how))
        return plugins

    def _find(
        self, kind: str, name: str, known: Mapping[str, SinkPlugin] | Mapping[str, TransformPlugin]
    ) -> tuple[str, SinkPlugin | TransformPlugin | None]:
        """A plugin's name as it is spelt, and how it is read: a built-in, else a third party's, else None."""
        spelled = _spelled(name, known)
        if spelled in known:
            return spelled, known[spelled]
        found = self._plugged.transform(name) if kind == "transform" else self._plugged.sink(name)
        return (name, None) if found is None else (found.name, found.plugin)

    def wiring(self, source: _Plugin | None, transforms: list[_Plugin], sinks: list[_Plugin]) -> Wiring:
        """Who takes rows from whom."""
        if source is None:
            return Wiring({}, ())
        steps, ends = [_wire_node(one) for one in transforms], [_wire_node(one) for one in sinks]
        return wire(_wire_node(source), steps, ends, self._report)

    def check_together(
        self, env: ParsedOptions, source: _Plugin | None, sinks: list[_Plugin], dead_letter: _Plugin | None
    ) -> None:
        """Checks across blocks."""
        deciding = [sink for sink in sinks if _decides(sink)]
        for sink in deciding[1:]:
            message = f"decides checkpoints in its own transaction, and so does {deciding[0].path}"
            self._report.problem(
                sink.location, sink.path, message, "only one sink of a job can: put it into its own job"
            )
        for sink in sinks:
            self._check_transaction(sink, env)
        if dead_letter is None:
            for plugin, key in [(source, "on_bad_record"), *((sink, "on_rejected_row") for sink in sinks)]:
                if plugin is not None and plugin.options.values.get(key) == "dead_letter":
                    place = plugin.options.place(key)
                    message = "the job has no dead_letter block"
                    self._report.problem(place, f"{plugin.path}.{key}", message, _DEAD_LETTER_EXAMPLE)
        elif _decides(dead_letter):
            message = "a sink that decides checkpoints cannot take dead letters"
            self._report.problem(dead_letter.location, "dead_letter", message, "dead_letter { DeadLetter { ... } }")

    def _check_transaction(self, sink: _Plugin, env: ParsedOptions) -> None:
        plugin = sink.as_sink
        times = ("checkpoint_interval_ms", "checkpoint_timeout_ms")
        if plugin.check_times is None or not sink.options.complete(plugin.table) or not env.has(*times):
            return
        message = plugin.check_times(_built(sink), *(env.values[name] for name in times))
        if message:
            self._report.problem(sink.location, sink.path, message)

    def leftovers(self) -> None:
        """Report top-level settings that nothing reads. What a substitution reads is a helper and stays."""
        for key, entry in self._root.fields.items():
            if key in ("env", DEAD_LETTER, *PLUGIN_BLOCKS) or key.startswith("env.") or self._is_used(key):
                continue
            shown = shorten(key)
            block = key.partition(".")[0]
            if block in PLUGIN_BLOCKS:
                fix = f"write {block} {{ PluginName {{ ... }} }}, one block inside the other"
                self._report.problem(entry.location, shown, f"{block} is a block of plugins", fix)
            elif key in _ELSEWHERE_FROM_TOP:
                fix = f"move it into {_ELSEWHERE_FROM_TOP[key]}"
                self._report.problem(entry.location, shown, "is in the wrong place", fix)
            else:
                near = _TOP.nearest(key)
                fix = f"did you mean {near}?" if near else "delete it, or use it somewhere as ${" + shown + "}"
                self._report.problem(entry.location, shown, "nothing reads this top-level setting", fix)

    def name_of_job(self, env: ParsedOptions) -> str:
        """`job.name`, else the file's name without directory and ending."""
        given: str | None = env.values.get("job_name")
        if given is not None or not env.has("job_name"):
            return given or ""
        base = self._name.replace("\\", "/").rpartition("/")[2]
        stem = base.rpartition(".")[0] or base
        try:
            return check_job_name(stem)
        except Refused as refused:
            message = f"is missing, and the file's name does not do instead: {refused.message}"
            self._report.problem(self._top, "env.job.name", message, 'job.name = "edge"')
            return ""

    def _is_source(self, child: _Child) -> bool:
        if child.name.lower() == SOURCE.lower():
            return True
        self._unknown_plugin("source", child, [SOURCE], ())
        return False

    def _children(self, kind: str) -> list[_Child] | None:
        """The plugins of a top-level block. None: the block itself has a reported fault."""
        entry = self._root.fields.get(kind)
        if entry is None:
            return []
        node = entry.node
        if isinstance(node, Scalar) and node.is_null:
            return []
        if isinstance(node, ObjectNode):  # it came through a substitution
            items: tuple[Node, ...] = tuple(
                PluginNode(key, field.node, field.location) for key, field in node.fields.items()
            )
        elif isinstance(node, ListNode):
            items = node.items
        else:
            if not isinstance(node, BrokenNode):
                message = f"is a block of plugins, not {describe(node)}"
                self._report.problem(node.location, kind, message, _EXAMPLES[kind])
            return None
        children = [self._child(kind, item) for item in items]
        return [child for child in children if child is not None] if not children or any(children) else None

    def _child(self, kind: str, item: Node) -> _Child | None:
        """One plugin. None: a fault, reported."""
        name, location, body = "", item.location, item
        if isinstance(item, PluginNode):
            name, body = item.name, item.body
        if isinstance(body, BrokenNode):
            return _Child(name, None, location) if name else None
        if not isinstance(body, ObjectNode):
            path = f"{kind}.{shorten(name)}" if name else kind
            message = f"is {describe(body)}, where the block of a plugin was expected"
            self._report.problem(location, path, message, _EXAMPLES[kind])
            return None
        named = body.fields.get("plugin_name")
        if named is not None and isinstance(named.node, Scalar):
            name = named.node.text
        if not name:
            self._report.problem(location, kind, "this plugin has no plugin_name", f'plugin_name = "{_PLUGINS[kind]}"')
            return None
        rest = {key: field for key, field in body.fields.items() if key != "plugin_name"}
        return _Child(name, ObjectNode(rest, location), location)

    def _unknown_plugin(self, kind: str, child: _Child, known: list[str], to_come: tuple[str, ...]) -> None:
        path = f"{kind}.{shorten(child.name)}"
        there = f"the {kind}s are {', '.join(known)}" if len(known) > 1 else f"the {kind} is {known[0]}"
        if _spelled(child.name, to_come) in to_come:
            message = f"{_spelled(child.name, to_come)} is not supported yet"
            self._report.problem(child.location, path, message, f"for now {there}")
            return
        near = OptionTable(*(Option(name=name, kind=Kind.TEXT, description="") for name in known)).nearest(child.name)
        fix = f"did you mean {near}? ({there})" if near else there
        self._report.problem(child.location, path, f"there is no such {kind}", fix)

    def _is_used(self, key: str) -> bool:
        return any(name == key or name.startswith(key + ".") or key.startswith(name + ".") for name in self._used)

    def _fill_in(self, path: str, what: str, location: Location) -> None:
        if self._strict:
            self._report.problem(location, path, "is missing", what)
        else:
            self._report.note(f"{self._name}: {path} is missing, filled in: {what}")


def _source_spec(source: _Plugin) -> SourceSpec:
    options = EdgeSocketOptions(**source.options.values)
    return SourceSpec(source.plugin, source.id, options, str(source.location))


def _sink_spec(sink: _Plugin, inputs: tuple[str, ...]) -> SinkSpec:
    common = {option.key: sink.options.values[option.key] for option in COMMON if option.key in sink.options.values}
    place = str(sink.location)
    options, how = _built(sink), sink.as_sink
    return SinkSpec(
        plugin=sink.plugin,
        id=sink.id,
        options=options,
        location=place,
        inputs=inputs,
        decides=how.deciding(options),
        exactly_once=how.claims_exactly_once(options),
        places=sink.places,
        **common,
    )


def _built(sink: _Plugin) -> Any:
    common = {option.key for option in COMMON}
    return sink.as_sink.build(**{key: value for key, value in sink.options.values.items() if key not in common})


def _decides(sink: _Plugin) -> bool:
    plugin = sink.as_sink
    return sink.options.complete(plugin.table) and plugin.deciding(_built(sink))


def _transform_specs(transforms: list[_Plugin], wiring: Wiring) -> tuple[TransformSpec, ...]:
    common = {option.key for option in COMMON_TRANSFORM}
    by_id = {one.id: one for one in transforms}
    specs = []
    for one in (by_id[id_] for id_ in wiring.order):
        values = {key: value for key, value in one.options.values.items() if key not in common}
        assert isinstance(one.how, TransformPlugin)
        options = one.how.build(**values)
        inputs = wiring.inputs[one.id]
        specs.append(TransformSpec(one.plugin, one.id, options, inputs, str(one.location), one.places))
    return tuple(specs)


def _wire_node(plugin: _Plugin) -> WireNode:
    values = plugin.options.values
    place = plugin.options.place("plugin_input")
    return WireNode(plugin.id, plugin.path, values.get("plugin_input", ()), values.get("plugin_output"), place)


def _spelled(name: str, known: Iterable[str]) -> str:
    """A plugin's name in the spelling of `known`; names differ in letter case only."""
    return next((one for one in known if one.lower() == name.lower()), name)


def _elsewhere(*places: tuple[OptionTable, str]) -> dict[str, str]:
    """Where options belong that somebody may have put into the wrong block."""
    return {name: place for table, place in places for name in table.names if name != "parallelism"}


_PLUGINS = {"source": SOURCE, "sink": "Console", "transform": "Copy", DEAD_LETTER: "DeadLetter"}
_EXAMPLES = {
    "source": _SOURCE_EXAMPLE,
    "sink": _SINK_EXAMPLE,
    "transform": _TRANSFORM_EXAMPLE,
    DEAD_LETTER: _DEAD_LETTER_EXAMPLE,
}
_ELSEWHERE_FROM_ENV = _elsewhere((EDGE_SOCKET, _IN_SOURCE))
_ELSEWHERE_FROM_SOURCE = _elsewhere((ENV, _IN_ENV))
_ELSEWHERE_FROM_SINK = _elsewhere((EDGE_SOCKET, _IN_SOURCE), (ENV, _IN_ENV))
_ELSEWHERE_FROM_TOP = _ELSEWHERE_FROM_SINK
_TOP = OptionTable(*(Option(name=name, kind=Kind.TEXT, description="") for name in ("env", *PLUGIN_BLOCKS)))
