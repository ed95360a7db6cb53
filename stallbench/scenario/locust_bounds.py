"""The bounds of Locust's own test: the scenario's expectations on enqueues."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stallbench.scenario.model import Scenario

LOCUST_FOLDER = "locust"
"""The folder of Locust's own results, in a run's folder."""

LOCUST_FAILS = 1
"""Exit code of a Locust process that exceeded a bound."""

Statistic = Literal["p50", "p95", "p99", "max", "mean"]


class LocustBounds(BaseModel):
    """Bounds over the whole test; Locust fails if one is exceeded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_failure_ratio: float = Field(default=0, ge=0, le=1, description="share of its requests that may fail")
    at_most_ms: dict[Statistic, float] = Field(default={}, description="largest response time, by statistic")


def bounds_of(scenario: Scenario) -> LocustBounds:
    """Return the expectations that Locust can judge: absolute upper bounds on ``enqueue_ms`` over the whole run."""
    return LocustBounds.model_validate(
        {
            "max_failure_ratio": scenario.producers.max_failure_ratio,
            "at_most_ms": {
                one.metric.removeprefix("enqueue_ms."): one.at_most
                for one in scenario.expect
                if one.metric.startswith("enqueue_ms.")
                and one.phase is None
                and one.relative_to is None
                and one.at_most is not None
            },
        }
    )
