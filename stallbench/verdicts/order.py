"""How far from first come, first served were jobs claimed? Told, not judged: a scenario that cares states an expectation."""

from __future__ import annotations

import pandas as pd

from stallbench.verdicts.check import Check, Finding, RunTables


def find_percentile(order: pd.DataFrame, share: float) -> int:
    """Return within how many places from their turn ``share`` (0 to 1) of the jobs were claimed; ``order`` is not empty."""
    histogram = order.sort_values("diff")
    below = histogram["claims"].cumsum() / histogram["claims"].sum()
    return int(histogram.loc[below >= share, "diff"].iloc[0])


class Order(Check):
    """Gives the maximum and the 99th percentile of ``Diff_i``; unknown only where a queue that is ordered has no claims."""

    name = "order"
    place = 3

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        histogram = run["order"].sort_values("diff")
        if histogram.empty:
            return [Finding.unknown(self.name, "no claim was recorded, so nothing is known of the order")]
        p99 = find_percentile(histogram, 0.99)
        found = f"jobs were claimed at most {int(histogram['diff'].max()):,} places from their turn, 99 % within {p99:,}"
        kept = "keeps" if run.record["queue"]["ordered"] else "does not promise"
        return [
            Finding(
                check=self.name, subject=f"the queue {kept} the order of enqueueing", result="pass", reason=found, found=found
            )
        ]
