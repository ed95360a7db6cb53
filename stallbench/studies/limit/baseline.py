"""Makes a baseline of a search for a limit, from its folder."""

from __future__ import annotations

from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.run.record import RunRecord, read_record
from stallbench.studies.limit.record import Limit, LimitFolder
from stallbench.studies.limit.regression import SUBJECT, find_probe_conditions, name_search
from stallbench.studies.run_baseline import make_baseline, make_variant
from stallbench.verdicts.baseline.baseline_file import Baseline


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
    variants = {
        name_search(record.plan.scenario.variant, limit.horizon): make_variant(
            run, find_probe_conditions(run.scenario, record.plan.slo.text), record.id, {SUBJECT: limit.interval.low}
        )
        for limit, run in zip(limits, runs, strict=True)
    }
    return make_baseline("limit", runs[0], variants)


def _read_record_of(folder: Path, limit: Limit) -> RunRecord:
    """Return the record of a probe: queue and servers are the same in all of them."""
    path = folder / limit.probes[0].run / "run.json"
    if not path.is_file():
        raise BadInputError(f"{folder}: the search cannot be a baseline: the folder of its run {path.parent.name} was removed")
    return read_record(path)
