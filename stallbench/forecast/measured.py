"""When a run really fell behind, to hold a forecast against."""

from __future__ import annotations

import pandas as pd

SURELY_S = 10
"""So many seconds must follow without a worker that finds nothing to do."""


def find_falling_behind(held: pd.DataFrame) -> float | None:
    """Return the second, from the first of ``held``, from which on no worker found the queue empty again.

    ``held``: the windows in which the horizon was held, one after the other. None if the queue kept up to within `SURELY_S` of their end, or if
    no more jobs waited at the end than when it was empty last: then workers found it empty no more because they were no more.
    """
    empty = held["empty"].to_numpy(float) > 0
    last = int(empty.nonzero()[0].max()) + 1 if empty.any() else 0
    if len(held) - last < SURELY_S:
        return None
    depth = held["depth"].ffill().to_numpy(float)
    return float(last) if depth[-1] > depth[max(last - 1, 0)] else None
