"""Are the records complete?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from stallbench.collectors.own_cost import NAME as OWN_COST
from stallbench.records.samples import SAMPLE_COLUMNS
from stallbench.run.record import RunRecord
from stallbench.storage.address import AnyPath
from stallbench.verdicts.check import Check, Finding, RunTables

_SUBJECT = "records are complete"
_COLLECTORS = "collectors"


class RecordsWhole(Check):
    """Fails on torn lines; unknown if a process that no fault killed recorded nothing, or a collector has no samples.

    One torn line is allowed: the last line of a file whose process was killed.
    """

    name = "records"
    position = 10

    def judge(self, run: RunTables) -> list[Finding]:
        """Return one finding."""
        files = run["torn"].to_dict("records")
        torn = [(file["file"], lines) for file in files if (lines := _count_unexplained(file, run.record))]
        cut_off = sum(file["torn_lines"] for file in files) - sum(lines for _, lines in torn)
        recorded = {PurePosixPath(file["file"]).stem for file in files}
        wanted = [
            process.name
            for process in run.record.processes
            if process.role in ("producer", "worker") and process.intended != "killed"  # it may have died in its first call
        ]
        silent = [name for name in wanted if name not in recorded]
        unsampled = _find_unsampled(run)
        problems = [
            *(f"{lines} torn lines in {name}" for name, lines in torn),
            *([f"no events of {', '.join(silent)}"] if silent else []),
            *([f"no samples of the collectors {', '.join(unsampled)}"] if unsampled else []),
        ]
        events = sum(file["lines"] - file["torn_lines"] for file in files)
        whole = f"{events:,} records, none torn" + (f" except the last ones of {cut_off} killed processes" if cut_off else "")
        return [
            self.finding(
                "fail" if torn else "unknown" if problems else "pass",
                _SUBJECT,
                "; ".join(problems) or whole,
                expected="no torn line, except the last one of a killed process",
            )
        ]


def _count_unexplained(file: Mapping[Any, Any], record: RunRecord) -> int:
    """Return how many torn lines of a file are not explained by the end of its process."""
    is_explained = bool(file["last_line_torn"]) and _was_killed(PurePosixPath(file["file"]), record)
    return int(file["torn_lines"]) - is_explained


def _was_killed(file: PurePosixPath, record: RunRecord) -> bool:
    """Whether the process that wrote ``file`` was killed at least once, or the run did not complete."""
    name = _COLLECTORS if file.parent.name == "samples" else file.stem
    processes = [process for process in record.processes if process.name == name]
    return record.status != "completed" or any(
        process.intended == "killed" or process.end_ns is None or (process.exit_code or 0) < 0 for process in processes
    )


def _find_unsampled(run: RunTables) -> list[str]:
    """Return the collectors that should have sampled but never took a complete sample; none if collectors were off.

    A record that does not list its collectors may be older than some of today's: those that tried to sample are expected.
    """
    if not run.record.scenario.collectors.enabled:
        return []
    samples = run.folder / "samples"
    tried = _read_failures(samples / f"{OWN_COST}.csv")
    wanted = tried if run.record.collectors is None else run.record.collectors
    return [name for name in wanted if not tried.get(name) or not (samples / f"{name}.csv").exists()]


def _read_failures(own_cost: AnyPath) -> dict[str, bool]:
    """Return for each collector whether at least one sample did not fail. A collector may have measured that there is nothing to record."""
    if not own_cost.exists() or own_cost.stat().st_size == 0:
        return {}
    measured = {}
    with own_cost.open() as file:
        table = pd.read_csv(file, names=list(SAMPLE_COLUMNS), on_bad_lines="skip")
    failures = table[table["metric"] == "failures"]
    for subject, counts in failures.groupby("subject")["value"]:
        total = pd.to_numeric(counts, errors="coerce")
        measured[str(subject).removeprefix("collector:")] = bool((total.diff().fillna(total) <= 0).any())
    return measured
