"""Where the file of a run's targets is, which `stallbench.exposition.targets` writes. The reaper, which removes it, starts without all that writes it."""

from __future__ import annotations

from pathlib import Path


def name_targets(run: Path) -> Path:
    """Return the path of the targets file of a run."""
    return run.parent / "targets" / f"{run.name}.json"
