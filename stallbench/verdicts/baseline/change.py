"""Decides for each metric whether it is worse than in the baseline, by more than the tolerance and significantly.

Whether a difference is significant can be tested only if the baseline has several runs (`FEWEST_ROUNDS`). With fewer, only the tolerance decides,
and the sentence says so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stallbench.measures import has_direction
from stallbench.scenario.model import Scenario
from stallbench.verdicts.baseline.baseline_file import BaselineVariant
from stallbench.verdicts.baseline.compared_metric import ComparedMetric
from stallbench.verdicts.baseline.statistics import FEWEST_ROUNDS, Difference, adjust, find_unpaired_difference
from stallbench.verdicts.baseline.tolerance import Allowance, Tolerance

_ROUNDING = 1e-9
"""By how much, as a share, a difference may exceed the tolerance only because of how fractions are represented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One metric, to be compared with the baseline."""

    subject: ComparedMetric
    variant: str = ""
    """What a sentence names beside the metric: the variant, in a comparison of several."""
    now: Sequence[float]
    """Values of the runs that are judged."""
    then: Sequence[float]
    """Values of the baseline's runs."""
    obstacle: str = ""
    """Why they cannot be compared; empty if they can."""
    allowance: Allowance | None = None
    """How much worse it may be; as the tolerance says if none."""

    @property
    def title(self) -> str:
        """The metric, and the variant if there are several."""
        return f"{self.variant}: {self.subject.key}" if self.variant else self.subject.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Whether a metric is worse than in the baseline."""

    title: str
    result: Literal["pass", "fail", "unknown"]
    reason: str
    expected: str = ""
    found: str = ""


def choose_compared(subjects: Sequence[ComparedMetric], scenario: Scenario) -> list[ComparedMetric]:
    """Return what is compared with a baseline: what variants are ranked by, and the metrics of expectations that have a direction.

    ``subjects``: of the run, or of its comparison, which also has those of the other variants' expectations: they are left out, because a
    variant may lack what another one is expected to have. ``scenario``: of the run, with its variant.
    """
    own = {(each.metric, each.phase, each.relative_to) for each in scenario.expect}
    return [
        subject
        for subject in subjects
        if subject.role == "ranked"
        or (
            subject.role == "expectation"
            and has_direction(subject.metric)
            and (subject.metric, subject.phase, subject.relative_to) in own
        )
    ]


def ask(
    subject: ComparedMetric, now: Sequence[float], known: BaselineVariant, *, other_cpus: str, variant: str = ""
) -> MetricComparison:
    """Return the question about one metric. ``other_cpus``: that the machines differ; then only ratios within a run are comparable."""
    metric = known.metrics.get(subject.key)
    obstacle = ""
    if metric is None:
        obstacle = "the baseline does not have this metric; write it again: stallbench baseline RUN --output FILE"
    elif not metric.known:
        obstacle = "it was not measured in the baseline"
    elif not now:
        obstacle = "it was not measured"
    elif metric.better != subject.better:
        obstacle = f"{subject.better} is better, and in the baseline {metric.better}"
    elif other_cpus and subject.relative_to is None:
        obstacle = f"{other_cpus}: only ratios to a phase of the same run are comparable"
    return MetricComparison(subject=subject, variant=variant, now=now, then=metric.known if metric else (), obstacle=obstacle)


def find_changes(questions: Sequence[MetricComparison], tolerance: Tolerance, *, seed: int) -> list[Change]:
    """Answer ``questions``, in their order.

    As in a comparison, the differences form two families, each adjusted with Holm's method: those of the ranked metric, and all others.
    ``seed``: of the bootstrap, so that a report that is made again has the same figures.
    """
    differences: dict[int, Difference | None] = {}
    for is_ranked in (True, False):
        family = {
            index: find_unpaired_difference(question.now, question.then, seed=seed)
            for index, question in enumerate(questions)
            if (question.subject.role == "ranked") == is_ranked and not question.obstacle
        }
        differences |= adjust(family)
    return [_decide(question, differences.get(index), tolerance) for index, question in enumerate(questions)]


def _decide(question: MetricComparison, difference: Difference | None, tolerance: Tolerance) -> Change:
    if difference is None:
        return Change(title=question.title, result="unknown", reason=f"{question.title}: {question.obstacle}")
    subject = question.subject
    reference = statistics.fmean(question.then)
    allowance = question.allowance or tolerance.for_metric(subject.metric)
    worse_by = difference.mean if subject.better == "lower" else -difference.mean
    allowed = allowance.of(reference)
    # A limit at exactly the allowed rate is within the tolerance, whatever the subtraction of the two rates leaves in the last digit.
    is_outside = worse_by > allowed and not math.isclose(worse_by, allowed, rel_tol=_ROUNDING)
    significance = _describe_significance(question, difference)
    found = f"{_describe_values(question.now)}, {_describe_change(worse_by, reference, question)}; {significance}"
    expected = _describe_bound(subject, reference, allowance)
    is_regression = is_outside and difference.is_significant is not False
    return Change(
        title=question.title,
        result="fail" if is_regression else "pass",
        reason=f"{question.title} is {found}; expected {expected}, the baseline being {_describe_values(question.then)}",
        expected=expected,
        found=found,
    )


def _describe_significance(question: MetricComparison, difference: Difference) -> str:
    if difference.is_significant is None or difference.adjusted_p is None:
        return (
            f"significance is not known: the baseline has {_count(len(question.then))}, and a test needs {FEWEST_ROUNDS}, "
            "so only the tolerance decides"
        )
    p = "p < 0.001" if difference.adjusted_p < 0.001 else f"p = {difference.adjusted_p:.3f}"
    return f"{'significant' if difference.is_significant else 'not significant'} ({p}, Holm)"


def _describe_change(worse_by: float, reference: float, question: MetricComparison) -> str:
    if worse_by == 0:
        return "as in the baseline"
    word = "worse" if worse_by > 0 else "better"
    is_relative = reference and (question.allowance is None or question.allowance.is_percent)
    return f"{word} by {abs(worse_by / reference):.1%}" if is_relative else f"{word} by {_figure(abs(worse_by))}"


def _describe_bound(subject: ComparedMetric, reference: float, allowance: Allowance) -> str:
    sign = 1 if subject.better == "lower" else -1
    words = "at most" if sign == 1 else "at least"
    return f"{words} {_figure(reference + sign * allowance.of(reference))} (a tolerance of {allowance})"


def _describe_values(values: Sequence[float]) -> str:
    mean = _figure(statistics.fmean(values))
    return mean if len(values) == 1 else f"{mean} in the mean of {_count(len(values))}"


def _count(runs: int) -> str:
    return f"{runs} run{'s' if runs != 1 else ''}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
