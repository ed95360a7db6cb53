"""Makes a baseline of a soak, from its folder."""

from __future__ import annotations

from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.studies.run_baseline import make_baseline, make_variant
from stallbench.studies.soak.drift import find_drifts
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.regression import find_cycle_record, find_drift_percent, find_last, find_soak_conditions, name_soak
from stallbench.verdicts.baseline.baseline_file import Baseline


def read_soak_baseline(path: Path) -> Baseline:
    """Return the baseline of one soak. Raises `BadInputError` if it was not completed, or if the folders of its cycles are gone."""
    folder = SoakFolder(path)
    record = folder.read()
    if record.status != "completed":
        raise BadInputError(f"{path}: the soak cannot be a baseline: its status is {record.status}; expected completed")
    cycle = find_cycle_record(folder, record)
    if cycle is None:
        raise BadInputError(f"{path}: the soak cannot be a baseline: the folders of its cycles are gone")
    figures = find_last(record) | find_drift_percent(record, find_drifts(record))
    conditions = find_soak_conditions(record.scenario, record.for_s)
    return make_baseline("soak", cycle, {name_soak(record.scenario): make_variant(cycle, conditions, record.id, figures)})
