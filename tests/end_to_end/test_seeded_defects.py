"""Is the bench's verdict right? A queue with a known defect fails by the right check, and correct queues pass.

A few defects and a sound queue are tried each time, for each takes a run of its own. ``STALLBENCH_DEFECTS=all`` tries every one, and
``python -m benchmarks.seeded_defects`` does so again and again. What each check says of made-up records is in tests/unit and tests/pipeline.
"""

from __future__ import annotations

import os

import pytest

from stallbench.pipeline.session import open_session
from stallbench.queues import find_queue
from tests.defective_queues.trial import Outcome, Subject, find_subjects, judge_trial, run_trials

pytestmark = pytest.mark.end_to_end

SUBJECTS = find_subjects()
TRIED_EACH_TIME = ("forgets_delete", "promises_too_much", "starves_old_jobs", "skip_locked, rough")
TRIED = [subject for subject in SUBJECTS if subject.name in TRIED_EACH_TIME or os.environ.get("STALLBENCH_DEFECTS") == "all"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The outcome of each, after one trial; some run while others are judged."""
    runs = tmp_path_factory.mktemp("trials")
    with open_session("local[2]") as spark:
        return {subject.name: judge_trial(spark, run) for subject, run in run_trials(TRIED, runs, at_once=2)}


@pytest.mark.timeout(1800)  # the first one waits for all trials
@pytest.mark.parametrize("subject", TRIED, ids=lambda subject: subject.name)
def test_a_defect_fails_by_the_right_check_and_a_sound_queue_passes(subject: Subject, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[subject.name].is_right(subject), outcomes[subject.name].describe()


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_one_is_found_as_a_scenario_names_it(subject: Subject) -> None:
    assert find_queue(subject.kind) is subject.queue
