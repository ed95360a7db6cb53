"""Plans a comparison: which variants run, how often, in which order, with which seeds. Nothing is started here."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stallbench.comparison.subject import Subject, choose_subjects
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.scenario.file import find_scenario, read_scenario, read_variants
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.scenario.validation.issue import show_value
from stallbench.scenario.validation.suggestion import did_you_mean

_SEEDS = 2**31 - 1
"""A scenario's seed is at least 0 and below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of a comparison."""

    number: int
    """Its position in the order of all runs, from 1."""
    round: int
    """From 1."""
    variant: str
    """`CONTROL` for the scenario without a variant."""
    seed: int
    """The same for every run of a round, so that the runs differ only in the variant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A comparison that can be carried out."""

    scenario: Scenario
    """Without a variant."""
    chosen: Mapping[str, Scenario]
    """By the name of the variant, the reference first."""
    rounds: int
    seed: int
    subjects: tuple[Subject, ...]
    runs: tuple[PlannedRun, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Requested variants that are not run, with the reason."""
    measured: tuple[str, ...] = ()
    """The measured load, as ``key=value``, if it is the same in every run; the command that repeats the comparison needs it."""

    @property
    def reference(self) -> str:
        """The variant from which the differences of the others are measured."""
        return next(iter(self.chosen))

    @property
    def duration_s(self) -> float:
        """Total length of all phases of all runs, in seconds."""
        return sum(self.chosen[run.variant].duration_s for run in self.runs)

    def without(self, left_out: Mapping[str, str]) -> Plan:
        """Return the plan without some variants, each with the reason; raises `NotCarriedOutError` if fewer than two are left."""
        chosen = {name: scenario for name, scenario in self.chosen.items() if name not in left_out}
        if len(chosen) < 2:
            reasons = "; ".join(f"{name} is left out: {reason}" for name, reason in left_out.items())
            raise NotCarriedOutError(f"{self.scenario.file}: a comparison needs two variants or more; {reasons}")
        return replace(
            self,
            chosen=chosen,
            subjects=choose_subjects([self.scenario, *(one for name, one in chosen.items() if name != CONTROL)]),
            runs=tuple(interleave(list(chosen), self.rounds, self.seed)),
            left_out={**self.left_out, **left_out},
        )

    def with_capacity(self, capacity: float) -> Plan:
        """Return the plan with the rate of each load that is a share of the workers' capacity, which is ``capacity`` jobs per second."""
        rated = {name: one.with_capacity(capacity) for name, one in self.chosen.items()}
        loads = {rated[name].changes[len(one.changes) :] for name, one in self.chosen.items()}
        return replace(self, chosen=rated, measured=next(iter(loads)) if len(loads) == 1 else ())

    def scenario_of(self, run: PlannedRun) -> Scenario:
        """Return the scenario of ``run``, with its seed among the changes, so that the run can be repeated alone."""
        scenario = self.chosen[run.variant]
        return scenario.model_copy(update={"seed": run.seed, "changes": (*scenario.changes, f"seed={run.seed}")})


def make_plan(name_or_path: str, *, variants: str | None, rounds: int, seed: int | None, overrides: Sequence[str] = ()) -> Plan:
    """Plan a comparison of ``variants``: names separated by commas, which may include `CONTROL`.

    If it is none: the scenario and its mitigations, or all its variants if none of them is a mitigation.

    ``seed`` decides the order and the runs' seeds; the scenario's own seed if none. Raises `ScenarioError` or `BadInputError`.
    """
    known = read_variants(find_scenario(name_or_path))
    overrides = [*_equalize_durations(read_scenario(name_or_path)), *overrides]
    scenario = read_scenario(name_or_path, variant=None, overrides=overrides)
    names = _parse_names(variants, known, scenario.file)
    chosen = {
        name: scenario if name == CONTROL else read_scenario(name_or_path, variant=name, overrides=overrides) for name in names
    }
    if variants is None and any(one.mitigation for one in chosen.values()):
        chosen = {name: one for name, one in chosen.items() if name == CONTROL or one.mitigation}
    seed = scenario.seed if seed is None else seed
    return Plan(
        scenario=scenario,
        chosen=chosen,
        rounds=rounds,
        seed=seed,
        subjects=choose_subjects([scenario, *(one for name, one in chosen.items() if name != CONTROL)]),
        runs=tuple(interleave(list(chosen), rounds, seed)),
    )


def _equalize_durations(scenario: Scenario) -> list[str]:
    """Return the changes by which no phase ends because its workers have fallen behind.

    Otherwise the phase of a variant that falls behind early would contain fewer of the late jobs than that of a variant that holds out longer.
    """
    return [f"phases.{phase.name}.until=duration" for phase in scenario.phases if phase.until == "fallen_behind"]


def interleave(variants: Sequence[str], rounds: int, seed: int) -> Iterator[PlannedRun]:
    """Yield the runs in order: each round has every variant once, in a random order, so that no variant always comes first.

    A drift meanwhile (the machine warms up, another tenant starts to work) then affects all variants alike.
    """
    chance = random.Random(seed)
    number = 0
    for round_ in range(1, rounds + 1):
        of_round = chance.randrange(_SEEDS)
        order = list(variants)
        chance.shuffle(order)
        for variant in order:
            number += 1
            yield PlannedRun(number=number, round=round_, variant=variant, seed=of_round)


def _parse_names(text: str | None, known: Mapping[str, object], file: str) -> list[str]:
    """Return the names of the variants, the reference first: `CONTROL` if it is named, else the first name."""
    names = [CONTROL, *known] if text is None else [name.strip() for name in text.split(",")]
    allowed = [CONTROL, *known]
    issues = [
        f"there is no variant {show_value(name)}; there are {', '.join(allowed)}{did_you_mean(name, allowed)}"
        for name in names
        if name not in allowed
    ]
    issues += [f"{show_value(name)} is named twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    if issues:
        raise BadInputError("\n".join(f"--variants {show_value(text)}: {issue}" for issue in issues))
    if len(names) < 2:
        what = f"{file}: has no variants" if text is None else f"--variants {show_value(text)}: names only one"
        raise BadInputError(f"{what}; a comparison needs two or more; {CONTROL} is the scenario without a variant")
    return sorted(names, key=lambda name: name != CONTROL)
