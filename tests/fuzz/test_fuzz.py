"""Every target, with its seeds and with everything that was ever found; and with random changes of those."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
CHANGES = 300


def inputs_of(name: str) -> list[bytes]:
    """Seeds, and the files of the corpus."""
    return seeds()[name] + [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


def test_every_target_has_seeds_and_every_corpus_a_target() -> None:
    assert set(seeds()) == set(TARGETS)
    assert {path.name for path in CORPUS.glob("*")} <= set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_known_inputs_hold(name: str) -> None:
    for data in [b"", *inputs_of(name)]:
        TARGETS[name].run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_inputs_hold(name: str) -> None:
    """A short run without a fuzzer, on every Python."""
    chance = random.Random(name)
    known = inputs_of(name)
    for _ in range(CHANGES):
        data = bytearray(chance.choice(known))
        for _ in range(chance.randrange(1, 5)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randrange(4)] = chance.choice(
                [b"", chance.randbytes(chance.randrange(1, 5)), chance.choice(known)[: chance.randrange(40)]]
            )
        TARGETS[name].run(bytes(data[: TARGETS[name].max_bytes]))


PAGE = Path(__file__).parents[2] / "docs/fuzzing.md"


def table() -> str:
    """The targets as Markdown."""
    lines = ["| target | reads | holds | may raise |", "|---|---|---|---|"]
    for name, target in TARGETS.items():
        raised = ", ".join(f"`{kind.__name__}`" for kind in target.allowed) or "nothing"
        lines.append(f"| `{name}` | {target.reads} | {target.holds} | {raised} |")
    return "\n".join(lines)


def test_the_page_has_the_targets() -> None:
    """Write it anew by hand: the table is what this test expects."""
    begin, end = "<!-- fuzz targets -->\n", "<!-- /fuzz targets -->"
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(begin) + len(begin) : text.index(end)].strip() == table()
