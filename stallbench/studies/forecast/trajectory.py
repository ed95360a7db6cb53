"""Computes how the number of dead tuples and the backlog develop while the horizon is held."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import integrate

from stallbench.studies.forecast.capacity import Array, CostModel, Load, find_capacity, find_limit
from stallbench.studies.saturation import SATURATED_BACKLOG_S

_POINTS = 160
_NEAREST_S = 1e-3
_FARTHEST_S = 1e6
"""The points are spaced geometrically between these times after the limit, in seconds of enqueued jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """The development that follows from a cost model, a load and the dead tuples that each job leaves."""

    time_to_saturation_s: float
    """When the queue is saturated, as `stallbench.studies.saturation` defines it; infinite if never."""
    dead: Array
    """Numbers of dead tuples, increasing from 0."""
    t_s: Array
    """When there are so many, in seconds since the horizon is held."""
    depth: Array
    """Jobs that wait then."""

    def when(self, dead: float) -> float:
        """Return after how many seconds there are ``dead`` tuples; infinite if that is after the last point."""
        return float(np.interp(dead, self.dead, self.t_s, right=np.inf))

    def depth_after(self, t_s: float) -> float:
        """Return how many jobs wait after ``t_s`` seconds."""
        return float(np.interp(t_s, self.t_s, self.depth))

    def dead_after(self, t_s: float) -> float:
        """Return how many dead tuples there are after ``t_s`` seconds; infinite if ``t_s`` is."""
        return float(np.interp(t_s, self.t_s, self.dead)) if math.isfinite(t_s) else math.inf


def find_trajectory(model: CostModel, load: Load, kept_per_job: float, *, to_s: float) -> Trajectory:
    """Follow ``load`` for ``to_s`` seconds or more.

    Jobs are completed as they are enqueued until the dead tuples reach the limit; from then on, as many as the capacity allows.
    """
    limit = find_limit(model, load)
    dead_per_s = kept_per_job * load.rate
    if math.isinf(limit):
        t_s = np.array([0.0, to_s])
        return Trajectory(time_to_saturation_s=math.inf, dead=dead_per_s * t_s, t_s=t_s, depth=np.zeros(2))
    beyond = np.concatenate([[0.0], dead_per_s * np.geomspace(_NEAREST_S, max(to_s, _FARTHEST_S), _POINTS)])
    seconds_per_tuple = 1 / (kept_per_job * np.maximum(find_capacity(model, load, limit + beyond), 1e-9))
    later_s = integrate.cumulative_trapezoid(seconds_per_tuple, beyond, initial=0)
    depth = np.maximum(load.rate * later_s - beyond / kept_per_job, 0.0)
    dead, t_s = limit + beyond, limit / dead_per_s + later_s
    if limit > 0:
        dead, t_s, depth = (np.concatenate([[0.0], values]) for values in (dead, t_s, depth))
    saturated_s = float(np.interp(load.rate * SATURATED_BACKLOG_S, depth, t_s, right=np.inf))
    return Trajectory(time_to_saturation_s=saturated_s, dead=dead, t_s=t_s, depth=depth)
