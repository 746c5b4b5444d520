"""The completion scripts, in the shells they are for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.jobs import edgesocket

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the three scripts."""
    directory = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        done = edgesocket("completion", shell)
        assert done.returncode == 0, done.stderr
        (directory / f"script.{shell}").write_text(done.stdout)
    (directory / "_edgesocket").write_text((directory / "script.zsh").read_text())
    return directory


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with job files, a state root and other files."""
    for name in ("clicks", "views"):
        (tmp_path / ".edgesocket" / name / "log").mkdir(parents=True)
    (tmp_path / "other" / "sales" / "log").mkdir(parents=True)
    for name in ("job.conf", "notes.txt"):
        (tmp_path / name).touch()
    return tmp_path


def complete(shell: str, scripts: Path, here: Path, line: str, **env: str) -> set[str]:
    """What the shell offers behind a line."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    if shell == "fish":
        code = f"source {scripts}/script.fish; complete -C '{line}'"
        command = ["fish", "--no-config", "-c", code]
    elif shell == "bash":
        words = line.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        code = (
            f"source {scripts}/script.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
            "_edgesocket; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        command = ["bash", "--norc", "-c", code]
    else:
        command = ["zsh", "-f", str(scripts / "driver.zsh"), line, str(scripts)]
        (scripts / "driver.zsh").write_text(ZSH_DRIVER)
    done = subprocess.run(
        command,
        cwd=here,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(here), "TERM": "dumb", **env},
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    return {found.split("\t")[0].strip().rstrip("/") for found in done.stdout.splitlines() if found.strip()}


ZSH_DRIVER = r"""
# Completion runs in a zsh of its own, behind a pseudo terminal, as with a person; compadd tells what it offers.
zmodload zsh/zpty
local line=$1 scripts=$2
zpty inner zsh -f
zpty -w inner "PROMPT=; fpath=($scripts \$fpath); autoload -Uz compinit; compinit -u -d $HOME/.zcompdump"
zpty -w inner "zstyle ':completion:*' verbose no; zstyle ':completion:*' group-name ''"
zpty -w inner 'report() { echo; echo BEGIN-OF-LIST; print -l -- "$offered[@]"; echo END-OF-LIST; exit }'
zpty -w inner 'offered=(); compadd() { local -a got; builtin compadd -O got "$@"; offered+=("$got[@]")'
zpty -w inner 'builtin compadd "$@" }'
zpty -w inner 'complete-and-report() { zle complete-word; zle -I; report }; zle -N complete-and-report'
zpty -w inner 'bindkey "^T" complete-and-report; echo READY-NOW'
local chunk= all=
while zpty -r inner chunk; do all+=$chunk; [[ $all == *READY-NOW*READY-NOW* ]] && break; done
zpty -w -n inner "$line"$'\x14'
all=
while zpty -r inner chunk; do all+=$chunk; [[ $all == *END-OF-LIST* ]] && break; done
all=${${all#*BEGIN-OF-LIST}%END-OF-LIST*}
print -r -- ${all//$'\r'/}
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_verbs_options_values_and_jobs_are_offered(shell: str, scripts: Path, here: Path) -> None:
    assert complete(shell, scripts, here, "edgesocket sta") == {"status"}
    verbs = complete(shell, scripts, here, "edgesocket ")
    assert {"run", "top", "tail", "dead-letters", "completion"} <= verbs
    assert "--check" in complete(shell, scripts, here, "edgesocket status --ch")
    assert {"text", "json"} <= complete(shell, scripts, here, "edgesocket status --format ")
    assert {"list", "show", "replay"} <= complete(shell, scripts, here, "edgesocket dead-letters ")
    jobs = complete(shell, scripts, here, "edgesocket status ")
    assert {"clicks", "views", "job.conf"} <= jobs
    assert "notes.txt" not in jobs
    assert complete(shell, scripts, here, "edgesocket dead-letters replay cl") == {"clicks"}
    assert "sales" in complete(shell, scripts, here, "edgesocket status --state-dir other sa")
    assert "sales" in complete(shell, scripts, here, "edgesocket cancel s", EDGESOCKET_STATE=str(here / "other"))
    assert "notes.txt" in complete(shell, scripts, here, "edgesocket send --token-file n")
    assert {"bash", "zsh", "fish"} <= complete(shell, scripts, here, "edgesocket completion ")


def test_every_verb_is_in_every_script(scripts: Path) -> None:
    from edgesocket.cli.main import VERBS

    for shell in SHELLS:
        script = (scripts / f"script.{shell}").read_text()
        assert all(verb in script for verb in VERBS)
