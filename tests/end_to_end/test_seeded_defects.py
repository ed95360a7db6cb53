"""Does the bench itself tell the truth? Each queue with a known fault fails by the right check, and the sound ones beside them pass."""

from __future__ import annotations

import pytest

from stallbench.pipeline.session import open_session
from tests.defective_queues.trial import Outcome, Subject, find_subjects, judge_trial, run_trials

pytestmark = pytest.mark.end_to_end

SUBJECTS = find_subjects()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The outcome of each, after one trial; some run while others are judged."""
    runs = tmp_path_factory.mktemp("trials")
    with open_session("local[2]") as spark:
        return {subject.name: judge_trial(spark, run) for subject, run in run_trials(SUBJECTS, runs, at_once=4)}


@pytest.mark.timeout(900)  # the first one waits for all trials
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_defect_fails_by_the_right_check_and_a_sound_queue_passes(subject: Subject, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[subject.name].is_right(subject), outcomes[subject.name].failed or "it passed"
