"""The article's expected value of the round in which a job is claimed."""

from __future__ import annotations


def expected_round(window: int) -> float:
    """Return ``E[X]`` of 'Laravel queueing optimization' (2017) for N workers that each choose one of the first N jobs.

    Its sum over all rounds is that of a geometric distribution: a job is passed over by all N with ``((N-1)/N)^N``.
    """
    return 1 / (1 - ((window - 1) / window) ** window)
