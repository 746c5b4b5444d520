"""The pictures and tables of the state machines in `docs/states.md`, made from the tables that the program runs on.

Each stands between `<!-- states: NAME -->` and `<!-- /states -->`. After a change of a machine write them anew with
`python -m edgesocket.testing.state_pages`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from edgesocket.ingress import batch_states
from edgesocket.protocol import states

PAGE = Path("docs/states.md")

_BLOCK = re.compile(r"(<!-- states: (\w+) -->\n).*?(<!-- /states -->)", re.DOTALL)

Arrow = tuple[str, str, str, str]
"""From which state, by what, to which state, and what is done about it."""


def _session() -> list[Arrow]:
    return [
        (state.value, what.value, following.value, action.value)
        for (state, what), (following, action) in states.TRANSITIONS.items()
    ]


def _collector() -> list[Arrow]:
    return [
        (state.value, what.value, following.value, action.value)
        for (state, what), (following, action) in states.COLLECTOR_TRANSITIONS.items()
    ]


def _batch() -> list[Arrow]:
    return [
        (state.value, what.value, following.value, "") for (state, what), following in batch_states.TRANSITIONS.items()
    ]


MACHINES: dict[str, Callable[[], list[Arrow]]] = {"session": _session, "collector": _collector, "batch": _batch}
"""The machines, by the name in their marker."""


def render(name: str) -> str:
    """Markdown: the arrows between different states as a picture, and all of them as a table."""
    arrows = MACHINES[name]()
    moves = [arrow for arrow in arrows if arrow[0] != arrow[2]]
    picture = ["```mermaid", "stateDiagram-v2", *_picture(moves), "```"]
    has_actions = any(action for *_, action in arrows)
    head = "| in state | what happens | next state |" + (" what is done |" if has_actions else "")
    table = [head, "|---" * (4 if has_actions else 3) + "|"]
    for state, what, following, action in arrows:
        shown = f"**{following}**" if following != state else following
        cells = [state, what, shown, *([action] if has_actions else [])]
        table.append("| " + " | ".join(_words(cell) for cell in cells) + " |")
    return "\n".join([*picture, "", *table]) + "\n"


def _picture(moves: Iterable[Arrow]) -> list[str]:
    """One arrow for each pair of states, with everything that leads along it."""
    labels: dict[tuple[str, str], list[str]] = {}
    for state, what, following, _ in moves:
        labels.setdefault((state, following), []).append(_words(what))
    return [f"    {state} --> {following}: {', '.join(all_)}" for (state, following), all_ in labels.items()]


def _words(name: str) -> str:
    return name.replace("_", " ")


def fill_page(page: str) -> str:
    """The page with everything between its markers made anew. Raises KeyError for a marker that names no machine."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n{render(found[2])}\n{found[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
