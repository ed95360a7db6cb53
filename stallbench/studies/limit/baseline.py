"""Makes a baseline of a search for a limit, from its folder."""

from __future__ import annotations

from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.run.record import RunRecord, read_record
from stallbench.studies.limit.record import Limit, LimitFolder, LimitRecord
from stallbench.studies.limit.regression import find_probe_conditions, name_search
from stallbench.verdicts.baseline.baseline_file import Baseline, BaselineMetric, BaselineVariant
from stallbench.verdicts.baseline.comparability import find_machine, find_primary
from stallbench.verdicts.baseline.tolerance import SUSTAINED_RATE


def read_limit_baseline(folder: Path) -> Baseline:
    """Return the baseline of one search. Raises `BadInputError` if the search did not complete, or if the folders of its runs were removed."""
    record = LimitFolder(folder).read()
    if record.status != "completed":
        raise BadInputError(f"{folder}: the search cannot be a baseline: its status is {record.status}; expected completed")
    limits = record.find_limits()
    for limit in limits:
        if not limit.interval.is_bounded or not limit.is_complete:
            raise BadInputError(
                f"{folder}: the search cannot be a baseline: with the horizon {limit.horizon} its limit was not found in time; "
                "go on with --continue, or search only for the other limit with --horizon"
            )
    runs = [_read_record_of(folder, limit) for limit in limits]
    variants = dict(_read_limit(record, limit, run) for limit, run in zip(limits, runs, strict=True))
    run = runs[0]
    return Baseline(
        kind="limit",
        bench=run.bench.version,
        versions=run.versions,
        scenario=run.scenario.name,
        machine=find_machine(run),
        variants=variants,
    )


def _read_record_of(folder: Path, limit: Limit) -> RunRecord:
    """Return the record of a probe: queue and servers are the same in all of them."""
    path = folder / limit.probes[0].run / "run.json"
    if not path.is_file():
        raise BadInputError(f"{folder}: the search cannot be a baseline: the folder of its run {path.parent.name} was removed")
    return read_record(path)


def _read_limit(record: LimitRecord, limit: Limit, run: RunRecord) -> tuple[str, BaselineVariant]:
    engine, version = find_primary(run)
    library = run.queue.library
    variant = BaselineVariant(
        conditions=find_probe_conditions(run.scenario, record.plan.slo.text),
        engine=engine,
        server_version=version,
        library=f"{library.title} {library.version}" if library else None,
        runs=(record.id,),
        metrics={SUSTAINED_RATE: BaselineMetric(better="higher", values=(limit.interval.low,))},
    )
    return name_search(record.plan.scenario.variant, limit.horizon), variant
