"""Makes a baseline of one run, from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.pipeline.failures import NoTableError
from stallbench.scenario.model import CONTROL
from stallbench.verdicts.baseline.baseline_file import Baseline, BaselineMetric, BaselineVariant
from stallbench.verdicts.baseline.change import choose_compared
from stallbench.verdicts.baseline.comparability import find_conditions, find_machine, find_primary
from stallbench.verdicts.baseline.compared_metric import ComparedMetric, choose_subjects
from stallbench.verdicts.check import RunTables


def read_run_baseline(path: Path, *, variant: str | None = None, metrics: Sequence[ComparedMetric] | None = None) -> Baseline:
    """Return the baseline of one run. ``variant``: its name in a comparison; ``metrics``: what the comparison compares.

    Raises `BadInputError` if the run was not completed, or if its tables are gone.
    """
    tables = RunTables(path)
    try:
        record = tables.record
        if record.status != "completed" or record.is_observation:
            what = "only a server was observed" if record.is_observation else f"its status is {record.status}; expected completed"
            raise BadInputError(f"{path}: the run cannot be a baseline: {what}")
        engine, version = find_primary(record)
        if not version:
            raise BadInputError(f"{path}: the run cannot be a baseline: the version of its server is not known")
        compared = choose_compared(metrics or choose_subjects([record.scenario]), record.scenario)
        values = {each: tables.metric_or_ratio(each.metric, each.phase, each.relative_to) for each in compared}
    except (NoTableError, FileNotFoundError) as error:
        raise BadInputError(f"{path}: the run cannot be a baseline: {error}; stallbench report makes its tables") from None
    library = record.queue.library
    known = BaselineVariant(
        conditions=find_conditions(record.scenario),
        engine=engine,
        server_version=version,
        library=f"{library.title} {library.version}" if library else None,
        runs=(record.id,),
        metrics={
            subject.key: BaselineMetric(better=subject.better, values=(_round(value),)) for subject, value in values.items()
        },
    )
    return Baseline(
        bench=record.bench.version,
        versions=record.versions,
        scenario=record.scenario.name,
        machine=find_machine(record),
        variants={variant or record.scenario.variant or CONTROL: known},
    )


def _round(value: float | None) -> float | None:
    """Return six significant digits, which is more than a run can measure and keeps the file readable."""
    return None if value is None else float(f"{value:.6g}")
