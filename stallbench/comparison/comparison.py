"""Carries out a comparison: every variant once per round, each in a separate run. If a run fails, the others continue."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from stallbench.comparison.plan import Plan, PlannedRun
from stallbench.comparison.record import ComparedRun, ComparisonFolder, begin_comparison
from stallbench.errors import StallbenchError
from stallbench.pipeline.process import KeptPipeline
from stallbench.run.capacity import describe_load, measure_capacity
from stallbench.run.conclusion import conclude
from stallbench.run.folder import RunFolder
from stallbench.run.opening import open_run
from stallbench.run.view import RunView
from stallbench.scenario.duration import format_duration
from stallbench.servers.find_starters import find_starters


def carry_out_runs(plan: Plan, runs: Path, say: Callable[[str], None]) -> ComparisonFolder:
    """Carry out the runs of ``plan`` one after the other; returns the comparison's folder, whose record has the outcome of each run.

    A run that cannot be carried out does not stop the others; an interrupt ends the comparison with the runs done so far. A variant
    that this machine's servers cannot run is left out with a message. ``say`` is called with one message at a time. Raises
    `NotCarriedOutError` if the comparison's folder cannot be created, or if fewer than two variants are left.
    """
    for name, reason in plan.left_out.items():
        say(f"{name} is left out: {reason}")
    plan = _leave_out_unsupported(plan, say)
    plan = _give_measured_load(plan, runs, say)
    folder, record = begin_comparison(plan, runs)
    say(
        f"{len(plan.runs)} runs of {', '.join(plan.chosen)} interleaved; their phases take {format_duration(plan.duration_s)} in total"
    )
    status, reason = "completed", ""
    try:
        with KeptPipeline() as pipeline:
            for planned in plan.runs:
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
    return folder


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
    are compared, the capacity of each is measured.
    """
    shares = {name: one for name, one in plan.chosen.items() if one.producers.wants_rate}
    if not shares:
        return plan
    first = next(iter(shares))
    capacities = {}
    for name in shares if plan.has_libraries else [first]:
        if plan.has_libraries:
            say(f"{name}:")
        capacities[name] = measure_capacity(shares[name], say, runs)
    rated = plan.with_capacities(capacities)
    for name, one in shares.items():
        if name == first or one.producers != shares[first].producers or plan.load == "own":
            say(
                f"{name}: {describe_load(one, rated.chosen[name])}"
                if plan.load == "own"
                else describe_load(one, rated.chosen[name])
            )
    return rated


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
