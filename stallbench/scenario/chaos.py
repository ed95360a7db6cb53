"""Combined faults: the schedule that a phase's `chaos` stands for, as ordinary faults.

In each interval of ``every_s`` two faults of different kinds overlap in the first half. In the second half none is active, so that recovery
can be measured. The schedule depends only on the kinds, the durations and the seeds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

from stallbench.injection.choices import ChaosKind, FaultChoice
from stallbench.injection.faults import find_faults
from stallbench.injection.faults.combination import Combination
from stallbench.scenario.model import Scenario
from stallbench.scenario.sections import Chaos, Phase

_SECOND_BEGINS = (0.1, 0.2)
"""When the second of two faults begins after the first, as a share of the interval."""
_ENDS = (0.3, 0.5)
"""When each of the two faults ends; the second may end first."""


def with_seed(scenario: Scenario, seed: int) -> Scenario:
    """Return the scenario with another seed for every random choice, and with the combined faults that follow from that seed."""
    phases = tuple(
        phase.model_copy(update={"faults": plan_faults(phase, phase.chaos, seed)}) if phase.chaos else phase
        for phase in scenario.phases
    )
    return scenario.model_copy(update={"seed": seed, "phases": phases})


def plan_faults(phase: Phase, chaos: Chaos, seed: int) -> tuple[FaultChoice, ...]:
    """Return the faults of ``phase``, in the order in which they begin. ``seed``: that of the scenario."""
    drawn = random.Random(f"{seed} {chaos.seed} {phase.name}")
    pairs = find_pairs(chaos.kinds)
    planned: list[FaultChoice] = []
    for number in range(count_intervals(phase.duration_s, chaos.every_s)):
        pair = drawn.sample(drawn.choice(pairs), 2)
        first, second = sorted(pair, key=lambda kind: combination_of(kind.kind).ends_early)
        begin_s = number * chaos.every_s
        second_begins_s = begin_s + drawn.uniform(*_SECOND_BEGINS) * chaos.every_s
        for kind, begins_s in ((first, begin_s), (second, second_begins_s)):
            ends_s = begin_s + drawn.uniform(*_ENDS) * chaos.every_s
            planned.append(make_fault(kind, after_s=round(begins_s, 1), for_s=round(ends_s - begins_s, 1)))
    return tuple(planned)


def make_fault(kind: ChaosKind, *, after_s: float, for_s: float) -> FaultChoice:
    """Return the fault that an entry of `kinds` stands for, at a time."""
    defaults = combination_of(kind.kind)
    times = {"after": f"{after_s:.1f}s", "for": f"{for_s:.1f}s"}
    return FaultChoice.model_validate(
        {**defaults.options, **kind.options, "kind": kind.kind, "on": kind.on or defaults.on, **times}
    )


def find_pairs(kinds: Sequence[ChaosKind]) -> list[tuple[ChaosKind, ChaosKind]]:
    """Return the entries of ``kinds`` that can be active at the same time."""
    return [pair for pair in combinations(kinds, 2) if combination_of(pair[0].kind).fits(combination_of(pair[1].kind))]


def combination_of(kind: str) -> Combination:
    """Return how combined faults use a kind; the kind was validated."""
    combination = find_faults()[kind].combination
    assert combination is not None, f"{kind} cannot be combined"
    return combination


def count_intervals(duration_s: float, every_s: float) -> int:
    """Return how many whole intervals a phase has."""
    return int(duration_s / every_s + 1e-9)


def list_possible_faults(phase: Phase) -> list[tuple[str, FaultChoice]]:
    """Return every fault that a phase may have, whatever the seed, with its path in the phase."""
    if phase.chaos is None:
        return [(f"faults[{number}]", fault) for number, fault in enumerate(phase.faults)]
    kinds = enumerate(phase.chaos.kinds)
    return [(f"chaos.kinds[{number}]", make_fault(kind, after_s=0, for_s=phase.chaos.every_s)) for number, kind in kinds]
