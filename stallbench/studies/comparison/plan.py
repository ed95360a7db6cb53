"""Plans a comparison: which variants run, how often, in which order, with which seeds. Nothing is started here."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from stallbench.base.validation_issue import show_value
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.libraries import find_libraries, find_library
from stallbench.libraries.installation import require_installable
from stallbench.scenario.chaos import with_seed
from stallbench.scenario.file import find_scenario, read_scenario, read_variants
from stallbench.scenario.model import CONTROL, Scenario
from stallbench.suggestion import describe_allowed
from stallbench.verdicts.baseline.baseline_file import Baseline
from stallbench.verdicts.baseline.comparability import require_comparable, with_load_of
from stallbench.verdicts.baseline.compared_metric import ComparedMetric, choose_subjects, reference_of

ALL_LIBRARIES = "all"
"""In place of names: every library that can run the scenario."""
Load = Literal["common", "own"]
"""What a load that is a share of the workers' capacity is a share of, if libraries are compared. ``common``: of the smallest capacity of all,
so that all have the same load. ``own``: each has the share of its own capacity."""

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
    subjects: tuple[ComparedMetric, ...]
    runs: tuple[PlannedRun, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Requested variants that are not run, with the reason."""
    unmeasured: tuple[str, ...] = ()
    """Those of them whose capacity could not be measured."""
    load: Load = "common"
    capacities: Mapping[str, float] = field(default_factory=dict)
    """Jobs per second that the workers can complete, by the name of each variant whose capacity was measured."""
    versions: str | None = None
    """Of a matrix, whose variants are versions of servers: as the user named them."""
    measured: tuple[str, ...] = ()
    """The measured load, as ``key=value``, if it is the same in every run; the command that repeats the comparison needs it."""

    @property
    def reference(self) -> str:
        """The variant from which the differences of the others are measured."""
        return next(iter(self.chosen))

    @property
    def has_libraries(self) -> bool:
        """Whether any variant is a library: then the capacity of each variant counts, not only the reference's."""
        return any(name.startswith(LIBRARY_PREFIX) for name in self.chosen)

    def sum_durations_s(self, runs: Iterable[PlannedRun]) -> float:
        """Return the total length of all phases of ``runs``, in seconds."""
        return sum(self.chosen[run.variant].duration_s for run in runs)

    def without(self, left_out: Mapping[str, str]) -> Plan:
        """Return the plan without some variants, each with the reason, and without those that would be compared with one of them.

        Raises `NotCarriedOutError` if fewer than two are left.
        """
        left_out = dict(left_out)
        for name, scenario in self.chosen.items():
            reference = reference_of(scenario)
            if name not in left_out and reference in left_out:
                left_out[name] = f"it is compared with {reference}, which is left out"
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

    def with_capacities(self, capacities: Mapping[str, float]) -> Plan:
        """Return the plan with a rate for each load that is a share of the workers' capacity.

        ``capacities``: of the measured variants. A variant gets the share of its own if `load` says so, else of the smallest one.
        """
        smallest = min(capacities.values())
        own = capacities if self.load == "own" else {}
        rated = {name: one.with_capacity(own.get(name, smallest)) for name, one in self.chosen.items()}
        loads = {rated[name].changes[len(one.changes) :] for name, one in self.chosen.items()}
        return replace(self, chosen=rated, capacities=capacities, measured=next(iter(loads)) if len(loads) == 1 else ())

    def with_load_of(self, baseline: Baseline) -> Plan:
        """Return the plan with the rate of ``baseline`` for a load that is a share of the workers' capacity, which is then not measured.

        All variants get the rate of the first one that the baseline has, unless each has the share of its own capacity.
        """
        if self.load == "own":
            return replace(self, chosen={name: with_load_of(baseline, name, one) for name, one in self.chosen.items()})
        known = next((name for name in self.chosen if name in baseline.variants), self.reference)
        rated = with_load_of(baseline, known, self.chosen[known])
        share = self.chosen[known].producers.capacity_share
        if rated is self.chosen[known] or not share:
            return self
        given = self.with_capacities({known: rated.producers.rate / share})
        return replace(given, capacities={})

    def comparable_with(self, baseline: Baseline) -> Plan:
        """Return the plan with the load of ``baseline``; raises `BadInputError` if its runs could not be compared with it."""
        plan = self.with_load_of(baseline)
        require_comparable(baseline, plan.chosen)
        return plan

    def scenario_of(self, run: PlannedRun) -> Scenario:
        """Return the scenario of ``run``, with its seed among the changes, so that the run can be repeated alone."""
        scenario = self.chosen[run.variant]
        return with_seed(scenario, run.seed).model_copy(update={"changes": (*scenario.changes, f"seed={run.seed}")})


def make_plan(
    name_or_path: str,
    *,
    variants: str | None,
    libraries: str | None = None,
    load: Load = "common",
    rounds: int,
    seed: int | None,
    overrides: Sequence[str] = (),
) -> Plan:
    """Plan a comparison of ``variants``, names separated by commas, which may include `CONTROL`, and of ``libraries``, or of `ALL_LIBRARIES`.

    If both are none: the scenario, its mitigations and what these are compared with, or all its variants if none of them is a mitigation. A
    library takes the place of the scenario's queue.

    ``seed`` decides the order and the runs' seeds; the scenario's own seed if none. Raises `ScenarioError`, `LibraryError` or
    `BadInputError`.
    """
    if load == "own" and not libraries:
        raise BadInputError("--load own needs --libraries: variants of one queue are compared at the same load")
    known = read_variants(find_scenario(name_or_path))
    unrestricted = read_scenario(
        name_or_path, overrides=overrides
    )  # those of a comparison that is continued have its equal durations already
    overrides = [*_equalize_durations(unrestricted), *overrides]
    scenario = read_scenario(name_or_path, variant=None, overrides=overrides)
    names = [] if libraries and variants is None else _parse_names(variants, known)
    chosen = {
        name: scenario if name == CONTROL else read_scenario(name_or_path, variant=name, overrides=overrides) for name in names
    }
    if variants is None and any(one.mitigation for one in chosen.values()):
        needed = {CONTROL, *(reference_of(one) for one in chosen.values() if one.mitigation)}
        chosen = {name: one for name, one in chosen.items() if name in needed or one.mitigation}
    _require_references(chosen, variants)
    of_libraries, left_out = read_with_libraries(name_or_path, libraries, overrides) if libraries else ({}, {})
    chosen |= of_libraries
    _require_two(chosen, variants, libraries, left_out, scenario.file)
    seed = scenario.seed if seed is None else seed
    return Plan(
        scenario=scenario,
        chosen=chosen,
        rounds=rounds,
        seed=seed,
        subjects=choose_subjects([scenario, *(one for name, one in chosen.items() if name != CONTROL)]),
        runs=tuple(interleave(list(chosen), rounds, seed)),
        left_out=left_out,
        load=load,
    )


def read_with_libraries(
    name_or_path: str, libraries: str, overrides: Sequence[str]
) -> tuple[dict[str, Scenario], dict[str, str]]:
    """Return the scenario with each library as its queue, by the queue's kind; and why one cannot run it here, if all are asked for."""
    wants_all = libraries.strip() == ALL_LIBRARIES
    names = list(find_libraries()) if wants_all else [name.strip().removeprefix(LIBRARY_PREFIX) for name in libraries.split(",")]
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise BadInputError(f"--libraries {show_value(libraries)}: {show_value(repeated[0])} is named twice")
    chosen: dict[str, Scenario] = {}
    left_out: dict[str, str] = {}
    for name in names:
        library = find_library(name)
        kind = LIBRARY_PREFIX + name
        try:
            require_installable(library)
            chosen[kind] = read_scenario(name_or_path, overrides=[*overrides, f'queue={{kind="{kind}"}}'])
        except BadInputError as error:
            if not wants_all:
                raise
            left_out[kind] = str(error).partition("\n")[0]
    return chosen, left_out


def _require_two(
    chosen: Mapping[str, Scenario], variants: str | None, libraries: str | None, left_out: Mapping[str, str], file: str
) -> None:
    if len(chosen) >= 2:
        return
    if libraries:
        reasons = "".join(f"; {name}: {reason}" for name, reason in left_out.items())
        raise BadInputError(
            f"--libraries {show_value(libraries)}: a comparison needs two libraries or variants, like --variants {CONTROL}{reasons}"
        )
    what = f"{file}: has no variants" if variants is None else f"--variants {show_value(variants)}: names only one"
    raise BadInputError(f"{what}; a comparison needs two or more; {CONTROL} is the scenario without a variant")


def _require_references(chosen: Mapping[str, Scenario], variants: str | None) -> None:
    missing = {name: one for name in chosen if (one := reference_of(chosen[name])) is not None and one not in chosen}
    if missing:
        lines = [f"{name} is compared with {one}, which takes no part; expected {one}, too" for name, one in missing.items()]
        raise BadInputError("\n".join(f"--variants {show_value(variants)}: {line}" for line in lines))


def _equalize_durations(scenario: Scenario) -> list[str]:
    """Return the changes by which no phase ends because its workers have fallen behind.

    Otherwise the phase of a variant that falls behind early would contain fewer of the late jobs than that of a variant that falls behind later.
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


def _parse_names(text: str | None, known: Mapping[str, object]) -> list[str]:
    """Return the names of the variants, the reference first: `CONTROL` if it is named, else the first name."""
    names = [CONTROL, *known] if text is None else [name.strip() for name in text.split(",")]
    allowed = [CONTROL, *known]
    issues = [
        f"there is no variant {show_value(name)}; {describe_allowed(name, allowed)}" for name in names if name not in allowed
    ]
    issues += [f"{show_value(name)} is named twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    if issues:
        raise BadInputError("\n".join(f"--variants {show_value(text)}: {issue}" for issue in issues))
    return sorted(names, key=lambda name: name != CONTROL)
