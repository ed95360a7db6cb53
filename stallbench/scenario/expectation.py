"""The sections ``[[expect]]`` and ``[comparison]``: which metrics matter, in which phases, and within which bounds."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from stallbench.base.section import Section, Text, issue
from stallbench.base.validation_issue import show_value
from stallbench.measure_definition import Better
from stallbench.measures import measure_of, metric_names, split_metric
from stallbench.records.events import parse_error
from stallbench.suggestion import did_you_mean


def require_metric(metric: str) -> str:
    """Return ``metric``; raises `ValueError`, with what is allowed, if there is none of this name."""
    measure = measure_of(metric)
    if measure and split_metric(metric)[1] in measure.statistics:
        return metric
    if measure:
        raise ValueError(f"expected {measure.name} with one of {', '.join(f'.{one}' for one in measure.statistics)}")
    raise ValueError(f"expected a metric that docs/measures.md lists{did_you_mean(metric, metric_names())}")


Metric = Annotated[str, AfterValidator(require_metric)]


def _require_code(code: str) -> str:
    """Return ``code``; raises `ValueError` if no error can have it."""
    if parse_error(code)[0] != code:
        raise ValueError('expected a code as the report names it, like "53100" or "SQLITE_BUSY", without spaces and colons')
    return code


Code = Annotated[str, Field(min_length=1), AfterValidator(_require_code)]


class _MetricInPhase(Section):
    """A metric in a phase, or its ratio to the same metric in another phase."""

    metric: Metric = Field(examples=["claim_ms.p95"])
    phase: str | None = Field(default=None, description="default: the whole run, from the first to the last measured phase")
    relative_to: str | None = Field(default=None, description="a phase; the value is then the ratio to the metric in that phase")

    @field_validator("phase", "relative_to")
    @classmethod
    def _require_metric_of_phases(cls, phase: str | None, info: ValidationInfo) -> str | None:
        measure = measure_of(str(info.data.get("metric")))
        if phase and measure and measure.is_of_run:
            raise issue(f" is given, but {measure.name} is measured over the whole run; leave it out")
        return phase

    @field_validator("relative_to")
    @classmethod
    def _require_another_phase(cls, relative_to: str | None, info: ValidationInfo) -> str | None:
        if relative_to is not None and relative_to == info.data.get("phase"):
            raise issue(f" is {show_value(relative_to)}, the phase itself; expected another phase")
        return relative_to


class Expectation(_MetricInPhase):
    """What the run must show: one metric in one phase, within bounds."""

    at_least: float | None = Field(default=None, description="lower bound")
    at_most: float | None = Field(default=None, description="upper bound")
    codes: tuple[Code, ...] | None = Field(
        default=None,
        strict=False,
        min_length=1,
        description="of the measure `errors`: the codes of the errors that are expected, as the report names them",
        examples=[["53100"]],
    )
    because: Text | None = Field(default=None, description="what it shows, in words, for the report")

    @model_validator(mode="after")
    def _require_codes_of_errors(self) -> Self:
        if self.codes and split_metric(self.metric)[0] != "errors":
            raise issue(f" is given, but {self.metric} does not count errors by their codes; leave it out", key="codes")
        return self

    def limits(self, metric: str) -> bool:
        """Whether it is an upper bound for ``metric`` in the whole run. Such an expectation replaces a check that allows none."""
        return self.metric == metric and self.phase is None and self.at_most is not None

    @model_validator(mode="after")
    def _require_bounds(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise issue(" has no bound; expected at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise issue(
                f" is {self.at_least:.12g}, more than at_most, which is {self.at_most:.12g}; no value meets both", key="at_least"
            )
        return self


class ComparisonColumn(Section):
    """One column of the table that a comparison shows first, with one row for each variant."""

    title: Text = Field(examples=["repeated executions"])
    metric: str = Field(
        examples=["re_executions.count"],
        description="a metric of an expectation, or one that a comparison has of every run, like `lost.count`",
    )
    phase: str | None = Field(default=None, description="default: the whole run")


class RankedBy(_MetricInPhase):
    """A metric of which one of two values is better."""

    metric: Metric = Field(examples=["completed.rate"])
    better: Better = Field(examples=["higher"], description="which of two values is the better one")
    undegraded: float | None = Field(
        default=None,
        description="the metric's value without the problem. Degradation is measured from this value; if it is not given, from the baseline",
    )


class JudgedBy(RankedBy):
    """A metric by which `stallbench compare` decides whether a variant helps, and the variant whose problem it is meant against."""

    reference: Text | None = Field(
        default=None,
        description="the variant whose problem this one is meant against; default: the scenario without a variant",
    )


class ComparisonChoice(RankedBy):
    """What `stallbench compare` ranks the variants by, and which results others have published."""

    published: dict[Text, Annotated[dict[str, float], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="by where they were measured: a figure for each variant; `control` is the scenario without one",
    )
    source: Text | None = Field(default=None, description="where the figures were published")
    columns: tuple[ComparisonColumn, ...] = Field(
        default=(), strict=False, description="columns of a table with a row for each variant, shown before everything else"
    )
