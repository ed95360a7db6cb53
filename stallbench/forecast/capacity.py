"""How many jobs a second some workers can do, when each claim walks over so many dead tuples.

Workers are a closed circle: each works (for ``work_s``, without a processor: it waits or runs elsewhere), then claims and completes on one of the
machine's processors, then works again. That is the machine repairman's model (processor sharing among ``cpus``): with as many processors as
workers a job takes ``work_s`` and its own cost, and with fewer the workers wait for each other.

A claim loses the race for its job if another worker completes that one while it walks. Those completions come at random, so a job takes
``exp(race * rate of the others * (claim time - race_free_s))`` claims: one, while claims are quicker than ``race_free_s``, which is about as long as a
job is still locked after its row is gone. Queues that lock as they read have a ``race`` of 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

Array = NDArray[np.float64]

_BISECTIONS = 40
_LEAST_WORK_S = 1e-9
"""Instead of no work at all, so that the circle has two stations."""
_MOST_TRIES = 1e6
"""For one job; beyond it the queue stands still in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """What a job costs, in seconds on a processor that it has to itself."""

    claim_s: float
    """One claim without dead tuples."""
    dead_tuple_s: float
    """What each dead tuple adds to it."""
    other_s: float
    """All else of a job but its work: its completion, the worker's own loop."""
    race: float
    """How surely a completion by another worker during a claim makes the claim lose its race; 0: never, 1: always."""
    race_free_s: float
    """Claims that are quicker lose none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the queue has to bear."""

    rate: float
    """Jobs a second."""
    workers: int
    work_s: float
    cpus: int


def find_capacity(law: Law, load: Load, dead: ArrayLike) -> Array:
    """Return the jobs a second that can be done at each number of ``dead`` tuples, however many are wanted."""
    # A cost below zero is noise, and would soon make claims that take less than no time.
    claim_s = law.claim_s + max(law.dead_tuple_s, 0.0) * np.asarray(dead, dtype=float)
    low, high = np.zeros_like(claim_s), np.full_like(claim_s, load.workers / (load.work_s + law.other_s + law.claim_s))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        cost_s = law.other_s + claim_s * _count_tries(law, load, middle, claim_s)
        enough = find_throughput(cost_s, load) >= middle
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return low


def find_limit(law: Law, load: Load) -> float:
    """Return the number of dead tuples at which the capacity is just the load's rate.

    0 if it is below it without any; infinite if dead tuples cost nothing.
    """
    if float(find_capacity(law, load, [0.0])[0]) <= load.rate:
        return 0.0
    if law.dead_tuple_s <= 0:
        return np.inf
    # What a job may cost if the rate is just to be reached, then which claim costs that.
    most_s = load.workers / load.rate
    cost_s = optimize.brentq(lambda cost: float(find_throughput(np.array([cost]), load)[0]) - load.rate, law.claim_s, most_s)
    rate = np.array([load.rate])

    def over(claim_s: float) -> float:
        tries = _count_tries(law, load, rate, np.array([claim_s]))
        return law.other_s + claim_s * float(tries[0]) - float(cost_s)

    claim_s = optimize.brentq(over, law.claim_s, float(cost_s))
    return max(float(claim_s) - law.claim_s, 0.0) / law.dead_tuple_s


def find_throughput(cost_s: Array, load: Load) -> Array:
    """Return the jobs a second of all workers if each job costs ``cost_s`` of one processor beside its work."""
    work_s = max(load.work_s, _LEAST_WORK_S)
    at_processors = np.arange(load.workers + 1)
    served = np.minimum(at_processors, load.cpus)
    # The balance of the circle: from i to i + 1 workers at the processors by the end of works, back by the end of claims.
    steps = np.log((load.workers - at_processors[:-1]) / work_s / served[1:])
    weights = np.concatenate([[0.0], np.cumsum(steps)])[None, :] + at_processors[None, :] * np.log(cost_s)[:, None]
    shares = np.exp(weights - weights.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    throughput: Array = shares @ served / cost_s
    return throughput


def find_processor_share(at_processors: Array, workers: int, cpus: int) -> Array:
    """Return what part of a processor each of, on average, ``at_processors`` of the ``workers`` has, if these come and go by themselves."""
    counts = np.arange(workers + 1)
    chance = np.clip(at_processors / workers, 1e-9, 1.0)[:, None]
    likely = stats.binom.pmf(counts[None, :], workers, chance)
    share: Array = (likely @ np.minimum(counts, cpus)) / (likely @ counts)
    return share


def _count_tries(law: Law, load: Load, rate: Array, claim_s: Array) -> Array:
    by_others = rate * (1 - 1 / load.workers)
    late_s = np.maximum(claim_s - law.race_free_s, 0.0)
    tries: Array = np.exp(np.minimum(law.race * by_others * late_s, np.log(_MOST_TRIES)))
    return tries
