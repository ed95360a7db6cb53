"""What Locust itself holds its requests to, so that its own pass or fail is about what the scenario expects of the enqueues."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from stallbench.scenario.model import Scenario

LOCUST_FAILS = 1
"""Exit code of a Locust process whose bounds do not hold."""

Statistic = Literal["p50", "p95", "p99", "max", "mean"]


class LocustBounds(BaseModel):
    """Locust fails when one of them does not hold over its whole test."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_failure_ratio: float = Field(default=0, ge=0, le=1, description="of its requests that failed, to all of them")
    at_most_ms: dict[Statistic, float] = Field(default={}, description="response times, by statistic")


def bounds_of(scenario: Scenario) -> LocustBounds:
    """Return those of a scenario's expectations that Locust can judge: absolute ones on ``enqueue_ms`` in the whole run."""
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
