"""Do the transforms of a job fit the rows they will get? Found out before anything starts, with file and line."""

from __future__ import annotations

import re
from dataclasses import replace

from edgesocket.cli.job_files import JobFile
from edgesocket.cli.jobs import make_plan
from edgesocket.components.registry import transforms as transform_registry
from edgesocket.config.specs import JobSpec, SinkSpec, TransformSpec
from edgesocket.engine.pipeline import Pipeline
from edgesocket.errors import ConfigError, ConfigProblem
from edgesocket.sources.typing_rows import row_schema


def bound(file: JobFile) -> JobFile:
    """The job, its transforms known to fit. Nothing of it is opened, and what was made for this is closed again.

    A transform whose library is not installed is noted, not refused: a job may be checked where it does not run.

    Raises:
        ConfigError: something does not fit; every problem that can be found.
    """
    spec = file.spec
    notes = tuple(_missing_libraries(spec))
    if notes:
        return replace(file, notes=(*file.notes, *notes))
    try:
        Pipeline(make_plan(spec, file.state), row_schema(spec.sources[0].options)).close()
    except ConfigError as error:
        raise ConfigError([_placed(problem, spec) for problem in error.problems]) from None
    return file


def _missing_libraries(spec: JobSpec) -> list[str]:
    notes = []
    for plugin in dict.fromkeys(step.plugin for step in spec.transforms):
        try:
            transform_registry.factory(plugin)
        except ConfigError as error:
            if not isinstance(error.__cause__, ImportError):
                raise
            notes.append(f"whether transforms fit the rows was not checked: {error.problems[0].message}")
    return notes


def _placed(problem: ConfigProblem, spec: JobSpec) -> ConfigProblem:
    """The problem with the line of its option, or of its plugin's block."""
    steps: list[tuple[str, TransformSpec | SinkSpec]] = [("transform", step) for step in spec.transforms]
    steps += [("sink", sink) for sink in spec.sinks]
    for kind, step in steps:
        path = f"{kind}.{step.id}."
        if problem.path.startswith(path) and not problem.location:
            key = re.split(r"[.\[]", problem.path[len(path) :])[0].replace("-", "_")
            return replace(problem, location=step.places.get(key, step.location))
    return problem
