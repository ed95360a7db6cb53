"""Describes how long jobs take by few groups, which a scenario can repeat: most take the usual time, a share of them longer."""

from __future__ import annotations

from dataclasses import dataclass

from stallbench.observe.profile.estimate import Load
from stallbench.queues.load_bounds import MOST_WORK_S

_LEAST_SPREAD = 1.2
"""Of the 95th percentile and the mean to the median, up to which all jobs take about the same time."""
_LEAST_SHARE, _MOST_SHARE = 0.06, 0.49
"""Of longer jobs: more than a twentieth, so that they are the 95th percentile; fewer than half, so that the median is another's."""
_RARE_SHARE = 0.01
"""Of the longest jobs, if the mean is so long that some must take longer than the 95th percentile."""
_FEWEST_JOBS = 20
"""That are expected to be longer in the whole phase. A phase without one would not have the load that the scenario describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongerJobs:
    """A share of the jobs that takes longer than usual."""

    share: float
    takes_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTimes:
    """How long jobs take. Their mean is that of the observed jobs."""

    usual_s: float
    longer: tuple[LongerJobs, ...] = ()
    """The first of them take the 95th percentile of all jobs; a rare second group takes longer."""

    @property
    def longest_s(self) -> float:
        """The longest time that a job takes."""
        return max([self.usual_s, *(group.takes_s for group in self.longer)])


def find_work_times(load: Load, *, phase_s: float) -> WorkTimes:
    """Return the work times in a phase of this length.

    Every job takes the mean if the jobs' own times were not read, if they hardly differ, if a longer one might not come in the phase, or if
    one would take longer than the phase or a scenario allows.
    """
    all_alike = WorkTimes(usual_s=min(load.work_s, MOST_WORK_S))
    sample = load.sample
    p50_s, p95_s = (sample.work_p50_s, sample.work_p95_s) if sample and load.work_is_measured else (None, None)
    if p50_s is None or p95_s is None or max(load.work_s, p95_s) <= _LEAST_SPREAD * p50_s:
        return all_alike
    found = _spread(load.work_s, p50_s, p95_s)
    has_enough = load.rate * phase_s * min(group.share for group in found.longer) >= _FEWEST_JOBS
    return found if has_enough and found.longest_s <= min(MOST_WORK_S, phase_s) else all_alike


def _spread(mean_s: float, p50_s: float, p95_s: float) -> WorkTimes:
    share = (mean_s - p50_s) / (p95_s - p50_s) if p95_s > p50_s else 1.0
    if share > _MOST_SHARE:
        rest_s = (1 - _MOST_SHARE) * p50_s + (_MOST_SHARE - _RARE_SHARE) * p95_s
        longer = (
            LongerJobs(share=_MOST_SHARE - _RARE_SHARE, takes_s=p95_s),
            LongerJobs(share=_RARE_SHARE, takes_s=(mean_s - rest_s) / _RARE_SHARE),
        )
        return WorkTimes(usual_s=p50_s, longer=longer)
    share = max(share, _LEAST_SHARE)
    usual_s = max((mean_s - share * p95_s) / (1 - share), 0.0)
    # If longer jobs would take more than all of the mean, they take less than the 95th percentile, so that the mean is kept.
    return WorkTimes(usual_s=usual_s, longer=(LongerJobs(share=share, takes_s=(mean_s - (1 - share) * usual_s) / share),))
