"""How far from first come, first served were jobs claimed? Told, not judged: a scenario that cares states an expectation."""

from __future__ import annotations

from stallbench.verdicts.check import Check, Finding, RunTables


class Order(Check):
    """Gives the maximum and the 99th percentile of ``Diff_i``; unknown only where a queue that is ordered has no claims."""

    name = "order"
    place = 3

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        histogram = run["order"].sort_values("diff")
        if histogram.empty:
            return [Finding.unknown(self.name, "no claim was recorded, so nothing is known of the order")]
        below = histogram["claims"].cumsum() / histogram["claims"].sum()
        p99 = int(histogram.loc[below >= 0.99, "diff"].iloc[0])
        found = f"jobs were claimed at most {int(histogram['diff'].max()):,} places from their turn, 99 % within {p99:,}"
        kept = "keeps" if run.record["queue"]["ordered"] else "does not promise"
        return [
            Finding(
                check=self.name, subject=f"the queue {kept} the order of enqueueing", result="pass", reason=found, found=found
            )
        ]
