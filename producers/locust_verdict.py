"""The result of Locust's own test: its statistics compared with its bounds, as an exit code and as a file in the run's folder."""

from __future__ import annotations

from pathlib import Path

import locust.stats
from pydantic import BaseModel

from stallbench.base.storage.atomic_file import replace_file
from stallbench.scenario.locust_bounds import LocustBounds, Statistic


class LocustJudgement(BaseModel):
    """What Locust found, in ``locust/<process>.json`` of the run's folder."""

    result: str
    """``pass`` or ``fail``."""
    requests: int
    failures: int
    response_ms: dict[Statistic, float]
    bounds: LocustBounds
    reasons: tuple[str, ...]
    """Why it failed, one sentence each; empty if it passed."""

    def describe(self) -> str:
        """Return it as one sentence."""
        times = ", ".join(f"{name} {value:g} ms" for name, value in self.response_ms.items())
        found = f"{self.requests:,} requests, {self.failures:,} failed; {times}"
        return f"Locust: {self.result}: {'; '.join((*self.reasons, found))}"

    def write(self, path: Path) -> None:
        """Write it to ``path``, whose folder exists; a link there is replaced."""
        replace_file(path, self.model_dump_json(indent=1))


def judge(stats: locust.stats.StatsEntry, bounds: LocustBounds, exceptions: int) -> LocustJudgement:
    """Check the statistics of all requests against ``bounds``. ``exceptions``: number of exceptions that were no failed requests."""
    times: dict[Statistic, float] = {
        "p50": stats.get_response_time_percentile(0.5),
        "p95": stats.get_response_time_percentile(0.95),
        "p99": stats.get_response_time_percentile(0.99),
        "max": round(stats.max_response_time, 3),
        "mean": round(stats.avg_response_time, 3),
    }
    reasons = []
    if not stats.num_requests:
        reasons.append("there was no request")
    if stats.fail_ratio > bounds.max_failure_ratio:
        reasons.append(f"{stats.fail_ratio:.2%} of the requests failed; expected at most {bounds.max_failure_ratio:.2%}")
    reasons += [
        f"response time {name} is {times[name]:g} ms; expected at most {at_most:g}"
        for name, at_most in bounds.at_most_ms.items()
        if times[name] > at_most
    ]
    if exceptions:
        reasons.append(f"users raised {exceptions:,} exceptions outside requests")
    return LocustJudgement(
        result="fail" if reasons else "pass",
        requests=stats.num_requests,
        failures=stats.num_failures,
        response_ms=times,
        bounds=bounds,
        reasons=tuple(reasons),
    )


def keep_fractions_of_ms() -> None:
    """Make Locust keep two digits of response times below 10 ms: a call of a queue rarely takes a whole millisecond."""
    usual = locust.stats.bucket_response_time

    def bucket(response_time: float) -> float:
        if response_time >= 10:
            return usual(response_time)
        return round(response_time, 1 if response_time >= 1 else 2)

    locust.stats.bucket_response_time = bucket  # type: ignore[assignment] # any number will do as a key
