"""`stallbench torture`: a defective queue is caught at the right point, by a command that is printed and can be repeated."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from stallbench.errors import BadInputError
from stallbench.queues.crash_points import CrashPoint
from stallbench.scenario.file import read_scenario
from stallbench.studies.torture.plan import TorturePlan, Trial, plan_torture
from tests.end_to_end.conftest import Bench, RunHere

pytestmark = pytest.mark.end_to_end

DEFECTS = Path(__file__).parents[1] / "defective_queues"
COMMITS_LATE = f"{DEFECTS / 'commits_with_next_statement.py'}:CommitsWithNextStatement"
AFTER_COMPLETION = ("--point", "after_completion_acknowledged", "--action", "kill")


def test_a_broken_promise_is_shown_at_its_point_and_the_printed_command_plans_the_same_again(
    bench: Bench, run_here: RunHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = bench.run("torture", COMMITS_LATE, "--seed", "3", *AFTER_COMPLETION, "--point", "after_claim")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    rows = {line.split("│")[1].strip(): line for line in ended.stdout.splitlines() if line.startswith("│")}
    assert "BROKEN" in rows["after_completion_acknowledged"]
    assert "BROKEN" not in rows["after_claim"], "there the completion before it was committed with the claim"
    assert re.search(r"nothing repeated: .*worker-\S+ completed.*died at after_completion_acknowledged", ended.stdout)
    assert_only_jobs_are_repeated(bench)

    plans: list[TorturePlan] = []

    def end_with_the_plan(plan: TorturePlan, *_: object) -> NoReturn:
        plans.append(plan)
        sys.exit(0)

    monkeypatch.setattr("stallbench.studies.torture.torture.carry_out_torture", end_with_the_plan)
    run_here(*printed_command(ended.stdout))
    (plan,) = plans
    (planned,) = plan.runs
    again = plan.read(planned)
    first = read_scenario(str(torture_folder(bench) / "kill.toml"))
    assert again.phases == tuple(phase for phase in first.phases if phase.name != "after_claim")
    elsewhere = {"phases", "file"}
    assert again.model_dump(exclude=elsewhere) == first.model_dump(exclude=elsewhere)


@pytest.mark.long
def test_the_printed_command_finds_a_broken_promise_again(bench: Bench) -> None:
    ended = bench.run("torture", COMMITS_LATE, "--seed", "3", *AFTER_COMPLETION, "--point", "after_claim")
    again = bench.run(*printed_command(ended.stdout))
    assert again.returncode == 1, again.stdout + again.stderr
    assert_only_jobs_are_repeated(bench)


def printed_command(out: str) -> list[str]:
    """Return the arguments of the command that repeats the only trial in which a promise was broken."""
    (command,) = re.findall(r"repeat: stallbench (.*)", out)
    return shlex.split(command)


def torture_folder(bench: Bench) -> Path:
    """Return the newest torture's folder."""
    return max(bench.runs.glob("*-torture-commitswithnextstatement*"))


def read_trials(torture: Path) -> list[Any]:
    """Return the outcome of each trial of a torture."""
    return [each for run in json.loads((torture / "study.json").read_text())["runs"] for each in run["outcome"]["trials"]]


def assert_only_jobs_are_repeated(bench: Bench) -> None:
    """Check that in the newest torture a completed job was executed a second time, and that no job is lost."""
    trials = {each["trial"]["point"]: each for each in read_trials(torture_folder(bench))}
    states = trials["after_completion_acknowledged"]["states"]
    assert (states["duplicates"], states["conservation"]) == ("broken", "holds")


@pytest.mark.long
def test_a_sound_queue_passes(bench: Bench) -> None:
    ended = bench.run("torture", "skip_locked", "--seed", "3", *AFTER_COMPLETION)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "every promise holds at every point" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_queue"], 'queue "no_such_queue" is none of '),
        (["skip_lockd"], 'nor path/to/file.py:ClassName; did you mean "skip_locked"?'),
        (["skip_locked", "--action", "maim"], "--action maim: expected kill or pause"),
        (["skip_locked", "--point", "between_steps"], "nothing can be tried at between_steps for skip_locked; expected one of"),
        (["laravel", "--set", "queue.retry_after=90"], "claims of laravel last 90 s"),
        (["laravel", "--set", "queue.retry=3"], "queue.retry: unknown key of laravel"),
    ],
)
def test_bad_input_gives_one_message_and_code_2(run_here: RunHere, tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = run_here("torture", *arguments, "--runs", str(tmp_path / "runs"))
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.libraries
def test_the_workers_of_a_library_die_at_their_points(bench: Bench) -> None:
    """Procrastinate rescues no job of a dead worker."""
    ended = bench.run("torture", "library:procrastinate", "--seed", "1", *AFTER_COMPLETION, "--point", "after_claim")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    (folder,) = bench.runs.glob("*-torture-procrastinate*")
    after_claim, after_completion = read_trials(folder)
    assert min(after_claim["hits"], after_completion["hits"]) > 0
    assert after_claim["states"]["conservation"] == "broken"
    assert re.search(r"nothing lost: .*worker-\S+ claimed; worker-\S+ died at after_claim", ended.stdout)
    assert after_completion["states"]["conservation"] == "holds"
    assert after_completion["states"]["duplicates"] == "holds"


def test_the_points_that_a_library_s_own_worker_does_not_show_are_left_out() -> None:
    """Its producers are the bench's. Its workers are not paused: their claims last too long."""
    plan = plan_torture("library:procrastinate", seed=1, overrides=[], points=[], action=None)
    of_producers = [CrashPoint.BEFORE_ENQUEUE_ACKNOWLEDGED, CrashPoint.AFTER_ENQUEUE_ACKNOWLEDGED]
    of_workers = [
        CrashPoint.AFTER_CLAIM,
        CrashPoint.DURING_WORK,
        CrashPoint.BEFORE_COMPLETION,
        CrashPoint.AFTER_COMPLETION_ACKNOWLEDGED,
    ]
    assert [trial.point for trial in plan.trials if trial.action == "kill"] == [*of_producers, *of_workers]
    assert [trial.point for trial in plan.trials if trial.action == "pause"] == of_producers
    hidden = CrashPoint.BEFORE_COMPLETION_ACKNOWLEDGED
    with pytest.raises(BadInputError, match=f"nothing can be tried at {hidden} for library:procrastinate; expected one of"):
        plan_torture("library:procrastinate", seed=1, overrides=[], points=[hidden], action=None)


def test_a_seed_gives_a_trial_the_same_trigger_whatever_else_is_tried() -> None:
    trial = Trial(CrashPoint.BEFORE_COMPLETION_ACKNOWLEDGED, "pause")
    assert trial.draw_trigger(1) == trial.draw_trigger(1) != trial.draw_trigger(2)
