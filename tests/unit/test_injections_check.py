"""The check of injections: one rule for faults, longrunners and maintenance; maintenance must also have worked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stallbench.verdicts import judge
from tests.unit.made_up_run import make_fault, make_record, make_run

pytestmark = pytest.mark.slow

LONGRUNNER = {"name": "idle_writer-1", "category": "longrunner", "kind": "idle_writer", "on": "primary", "phase": "longtx"}
MAINTENANCE = {"name": "watchdog-1", "category": "maintenance", "kind": "watchdog", "on": "primary"}
FAULT = make_fault("longtx")


def judge_one(tmp_path: Path, injection: dict[str, Any]) -> tuple[str, str]:
    """Return the result and the reason of the only injection of a run."""
    verdict = judge(make_run(tmp_path, make_record(injections=[injection])))
    (finding,) = [finding for finding in verdict.findings if finding.check == "injections"]
    return finding.result, finding.reason


@pytest.mark.parametrize("injection", [FAULT, LONGRUNNER, MAINTENANCE | {"iterations": 2}], ids=lambda one: str(one["category"]))
@pytest.mark.parametrize(
    ("known", "result", "says"),
    [
        ({"verified_ns": 1, "active_to_end": True}, "pass", "was active until its end"),
        ({"verified_ns": None, "active_to_end": None}, "unknown", "was never verified to be active"),
        ({"verified_ns": 1, "active_to_end": None}, "unknown", "was active, but the run ended before the planned end of the"),
        ({"verified_ns": 1, "active_to_end": False, "why_ended": "it is gone"}, "fail", "not active until its end: it is gone"),
        (
            {"verified_ns": 1, "active_to_end": False, "may_be_ended": True, "why_ended": "57P01"},
            "pass",
            "was ended by the server, as the scenario allows: 57P01",
        ),
    ],
)
def test_an_injection_counts_only_if_it_was_verified_and_active_to_its_end(
    tmp_path: Path, injection: dict[str, Any], known: dict[str, Any], result: str, says: str
) -> None:
    found, reason = judge_one(tmp_path, {**injection, "why_ended": "", **known})
    assert (found, says in reason) == (result, True), reason


def test_a_reason_names_the_injection_and_why_it_ended(tmp_path: Path) -> None:
    reason = "fault timeout-1 on primary in phase longtx was not active until its end: Toxiproxy no longer has it"
    assert judge_one(tmp_path, make_fault("longtx", active_to_end=False)) == ("fail", reason)


@pytest.mark.parametrize(
    ("iterations", "errors", "active_to_end", "result"),
    [
        (3, 0, True, "pass"),
        (3, 1, True, "pass"),
        (4, 2, True, "fail"),
        (3, 3, True, "fail"),
        (0, 0, True, "unknown"),
        (0, 0, False, "fail"),
        (1, 0, True, "pass"),
    ],
    ids=["worked", "mostly worked", "half of it failed", "only errors", "no iteration", "exited before an iteration", "once"],
)
def test_maintenance_must_also_have_worked(
    tmp_path: Path, iterations: int, errors: int, active_to_end: bool, result: str
) -> None:
    known = {"verified_ns": 1, "active_to_end": active_to_end, "iterations": iterations}
    met = {"errors": [{"t_ns": number, "what": "55P03: lock timeout"} for number in range(errors)]}
    found, reason = judge_one(tmp_path, {**MAINTENANCE, **known, **met})
    assert found == result
    assert f"it ran {iterations} iteration{'' if iterations == 1 else 's'}" in reason
    assert ("55P03: lock timeout" in reason) == bool(errors)


def test_the_actions_of_maintenance_are_named(tmp_path: Path) -> None:
    actions = [{"t_ns": number, "what": f"ended session {number}"} for number in range(5)]
    known = {"verified_ns": 1, "active_to_end": True, "iterations": 9, "actions": actions}
    _, reason = judge_one(tmp_path, MAINTENANCE | known)
    assert "; it ended session 0, ended session 1, ended session 2 and 2 more" in reason
