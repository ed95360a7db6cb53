"""How dead tuples and the queue go on, second by second, from the moment the horizon is held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import integrate

from stallbench.forecast.capacity import Array, Law, Load, find_capacity, find_limit

_POINTS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What follows from a law, a load and the dead tuples that each job leaves."""

    behind_at_dead: float
    """Dead tuples at which fewer jobs can be done than come; infinite if never."""
    behind_after_s: float
    """How long after the horizon began to be held; 0 if already without dead tuples."""
    dead: Array
    """From none to those of `find_course`'s last second, or more."""
    t_s: Array
    """When there are so many."""
    depth: Array
    """Jobs that wait then."""

    def when(self, dead: float) -> float:
        """Return after how many seconds there are ``dead`` tuples; infinite if not in the time that was looked at."""
        return float(np.interp(dead, self.dead, self.t_s, right=np.inf))

    def depth_after(self, t_s: float) -> float:
        """Return how many jobs wait ``t_s`` seconds after the horizon began to be held."""
        return float(np.interp(t_s, self.t_s, self.depth))

    def dead_after(self, t_s: float) -> float:
        """Return how many dead tuples there are then."""
        return float(np.interp(t_s, self.t_s, self.dead))


def find_course(law: Law, load: Load, kept_per_job: float, *, to_s: float) -> Course:
    """Follow ``load`` for ``to_s`` seconds or more: while the queue keeps up, jobs are done as they come, and then as many as can be."""
    limit = find_limit(law, load)
    behind_after_s = limit / (kept_per_job * load.rate)
    up_to = max(kept_per_job * load.rate * to_s, 1.0)
    if limit >= up_to:
        dead = np.array([0.0, up_to])
        t_s, depth = dead / (kept_per_job * load.rate), np.zeros(2)
    else:
        beyond = limit + (up_to - limit) * np.linspace(0, 1, _POINTS) ** 2
        second_per_tuple = 1 / (kept_per_job * np.maximum(find_capacity(law, load, beyond), 1e-9))
        later_s = integrate.cumulative_trapezoid(second_per_tuple, beyond, initial=0)
        waiting = np.maximum(load.rate * later_s - (beyond - limit) / kept_per_job, 0.0)
        dead, t_s, depth = beyond, behind_after_s + later_s, waiting
        if limit > 0:
            dead, t_s, depth = (np.concatenate([[0.0], values]) for values in (dead, t_s, depth))
    return Course(behind_at_dead=limit, behind_after_s=behind_after_s, dead=dead, t_s=t_s, depth=depth)
