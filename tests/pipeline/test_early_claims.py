"""Jobs that have to wait: each rule broken once, and what looks as if it were broken and is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.pipeline.early_claims import find_preconditions, make_waiting
from stallbench.records.events import Event
from stallbench.verdicts import RunTables, find_checks
from tests.pipeline.conftest import MakeTables, ReadParts
from tests.synthetic_run import PRODUCER, SyntheticRun, at_ns
from tests.unit.made_up_run import make_run

Rules = dict[str, Any]
RulesOf = Callable[[SyntheticRun], Rules]

OVERTAKEN, PASSED_OVER, SIMULTANEOUS, LATE_RECORD, BLOCKED = 1, 11, 21, 31, 41


@pytest.fixture(scope="module")
def rules_of(read_parts: ReadParts) -> RulesOf:
    """The rows of the table, by rule."""

    def rules_of(run: SyntheticRun) -> Rules:
        parts = read_parts(run.write(final_snapshot={}))
        events = parts.records.events
        return {row["rule"]: row for row in make_waiting(find_preconditions(events), events, parts.jobs)}

    return rules_of


@pytest.fixture(scope="module")
def rules(rules_of: RulesOf, tmp_path_factory: pytest.TempPathFactory) -> Rules:
    """A run of ten seconds in which each story has queues, workers and jobs of its own."""
    run = SyntheticRun(tmp_path_factory.mktemp("waiting") / "run", phases={"baseline": 10})
    add_overtaken_job(run)
    put(run, PASSED_OVER, "fifo:c")
    put(run, PASSED_OVER + 1, "fifo:c")
    run.execute(PASSED_OVER + 1, at_s=1)
    add_simultaneous_jobs(run)
    put(run, LATE_RECORD, "fifo:e")
    put(run, LATE_RECORD + 1, "fifo:e")
    run.claim(LATE_RECORD, at_s=1).work(LATE_RECORD, at_s=1.1).complete(LATE_RECORD, at_s=1.3)
    run.execute(LATE_RECORD + 1, at_s=1.2, by="worker-2")
    run.live(BLOCKED, at_s=1)
    put(run, BLOCKED + 1, f"after:{BLOCKED}")
    put(run, BLOCKED + 2, f"after:{BLOCKED}")
    put(run, BLOCKED + 3, "after:99")
    run.execute(BLOCKED + 1, at_s=1.055).execute(BLOCKED + 2, at_s=2).execute(BLOCKED + 3, at_s=3)
    return rules_of(run)


def add_overtaken_job(run: SyntheticRun) -> None:
    put(run, OVERTAKEN, "fifo:a")
    put(run, OVERTAKEN + 1, "fifo:a")
    put(run, OVERTAKEN + 2, "fifo:b")
    put(run, OVERTAKEN + 3, "fifo:a", by="producer-2")
    put(run, OVERTAKEN + 4, "fifo:a")
    # The third is of another queue, the fourth of another producer: it is not known whether the first was there before it. The last is
    # never claimed.
    for place, job in enumerate((OVERTAKEN + 2, OVERTAKEN + 3, OVERTAKEN + 1, OVERTAKEN)):
        run.execute(job, at_s=1 + place)


def add_simultaneous_jobs(run: SyntheticRun) -> None:
    first, second, of_the_dead, after_it = range(SIMULTANEOUS, SIMULTANEOUS + 4)
    for job in (first, second, of_the_dead, after_it):
        put(run, job, "fifo:d")
    run.claim(first, at_s=1, by="worker-3").claim(second, at_s=1.5, by="worker-4")
    run.work(first, at_s=2, by="worker-3").work(second, at_s=3, by="worker-4")
    run.claim(of_the_dead, at_s=4, by="worker-3").process("worker-3", end_s=4.1, exit_code=-9)
    run.execute(after_it, at_s=5, by="worker-4")


def put(run: SyntheticRun, job: int, condition: str, by: str = PRODUCER) -> None:
    """Enqueue a job at second 0.1 to 0.2 that waits for ``condition``."""
    run.event(Event.ENQUEUED, at_s=0.1 + job / 1000, by=by, job=job, intended_s=0.1, detail=condition)


def test_a_run_without_such_jobs_has_no_rule(rules_of: RulesOf, tmp_path: Path) -> None:
    assert rules_of(SyntheticRun(tmp_path / "run", phases={"baseline": 10}).live(1, at_s=1)) == {}


def test_a_job_that_was_overtaken_in_its_fifo_queue_is_found(rules: Rules) -> None:
    assert {*rules["fifo_order"]["examples"]} & {*range(OVERTAKEN, PASSED_OVER)} == {OVERTAKEN}


def test_a_job_that_is_passed_over_for_good_was_overtaken(rules: Rules) -> None:
    assert {*rules["fifo_order"]["examples"]} & {*range(PASSED_OVER, SIMULTANEOUS)} == {PASSED_OVER}


def test_two_simultaneous_jobs_of_a_fifo_queue_are_found_but_not_one_whose_worker_died(rules: Rules) -> None:
    assert {*rules["fifo_alone"]["examples"]} & {*range(SIMULTANEOUS, LATE_RECORD)} == {SIMULTANEOUS + 1}


def test_a_completion_that_was_written_down_late_is_no_overlap(rules: Rules) -> None:
    assert not {*rules["fifo_alone"]["examples"]} & {LATE_RECORD, LATE_RECORD + 1}


def test_a_blocked_job_that_did_not_wait_is_found(rules: Rules) -> None:
    assert list(rules["not_before_blocker"]["examples"]) == [BLOCKED + 1, BLOCKED + 3]


def test_the_jobs_of_each_rule_are_counted(rules: Rules) -> None:
    counts = {rule: (row["jobs"], row["claimed"], row["broken"]) for rule, row in rules.items()}
    assert counts == {"fifo_order": (13, 11, 2), "fifo_alone": (13, 11, 1), "not_before_blocker": (3, 3, 2)}


def test_a_job_that_started_before_its_time_is_found_and_delays_are_measured(make: MakeTables, tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "run", phases={"baseline": 10})
    for job, due_s, claimed_s in ((1, 1.0, 1.2), (2, 2.0, 2.4), (3, 3.0, 2.9)):
        put(run, job, f"due:{at_ns(due_s)}")
        run.execute(job, at_s=claimed_s)
    folder = run.write(final_snapshot={})
    make(folder)
    tables = RunTables(folder)
    assert tables["waiting"].to_dict("records")[0] | {"examples": None} == {
        "rule": "not_before_due", "jobs": 3, "claimed": 3, "broken": 1, "examples": None,
    }  # fmt: skip
    assert tables.metric("start_delay_ms", "p50", "baseline") == pytest.approx(200)
    assert tables.metric("start_delay_ms", "max", None) == pytest.approx(400)
    (finding,) = find_checks()["waiting"]().judge(tables)
    assert (finding.result, finding.examples) == ("fail", ("3",))
    assert finding.reason == ("1 of 3 jobs started before they were due; start delay p50 200 ms, p99 400 ms")


def test_a_rule_that_never_came_up_is_unknown(tmp_path: Path) -> None:
    rows = [("fifo_order", 2, 1, 0), ("not_before_blocker", 3, 0, 0)]
    waiting = pd.DataFrame([(*row, []) for row in rows], columns=["rule", "jobs", "claimed", "broken", "examples"])
    findings = find_checks()["waiting"]().judge(make_run(tmp_path, waiting=waiting))
    assert [finding.result for finding in findings] == ["pass", "unknown"]
