"""When a figure with an interval is said to be real: the same for a difference between variants and for a drift over cycles."""

from __future__ import annotations


def leaves_out_zero(low: float | None, high: float | None) -> bool | None:
    """Whether the interval does; none if there is no interval, for want of data."""
    if low is None or high is None:
        return None
    return low > 0 or high < 0
