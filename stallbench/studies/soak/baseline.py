"""Makes a baseline of a soak, from its folder."""

from __future__ import annotations

from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.studies.soak.drift import find_drifts
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.regression import find_cycle_record, find_drift_percent, find_last, find_soak_conditions, name_soak
from stallbench.verdicts.baseline.baseline_file import Baseline, BaselineMetric, BaselineVariant
from stallbench.verdicts.baseline.comparability import find_machine, find_primary


def read_soak_baseline(path: Path) -> Baseline:
    """Return the baseline of one soak. Raises `BadInputError` if it was not completed, or if the folders of its cycles are gone."""
    folder = SoakFolder(path)
    record = folder.read()
    if record.status != "completed":
        raise BadInputError(f"{path}: the soak cannot be a baseline: its status is {record.status}; expected completed")
    cycle = find_cycle_record(folder, record)
    if cycle is None:
        raise BadInputError(f"{path}: the soak cannot be a baseline: the folders of its cycles are gone")
    engine, version = find_primary(cycle)
    library = cycle.queue.library
    figures = find_last(record) | find_drift_percent(record, find_drifts(record))
    return Baseline(
        kind="soak",
        bench=record.bench.version,
        versions=cycle.versions,
        scenario=record.scenario.name,
        machine=find_machine(cycle),
        variants={
            name_soak(record.scenario): BaselineVariant(
                conditions=find_soak_conditions(record.scenario, record.for_s),
                engine=engine,
                server_version=version,
                library=f"{library.title} {library.version}" if library else None,
                runs=(record.id,),
                metrics={
                    subject.key: BaselineMetric(better=subject.better, values=(float(f"{value:.6g}"),))
                    for subject, value in figures.items()
                },
            )
        },
    )
