"""Are the records complete?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from stallbench.base.storage.address import AnyPath
from stallbench.records.reading import read_sample_frame
from stallbench.run.record import RunRecord
from stallbench.run.sampling.own_cost import NAME as OWN_COST
from stallbench.verdicts.check import Check, Finding, RunTables
from stallbench.verdicts.slow_statements import read_statements

_SUBJECT = "records are complete"
_COLLECTORS = "collectors"


class RecordsWhole(Check):
    """Fails on torn lines; unknown if a process that started and that no fault killed recorded nothing, if most samples of a collector failed, or if the
    queue's `claim_pattern` finds no statement.

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
            # one that was killed may have died in its first operation, and one that was restarted could not start
            if process.role in ("producer", "worker") and process.intended not in ("killed", "restarted")
        ]
        silent = [name for name in wanted if name not in recorded]
        unsampled, failing = _find_unsampled(run)
        events = sum(file["lines"] - file["torn_lines"] for file in files)
        problems = [
            *([] if events else ["nothing was recorded"]),
            *(f"{lines} torn lines in {name}" for name, lines in torn),
            *([f"no events of {', '.join(silent)}"] if silent else []),
            *([f"no samples of the collectors {', '.join(unsampled)}"] if unsampled else []),
            *(f"{failed} of {taken} samples of the collector {name} failed" for name, (taken, failed) in failing.items()),
            *_find_unmatched_pattern(run),
        ]
        whole = f"{events:,} records, none torn" + (f" except the last ones of {cut_off} killed processes" if cut_off else "")
        return [
            self.finding(
                "fail" if torn else "unknown" if problems else "pass",
                _SUBJECT,
                "; ".join(problems) or whole,
                expected="no torn line, except the last one of a killed process",
            )
        ]


def _find_unmatched_pattern(run: RunTables) -> list[str]:
    """Return that the pattern by which the claim statement is to be found matches none that the server counted, although jobs were claimed."""
    statements, pattern = read_statements(run), run.record.queue.claim_pattern
    if not pattern or not statements or not run.count_events("claimed") or any(each.is_claim for each in statements.values()):
        return []
    return [
        f"the claim_pattern of the queue, {pattern}, matches none of the {len(statements)} statements that the server counted"
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


def _find_unsampled(run: RunTables) -> tuple[list[str], dict[str, tuple[int, int]]]:
    """Return the collectors that never took a complete sample, and those whose samples mostly failed, with the numbers of samples taken and failed.
    Empty if collectors were disabled. If the record does not list its collectors, it may be older than some collectors: then only those that tried to
    sample are expected.
    """
    if not run.record.scenario.collectors.enabled:
        return [], {}
    samples = run.folder / "samples"
    tried = _count_samples(samples / f"{OWN_COST}.csv")
    wanted = tried if run.record.collectors is None else run.record.collectors
    never = [name for name in wanted if not (samples / f"{name}.csv").exists() or name not in tried or _is_all(tried[name])]
    mostly = {name: tried[name] for name in wanted if name not in never and 2 * tried[name][1] > tried[name][0]}
    return never, mostly


def _is_all(counts: tuple[int, int]) -> bool:
    taken, failed = counts
    return taken == failed


def _count_samples(own_cost: AnyPath) -> dict[str, tuple[int, int]]:
    """Return for each collector how many samples it took and how many of them failed, completely or partly. A sample without a record did not fail:
    there may have been nothing to record.
    """
    table = read_sample_frame(own_cost)
    failures = table[table["metric"] == "failures"]
    counts = {}
    for subject, total in failures.groupby("subject")["number"]:
        failed = int((total.diff().fillna(total) > 0).sum())
        counts[str(subject).removeprefix("collector:")] = (len(total), failed)
    return counts
