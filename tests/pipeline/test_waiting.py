"""Jobs that have to wait: each rule broken once, and what looks as if it were broken and is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from stallbench.pipeline.waiting import find_preconditions, make_waiting
from stallbench.records.events import Event
from stallbench.verdicts import RunTables, find_checks
from tests.pipeline.conftest import MakeTables, ReadParts
from tests.synthetic_run import PRODUCER, SyntheticRun, at_ns
from tests.unit.made_up_run import make_run

Story = Callable[[SyntheticRun], object]
Rules = Callable[[Story], dict[str, tuple[int, int, int, list[int]]]]


@pytest.fixture
def rules_of(read_parts: ReadParts, tmp_path: Path) -> Rules:
    """``jobs, claimed, broken, examples`` by rule, of a run of ten seconds."""

    def rules_of(describe: Story) -> dict[str, tuple[int, int, int, list[int]]]:
        run = SyntheticRun(tmp_path / "run", phases={"baseline": 10})
        describe(run)
        parts = read_parts(run.write(final_snapshot={}))
        events = parts.records.events
        rows = make_waiting(find_preconditions(events), events, parts.jobs).collect()
        return {row["rule"]: (row["jobs"], row["claimed"], row["broken"], list(row["examples"])) for row in rows}

    return rules_of


def put(run: SyntheticRun, job: int, condition: str, by: str = PRODUCER) -> None:
    """Enqueue a job at second 0.1 to 0.2 that waits for ``condition``."""
    run.event(Event.ENQUEUED, at_s=0.1 + job / 1000, by=by, job=job, intended_s=0.1, detail=condition)


def test_a_run_without_such_jobs_has_no_rule(rules_of: Rules) -> None:
    assert rules_of(lambda run: run.live(1, at_s=1)) == {}


def test_a_job_that_was_overtaken_in_its_fifo_queue_is_found(rules_of: Rules) -> None:
    def describe(run: SyntheticRun) -> None:
        for job, queue, by in (
            (1, "a", PRODUCER),
            (2, "a", PRODUCER),
            (3, "b", PRODUCER),
            (4, "a", "producer-2"),
            (5, "a", PRODUCER),
        ):
            put(run, job, f"fifo:{queue}", by)
        # 3 is of another queue, 4 of another producer: it is not known whether 1 was there before it. 5 is never claimed.
        for place, job in enumerate((3, 4, 2, 1)):
            run.execute(job, at_s=1 + place)

    assert rules_of(describe)["fifo_order"] == (5, 4, 1, [1])


def test_a_job_that_is_passed_over_for_good_was_overtaken(rules_of: Rules) -> None:
    def describe(run: SyntheticRun) -> None:
        put(run, 1, "fifo:a")
        put(run, 2, "fifo:a")
        run.execute(2, at_s=1)

    assert rules_of(describe)["fifo_order"] == (2, 1, 1, [1])


def test_two_simultaneous_jobs_of_a_fifo_queue_are_found_but_not_one_whose_worker_died(rules_of: Rules) -> None:
    def describe(run: SyntheticRun) -> None:
        for job in (1, 2, 3, 4):
            put(run, job, "fifo:a")
        run.claim(1, at_s=1, by="worker-1").claim(2, at_s=1.5, by="worker-2")
        run.work(1, at_s=2, by="worker-1").work(2, at_s=3, by="worker-2")
        run.claim(3, at_s=4, by="worker-1").process("worker-1", end_s=4.1, exit_code=-9).execute(4, at_s=5, by="worker-2")

    assert rules_of(describe)["fifo_alone"] == (4, 4, 1, [2])


def test_a_completion_that_was_written_down_late_is_no_overlap(rules_of: Rules) -> None:
    def describe(run: SyntheticRun) -> None:
        put(run, 1, "fifo:a")
        put(run, 2, "fifo:a")
        run.claim(1, at_s=1).work(1, at_s=1.1).complete(1, at_s=1.3)
        run.execute(2, at_s=1.2, by="worker-2")

    assert rules_of(describe)["fifo_alone"] == (2, 2, 0, [])


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


def test_a_blocked_job_that_did_not_wait_is_found(rules_of: Rules) -> None:
    def describe(run: SyntheticRun) -> None:
        run.live(1, at_s=1)
        put(run, 2, "after:1")
        put(run, 3, "after:1")
        put(run, 4, "after:9")
        run.execute(2, at_s=1.055).execute(3, at_s=2).execute(4, at_s=3)

    assert rules_of(describe)["not_before_blocker"] == (3, 3, 2, [2, 4])


def test_a_rule_that_never_came_up_is_unknown(tmp_path: Path) -> None:
    rows = [("fifo_order", 2, 1, 0), ("not_before_blocker", 3, 0, 0)]
    waiting = pd.DataFrame([(*row, []) for row in rows], columns=["rule", "jobs", "claimed", "broken", "examples"])
    findings = find_checks()["waiting"]().judge(make_run(tmp_path, waiting=waiting))
    assert [finding.result for finding in findings] == ["pass", "unknown"]
