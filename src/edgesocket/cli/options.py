"""`edgesocket options [NAME]`: every option of a job file, or those of one plugin, or one option.

What is printed is made from the specs that read the job file. Plug-ins that are installed are among them; on a machine
without the engine, where they cannot be loaded, the rest is shown.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from edgesocket.cli.output import add_format_argument, wants_json
from edgesocket.config.catalog import (
    ENTRIES,
    Entry,
    find_entries,
    find_options,
    nearest,
    show_default,
    show_meaning,
    show_value,
    walk,
)
from edgesocket.config.convert import Refused
from edgesocket.config.options import Kind, Option
from edgesocket.config.plugged import PluggedSink, PluggedTransform
from edgesocket.errors import ExitCode, UsageError

_WIDTH = 100


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "options",
        help="every option of a job file",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", metavar="NAME", help="a plugin (Kafka, sink Kafka), env, or an option")
    add_format_argument(parser, old_flag=True)


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    found = _chosen(" ".join(args.name))
    if wants_json(args):
        print(json.dumps([_as_json(entry, path, option) for entry, path, option in found], indent=2))
        return ExitCode.OK
    title = ""
    for entry, path, option in found:
        if entry.title != title:
            print(f"{chr(10) if title else ''}{entry.title}")
            title = entry.title
        print("\n".join(_lines(path, option)))
    return ExitCode.OK


def _chosen(name: str) -> list[tuple[Entry, str, Option]]:
    """Tables called so; else options called so. Raises UsageError where there are neither."""
    known_entries = (*ENTRIES, *_plugged_entries())
    entries = find_entries(name, known_entries) if name else list(known_entries)
    found = [(entry, path, option) for entry in entries for path, option in walk(entry.table)]
    found = found or find_options(name, known_entries)
    if not found and not entries:
        near = nearest(name, known_entries)
        known = ", ".join(entry.title for entry in known_entries)
        raise UsageError(f"there is no plugin and no option {name}; " + (f"did you mean {near}?" if near else known))
    return found


def _plugged_entries() -> list[Entry]:
    """The tables of plug-ins that are installed, as far as they can be loaded here."""
    try:
        from edgesocket.cli.plugged import InstalledPlugins
    except ModuleNotFoundError:  # the engine is not installed: neither are its plug-ins of use
        return []
    plugins, entries = InstalledPlugins(), []
    finders: dict[str, Callable[[str], PluggedSink | PluggedTransform | None]] = {
        "sink": plugins.sink,
        "transform": plugins.transform,
    }
    for kind, find in finders.items():
        for name in plugins.names(kind):
            try:
                found = find(name)
            except Refused as refused:
                print(f"edgesocket: {kind} {name}: {refused.message}", file=sys.stderr)
                continue
            if found is not None:
                entries.append(Entry(kind, found.name, found.plugin.table))
    return entries


def _lines(path: str, option: Option) -> Iterator[str]:
    if option.kind is Kind.LATER:
        yield f"  {path}: refused: {option.description}"
        return
    value = show_value(option).replace("`", "")
    default = _default(option)
    yield f"  {path}: {value}; {default if option.required else f'default {default}'}"
    meaning = show_meaning(option).replace("`", "")
    if meaning:
        yield textwrap.fill(meaning, _WIDTH, initial_indent="      ", subsequent_indent="      ")
    if option.suggestion:
        yield f"      example: {option.suggestion}"


def _as_json(entry: Entry, path: str, option: Option) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "block": entry.kind,
        "plugin": entry.plugin or None,
        "name": path,
        "kind": option.kind.value,
        "supported": option.kind is not Kind.LATER,
        "required": option.required,
        "default": None if option.secret else _plain(option.default),
        "default_text": _default(option) if option.kind is not Kind.LATER else "",
        "minimum": _plain(option.minimum),
        "maximum": _plain(option.maximum),
        "above": _plain(option.above),
        "unit": option.unit or None,
        "choices": list(option.choices),
        "aliases": list(option.aliases),
        "secret": option.secret,
        "description": option.description,
        "example": option.example or None,
    }
    return shown


def _default(option: Option) -> str:
    try:
        return show_default(option).replace("`", "")
    except TypeError:  # of a plug-in, which may have any default
        return repr(option.default)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
