"""Computes how many jobs per second the workers can complete if each claim reads past a number of dead tuples.

The workers form a closed queueing network: each works for ``work_s`` without using a processor of this machine, then claims and completes on one of
its processors, then works again. This is the machine repairman's model with processor sharing among ``cpus``: with as many processors as
workers, a job takes ``work_s`` plus its own cost; with fewer, the workers wait for each other.

A claim loses the race for its job if another worker completes that job while the claim reads. These completions are random, so a job takes
``exp(race * rate of the others * (claim time - race_free_s))`` claims. It takes one while claims are shorter than ``race_free_s``, which is about as
long as a job stays locked after its row is gone. Queues that lock as they read have a ``race`` of 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

Array = NDArray[np.float64]

_BISECTIONS = 40
_LEAST_WORK_S = 1e-9
"""In place of no work at all, so that the network has two stations."""
_MOST_TRIES = 1e6
"""For one job; with more, the queue completes nothing in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """What a job costs, in seconds on a processor that nothing else uses."""

    claim_s: float
    """One claim without dead tuples."""
    dead_tuple_s: float
    """What each dead tuple adds to a claim."""
    other_s: float
    """The rest of a job except its work: its completion, and the worker's own loop."""
    race: float
    """The probability that a completion by another worker during a claim makes the claim lose its race."""
    race_free_s: float
    """Shorter claims lose no race."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of the queue, and what serves it."""

    rate: float
    """Jobs per second."""
    workers: int
    work_s: float
    cpus: int


def find_capacity(model: CostModel, load: Load, dead: ArrayLike) -> Array:
    """Return the jobs per second that the workers can complete at each number of ``dead`` tuples; the load's rate does not matter."""
    # A cost below zero is noise, and would make the time of a claim negative.
    claim_s = model.claim_s + max(model.dead_tuple_s, 0.0) * np.asarray(dead, dtype=float)
    if model.race <= 0:  # then a job takes one claim, whatever the rate
        return find_throughput(model.other_s + claim_s, load)
    low, high = np.zeros_like(claim_s), np.full_like(claim_s, load.workers / (load.work_s + model.other_s + model.claim_s))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        cost_s = model.other_s + claim_s * _count_tries(model, load, middle, claim_s)
        enough = find_throughput(cost_s, load) >= middle
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return low


def find_limit(model: CostModel, load: Load) -> float:
    """Return the number of dead tuples at which the capacity equals the load's rate.

    0 if the capacity is below the rate without any dead tuple; infinite if dead tuples cost nothing.
    """
    if float(find_capacity(model, load, [0.0])[0]) <= load.rate:
        return 0.0
    if model.dead_tuple_s <= 0:
        return np.inf
    # First what a job may cost if the rate is just reached, then how long a claim may take for that.
    most_s = load.workers / load.rate
    cost_s = optimize.brentq(lambda cost: float(find_throughput(np.array([cost]), load)[0]) - load.rate, model.claim_s, most_s)
    rate = np.array([load.rate])

    def over(claim_s: float) -> float:
        tries = _count_tries(model, load, rate, np.array([claim_s]))
        return model.other_s + claim_s * float(tries[0]) - float(cost_s)

    claim_s = optimize.brentq(over, model.claim_s, float(cost_s))
    return max(float(claim_s) - model.claim_s, 0.0) / model.dead_tuple_s


def find_throughput(cost_s: Array, load: Load) -> Array:
    """Return the jobs per second of all workers if each job costs ``cost_s`` of one processor beside its work."""
    work_s = max(load.work_s, _LEAST_WORK_S)
    at_processors = np.arange(load.workers + 1)
    served = np.minimum(at_processors, load.cpus)
    # The balance of the network: the end of work brings i to i + 1 workers to the processors, the end of a claim brings them back.
    steps = np.log((load.workers - at_processors[:-1]) / work_s / served[1:])
    weights = np.concatenate([[0.0], np.cumsum(steps)])[None, :] + at_processors[None, :] * np.log(cost_s)[:, None]
    shares = np.exp(weights - weights.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    throughput: Array = shares @ served / cost_s
    return throughput


def find_processor_share(at_processors: Array, workers: int, cpus: int) -> Array:
    """Return the share of a processor that each worker has, if ``at_processors`` of the ``workers`` need one on average, independently."""
    counts = np.arange(workers + 1)
    chance = np.clip(at_processors / workers, 1e-9, 1.0)[:, None]
    likely = stats.binom.pmf(counts[None, :], workers, chance)
    share: Array = (likely @ np.minimum(counts, cpus)) / (likely @ counts)
    return share


def _count_tries(model: CostModel, load: Load, rate: Array, claim_s: Array) -> Array:
    by_others = rate * (1 - 1 / load.workers)
    late_s = np.maximum(claim_s - model.race_free_s, 0.0)
    tries: Array = np.exp(np.minimum(model.race * by_others * late_s, np.log(_MOST_TRIES)))
    return tries
