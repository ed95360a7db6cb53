"""Runs and comparisons of libraries, made out of the sample run, and a page whose tables are written from them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stallbench.studies.comparison.plan import Load, Plan, interleave
from stallbench.studies.comparison.record import ComparisonFolder, begin_comparison
from stallbench.verdicts.baseline.compared_metric import choose_subjects
from tests.unit.made_up_comparison import make_scenario
from tools.library_tables.tables import write_tables

SAMPLE = Path(__file__).resolve().parents[1] / "small_run"
TABLES = (
    "longtx",
    "longtx-common",
    "longtx-replica",
    "longtx-innodb",
    "idle-cost",
    "deep-backlog",
    "faults",
    "rescue",
    "retention",
    "settings",
    "workers",
    "start",
)
MARKERS = "\n".join(f"<!-- {table}: begin -->\n<!-- {table}: end -->" for table in TABLES)
HELD_CHANGES = ("phases.longtx.until=duration", "phases.longtx.jobs=10_000")
COMMON_CHANGES = ("phases.longtx.until=duration", "phases.longtx.jobs=2_500")
README_MARKERS = "<!-- libraries: begin -->\n<!-- libraries: end -->"


def make_run(
    runs: Path,
    run_id: str,
    library: str,
    scenario: str = "worker-crash",
    snapshot: str = "",
    changes: Sequence[str] = (),
    file: str = "",
    exited: Sequence[str] = (),
    **of_scenario: Any,
) -> None:
    """Make a run of a library out of the sample run; workers named in ``exited`` exited although nothing had asked them to."""
    folder = runs / run_id
    shutil.copytree(SAMPLE, folder)
    record = json.loads((folder / "run.json").read_text())
    record["id"] = run_id
    queue = f'queue={{kind="library:{library}"}}'
    record["scenario"] |= {
        "name": scenario,
        "file": file or f"scenarios/{scenario}.toml",
        "changes": [queue, *changes],
        **of_scenario,
    }
    record["queue"]["kind"] = f"library:{library}"
    for process in record["processes"]:
        if process["name"] in exited:
            process |= {"intended": "running", "exit_code": 1}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "final_snapshot.csv").write_text(f"job_id,state\n{snapshot}")


def make_comparison(
    runs: Path,
    date: str,
    capacities: dict[str, float],
    load: Load,
    changes: Sequence[str] | None = None,
    scenario: str = "longtx",
    left_out: Mapping[str, str] | None = None,
) -> None:
    """Make a comparison of libraries with one round, whose runs are copies of the sample run."""
    if changes is None:
        changes = COMMON_CHANGES if load == "common" else HELD_CHANGES
    chosen = {f"library:{name}": make_scenario(name=scenario, variant=None) for name in capacities}
    plan = Plan(
        scenario=make_scenario(name=scenario, file=f"scenarios/{scenario}.toml", changes=tuple(changes)),
        chosen=chosen,
        rounds=1,
        seed=1,
        subjects=choose_subjects(list(chosen.values())),
        runs=tuple(interleave(list(chosen), 1, 1)),
        load=load,
        capacities={f"library:{name}": capacity for name, capacity in capacities.items()},
        left_out={f"library:{name}": reason for name, reason in (left_out or {}).items()},
        measured=("producers.rate=40",) if load == "common" else (),
    )
    begun, record = begin_comparison(plan, runs)
    for run in record.runs:
        run_id = f"{date}T00000{run.number}Z-{scenario}"
        make_run(runs, run_id, run.variant.removeprefix("library:"), scenario)
        record = record.with_run(run.model_copy(update={"status": "completed", "folder": run_id, "verdict": "pass"}))
    folder = ComparisonFolder(begun.path.rename(runs / f"{date}T000000Z-compare-{scenario}"))
    folder.write(record.model_copy(update={"status": "completed", "id": folder.path.name}))


def write(runs: Path, page: Path) -> list[str]:
    return write_tables(runs, [page], page.with_name("README.md"))


def read_section(page: Path, table: str) -> str:
    return page.read_text().partition(f"<!-- {table}: begin -->")[2].partition(f"<!-- {table}: end -->")[0]


def read_row(page: Path, title: str) -> str:
    return next(
        line for line in page.read_text().splitlines() if line.startswith(f"| {title}") and re.search("lost|stranded", line)
    )


def make_page(folder: Path) -> Path:
    """Return a page with markers only, with a README beside it."""
    path = folder / "libraries.md"
    path.write_text(MARKERS)
    (folder / "README.md").write_text(README_MARKERS)
    return path
