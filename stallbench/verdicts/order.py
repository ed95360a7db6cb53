"""How far from first come, first served were jobs claimed, and were any passed over by a queue that says that it keeps the order?"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from stallbench.pipeline.overdue import PASSED_OVER, PATIENCE_S
from stallbench.verdicts.check import Check, Finding, RunTables


def find_percentile(order: pd.DataFrame, share: float) -> int:
    """Return within how many places from their turn ``share`` (0 to 1) of the jobs were claimed; ``order`` is not empty."""
    histogram = order.sort_values("diff")
    below = histogram["claims"].cumsum() / histogram["claims"].sum()
    return int(histogram.loc[below >= share, "diff"].iloc[0])


def describe_overdue(row: Mapping[Hashable, Any], words: str) -> str:
    """Word a row of the table ``overdue``."""
    return f"{int(row['jobs']):,} jobs {words} (for up to {row['longest_s']:.1f} s)"


class Order(Check):
    """Gives the maximum and the 99th percentile of ``Diff_i``; how small they must be, a scenario that cares says by an expectation.

    A queue that keeps the order fails on jobs that were passed over: left waiting when jobs that came later had been claimed for
    `PATIENCE_S` already. A worker may have locked a job and died or stood still before it could say so; so as many as there were workers,
    and claims that raised, are not held against the queue.
    """

    name = "order"
    place = 3

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding; unknown where there are no claims."""
        histogram = run["order"].sort_values("diff")
        if histogram.empty:
            return [Finding.unknown(self.name, "no claim was recorded, so nothing is known of the order")]
        p99 = find_percentile(histogram, 0.99)
        found = f"jobs were claimed at most {int(histogram['diff'].max()):,} places from their turn, 99 % within {p99:,}"
        ordered = run.record["queue"]["ordered"]
        overdue = run["overdue"]
        passed_over = overdue[overdue["kind"] == PASSED_OVER]
        for row in passed_over.to_dict("records"):
            found += f"; {describe_overdue(row, 'were passed over by younger ones')}"
        allowed = _count_unsaid_claims(run)
        wrong = ordered and int(passed_over["jobs"].sum()) > allowed
        return [
            Finding(
                check=self.name,
                subject=f"the queue {'keeps' if ordered else 'does not promise'} the order of enqueueing",
                result="fail" if wrong else "pass",
                reason=found,
                expected=f"at most {allowed} jobs passed over for {PATIENCE_S:g} s or longer" if ordered else "",
                found=found,
                examples=tuple(str(job) for jobs in passed_over["examples"] for job in jobs) if wrong else (),
            )
        ]


def _count_unsaid_claims(run: RunTables) -> int:
    """Count the moments at which a worker may have had a job without having said so."""
    errors = run["errors"]
    raised = errors[(errors["event"] == "error") & (errors["operation"] == "claim")]
    workers = [process for process in run.record["processes"] if process["role"] == "worker"]
    return len(workers) + int(raised["count"].sum())
