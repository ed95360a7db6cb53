"""The words of the verdict of each kind of study, from what its runs have shown."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stallbench.queues.crash_points import CrashPoint
from stallbench.report.outcome_text import word_baseline, word_promises, word_runs
from stallbench.studies.torture.outcome import PROMISES, Reason, State, TortureOutcome, TrialOutcome
from stallbench.studies.torture.plan import Trial
from stallbench.verdicts.check import Result


@dataclass(frozen=True)
class JudgedRun:
    number: int
    verdict: Result | None
    verdict_name: str = ""
    reason: str = "12 jobs were lost"


def test_a_queue_that_keeps_all_promises_is_told_from_one_that_gives_fewer() -> None:
    words = word_promises("pass", {"a": "pass", "b": "pass", "c": "info"})
    assert (words.result, words.name) == ("pass", "kept all 2 promises")
    assert "1 other" in words.sentence


def test_broken_promises_are_counted_and_named_and_unknown_ones_are_not_among_them() -> None:
    words = word_promises("fail", {"a": "fail", "b": "unknown", "c": "fail", "d": "pass"})
    assert (words.result, words.name, words.sentence) == ("fail", "broke 2 promises", "Broke 2 promises: a; c.")
    many = word_promises("fail", {str(number): "fail" for number in range(5)})
    assert many.sentence.endswith("and 2 more.")


@pytest.mark.parametrize("promises", [{}, {"a": "info"}, {"a": "unknown", "b": "pass"}])
def test_what_could_not_be_judged_is_unknown(promises: dict[str, Result]) -> None:
    words = word_promises("unknown", promises)
    assert (words.result, words.name) == ("unknown", "unknown")


def test_runs_that_agree_are_told_by_their_own_word() -> None:
    words = word_runs("cycle", [JudgedRun(1, "pass", "survived"), JudgedRun(2, "pass", "survived")])
    assert (words.name, words.sentence) == ("survived", "Survived in all 2 cycles.")


def test_a_run_that_fails_comes_before_one_that_is_unknown_and_both_are_counted() -> None:
    runs = [JudgedRun(1, "unknown"), JudgedRun(2, "fail", "did not survive"), JudgedRun(3, "pass", "survived")]
    words = word_runs("run", runs)
    assert (words.result, words.name) == ("fail", "did not survive")
    assert words.sentence == "Did not survive in 1 of 3 runs, and unknown in 1, first in run 2: 12 jobs were lost."


@pytest.mark.parametrize("runs", [[], [JudgedRun(1, "unknown")]])
def test_without_a_run_that_was_judged_it_is_unknown(runs: list[JudgedRun]) -> None:
    assert word_runs("run", runs).result == "unknown"


def test_every_result_against_a_baseline_has_other_words() -> None:
    results: list[Result] = ["pass", "fail", "unknown"]
    assert len({word_baseline(result).name for result in results}) == 3


def test_a_torture_says_where_a_promise_is_broken_unless_it_is_everywhere() -> None:
    outcome = TortureOutcome(
        trials=[trial(CrashPoint.AFTER_CLAIM, "broken"), trial(CrashPoint.DURING_WORK, "holds")], elsewhere=[]
    )
    first = next(iter(PROMISES.values()))
    assert [name for name, result in outcome.list_promises().items() if result == "fail"] == [f"{first} at after_claim (kill)"]
    outcome.trials[1].states[next(iter(PROMISES))] = "broken"
    assert outcome.list_promises()[first] == "fail"


def test_what_no_point_explains_is_among_the_promises_of_a_torture() -> None:
    trials = [trial(CrashPoint.AFTER_CLAIM, "holds")]
    outcome = TortureOutcome(trials=trials, elsewhere=[Reason(check="processes", text="worker-1 exited")])
    assert [name for name, result in outcome.list_promises().items() if result == "fail"] == [
        "nothing else goes wrong (processes: worker-1 exited)"
    ]
    order = TortureOutcome(trials=trials, elsewhere=[Reason(check="order", text="job 3")])
    assert [name for name, result in order.list_promises().items() if result == "fail"] == ["in order at no known point"]


def trial(point: CrashPoint, state: State) -> TrialOutcome:
    states: dict[str, State] = dict.fromkeys(PROMISES, "holds")
    return TrialOutcome(trial=Trial(point, "kill"), hits=1, states=states | {next(iter(PROMISES)): state})
