"""Is the bench's verdict right? A queue with a known defect fails by the right check, and correct queues pass.

Each takes a run of its own: some defects are tried by `make test`, all of them and sound queues by `make test-long`, and
``python -m benchmarks.seeded_defects`` tries them again and again. What each check says of made-up records is in tests/unit and tests/pipeline.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.pipeline.process import make_tables
from stallbench.queues import find_queue
from stallbench.run.folder import RunFolder
from tests.defective_queues.trial import Outcome, Subject, find_subjects, judge_trial, run_trials

pytestmark = pytest.mark.end_to_end

SUBJECTS = find_subjects()
OF_CRASH_POINTS = (
    "acknowledges_first_of_batch",
    "commits_with_next_statement",
    "renews_lost_lease",
    "retries_enqueue_without_key",
)
TRIED_BY_MAKE_TEST = ("expires_early_at_start", "forgets_delete", "starves_old_jobs", "starves_without_order")
"""One for each check that counts jobs. How wide an excuse is, is tested in tests/pipeline; that sound queues pass is shown by the other runs that must."""
ROUNDS = 20
TRIALS = [
    pytest.param(subject, id=subject.name, marks=() if subject.name in TRIED_BY_MAKE_TEST else pytest.mark.long)
    for subject in SUBJECTS
]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, use_pipeline_service: None
) -> dict[str, Outcome]:
    """The outcome of each that is selected, after one trial; some run while others are judged."""
    selected = {
        item.callspec.id
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and "outcomes" in item.fixturenames
    }
    tried = [subject for subject in SUBJECTS if subject.name in selected]
    assert len(tried) == len(selected)
    runs = tmp_path_factory.mktemp("trials")
    return {
        subject.name: judge_trial(run, lambda path: make_tables(RunFolder(path)))
        for subject, run in run_trials(tried, runs, at_once=2)
    }


@pytest.mark.timeout(1800)  # the first one waits for all trials
@pytest.mark.parametrize("subject", TRIALS)
def test_a_defect_fails_by_the_right_check_and_a_sound_queue_passes(subject: Subject, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[subject.name].is_right(subject), outcomes[subject.name].describe()


@pytest.mark.long
@pytest.mark.timeout(2 * 3600)
def test_defects_at_crash_points_are_found_in_each_of_20_rounds_and_sound_queues_pass(
    tmp_path: Path, use_pipeline_service: None
) -> None:
    """Random kills miss most of these defects: what they break lasts for microseconds."""
    loads = {subject.load for subject in SUBJECTS if subject.name in OF_CRASH_POINTS}
    tried = [subject for subject in SUBJECTS if subject.load in loads]
    assert len(tried) == 2 * len(OF_CRASH_POINTS), "each has its own load, and one sound queue under the same"
    wrong = [
        f"round {number}, {subject.name}: {outcome.describe()}"
        for number in range(1, ROUNDS + 1)
        for subject, run in run_trials(tried, tmp_path / str(number), at_once=2, seed=number)
        if not (outcome := judge_trial(run, lambda path: make_tables(RunFolder(path)))).is_right(subject)
    ]
    assert not wrong


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_one_is_found_as_a_scenario_names_it(subject: Subject) -> None:
    assert find_queue(subject.kind) is subject.queue
