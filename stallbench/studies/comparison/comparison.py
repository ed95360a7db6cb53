"""Carries out a comparison: every variant once per round, each in a separate run. If a run fails, the others continue."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from stallbench.base.duration import format_duration
from stallbench.errors import NotCarriedOutError, StallbenchError
from stallbench.pipeline.process import KeptPipeline
from stallbench.regression.against import Against, write_against
from stallbench.run.capacity import describe_load, measure_capacity
from stallbench.run.conclusion import conclude
from stallbench.run.folder import RunFolder
from stallbench.run.opening import open_run
from stallbench.run.view import RunView
from stallbench.scenario.model import Scenario
from stallbench.servers.find_starters import find_starters
from stallbench.studies.comparison.continuation import plan_continuation, retry_unmeasured
from stallbench.studies.comparison.plan import Plan, PlannedRun
from stallbench.studies.comparison.record import ComparedRun, ComparisonFolder, ComparisonRecord, begin_comparison


def carry_out_runs(plan: Plan, runs: Path, say: Callable[[str], None], compared: Against | None = None) -> ComparisonFolder:
    """Carry out the runs of ``plan`` one after the other; returns the comparison's folder, whose record has the outcome of each run.

    ``compared``: the baseline with which the comparison is compared at its end, if any. It is written into the folder at the beginning, so
    that it is known if the comparison is interrupted.

    A run that cannot be carried out does not stop the others; an interrupt ends the comparison with the runs done so far. A variant
    that this machine's servers cannot run is left out with a message, and so is a library whose capacity cannot be measured. ``say`` is
    called with one message at a time. Raises `NotCarriedOutError` if the comparison's folder cannot be created, or if fewer than two
    variants are left.
    """
    for name, reason in plan.left_out.items():
        say(f"{name} is left out: {reason}")
    plan = _leave_out_unsupported(plan, say)
    plan = _give_measured_load(plan, runs, say)
    folder, record = begin_comparison(plan, runs)
    if compared:
        write_against(folder.path, compared)
    _carry_out_planned(plan, folder, record, say)
    return folder


def continue_runs(folder: ComparisonFolder, rounds: int, say: Callable[[str], None]) -> None:
    """Carry out the runs that the comparison in ``folder`` lacks until it has ``rounds`` rounds, or as many as were planned if these are more.

    A run that could not be carried out, or that was interrupted, is carried out again, in a folder of its own. The capacity of a library that could
    not be measured is measured again; its runs follow the others. Raises `BadInputError` if there is no such run or library, or if the runs would
    differ from those that the comparison has.
    """
    plan, record = plan_continuation(folder, rounds)
    if record.bench.version != (then := folder.read().bench.version):
        say(f"the earlier runs are of version {then} of the bench, the others of {record.bench.version}")
    folder.write(record)
    try:
        plan, record = retry_unmeasured(plan, record, lambda scenario: measure_capacity(scenario, say, folder.runs), say)
    except KeyboardInterrupt:
        folder.write(record.model_copy(update={"status": "aborted", "reason": "interrupted"}))
        raise
    folder.write(record)
    _carry_out_planned(plan, folder, record, say)


def _carry_out_planned(plan: Plan, folder: ComparisonFolder, record: ComparisonRecord, say: Callable[[str], None]) -> None:
    """Carry out those runs of ``plan`` that ``record`` has as planned."""
    runs = folder.runs
    waiting = {run.number for run in record.runs if run.status == "planned"}
    to_do = [run for run in plan.runs if run.number in waiting]
    say(
        f"{len(to_do)} runs of {', '.join(plan.chosen)} interleaved; their phases take {format_duration(plan.sum_durations_s(to_do))} in total"
    )
    status, reason = "completed", ""
    try:
        with KeptPipeline() as pipeline:
            for planned in to_do:
                say(f"\nrun {planned.number} of {len(plan.runs)}: {planned.variant}, round {planned.round}, seed {planned.seed}")
                done = _carry_out_one(plan, planned, runs, pipeline)
                say(f"{planned.variant}, round {planned.round}: {done.verdict or done.status}: {done.reason}")
                record = record.with_run(done)
                folder.write(record)
                if done.status == "aborted":
                    status, reason = "aborted", done.reason
                    break
    except KeyboardInterrupt:
        status, reason = "aborted", "interrupted"
    folder.write(record.model_copy(update={"status": status, "reason": reason}))


def _leave_out_unsupported(plan: Plan, say: Callable[[str], None]) -> Plan:
    starters = find_starters()
    obstacles = {name: starters[one.database.engine].find_obstacle(one.database) for name, one in plan.chosen.items()}
    left_out = {name: obstacle for name, obstacle in obstacles.items() if obstacle}
    for name, obstacle in left_out.items():
        say(f"{name} is left out: {obstacle}")
    return plan.without(left_out) if left_out else plan


def _give_measured_load(plan: Plan, runs: Path, say: Callable[[str], None]) -> Plan:
    """Measure the capacity of the workers if any load is a share of it.

    Variants of one queue all get the load that is measured on the reference, or on the first variant whose load is a share. If libraries
    are compared, the capacity of each is measured. Raises `NotCarriedOutError` if no load can be given to two variants.
    """
    shares = {name: one for name, one in plan.chosen.items() if one.producers.wants_rate}
    if not shares:
        return plan
    if plan.has_libraries:
        plan, capacities = _measure_each(plan, shares, runs, say)
    else:
        name, reference = next(iter(shares.items()))
        capacities = {name: measure_capacity(reference, say, runs)}
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
    plan: Plan, shares: Mapping[str, Scenario], runs: Path, say: Callable[[str], None]
) -> tuple[Plan, dict[str, float]]:
    """Measure the capacity of each of ``shares``; returns the plan without those of which it could not be measured, and the others' capacities."""
    capacities: dict[str, float] = {}
    unmeasured: dict[str, str] = {}
    for name, one in shares.items():
        say(f"{name}:")
        try:
            capacities[name] = measure_capacity(one, say, runs)
        except NotCarriedOutError as error:
            say(f"{name} is left out: {error}")
            unmeasured[name] = str(error).partition("\n")[0]
    if unmeasured:
        plan = replace(plan.without(unmeasured), unmeasured=tuple(unmeasured))
    return plan, capacities


def _carry_out_one(plan: Plan, planned: PlannedRun, runs: Path, pipeline: KeptPipeline) -> ComparedRun:
    """Carry out a run, make its tables and its report, and return its outcome."""
    done = ComparedRun(number=planned.number, round=planned.round, variant=planned.variant, seed=planned.seed)
    folder: RunFolder | None = None
    try:
        with RunView() as view, open_run(plan.scenario_of(planned), runs, view) as started:
            folder = started.folder
            done = done.model_copy(update={"folder": folder.path.name})
            started.carry_out()
        verdict = conclude(folder, pipeline.make_tables)
    except KeyboardInterrupt:
        return done.model_copy(update={"status": "aborted", "reason": "interrupted"})
    except (StallbenchError, OSError, subprocess.SubprocessError) as error:
        return done.model_copy(update={"status": "failed", "reason": str(error).strip().partition("\n")[0]})
    return done.model_copy(update={"status": "completed", "verdict": verdict.verdict, "reason": verdict.reason})
