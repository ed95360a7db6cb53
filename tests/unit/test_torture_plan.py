"""What `stallbench torture` plans for a queue."""

from __future__ import annotations

import pytest

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.errors import BadInputError
from stallbench.libraries import find_libraries
from stallbench.queues.crash_points import CrashPoint
from stallbench.scenario.file import ScenarioError
from stallbench.studies.torture.plan import Trial, plan_torture


@pytest.mark.parametrize(("overrides", "engine"), [([], "postgres"), (["database.engine=mariadb"], "mariadb")])
def test_a_plan_names_the_engine_that_its_runs_use(overrides: list[str], engine: str) -> None:
    assert plan_torture("laravel", seed=1, overrides=overrides, points=(), action=None).engine == engine


def test_the_phase_of_any_point_can_be_longer() -> None:
    """Also of one that the scenario of the first trial does not have."""
    plan = plan_torture(
        "redis_batches", seed=1, overrides=["phases.between_steps.duration=40s"], points=[CrashPoint.BETWEEN_STEPS], action="kill"
    )
    phases = {phase.name: phase.duration_s for phase in plan.read(plan.runs[0]).phases}
    assert phases["between_steps"] == 40


@pytest.mark.parametrize("kind", ["skip_locked", "library:procrastinate"])
def test_a_phase_that_one_of_the_runs_does_not_have_is_changed_in_the_others(kind: str) -> None:
    change = (
        "phases.after_claim.duration=9s" if kind.startswith(LIBRARY_PREFIX) else "phases.before_claim_acknowledged.duration=9s"
    )
    name = change.split(".")[1]
    plan = plan_torture(kind, seed=1, overrides=[change], points=(), action=None)
    durations_s = [{phase.name: phase.duration_s for phase in plan.read(run).phases}.get(name) for run in plan.runs]
    assert durations_s == [9, None], "no worker is paused there"


def test_the_command_for_one_trial_leaves_out_the_changes_of_other_phases() -> None:
    changes = ["workers.count=2", "phases.after_claim.duration=9s", "phases.settling.duration=30s"]
    plan = plan_torture("skip_locked", seed=1, overrides=changes, points=(), action=None)
    command = plan.describe_command(Trial(CrashPoint.DURING_WORK, "kill"))
    assert command == (
        "stallbench torture skip_locked --set workers.count=2 --set phases.settling.duration=30s --seed 1 --point during_work --action kill"
    )


def test_a_phase_that_no_run_has_is_refused_before_the_first_run() -> None:
    with pytest.raises(ScenarioError, match="there is no such phase"):
        plan_torture("skip_locked", seed=1, overrides=["phases.between_steps.duration=9s"], points=(), action=None)


@pytest.mark.parametrize("library", sorted(find_libraries()))
def test_every_library_can_be_tortured_with_its_own_expiry(library: str) -> None:
    """None of its workers is paused, so its claims need not expire soon; River's must last for a minute at least."""
    plan = plan_torture(f"{LIBRARY_PREFIX}{library}", seed=1, overrides=[], points=(), action=None)
    assert plan.expiry_option is None


@pytest.mark.parametrize(("vt", "pauses"), [(3, True), (4, True), (5, False), (30, False)])
def test_workers_of_a_library_are_paused_only_if_their_claims_were_made_short(vt: int, pauses: bool) -> None:
    plan = plan_torture("library:pgmq", seed=1, overrides=[f"queue.vt={vt}"], points=(), action=None)
    assert any(trial.needs_expiry for trial in plan.trials) is pauses


def test_a_pause_that_needs_short_claims_says_how_to_make_them_short() -> None:
    with pytest.raises(BadInputError, match=r"paused if their claims last 4 s at most, like --set queue\.vt=3$"):
        plan_torture("library:pgmq", seed=1, overrides=[], points=[CrashPoint.AFTER_CLAIM], action="pause")


def test_the_producers_of_a_library_have_time_to_start() -> None:
    """Each needs the start of a process in the library's own language; without that time the second point was not tried."""
    durations_s = []
    for kind in ("skip_locked", "library:celery"):
        plan = plan_torture(kind, seed=1, overrides=[], points=[CrashPoint.AFTER_ENQUEUE_ACKNOWLEDGED], action="kill")
        phases = {phase.name: phase.duration_s for phase in plan.read(plan.runs[0]).phases}
        durations_s.append(phases[CrashPoint.AFTER_ENQUEUE_ACKNOWLEDGED])
    assert durations_s == [3, 8]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "queue.kind=que",
            r'queue\.kind is "que", but the queue of this torture is skip_locked; leave it out, or name que instead',
        ),
        ("queue.kind=library:river", r'queue\.kind is "library:river", but the queue of this torture is skip_locked'),
        ("phases.after_claim.faults=[]", r"phases\.after_claim\.faults has no crash_point that kills at after_claim"),
        ('phases=[{name="only",duration="5s"}]', r"has no crash_point that kills at before_enqueue_acknowledged"),
        (
            'phases.after_claim.faults=[{kind="crash_point",on="workers",at="during_work"}]',
            r"phases\.after_claim\.faults has no crash_point that kills at after_claim",
        ),
    ],
)
def test_a_change_that_would_try_something_else_is_refused(change: str, message: str) -> None:
    """Its outcome would be that of another queue, or of a point that no process was to pass."""
    with pytest.raises(BadInputError, match=message):
        plan_torture("skip_locked", seed=1, overrides=[change], points=(), action=None)


def test_faults_can_be_added_to_the_one_of_a_point() -> None:
    both = '[{kind="latency"},{kind="crash_point",on="workers",at="after_claim",every_nth=2}]'
    changes = [f"phases.after_claim.faults={both}"]
    plan = plan_torture("skip_locked", seed=1, overrides=changes, points=[CrashPoint.AFTER_CLAIM], action="kill")
    assert len(plan.trials) == 1
