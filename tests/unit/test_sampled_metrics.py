"""The metrics of an observation, computed from its samples alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from stallbench.measures import WHOLE_RUN
from stallbench.observe.judgement import judge_expectations
from stallbench.observe.sampled_metrics import SampledRun
from stallbench.verdicts import RunTables
from stallbench.verdicts.expectations import Expectations
from tests.unit.made_up_run import START_NS, make_phases, make_record, make_run

S = 10**9


def observed(
    folder: Path, *lines: str, expect: str = "[]", reason: str = "", uncertain: Sequence[dict[str, Any]] = (), **tables: Any
) -> Path:
    """Write an observation of ten seconds; ``lines``: a second from its start, and the rest of a sample."""
    from stallbench.scenario.file import read_scenario

    scenario = read_scenario("longtx", overrides=[f"expect={expect}", "producers.rate=100"]).model_dump(mode="json")
    phases: list[dict[str, Any]] = make_record()["phases"][:1]
    phase = phases[0] | {"name": "observed", "start_ns": START_NS, "end_ns": START_NS + 10 * S}
    changes = {"is_observation": True, "reason": reason, "uncertain_metrics": list(uncertain)}
    make_run(folder, make_record(scenario=scenario, phases=[phase], **changes), **tables)
    (folder / "samples").mkdir(exist_ok=True)
    text = "".join(f"{START_NS + int(float(second) * S)},{rest}\n" for second, rest in (line.split(",", 1) for line in lines))
    (folder / "samples" / "one.csv").write_text(text)
    return folder


def test_subjects_and_servers_of_one_moment_become_one_value(tmp_path: Path) -> None:
    run = SampledRun(
        observed(
            tmp_path,
            "1,primary,table:a,dead_tuples,10",
            "1,primary,table:b,dead_tuples,5",
            "2,primary,table:a,dead_tuples,30",
            "2,primary,table:b,dead_tuples,not a number",
            "1,primary,server,oldest_transaction_s,3",
            "1,replica-1,server,oldest_transaction_s,8",
            "12,primary,table:a,dead_tuples,999",
        )
    )
    found = {name: run.metric("dead_tuples", name, None) for name in ("first", "last", "min", "max", "mean", "slope", "per_job")}
    assert found == {"first": 15, "last": 30, "min": 15, "max": 30, "mean": 22.5, "slope": 15, "per_job": None}
    assert run.metric("oldest_transaction_s", "max", "observed") == 8


def test_a_counter_counts_its_growth_and_begins_again_after_a_restart(tmp_path: Path) -> None:
    run = SampledRun(
        observed(
            tmp_path,
            *("-1,primary,server,deadlocks,100", "1,primary,server,deadlocks,104", "3,primary,server,deadlocks,2"),
            *(f"{t},primary,claim_statement:1,claim_statement_ms,{t * 10}" for t in (1, 2, 3)),
            *(f"{t},primary,claim_statement:1,claim_statement_calls,{t * 5}" for t in (1, 2, 3)),
        )
    )
    assert run.metric("deadlocks", "count", None) == 6, "a sample before the observation shows the growth of its first one"
    assert run.metric("claim_statement_ms", "mean", None) == 2
    assert run.metric("claim_statement_calls", "rate", None) == 1
    assert run.metric("row_lock_wait_ms", "rate", None) is None


def test_a_share_of_nothing_is_not_known(tmp_path: Path) -> None:
    run = SampledRun(
        observed(tmp_path, *(f"{t},primary,table:a,{name},7" for t in (1, 2) for name in ("updates", "hot_updates")))
    )
    assert run.metric("hot_updates", "count", None) == 0
    assert run.metric("hot_updates", "share", None) is None


EXPECT = '[{metric="depth.last", at_most=2}, {metric="wal_bytes.rate", at_most=1}]'


@pytest.mark.parametrize(
    ("lost", "depth", "verdict", "reason"),
    [
        ("", "1", "unknown", "wal_bytes.rate in the whole run: it was not measured"),
        ("", "5", "fail", "depth.last in the whole run is 5; expected at most 2"),
        (
            "the server was stopped",
            "1",
            "unknown",
            "the server could not be read at the end: the server was stopped (and 1 more)",
        ),
    ],
)
def test_what_is_not_known_does_not_pass(tmp_path: Path, lost: str, depth: str, verdict: str, reason: str) -> None:
    folder = observed(tmp_path, f"1,primary,queue,depth,{depth}", expect=EXPECT, reason=lost)
    found = judge_expectations(folder)
    assert (found.verdict, found.reason) == (verdict, reason)
    cases = [case for suite in JUnitXml.fromfile(str(folder / "junit.xml")) for case in suite]
    assert len(cases) == 2 + bool(lost)


def test_a_report_of_an_observation_that_lost_the_server_does_not_pass_either(tmp_path: Path) -> None:
    """``--report`` and ``stallbench report`` judge by the tables, not by the samples; both read the same record."""
    for lost, result in (("", "pass"), ("the server was stopped", "unknown")):
        (tmp_path / result).mkdir()
        phases = make_phases({(WHOLE_RUN, "depth.last"): 1.0})
        folder = observed(tmp_path / result, expect='[{metric="depth.last", at_most=2}]', reason=lost, phases=phases)
        assert {each.result for each in Expectations().judge(RunTables(folder))} == {"pass", result}


@pytest.mark.parametrize(
    ("bound", "is_at_least", "result", "reason"),
    [
        ("at_most=20000", True, "unknown", "is at least 10,001, and whether it is at most 20,000 is not known: many jobs"),
        ("at_most=20000", False, "unknown", "is 10,001, and whether it is at most 20,000 is not known: many jobs"),
        ("at_least=1", False, "unknown", "is 10,001, and whether it is at least 1 is not known: many jobs"),
        ("at_most=10000", True, "fail", "is 10,001; expected at most 10,000"),
        ("at_most=10000", False, "unknown", "is 10,001, and whether it is at most 10,000 is not known: many jobs"),
        ("at_least=20000", True, "unknown", "is at least 10,001, and whether it is at least 20,000 is not known: many jobs"),
        ("at_least=1", True, "pass", "is 10,001; expected at least 1"),
    ],
)
def test_a_count_that_did_not_see_every_job_decides_an_expectation_only_if_the_other_jobs_could_not_change_it(
    tmp_path: Path, bound: str, is_at_least: bool, result: str, reason: str
) -> None:
    uncertain = {"metric": "depth.max", "why": "many jobs", "is_at_least": is_at_least}
    expect = f'[{{metric="depth.max", {bound}}}, {{metric="depth.last", at_most=20000}}]'
    folder = observed(tmp_path, "1,primary,queue,depth,10001", expect=expect, uncertain=[uncertain])
    first, other = Expectations().judge(SampledRun(folder))
    assert (first.result, first.reason) == (result, f"depth.max in the whole run {reason}")
    assert other.result == "pass", "another statistic is certain"


def test_what_was_not_measured_is_unknown_with_the_reason(tmp_path: Path) -> None:
    uncertain = {"metric": "depth.last", "why": "the count took too long", "is_at_least": False}
    folder = observed(tmp_path, expect='[{metric="depth.last", at_most=2}]', uncertain=[uncertain])
    (finding,) = Expectations().judge(SampledRun(folder))
    assert finding.reason == "depth.last in the whole run: it was not measured: the count took too long"
