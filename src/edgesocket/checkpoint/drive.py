"""Drives a procedure: performs each effect it yields and hands the result, or the error, back in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from edgesocket.checkpoint.effects import Procedure

T = TypeVar("T")


def drive(procedure: Procedure[T], perform: Callable[[Any], Any]) -> T:
    """Run `procedure` to its end.

    Args:
        procedure: a generator of effects, not started yet.
        perform: does one effect and returns its result. What it raises is thrown into the procedure at the effect,
            and comes out of here unless the procedure handles it.

    Returns:
        The procedure's result.
    """
    try:
        effect = next(procedure)
        while True:
            try:
                result = perform(effect)
            except Exception as error:
                effect = procedure.throw(error)
            else:
                effect = procedure.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
