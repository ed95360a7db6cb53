"""Waits for what a test expects; a test that waits in vain says for what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stallbench.waiting import wait_until

PATIENCE_S = 60.0
"""Time limit for what should be immediate: a machine may stand still for seconds."""

FoundT = TypeVar("FoundT")


def wait_for(
    look: Callable[[], FoundT | None],
    what: str | Callable[[], object],
    within_s: float = PATIENCE_S,
    *,
    every_s: float = 0.05,
) -> FoundT:
    """Look every ``every_s`` until something true is seen and return it; fails the test after ``within_s``.

    ``what``: the subject of the message, like "the end of the process"; or returns it, if it has to say what is there instead.
    """
    found = wait_until(look, within_s=within_s, every_s=every_s)
    assert found, f"{what() if callable(what) else what} was not seen within {within_s:g} s"
    return found
