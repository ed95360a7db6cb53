"""What is known of a run before its tables are made, and what is said when it is not known yet."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from stallbench.pipeline.tables import MADE_WHOLE, TABLES
from stallbench.report import meanwhile
from stallbench.report.meanwhile import shown_meanwhile
from stallbench.run import first_facts
from stallbench.run.first_facts import read_first_facts
from stallbench.run.view import RunView
from stallbench.waiting import wait_until
from tests.synthetic_run import SyntheticRun


def run_of(folder: Path, jobs: int = 4) -> SyntheticRun:
    run = SyntheticRun(folder, phases={"baseline": 10.0, "longtx": 10.0})
    for job in range(1, jobs + 1):
        run.enqueue(job, at_s=1, intended_s=1).complete(job, at_s=1 + job)
    return run


def read(run: SyntheticRun, *, snapshot: dict[int, str] | None = None) -> first_facts.FirstFacts:
    return read_first_facts(run.write(final_snapshot=snapshot))


def test_jobs_are_counted_and_their_latency_is_that_of_the_phase_in_which_they_were_completed(tmp_path: Path) -> None:
    facts = read(run_of(tmp_path / "run"), snapshot={9: "queued"})
    assert (facts.enqueued, facts.completed, facts.held, facts.why_no_latencies) == (4, 4, 1, "")
    baseline, longtx = facts.latencies
    assert (baseline.phase, baseline.jobs, baseline.p50_ms, baseline.p95_ms) == ("baseline", 4, 2000.0, 4000.0)
    assert (longtx.phase, longtx.jobs, longtx.p50_ms, longtx.p95_ms) == ("longtx", 0, None, None)


def test_without_a_whole_final_snapshot_nothing_is_said_about_the_backlog(tmp_path: Path) -> None:
    assert read(run_of(tmp_path / "run")).held is None


def test_a_run_without_an_event_has_no_latency(tmp_path: Path) -> None:
    facts = read(SyntheticRun(tmp_path / "run"), snapshot={})
    assert (facts.enqueued, facts.completed, facts.held) == (0, 0, 0)
    assert [latency.jobs for latency in facts.latencies] == [0]


def test_jobs_with_the_same_id_are_not_told_apart(tmp_path: Path) -> None:
    facts = read(run_of(tmp_path / "run").enqueue(1, at_s=5).complete(1, at_s=6))
    assert facts.latencies == ()
    assert "the same id" in facts.why_no_latencies


def test_the_jobs_of_a_large_run_are_not_compared_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_facts, "_MOST_EVENTS", 7)
    monkeypatch.delattr(first_facts, "read_sealed")
    facts = read(run_of(tmp_path / "run"))
    assert (facts.enqueued, facts.completed, facts.latencies) == (4, 4, ())
    assert facts.why_no_latencies == "the latency of 4 jobs is known when the tables are made"


def test_the_facts_are_printed_and_then_how_many_tables_were_made_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meanwhile, "_POLL_S", 0.01)
    monkeypatch.setattr("stallbench.run.view._LINE_EVERY_S", 0.0)
    folder = run_of(tmp_path / "run").write(final_snapshot={})
    earlier = folder / "tables" / "order" / MADE_WHOLE
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    os.utime(earlier, (1, 1))
    printed = io.StringIO()

    def wait_for(text: str) -> None:
        assert wait_until(lambda: text in printed.getvalue(), within_s=60, every_s=0.01), printed.getvalue()

    with shown_meanwhile(folder, RunView(Console(file=printed, width=200))):
        wait_for("4 jobs enqueued, 4 completed, 0 still in the queue")
        wait_for("baseline  latency p50 2,000 ms, p95 4,000 ms")
        wait_for("longtx    no job was completed")
        wait_for("no table is made yet")
        made = folder / "tables" / "jobs" / MADE_WHOLE
        made.parent.mkdir()
        made.touch()
        wait_for(f"1 of {len(TABLES)} tables are made")


def test_records_that_cannot_be_sealed_are_left_to_the_tables_which_report_it(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run").write()
    (folder / "sealed").write_text("in the way")
    printed = io.StringIO()
    with shown_meanwhile(folder, RunView(Console(file=printed, width=200))):
        pass
    assert "the first figures are not known: the sealed records cannot be read" in printed.getvalue()
