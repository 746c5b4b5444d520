"""`edgesocket completion bash|zsh|fish`: print a script that completes verbs, options, files and names of jobs.

    bash   edgesocket completion bash > ~/.local/share/bash-completion/completions/edgesocket
    zsh    edgesocket completion zsh > "${fpath[1]}/_edgesocket"
    fish   edgesocket completion fish > ~/.config/fish/completions/edgesocket.fish

or, for this shell only: eval "$(edgesocket completion bash)". Names of jobs are those with state in --state-dir, in
$EDGESOCKET_STATE or in .edgesocket, where these are directories. The script is made from the parsers: print it again
after an update.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from edgesocket.cli.command_tree import Command, Flag, command_tree
from edgesocket.errors import ExitCode


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = subparsers.add_parser(
        "completion",
        help="print a script for the shell that completes commands",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell that the script is for")


def run(args: argparse.Namespace) -> int:
    """Run the verb."""
    print("\n".join(_SCRIPTS[args.shell](command_tree())))
    return ExitCode.OK


def _leaves(tree: Command) -> Iterator[tuple[str, Command]]:
    """Every verb, and every action of one, with its path."""
    for verb in tree.actions:
        yield verb.name, verb
        for action in verb.actions:
            yield f"{verb.name} {action.name}", action


# ---- bash ------------------------------------------------------------------------------------------------------------

_BASH_HEAD = r"""# bash completion for edgesocket, made by: edgesocket completion bash
_edgesocket_jobs() {
    local root="${EDGESOCKET_STATE:-.edgesocket}" i entry
    for ((i = 1; i < ${#COMP_WORDS[@]} - 1; i++)); do
        [[ ${COMP_WORDS[i]} == --state-dir ]] && root="${COMP_WORDS[i + 1]}"
    done
    for entry in "$root"/*/log; do
        [[ -d $entry ]] && entry="${entry%/log}" && printf '%s\n' "${entry##*/}"
    done
}

_edgesocket_values() {
    local IFS=$'\n'
    case $1 in
        file) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")) ;;
        directory) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")) ;;
        job) compopt -o filenames 2>/dev/null
            COMPREPLY=($(compgen -W "$(_edgesocket_jobs)" -- "$cur"; compgen -d -- "$cur"
                compgen -f -X '!*.@(conf|json)' -- "$cur")) ;;
    esac
}

_edgesocket() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD - 1]}" path="" options="" value="" words="" i
    local extended; extended=$(shopt -p extglob); shopt -s extglob
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$path ${COMP_WORDS[i]}" in"""

_BASH_MIDDLE = r"""        esac
    done
    path="${path# }"
    case "$path" in"""

_BASH_TAIL = r"""    esac
    case "$path:$prev" in"""

_BASH_END = r"""        *)
            if [[ $cur == -* ]]; then
                COMPREPLY=($(compgen -W "$options" -- "$cur"))
            else
                [[ -n $words ]] && COMPREPLY=($(compgen -W "$words" -- "$cur"))
                [[ -n $value ]] && _edgesocket_values "$value"
            fi ;;
    esac
    eval "$extended"
}

complete -F _edgesocket edgesocket"""


def bash_script(tree: Command) -> Iterator[str]:
    """The script for bash 4 and later; needs no other package."""
    yield _BASH_HEAD
    for path, _ in _leaves(tree):
        yield f'            " {path}") path=" {path}" ;;'
    yield _BASH_MIDDLE
    names = " ".join(verb.name for verb in tree.actions)
    yield f'        "") options="{_names(tree.flags)}"; words="{names}" ;;'
    for path, command in _leaves(tree):
        words = " ".join([*(action.name for action in command.actions), *command.choices])
        value = _main_value(command)
        yield f'        "{path}") options="{_names(command.flags)}"; words="{words}"; value="{value}" ;;'
    yield _BASH_TAIL
    for path, command in _leaves(tree):
        for flag in command.flags:
            if flag.value:
                patterns = "|".join(f'"{path}:{name}"' for name in flag.names)
                yield f"        {patterns}) {_bash_value(flag)} ;;"
    yield _BASH_END


_COMPLETED = ("file", "directory", "job")


def _main_value(command: Command) -> str:
    """What is offered for the arguments of a command: files, directories or jobs, or nothing."""
    return next((value for value in command.values if value in _COMPLETED), "")


def _bash_value(flag: Flag) -> str:
    if flag.value == "choice":
        return f'COMPREPLY=($(compgen -W "{" ".join(flag.choices)}" -- "$cur"))'
    return f"_edgesocket_values {flag.value}" if flag.value in _COMPLETED else ":"


def _names(flags: tuple[Flag, ...]) -> str:
    return " ".join(name for flag in flags for name in flag.names)


# ---- zsh -------------------------------------------------------------------------------------------------------------

_ZSH_HEAD = r"""#compdef edgesocket
# zsh completion for edgesocket, made by: edgesocket completion zsh

_edgesocket_jobs() {
    local root="${EDGESOCKET_STATE:-.edgesocket}" at=${words[(i)--state-dir]}
    (( at < $#words )) && root="${words[at + 1]}"
    local -a names
    names=("$root"/*/log(N/:h:t))
    (( $#names )) && compadd -a names
    _files -g '*.(conf|json)'
}
"""


def zsh_script(tree: Command) -> Iterator[str]:
    """The script for zsh."""
    yield _ZSH_HEAD
    for path, command in _leaves(tree):
        yield from _zsh_function(path, command)
    yield from _zsh_function("", tree)
    yield 'if [[ $funcstack[1] == _edgesocket ]]; then _edgesocket "$@"; else compdef _edgesocket edgesocket; fi'


def _zsh_function(path: str, command: Command) -> Iterator[str]:
    yield f"{_zsh_name(path)}() {{"
    if command.actions:
        yield "    local curcontext=$curcontext state line"
        yield "    local -a commands"
        yield "    commands=("
        for action in command.actions:
            yield f"        '{action.name}:{action.help}'"
        yield "    )"
    yield f"    _arguments {'-C ' if command.actions else ''}-s \\"
    for flag in command.flags:
        yield f"        {_zsh_flag(flag)} \\"
    if command.actions:
        yield "        '1: :->command' '*:: :->rest'"
        yield "    case $state in"
        yield "        command) _describe -t commands command commands ;;"
        yield "        rest) case $line[1] in"
        for action in command.actions:
            yield f"            {action.name}) {_zsh_name(f'{path} {action.name}'.strip())} ;;"
        yield "        esac ;;"
        yield "    esac"
    else:
        choice = [f"'1: :({' '.join(command.choices)})'"] if command.choices else []
        yield "        " + " ".join([*choice, f"'*: :{_zsh_value(_main_value(command), ())}'"])
    yield "}"
    yield ""


def _zsh_name(path: str) -> str:
    return "_edgesocket" + "".join(f"_{word.replace('-', '_')}" for word in path.split()) + ("_verb" if path else "")


def _zsh_flag(flag: Flag) -> str:
    value = f": :{_zsh_value(flag.value, flag.choices)}" if flag.value else ""
    specs = [f"'*{name}[{flag.help.replace(':', ' ')}]{value}'" for name in flag.names]
    return " ".join(specs)


def _zsh_value(value: str, choices: tuple[str, ...]) -> str:
    if value == "choice":
        return f"({' '.join(choices)})"
    return {"file": "_files", "directory": "_files -/", "job": "_edgesocket_jobs"}.get(value, " ")


# ---- fish ------------------------------------------------------------------------------------------------------------

_FISH_HEAD = r"""# fish completion for edgesocket, made by: edgesocket completion fish
function __edgesocket_jobs
    set -l root .edgesocket
    set -q EDGESOCKET_STATE; and set root $EDGESOCKET_STATE
    set -l words (commandline -opc)
    set -l at (contains -i -- --state-dir $words); and test $at -lt (count $words)
    and set root $words[(math $at + 1)]
    for entry in $root/*/log
        test -d $entry; and basename (dirname $entry)
    end
    set -l token (commandline -ct)
    set -l files $token*.conf $token*.json
    printf '%s\n' $files
    __fish_complete_directories $token
end

function __edgesocket_at
    set -l words (commandline -opc)
    set -l found
    for word in $words[2..]
        string match -q -- '-*' $word; or set -a found $word
    end
    for number in (seq (count $argv))
        test "$found[$number]" = "$argv[$number]"; or return 1
    end
end

complete -c edgesocket -f
complete -c edgesocket -n 'test (count (commandline -opc)) -eq 1' -s h -l help -d 'show help'
complete -c edgesocket -n 'test (count (commandline -opc)) -eq 1' -l version -d 'show the version'"""


def fish_script(tree: Command) -> Iterator[str]:
    """The script for fish 3 and later."""
    yield _FISH_HEAD
    for verb in tree.actions:
        yield f"complete -c edgesocket -n 'test (count (commandline -opc)) -eq 1' -a {verb.name} -d '{verb.help}'"
    for path, command in _leaves(tree):
        seen = f"-n '__edgesocket_at {path}'"
        for action in command.actions:
            yield f"complete -c edgesocket {seen} -a {action.name} -d '{action.help}'"
        for choice in command.choices:
            yield f"complete -c edgesocket {seen} -a {choice}"
        value = _main_value(command)
        if value:
            yield f"complete -c edgesocket {seen} {_fish_value(value, ())}"
        for flag in command.flags:
            yield f"complete -c edgesocket {seen} {_fish_flag(flag)}"


def _fish_flag(flag: Flag) -> str:
    parts = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names]
    if flag.value:
        parts.append("-r")
        parts.append(_fish_value(flag.value, flag.choices))
    return " ".join([*filter(None, parts), f"-d '{flag.help}'"])


def _fish_value(value: str, choices: tuple[str, ...]) -> str:
    if value == "choice":
        return f"-a '{' '.join(choices)}'"
    return {"file": "-F", "directory": "-a '(__fish_complete_directories)'", "job": "-a '(__edgesocket_jobs)'"}.get(
        value, ""
    )


_SCRIPTS: dict[str, Callable[[Command], Iterator[str]]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}
