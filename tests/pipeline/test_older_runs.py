"""A run that an earlier version recorded can still be reported, from its folder alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from stallbench import PROJECT
from stallbench.run.conclusion import conclude
from stallbench.run.folder import RunFolder


def test_a_run_without_what_has_been_added_since_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "older"
    shutil.copytree(PROJECT / "reports" / "sample", folder, ignore=shutil.ignore_patterns("tables", "report.html"))
    record = json.loads((folder / "run.json").read_text())
    record["scenario"]["producers"].pop("backlog", None)
    for phase in record["scenario"]["phases"]:
        phase.pop("until", None)
    (folder / "run.json").write_text(json.dumps(record))
    verdict = conclude(RunFolder(folder))
    assert verdict.status == "completed"
    assert "jobs/s from" in (folder / "report.html").read_text()
