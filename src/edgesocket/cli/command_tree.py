"""Every verb with its options and arguments, read off the parsers: shell completion is made from it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from edgesocket.cli.main import VERBS, Parser, verb_module

FILE_WORDS = ("FILE", "GLOB", "AGENT", "HOST:PORT [FILE")
"""Metavars whose values are names of files."""

DIRECTORY_WORDS = ("DIR",)
JOB_WORDS = ("JOB",)


@dataclass(frozen=True, slots=True)
class Flag:
    """An option.

    Attributes:
        names: as they are written, the long one last.
        help: in a few words; empty where there are none.
        value: what follows: `` for nothing, `file`, `directory`, `job`, `choice` or `text`.
        choices: of a choice.
    """

    names: tuple[str, ...]
    help: str
    value: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A verb, or an action of one.

    Attributes:
        name: such as `run`; empty for the whole command.
        help: in a few words.
        flags: its options.
        values: what its arguments are, in order, as `Flag.value`; the last one goes on.
        choices: of those that are a choice, together.
        actions: what may stand behind it instead of arguments.
        needs: the library that is missing here, so that nothing else is known of it.
    """

    name: str
    help: str
    flags: tuple[Flag, ...] = ()
    values: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    actions: tuple[Command, ...] = field(default=())
    needs: str = ""


def command_tree() -> Command:
    """All of it. Imports every verb; one whose libraries are not installed is there by name."""
    verbs = []
    for name, help_ in VERBS.items():
        parser = Parser(prog="edgesocket")
        subparsers = parser.add_subparsers()
        try:
            verb_module(name).add_parser(subparsers)
        except ModuleNotFoundError as error:
            verbs.append(Command(name, help_, needs=error.name or ""))
            continue
        verbs.append(_command(name, help_, subparsers.choices[name]))
    own = (Flag(("-h", "--help"), "show help"), Flag(("--version",), "show the version"))
    return Command("", "", own, actions=tuple(verbs))


def _command(name: str, help_: str, parser: argparse.ArgumentParser) -> Command:
    flags: list[Flag] = []
    values: list[str] = []
    choices: list[str] = []
    actions: list[Command] = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):
            told = {one.dest: one.help or "" for one in action._choices_actions}
            actions += [_command(one, told.get(one, ""), inner) for one, inner in action.choices.items()]
        elif action.option_strings:
            names = tuple(sorted(action.option_strings, key=len))
            takes = _value(action) if action.nargs != 0 else ""
            flags.append(Flag(names, _brief(action.help or ""), takes, _choices(action)))
        else:
            values.append(_value(action))
            choices += _choices(action)
    return Command(name, _brief(help_), tuple(flags), tuple(values), tuple(choices), tuple(actions))


def _choices(action: argparse.Action) -> tuple[str, ...]:
    return tuple(map(str, action.choices)) if action.choices is not None else ()


def _value(action: argparse.Action) -> str:
    """What the value of an option or argument is."""
    if action.choices is not None:
        return "choice"
    words = action.metavar if isinstance(action.metavar, str) else action.dest
    for kind, known in (("job", JOB_WORDS), ("directory", DIRECTORY_WORDS), ("file", FILE_WORDS)):
        if any(words.upper().startswith(word) for word in known):
            return kind
    return "text"


def _brief(text: str) -> str:
    """The first part of a help text, on one line, without what would need quotes."""
    line = " ".join(text.replace("%%", "%").split())
    for end in (" (default", "; ", ": "):
        line = line.partition(end)[0]
    return "".join(letter for letter in line if letter not in "'\"`\\[]$")[:70].rstrip()
