"""The figures of each run behind the table in docs/libraries-in-faults.md, as a file beside the page: the folders of the runs are not kept."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

from stallbench.base.storage.atomic_file import replace_file
from stallbench.run.record import RunRecord
from tools.library_tables.figures import FOLDER
from tools.library_tables.library_run import BASELINE, LibraryRun

LINK = FOLDER / "faults.csv"
"""The file, from the folder of the page."""
_OUTCOMES = ("lost", "done without a recorded completion", "stranded", "re-executed", "re-completed")
_TITLES = (
    *("library", "scenario", "run", "seed", "servers", "status", "verdict", "reason"),
    *("jobs enqueued", "jobs completed"),
    *_OUTCOMES,
    *("workers", "workers exited", "s to its rate", "buffers per claim, baseline", "buffers per claim, held"),
)


def format_began(record: RunRecord) -> str:
    """Return when a run began, as a link to the file with its figures."""
    return f"[{record.id.partition('-')[0]}]({LINK})"


def write_fault_figures(page: Path, found: Mapping[tuple[str, str], LibraryRun], section: str) -> None:
    """Write a line for each of ``found``, the runs by library and column of the table, and keep those of other runs to which ``section`` still links."""
    path = page.parent / LINK
    rows = {
        (row["library"], row["scenario"]): row for row in _read(path) if f"[{row['run'].partition('-')[0]}]({LINK})" in section
    }
    rows |= {
        (row["library"], column): row | {"scenario": column}
        for (_, column), row in zip(found, map(_describe, found.values()), strict=True)
    }
    if not rows:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, _TITLES, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[key] for key in sorted(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.getvalue())


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _describe(run: LibraryRun) -> dict[str, str]:
    """Return the line of a run; what an ended run has no tables for is empty."""
    record = run.tables.record
    exited, workers = run.count_exited_workers()
    library = record.queue.library
    row: dict[str, object] = {
        "library": f"{library.title} {library.version}" if library else run.name,
        "run": record.id,
        "seed": record.seed,
        "servers": " ".join(dict.fromkeys(f"{server.engine} {server.version}" for server in record.servers)),
        "status": record.status,
        "reason": _without_folder(record.reason, record.id),
        "workers": workers,
        "workers exited": exited,
    }
    if run.has_tables():
        verdict = run.read_verdict()
        held = next((phase.name for phase in record.scenario.phases if phase.longrunners), None)
        row |= {
            "verdict": verdict.verdict,
            "reason": _without_folder(record.reason or verdict.reason, record.id),
            "jobs enqueued": run.tables.state_count("enqueued"),
            "jobs completed": run.tables.state_count("completed"),
            **run.count_outcomes(),
            "s to its rate": run.metric("recovery_s.to_rate", None),
            "buffers per claim, baseline": run.metric("claim_statement_buffers.per_call", BASELINE),
            "buffers per claim, held": run.metric("claim_statement_buffers.per_call", held) if held else None,
        }
    return {title: _format(row.get(title)) for title in _TITLES}


def _without_folder(reason: str, run_id: str) -> str:
    """Return a reason in which the path of the run's folder, on the machine that made the run, begins with the run's name."""
    return re.sub(rf"\S*/(?={re.escape(run_id)}\b)", "", reason)


def _format(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)
