"""Are the records whole?"""

from __future__ import annotations

from pathlib import Path

from stallbench.verdicts.check import Check, Finding, RunTables


class RecordsWhole(Check):
    """Counts torn lines, and looks for every process's log and every collector's samples."""

    name = "records"
    place = 8

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        torn = run["torn"]
        lines = int(torn["torn_lines"].sum())
        there = {Path(file).stem for file in torn["file"]}
        wanted = [p["name"] for p in run.record["processes"] if p["role"] in ("producer", "worker")]
        silent = [name for name in wanted if name not in there]
        sampled = run.record["scenario"]["collectors"]["enabled"]
        no_samples = sampled and not any((run.folder / "samples").glob("*.csv"))
        faults = [
            *([f"{lines} torn lines were left out"] if lines else []),
            *([f"nothing is recorded of {', '.join(silent)}"] if silent else []),
            *(["no samples were taken"] if no_samples else []),
        ]
        reason = "; ".join(faults) or f"{int(torn['lines'].sum()):,} events, none torn"
        return [
            Finding(
                check=self.name,
                subject="records are whole",
                result="unknown" if silent or no_samples else "pass",
                reason=reason,
                found=reason,
            )
        ]
