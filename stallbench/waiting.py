"""Waits for a condition until a deadline; the error says what is still missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

ResultT = TypeVar("ResultT")


def wait_until(condition: Callable[[], ResultT], *, within_s: float, every_s: float = 0.1) -> ResultT | None:
    """Return the first true result of ``condition``, asked every ``every_s``, or none if there was none within ``within_s``.

    ``condition`` is asked at least once, and once more when the deadline has passed, so that a machine that stands still
    for a moment does not miss a result that is there. What it raises is raised.
    """
    deadline_s = time.monotonic() + within_s
    while True:
        is_last = time.monotonic() >= deadline_s
        if result := condition():
            return result
        if is_last:
            return None
        time.sleep(min(every_s, max(0.0, deadline_s - time.monotonic())))
