"""Plans the runs that a comparison still lacks: those of an interrupted one, those that failed, and further rounds.

A library that was left out because its capacity could not be measured gets another attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from stallbench.base.validation_issue import show_value
from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.run.folder import RunFolder
from stallbench.run.record import read_record
from stallbench.scenario.command import name_of
from stallbench.scenario.model import Scenario
from stallbench.studies.comparison.plan import Plan, PlannedRun, make_plan, read_with_libraries
from stallbench.studies.comparison.record import ComparisonFolder, ComparisonRecord, as_planned, describe_variant
from stallbench.studies.comparison.versions import make_matrix_plan
from stallbench.verdicts.baseline.comparability import Conditions, find_conditions

_SHOWN = 3


def plan_continuation(folder: ComparisonFolder, rounds: int) -> tuple[Plan, ComparisonRecord]:
    """Return the plan of a comparison with ``rounds`` rounds in all, or with as many as it has if these are more, and its record.

    In the record, the runs that are not completed, and those of further rounds, are planned. The scenario is read again; loads that were
    measured stay as they were. Raises `BadInputError` if the comparison is still running, lacks no run and has no unmeasured library, or if its
    runs were of another scenario than the one that its file has now.
    """
    record = folder.read_to_continue()
    try:
        plan = _plan_again(record, max(rounds, record.rounds))
    except BadInputError as error:
        raise BadInputError(f"{folder.path}: cannot be continued: {error}") from error
    if left_out := {name: reason for name, reason in record.left_out.items() if name in plan.chosen}:
        plan = plan.without(left_out)
    of_runs = _read_scenarios(folder, record)
    plan = _with_recorded_load(_with_recorded_runs(plan, record), record, of_runs)
    _require_same_scenarios(folder, plan, record, of_runs)
    completed = {run.number: run for run in record.runs if run.status == "completed" and (run.values or run.number in of_runs)}
    if len(completed) == len(plan.runs) and not record.unmeasured:
        raise BadInputError(
            f"{folder.path}: all {plan.rounds} {'round' if plan.rounds == 1 else 'rounds'} are completed; "
            f"add rounds with --repeat {plan.rounds + 1} or more"
        )
    runs = tuple(completed.get(run.number, as_planned(run)) for run in plan.runs)
    return plan, record.continued().model_copy(update={"runs": runs, "rounds": plan.rounds, "results": None})


def retry_unmeasured(
    plan: Plan, record: ComparisonRecord, measure: Callable[[Scenario], float], say: Callable[[str], None]
) -> tuple[Plan, ComparisonRecord]:
    """Measure the capacity of each library that has none; return the plan and the record with the runs of those that have one now, after all others.

    Their seeds are those of the rounds. At a common load, they get the load that the others have. ``measure`` may raise `NotCarriedOutError`: the library
    is then left out again. ``say`` takes a message.
    """
    for name in record.unmeasured:
        say(f"{name}:")
        try:
            of_scenario = name_of(record.scenario.name, record.scenario.file)
            scenario = read_with_libraries(of_scenario, name, record.scenario.changes)[0][name]
            capacity = measure(scenario)
        except (NotCarriedOutError, BadInputError) as error:  # the latter: it cannot be installed any more
            reason = str(error).partition("\n")[0]
            say(f"{name} is left out: {error}")
            record = record.model_copy(update={"left_out": {**record.left_out, name: reason}})
            continue
        load = capacity if plan.load == "own" else min(plan.capacities.values())
        rounds = {run.round: run.seed for run in plan.runs}
        runs = tuple(
            PlannedRun(number=len(plan.runs) + number, round=round_, variant=name, seed=seed)
            for number, (round_, seed) in enumerate(sorted(rounds.items()), start=1)
        )
        plan = replace(
            plan,
            chosen={**plan.chosen, name: scenario.with_capacity(load)},
            capacities={**plan.capacities, name: capacity},
            runs=(*plan.runs, *runs),
        )
        changed = {
            "variants": (*record.variants, describe_variant(plan, name)),
            "left_out": {other: reason for other, reason in record.left_out.items() if other != name},
            "unmeasured": tuple(other for other in record.unmeasured if other != name),
            "runs": (*record.runs, *map(as_planned, runs)),
        }
        record = record.model_copy(update=changed)
    return plan, record


def _with_recorded_runs(plan: Plan, record: ComparisonRecord) -> Plan:
    """Keep the numbers and the seeds of the runs that the record has: those of a library that was measured later follow all others of their time."""
    recorded = [PlannedRun(number=run.number, round=run.round, variant=run.variant, seed=run.seed) for run in record.runs]
    known, seeds = {(run.variant, run.round) for run in recorded}, {run.round: run.seed for run in recorded}
    further = [run for run in plan.runs if (run.variant, run.round) not in known]
    numbered = [
        replace(run, number=len(recorded) + number, seed=seeds.get(run.round, run.seed))
        for number, run in enumerate(further, start=1)
    ]
    return replace(plan, runs=(*recorded, *numbered))


def _plan_again(record: ComparisonRecord, rounds: int) -> Plan:
    scenario = record.scenario
    name = name_of(scenario.name, scenario.file)
    if record.versions:
        return make_matrix_plan(
            name, versions=record.versions, variant=scenario.variant, rounds=rounds, seed=record.seed, overrides=scenario.changes
        )
    libraries = [each.removeprefix(LIBRARY_PREFIX) for each in record.names if each.startswith(LIBRARY_PREFIX)]
    variants = [each for each in record.names if not each.startswith(LIBRARY_PREFIX)]
    return make_plan(
        name,
        variants=",".join(variants) or None,
        libraries=",".join(libraries) or None,
        load=record.load,
        rounds=rounds,
        seed=record.seed,
        overrides=scenario.changes,
    )


def _read_scenarios(folder: ComparisonFolder, record: ComparisonRecord) -> dict[int, Scenario]:
    """Return the scenarios of those completed runs whose folders are there, by the number of the run."""
    files = {
        run.number: RunFolder(folder.runs / run.folder).record for run in record.runs if run.status == "completed" and run.folder
    }
    return {number: read_record(file).scenario for number, file in files.items() if file.is_file()}


def _with_recorded_load(plan: Plan, record: ComparisonRecord, of_runs: Mapping[int, Scenario]) -> Plan:
    """Give a load that is a share of the capacity the rate that it had; raises `BadInputError` if that is not known."""
    shares = {name: share for name, one in plan.chosen.items() if (share := one.producers.capacity_share) is not None}
    capacities = {variant.name: variant.capacity for variant in record.variants if variant.capacity is not None}
    if not capacities:  # the rate was that of a baseline
        ran = {run.variant: of_runs[run.number].producers.rate for run in record.runs if run.number in of_runs}
        capacities = {name: rate / shares[name] for name, rate in ran.items() if name in shares}
    unknown = [name for name in shares if name not in capacities] if plan.load == "own" or not capacities else []
    if unknown:
        raise BadInputError(
            f"{record.id}: cannot be continued: no run of {', '.join(unknown)} was completed, so its load is not known; "
            "start a new comparison"
        )
    return plan.with_capacities(capacities) if shares else plan


def _require_same_scenarios(
    folder: ComparisonFolder, plan: Plan, record: ComparisonRecord, of_runs: Mapping[int, Scenario]
) -> None:
    """Raise `BadInputError` if the runs of the plan would differ from those that were carried out."""
    if list(plan.chosen) != record.names:
        raise BadInputError(
            f"{folder.path}: cannot be continued: it compares {', '.join(record.names)}, and {plan.scenario.file} "
            f"has {', '.join(plan.chosen)} now"
        )
    if plan.subjects != record.subjects:
        raise BadInputError(
            f"{folder.path}: cannot be continued: what {plan.scenario.file} compares has changed since; start a new comparison"
        )
    for run in plan.runs:
        if (then := of_runs.get(run.number)) and (differences := _describe_differences(plan.scenario_of(run), then)):
            raise BadInputError(
                f"{folder.path}: cannot be continued: the scenario of {run.variant} has changed since: {differences}; "
                "start a new comparison"
            )


def _describe_differences(now: Scenario, then: Scenario) -> str:
    """Return which values differ that decide what is measured; empty if none does. Expectations and texts may differ."""
    of_now, of_then = find_conditions(now), find_conditions(then)
    differing = [key for key in sorted(of_now | of_then) if of_now.get(key) != of_then.get(key)]
    shown = [f"{key} was {_show(of_then, key)} and is {_show(of_now, key)}" for key in differing[:_SHOWN]]
    return "; ".join(shown) + (f"; and {len(differing) - _SHOWN} more" if len(differing) > _SHOWN else "")


def _show(conditions: Conditions, key: str) -> str:
    return show_value(conditions[key]) if key in conditions else "the default"
