"""Carries out a comparison: every variant once per round, each in a separate run. If a run fails, the others continue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from stallbench.base.duration import format_duration
from stallbench.engines import ENGINES
from stallbench.errors import NotCarriedOutError
from stallbench.report.outcome_text import describe_verdict, name_verdict
from stallbench.run.capacity import describe_load
from stallbench.run.folder import RunFolder
from stallbench.run.record import read_record
from stallbench.scenario.model import Scenario
from stallbench.studies.comparison.continuation import plan_continuation, retry_unmeasured
from stallbench.studies.comparison.plan import Plan
from stallbench.studies.comparison.record import ComparedRun, ComparisonFolder, ComparisonRecord, begin_comparison
from stallbench.studies.study import Runner, Say, SeparateRuns, Study
from stallbench.verdicts.baseline.against import BaselineChoice, write_against


class Comparison(Study[ComparisonRecord, ComparedRun]):
    """The planned runs of a comparison, in their order."""

    ends_at_failure: ClassVar[bool] = False

    def __init__(self, folder: ComparisonFolder, record: ComparisonRecord, runner: Runner, say: Say, plan: Plan) -> None:
        """Start nothing yet."""
        super().__init__(folder, record, runner, say)
        self._plan = plan
        self._planned = {run.number: run for run in plan.runs}

    def describe_plan(self) -> str:
        """Return what is about to be done."""
        to_do = [self._planned[run.number] for run in self.record.runs if run.status == "planned"]
        return (
            f"{len(to_do)} runs of {', '.join(self._plan.chosen)} interleaved; their phases take "
            f"{format_duration(self._plan.sum_durations_s(to_do))} in total"
        )

    def next_run(self) -> ComparedRun | None:
        """Return the first run that is still planned."""
        run = next((run for run in self.record.runs if run.status == "planned"), None)
        if run is not None:
            self.say(f"\nrun {run.number} of {len(self._plan.runs)}: {run.variant}, round {run.round}, seed {run.seed}")
        return run

    def scenario_of(self, run: ComparedRun) -> Scenario:
        """Return the variant's scenario, with the seed of the round."""
        return self._plan.scenario_of(self._planned[run.number])

    def judge(self, run: ComparedRun, folder: RunFolder) -> ComparedRun:
        """Return the run with its verdict; what it measured is read when the comparison is concluded."""
        verdict = self.runner.conclude(folder)
        record = read_record(folder.record)
        self.say(f"{self.title_of(run)}: {describe_verdict(record, verdict)}")
        found = {"verdict": verdict.verdict, "verdict_name": name_verdict(record, verdict), "reason": verdict.reason}
        return run.model_copy(update=found)

    def title_of(self, run: ComparedRun) -> str:
        """Return the variant and the round."""
        return f"{run.variant}, round {run.round}"


def carry_out_runs(
    plan: Plan, runs: Path, say: Say, compared: BaselineChoice | None = None, runner: Runner | None = None
) -> tuple[ComparisonFolder, ComparisonRecord]:
    """Carry out the runs of ``plan`` one after the other; returns the comparison's folder and its record, which has the outcome of each run.

    ``compared``: the baseline with which the comparison is compared at its end, if any. It is written into the folder at the beginning, so
    that it is known if the comparison is interrupted. ``runner``: carries out the single runs; `SeparateRuns` if none.

    A run that cannot be carried out does not stop the others; an interrupt ends the comparison with the runs done so far. A variant
    that this machine's servers cannot run is left out with a message, and so is a library whose capacity cannot be measured. Raises
    `NotCarriedOutError` if the comparison's folder cannot be created, or if fewer than two variants are left.
    """
    runner = runner or SeparateRuns(is_latest=True)
    for name, reason in plan.left_out.items():
        say(f"{name} is left out: {reason}")
    plan = _leave_out_unsupported(plan, say)
    plan = _give_measured_load(plan, runs, runner, say)
    folder, record = begin_comparison(plan, runs)
    if compared:
        write_against(folder.path, compared)
    comparison = Comparison(folder, record, runner, say, plan)
    say(comparison.describe_plan())
    return folder, comparison.carry_out()


def continue_runs(folder: ComparisonFolder, rounds: int, say: Say, runner: Runner | None = None) -> ComparisonRecord:
    """Carry out the runs that the comparison in ``folder`` lacks until it has ``rounds`` rounds, or as many as were planned if these are more.

    A run that could not be carried out, or that was interrupted, is carried out again, in a folder of its own. The capacity of a library that could
    not be measured is measured again; its runs follow the others. Raises `BadInputError` if there is no such run or library, or if the runs would
    differ from those that the comparison has.
    """
    runner = runner or SeparateRuns(is_latest=True)
    plan, record = plan_continuation(folder, rounds)
    if record.bench.version != (then := folder.read().bench.version):
        say(f"the earlier runs are of version {then} of the bench, the others of {record.bench.version}")
    folder.write(record)
    try:
        plan, record = retry_unmeasured(plan, record, lambda scenario: runner.measure_capacity(scenario, say, folder.runs), say)
    except KeyboardInterrupt:
        folder.write(record.with_end("aborted", "interrupted"))
        raise
    folder.write(record)
    comparison = Comparison(folder, record, runner, say, plan)
    say(comparison.describe_plan())
    return comparison.carry_out()


def _leave_out_unsupported(plan: Plan, say: Say) -> Plan:
    obstacles = {name: ENGINES[one.database.engine].starter().find_obstacle(one.database) for name, one in plan.chosen.items()}
    left_out = {name: obstacle for name, obstacle in obstacles.items() if obstacle}
    for name, obstacle in left_out.items():
        say(f"{name} is left out: {obstacle}")
    return plan.without(left_out) if left_out else plan


def _give_measured_load(plan: Plan, runs: Path, runner: Runner, say: Say) -> Plan:
    """Measure the capacity of the workers if any load is a share of it.

    Variants of one queue all get the load that is measured on the reference, or on the first variant whose load is a share. If libraries
    are compared, the capacity of each is measured. Raises `NotCarriedOutError` if no load can be given to two variants.
    """
    shares = {name: one for name, one in plan.chosen.items() if one.producers.wants_rate}
    if not shares:
        return plan
    if plan.has_libraries:
        plan, capacities = _measure_each(plan, shares, runs, runner, say)
    else:
        name, reference = next(iter(shares.items()))
        capacities = {name: runner.measure_capacity(reference, say, runs)}
    rated = plan.with_capacities(capacities)
    shares = {name: one for name, one in shares.items() if name in plan.chosen}
    first = next(iter(shares))
    for name, one in shares.items():
        if name == first or one.producers != shares[first].producers or plan.load == "own":
            say(
                f"{name}: {describe_load(one, rated.chosen[name])}"
                if plan.load == "own"
                else describe_load(one, rated.chosen[name])
            )
    return rated


def _measure_each(
    plan: Plan, shares: Mapping[str, Scenario], runs: Path, runner: Runner, say: Say
) -> tuple[Plan, dict[str, float]]:
    """Measure the capacity of each of ``shares``; returns the plan without those of which it could not be measured, and the others' capacities."""
    capacities: dict[str, float] = {}
    unmeasured: dict[str, str] = {}
    for name, one in shares.items():
        say(f"{name}:")
        try:
            capacities[name] = runner.measure_capacity(one, say, runs)
        except NotCarriedOutError as error:
            say(f"{name} is left out: {error}")
            unmeasured[name] = str(error).partition("\n")[0]
    if unmeasured:
        plan = replace(plan.without(unmeasured), unmeasured=tuple(unmeasured))
    return plan, capacities
