"""Makes baselines: of one run from its folder, and of what other studies measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.pipeline.failures import NoTableError
from stallbench.run.record import RunRecord
from stallbench.scenario.model import CONTROL
from stallbench.verdicts.baseline.baseline_file import Baseline, BaselineMetric, BaselineVariant, Kind
from stallbench.verdicts.baseline.change import choose_compared
from stallbench.verdicts.baseline.comparability import Conditions, find_conditions, find_machine, find_primary
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
        if not find_primary(record)[1]:
            raise BadInputError(f"{path}: the run cannot be a baseline: the version of its server is not known")
        compared = choose_compared(metrics or choose_subjects([record.scenario]), record.scenario)
        values = {each: tables.metric_or_ratio(each.metric, each.phase, each.relative_to) for each in compared}
    except (NoTableError, FileNotFoundError) as error:
        raise BadInputError(f"{path}: the run cannot be a baseline: {error}; stallbench report makes its tables") from None
    known = make_variant(record, find_conditions(record.scenario), record.id, values)
    return make_baseline("run", record, {variant or record.scenario.variant or CONTROL: known})


def make_variant(
    run: RunRecord, conditions: Conditions, name: str, figures: Mapping[ComparedMetric, float | None]
) -> BaselineVariant:
    """Return one variant of a baseline. ``run``: that was measured, or a part of it. ``name``: of the folder of what was measured."""
    engine, version = find_primary(run)
    library = run.queue.library
    return BaselineVariant(
        conditions=conditions,
        engine=engine,
        server_version=version,
        library=f"{library.title} {library.version}" if library else None,
        runs=(name,),
        metrics={
            subject.key: BaselineMetric(better=subject.better, values=(_round(value),)) for subject, value in figures.items()
        },
    )


def make_baseline(kind: Kind, run: RunRecord, variants: Mapping[str, BaselineVariant]) -> Baseline:
    """Return a baseline of what was measured by one process on one machine, as ``run`` was."""
    return Baseline(
        kind=kind,
        bench=run.bench.version,
        versions=run.versions,
        scenario=run.scenario.name,
        machine=find_machine(run),
        variants=dict(variants),
    )


def _round(value: float | None) -> float | None:
    """Return six significant digits, which is more than a run can measure and keeps the file readable."""
    return None if value is None else float(f"{value:.6g}")
