"""Labels of the place a job runs at, and whether they are those its `tag_filter` asks for.

All is text: `edge = true` in a job file and `--label edge=true` match. Every tag of the filter must be a label with the
same value; labels that no tag asks for do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgesocket.config.convert import shorten
from edgesocket.errors import ConfigError, ConfigProblem, UsageError

ENVIRONMENT_NAME = "EDGESOCKET_LABELS"
"""Environment variable that holds labels: `zone=a,rack=7`."""


def parse_labels(texts: Iterable[str], where: str) -> dict[str, str]:
    """Read labels. The last one of a name counts.

    Args:
        texts: `name=value` each; the first `=` ends the name.
        where: what they come from, for messages.

    Raises:
        UsageError: one has no name or no `=`.
    """
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{where}: {shorten(text, quote=True)} is not of the form name=value")
        labels[name.strip()] = value.strip()
    return labels


def parse_environment_labels(text: str) -> dict[str, str]:
    """Read the value of `EDGESOCKET_LABELS`: labels with commas between them; empty means none. Raises as above."""
    return parse_labels((part for part in text.split(",") if part.strip()), ENVIRONMENT_NAME)


def check_tag_filter(job: str, tag_filter: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Check that a job may run here.

    Returns:
        A warning, or an empty string.

    Raises:
        ConfigError: there are labels, and they are not those the job asks for. Names each that is missing.
    """
    if not tag_filter:
        return ""
    if not labels:
        asked = ", ".join(f"{name}={value}" for name, value in tag_filter.items())
        return f"job {job} asks for a place labelled {asked}; this one has no labels at all, so it runs (see --label)"
    problems = [
        ConfigProblem(
            f"env.tag_filter.{shorten(name)}",
            f"asks for {shorten(value, quote=True)}, and "
            + (
                f"the label here is {shorten(labels[name], quote=True)}" if name in labels else "there is no such label"
            ),
            f"run it where the label is that, or give --label {shorten(name)}={shorten(value)}",
        )
        for name, value in tag_filter.items()
        if labels.get(name) != value
    ]
    if problems:
        raise ConfigError(problems)
    return ""
