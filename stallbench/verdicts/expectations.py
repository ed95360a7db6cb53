"""Does each expectation of the scenario hold?"""

from __future__ import annotations

from stallbench.base.number_text import format_value
from stallbench.measures import MEASURES
from stallbench.run.record import RunRecord
from stallbench.scenario.description import describe_bounds
from stallbench.scenario.expectation import Expectation
from stallbench.verdicts.check import Check, Finding, RunTables, Severity

_SEVERITY_OF_EXCESS = {
    "lost": Severity.JOBS_LOST,
    "re_completed": Severity.JOBS_REPEATED,
    "re_executions": Severity.JOBS_REPEATED,
}
"""How severe it is that a measure exceeds its upper bound: such an expectation replaces the check that would have failed otherwise."""

_BUSIER_BY_PERCENT = 20.0
"""By how much more the host's CPUs must be in use than in the other phase to be named beside a ratio of times or rates that fails."""


class Expectations(Check):
    """Compares each ``[[expect]]`` of the scenario with the table of phases."""

    name = "expectations"
    position = 0
    severity = Severity.EXPECTATION
    judges_observations = True
    judges_figures = True

    def judge(self, run: RunTables) -> list[Finding]:
        """Return a finding for each expectation; info if the scenario has none."""
        findings = [self._judge_one(run, expectation) for expectation in run.record.scenario.expect]
        if findings and run.record.is_observation and run.record.reason:  # the last values are old
            lost = f"the server could not be read at the end: {run.record.reason}"
            findings.append(self.finding("unknown", "the server is read to the end", lost, severity=Severity.RUN_INCOMPLETE))
        return findings or [self.not_applicable("expectations hold", _describe_none(run.record))]

    def _judge_one(self, run: RunTables, expectation: Expectation) -> Finding:
        measure, _, statistic = expectation.metric.partition(".")
        relative_to = expectation.relative_to
        subject = f"{expectation.metric} in {expectation.phase or 'the whole run'}"
        unit = MEASURES[measure].unit_of(statistic)
        expected, because = describe_bounds(expectation, unit), expectation.because or ""
        value = run.metric(measure, statistic, expectation.phase)
        base = None if relative_to is None else run.metric(measure, statistic, relative_to)
        uncertain = next((one for one in run.record.uncertain_metrics if one.metric == expectation.metric), None)
        missing = "it was not measured" if value is None else ""
        if missing and uncertain:
            missing += f": {uncertain.why}"
        if not missing and relative_to is not None and not base:
            missing = f"the ratio cannot be computed: in {relative_to} it is {'unknown' if base is None else 'zero'}"
        if value is None or missing:
            return self.finding("unknown", subject, f"{subject}: {missing}", expected=expected, because=because)
        compared, found = value, format_value(value, unit)
        if base:
            compared = value / base
            found = f"{_format_ratio(compared)} times {relative_to} ({found} against {format_value(base, unit)})"
        is_too_low = expectation.at_least is not None and compared < expectation.at_least
        is_too_high = expectation.at_most is not None and compared > expectation.at_most
        fails = is_too_low or is_too_high
        is_certain = uncertain is None or (
            uncertain.is_at_least and (is_too_high or not (is_too_low or expectation.at_most is not None))
        )
        if uncertain and not is_certain:
            found = f"at least {found}" if uncertain.is_at_least else found
            reason = f"{subject} is {found}, and whether it is {expected} is not known: {uncertain.why}"
            return self.finding("unknown", subject, reason, expected=expected, found=found, because=because)
        machine = _describe_busier_machine(run, expectation, unit) if fails else ""
        return self.finding(
            "fail" if fails else "pass",
            subject,
            f"{subject} is {found}; expected {expected}{machine}",
            severity=_SEVERITY_OF_EXCESS.get(measure, self.severity) if is_too_high else self.severity,
            expected=expected,
            found=found,
            because=because,
        )


def _describe_none(record: RunRecord) -> str:
    if record.scenario.require:
        return "the run is judged by what is required of the queue"
    return "there are no expectations" if record.is_observation else "the scenario has no expectations"


def _describe_busier_machine(run: RunTables, expectation: Expectation, unit: str) -> str:
    """Say that the machine was busier than in the other phase, to follow a reason; empty if it was not, or if the measure is no time or rate.

    Whether that is the cause is not known: a queue that degrades uses more processor time, too.
    """
    phase, other = expectation.phase, expectation.relative_to
    if other is None or unit.rpartition("/")[-1] not in ("ms", "s"):
        return ""
    here, there = (run.metric("cpu_percent", "mean", name) for name in (phase, other))
    if here is None or there is None or here < there + _BUSIER_BY_PERCENT:
        return ""
    return f". The machine's CPUs were {here:.0f} % in use in {phase or 'the whole run'}, and {there:.0f} % in {other}"


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.005 or ratio <= 0 else "less than 0.01"
