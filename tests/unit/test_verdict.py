"""The verdict: what cannot be decided never passes, what does not apply counts for nothing, and the worst finding is stated first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallbench.report.terminal import print_verdict
from stallbench.run.record import parse_record
from stallbench.verdicts import Finding, RunTables, find_checks, judge
from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.check import Severity
from stallbench.verdicts.horizon import HolderStay
from stallbench.verdicts.verdict import decide
from tests.unit.made_up_run import EMPTY, make_phases, make_process, make_record, make_record_with_expectation, make_run

pytestmark = pytest.mark.slow

DOES_NOT_APPLY = {
    "expectations",
    "requirements",
    "left behind",
    "advisory locks",
    "waiting",
    "clocks",
    "locust",
    "injections",
    "regression",
    "attempts",
}
"""Checks that do not apply to the made-up run."""
LOST = pd.DataFrame([{"state": "enqueued", "jobs": 10, "examples": []}, {"state": "lost", "jobs": 2, "examples": [7, 8]}])
RE_EXECUTED = pd.DataFrame([[7, 2, 2, "worker-1, worker-2", False, "why", "", None]], columns=EMPTY["duplicates"])
LEFT_BEHIND = pd.DataFrame([{"kind": "held_for_the_dead", "jobs": 1, "examples": [7], "longest_s": 3.0}])


def test_a_correct_run_passes(tmp_path: Path) -> None:
    verdict = judge(make_run(tmp_path))
    assert (verdict.verdict, verdict.status) == ("pass", "completed")
    assert verdict.reason == "the scenario has no expectations; no job was lost, and none was re-executed without a reason"
    assert (tmp_path / "verdict.json").exists()


def test_what_does_not_apply_is_info_and_does_not_spoil_a_pass(tmp_path: Path) -> None:
    verdict = judge(make_run(tmp_path))
    assert {finding.check for finding in verdict.findings if finding.result == "info"} == DOES_NOT_APPLY
    assert {finding.result for finding in verdict.findings} == {"pass", "info"}


def test_info_alone_is_no_reason_to_pass_a_run_that_broke_off(tmp_path: Path) -> None:
    only_info = Finding(check="order", subject="order", result="info", reason="does not apply")
    record = parse_record(json.dumps(make_record(status="aborted", reason="Ctrl-C")), "made up")
    verdict = decide(record, [only_info], Attribution(sentence="", holders=(), trend=None))
    assert verdict.verdict == "unknown"


def test_the_terminal_says_from_when_the_times_of_the_attribution_count(capsys: pytest.CaptureFixture[str]) -> None:
    record = parse_record(json.dumps(make_record()), "made up")
    psql = HolderStay(
        name="psql",
        description="",
        server="primary",
        kind="backend",
        key="1",
        from_s=11,
        to_s=65,
        age_s=54,
        age_xids=9,
        oldest_s=54,
    )
    for holders, is_said in (((psql,), True), ((), False)):
        print_verdict(decide(record, [], Attribution(sentence="One.", holders=holders, trend=None)), record, "report.html")
        lines = capsys.readouterr().out.splitlines()
        assert ("(seconds since the first phase began, as in the report)" in lines) is is_said


def test_the_worst_finding_is_stated_first(tmp_path: Path) -> None:
    record = make_record_with_expectation(metric="claim_ms.p95", phase="longtx", at_most=1)
    record["processes"] = [make_process("worker-1", intended="running", exit_code=-9)]
    worse = [
        ({}, "claim_ms.p95 in longtx is 8"),
        ({"overdue": LEFT_BEHIND}, "1 jobs were still claimed by a worker that had died"),
        ({"duplicates": RE_EXECUTED}, "1 jobs were executed or completed more than once"),
        ({"conservation": LOST}, "of 10 jobs enqueued: 2 lost (id 7, id 8)"),
    ]
    tables: dict[str, pd.DataFrame] = {
        "phases": make_phases({("longtx", "claim_ms.p95"): 8.0, ("run", "deadlocks.count"): 0.0}),
    }
    for number, (further, headline) in enumerate(worse):
        tables |= further
        (tmp_path / str(number)).mkdir()
        verdict = judge(make_run(tmp_path / str(number), record if number else {**record, "processes": []}, **tables))
        assert verdict.reason.startswith(headline)
    assert verdict.reason.endswith("(and 4 more)")


@pytest.mark.parametrize(("metric", "severity"), [("lost.count", Severity.JOBS_LOST), ("depth.max", Severity.EXPECTATION)])
def test_an_expectation_on_losses_is_as_severe_as_the_check_that_it_replaces(
    tmp_path: Path, metric: str, severity: Severity
) -> None:
    record = make_record_with_expectation(metric=metric, at_most=0)
    verdict = judge(make_run(tmp_path, record, phases=make_phases({("run", metric): 3.0, ("run", "deadlocks.count"): 0.0})))
    (failed,) = [finding for finding in verdict.findings if finding.result == "fail"]
    assert failed.severity is severity


@pytest.mark.parametrize("status", ["aborted", "failed", "running"])
def test_a_run_that_did_not_complete_never_passes(tmp_path: Path, status: str) -> None:
    verdict = judge(make_run(tmp_path, make_record(status=status, reason="because")))
    assert (verdict.status, verdict.verdict) == (status, "unknown")
    assert verdict.reason == f"the run was {status}: because"


def test_lost_jobs_are_stated_even_before_a_run_that_broke_off(tmp_path: Path) -> None:
    verdict = judge(make_run(tmp_path, make_record(status="aborted", reason="Ctrl-C"), conservation=LOST))
    assert verdict.verdict == "fail"
    assert verdict.reason == "of 10 jobs enqueued: 2 lost (id 7, id 8) (and 1 more)"


def test_a_check_that_raises_is_unknown_and_the_others_still_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def divide_by_zero(self: object, run: RunTables) -> list[Any]:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(find_checks()["order"], "judge", divide_by_zero)
    verdict = judge(make_run(tmp_path))
    (order,) = [finding for finding in verdict.findings if finding.check == "order"]
    assert (order.result, order.reason) == ("unknown", "the check raised ZeroDivisionError: by zero")
    assert {finding.check for finding in verdict.findings} >= set(find_checks())
    assert verdict.verdict == "unknown"
