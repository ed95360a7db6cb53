"""Is the run worse than the baseline that it is compared with (``--against``)?"""

from __future__ import annotations

from stallbench.scenario.model import CONTROL
from stallbench.verdicts.baseline.against import BaselineChoice, read_against
from stallbench.verdicts.baseline.compared_metric import choose_subjects
from stallbench.verdicts.check import Check, Finding, RunTables, Severity

_SUBJECT = "no regression"


class Regression(Check):
    """Compares the ranked metric and those of the expectations with the values in ``against.json``. It fails if a value is worse by more than the
    tolerance. If the baseline has enough runs for a test, the difference must also be significant.
    """

    name = "regression"
    position = 0
    severity = Severity.REGRESSION

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each metric; info if the run was not compared with a baseline."""
        against = read_against(run.folder)
        if against is None:
            return [self.not_applicable(_SUBJECT, "the run was not compared with a baseline file (--against)")]
        return self._compare(run, against)

    def _compare(self, run: RunTables, against: BaselineChoice) -> list[Finding]:
        # importing SciPy takes longer than all other checks
        from stallbench.verdicts.baseline.change import ask, choose_compared, find_changes
        from stallbench.verdicts.baseline.comparability import (
            describe_minor_differences,
            describe_other_cpus,
            find_machine,
            find_obstacle,
        )

        record, baseline = run.record, against.baseline
        variant = record.scenario.variant or CONTROL
        if obstacle := find_obstacle(baseline, variant, record):
            return [self.unknown(_SUBJECT, f"the run cannot be compared with the baseline: {obstacle}")]
        other_cpus = describe_other_cpus(find_machine(record), baseline.machine)
        questions = []
        for subject in choose_compared(choose_subjects([record.scenario]), record.scenario):
            value = run.metric_or_ratio(subject.metric, subject.phase, subject.relative_to)
            values = [] if value is None else [value]
            questions.append(ask(subject, values, baseline.variants[variant], other_cpus=other_cpus))
        changes = find_changes(questions, against.tolerance, seed=record.seed)
        findings = [
            self.finding(
                change.result,
                f"{change.title} against the baseline",
                change.reason,
                expected=change.expected,
                found=change.found,
            )
            for change in changes
        ]
        if differences := describe_minor_differences(baseline, variant, record):
            findings.append(self.not_applicable(_SUBJECT, f"compared with the baseline although {differences}"))
        return findings
