"""What was decided against a baseline (``--against``), as the findings of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console

from stallbench.report.outcome_text import VerdictWords, word_baseline
from stallbench.report.terminal import format_finding, format_words
from stallbench.run.record import RunRecord
from stallbench.scenario.model import Scenario
from stallbench.verdicts.baseline.against import BaselineChoice
from stallbench.verdicts.baseline.baseline_file import BaselineVariant, Kind
from stallbench.verdicts.baseline.change import Change, MetricComparison, find_changes
from stallbench.verdicts.baseline.comparability import (
    Conditions,
    describe_minor_differences,
    describe_other_cpus,
    find_machine,
    find_obstacle_to,
)
from stallbench.verdicts.check import WORST_FIRST, Finding, Result, Severity

CHECK = "regression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a study measured of one variant."""

    variant: str
    """Its name in a baseline."""
    missing: str = ""
    """Why it cannot be compared, whatever the baseline is; empty if it can."""
    runs: Sequence[RunRecord]
    """What it was measured in, or one run of that."""
    conditions: Callable[[Scenario], Conditions]
    """Returns what must be the same, from the scenario of a run."""
    ask: Callable[[BaselineVariant, str], Iterable[MetricComparison | Finding]]
    """Yields a question for each metric, and what else is to be said. Takes the baseline's variant, and that the machine has other CPUs, if it does."""


def find_regressions(
    against: BaselineChoice | None, kind: Kind, scenario: str, measured: Iterable[Measured], *, seed: int
) -> tuple[Finding, ...]:
    """Return a finding for each metric that is compared with the baseline, and what else is to be said; empty without a baseline.

    ``kind``: what was measured. ``scenario``: its name. ``seed``: of the bootstrap.
    """
    if against is None:
        return ()
    baseline = against.baseline
    questions: list[MetricComparison] = []
    findings: list[Finding] = []
    for each in measured:
        if each.variant not in baseline.variants and (scenario, kind) == (baseline.scenario, baseline.kind):
            what = "searches" if kind == "limit" else f"{kind}s"
            findings.append(make_finding(each.variant, "info", f"the baseline has no {what} of it"))
            continue
        obstacles = (find_obstacle_to(baseline, kind, each.variant, run, each.conditions(run.scenario)) for run in each.runs)
        if each.missing:
            findings.append(make_finding(each.variant, "unknown", each.missing))
        elif obstacle := next(filter(None, obstacles), ""):
            findings.append(make_finding(each.variant, "unknown", f"cannot be compared with the baseline: {obstacle}"))
        else:
            run = each.runs[0]
            for asked in each.ask(baseline.variants[each.variant], describe_other_cpus(find_machine(run), baseline.machine)):
                if isinstance(asked, Finding):
                    findings.append(asked)
                else:
                    questions.append(asked)
            if differences := describe_minor_differences(baseline, each.variant, run):
                findings.append(make_finding(each.variant, "info", f"compared with the baseline although {differences}"))
    return (*map(_as_finding, find_changes(questions, against.tolerance, seed=seed)), *findings)


def _as_finding(change: Change) -> Finding:
    return Finding(
        check=CHECK,
        subject=f"{change.title} against the baseline",
        result=change.result,
        reason=change.reason,
        severity=Severity.REGRESSION,
        expected=change.expected,
        found=change.found,
    )


def make_finding(variant: str, result: Result, reason: str) -> Finding:
    """Return a finding about a variant as a whole."""
    return Finding(
        check=CHECK,
        subject=f"{variant} against the baseline",
        result=result,
        reason=f"{variant}: {reason}",
        severity=Severity.REGRESSION,
    )


def decide_regressions(regressions: tuple[Finding, ...]) -> Result | None:
    """Return ``fail`` if a finding fails, else ``unknown`` if one is unknown or none could be decided, else ``pass``; none without findings."""
    if not regressions:
        return None
    decided = {finding.result for finding in regressions} - {"info"}
    return min(decided, key=WORST_FIRST.index, default="unknown")


def word_regressions(regressions: tuple[Finding, ...]) -> VerdictWords | None:
    """Return what the comparison with the baseline has shown; none without findings."""
    result = decide_regressions(regressions)
    return word_baseline(result) if result else None


def print_regressions(regressions: tuple[Finding, ...], console: Console) -> None:
    """Print a line for each finding, and what they show together; nothing if there is none."""
    for finding in regressions:
        console.print(format_finding(finding))
    if words := word_regressions(regressions):
        console.print(format_words(words))
