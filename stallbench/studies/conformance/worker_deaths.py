"""The promises of a library whose own workers are killed at any moment: no crash point is inside the library, for example in its claim.

The run's own checks judge what happened to the jobs, with the time of the rescue that the library's definition gives.
"""

from __future__ import annotations

from pathlib import Path

from stallbench.scenario.model import Scenario
from stallbench.studies.conformance.promise_outcome import PromiseOutcome
from stallbench.studies.torture.judgement import NOT_OF_THE_QUEUE
from stallbench.studies.torture.outcome import PROMISES
from stallbench.studies.torture.plan import TorturePlan
from stallbench.verdicts import Verdict
from stallbench.verdicts.check import WORST_FIRST

_PHASES = frozenset({"before", "kills", "settling"})
"""The names of the run's phases."""


def read_worker_deaths(plan: TorturePlan, folder: Path) -> Scenario:
    """Return the scenario of the run, and write it into ``folder``; raises `stallbench.scenario.file.ScenarioError`."""
    kill = {"kind": "kill", "on": "workers", "every": "2s", "replace_after": "200ms"}
    content = {
        "summary": "Workers are killed one after the other, and replaced.",
        "seed": plan.seed,
        "judge": "reproduced",
        "database": {"engine": plan.engine},
        "queue": {"kind": plan.kind},
        "bystander": {"enabled": False},
        "producers": {"rate": 20, "max_batch": 10},
        "workers": {"count": 3, "work": "20ms", "poll": "300ms"},
        "phases": [
            {"name": "before", "duration": "3s"},
            {"name": "kills", "duration": "10s", "measured": False, "faults": [kill]},
            {"name": "settling", "duration": "30s", "until": "caught_up", "measured": False},
        ],
    }
    return plan.make_scenario(content, _PHASES, folder, "worker-deaths")


def summarise_verdict(verdict: Verdict) -> list[PromiseOutcome]:
    """Return the worst finding of each promise's check, and what else is wrong, if anything. If no worker was killed as planned, nothing is known of any
    promise.
    """
    inactive = [each for each in verdict.findings if each.check == "injections" and each.result != "pass"]
    found = []
    for check, title in PROMISES.items():
        name = f"{title}, while its workers are killed"
        findings = [each for each in verdict.findings if each.check == check]
        worst = min(findings, key=lambda each: WORST_FIRST.index(each.result), default=None)
        if worst is None or inactive:
            reason = inactive[0].reason if inactive else f"the run has no finding of {check}"
            found.append(PromiseOutcome(name=name, result="unknown", reason=reason))
        else:
            found.append(PromiseOutcome(name=name, result=worst.result, reason=worst.reason))
    others = [
        each
        for each in verdict.findings
        if each.result in ("fail", "unknown") and each.check not in PROMISES and each.check not in NOT_OF_THE_QUEUE
    ]
    if others:
        result = min((each.result for each in others), key=WORST_FIRST.index)
        reason = "; ".join(f"{each.check}: {each.reason}" for each in others)
        found.append(PromiseOutcome(name="nothing else is wrong, while its workers are killed", result=result, reason=reason))
    return found
