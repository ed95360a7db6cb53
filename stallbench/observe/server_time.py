"""An upper bound of the time that a server has worked for one session, and the mark by which that session's statements are recognised."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

MARK = "/* stallbench observe */"
"""Each statement of `stallbench observe` begins with it. It distinguishes them from the application's in the server's log and statistics."""


def mark(statement: str) -> str:
    """Return the statement with `MARK` before it and after it: PostgreSQL 18 counts a statement without the comments before it."""
    return f"{MARK} {statement.strip()} {MARK}"


class ServerTime:
    """Adds up the time that the session waited for answers."""

    def __init__(self) -> None:
        """Begin at 0."""
        self._waited_s, self._queries, self._shortest_s = 0.0, 0, float("inf")

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure one round trip, whether it succeeds or not: a transaction of three statements is three."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            waited_s = time.monotonic() - began_s
            self._waited_s += waited_s
            self._queries += 1
            self._shortest_s = min(self._shortest_s, waited_s)

    @property
    def spent_s(self) -> float:
        """The time waited, without a network round trip for each query. The time of the quickest query counts as the round trip."""
        return self._waited_s - self._queries * self._shortest_s if self._queries else 0.0
