"""Makes a baseline of a search for a limit, from its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stallbench.errors import BadInputError
from stallbench.regression.baseline_file import Baseline, BaselineMetric, BaselineVariant
from stallbench.regression.comparability import find_machine, find_primary
from stallbench.regression.tolerance import SUSTAINED_RATE
from stallbench.run.folder import LIMIT
from stallbench.run.record import RunRecord, read_record
from stallbench.storage.format import require_format
from stallbench.studies.limit.record import FORMAT
from stallbench.studies.limit.regression import find_probe_conditions, name_search


def read_limit_baseline(folder: Path) -> Baseline:
    """Return the baseline of one search. Raises `BadInputError` if the search did not complete, or if the folders of its runs were removed."""
    path = folder / LIMIT
    try:
        content = json.loads(path.read_text())
        require_format(content, FORMAT, str(path), "search for the limit again, or read it with the version that wrote it")
        if content["status"] != "completed":
            raise BadInputError(
                f"{folder}: the search cannot be a baseline: its status is {content['status']}; expected completed"
            )
        for limit in content["limits"]:
            _require_found(folder, limit)
        records = [_read_record_of(folder, limit) for limit in content["limits"]]
        variants = dict(
            _read_limit(folder, content, limit, record) for limit, record in zip(content["limits"], records, strict=True)
        )
        record = records[0]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInputError(f"{path}: not a search's record: {type(error).__name__}: {error}") from None
    return Baseline(
        kind="limit",
        bench=record.bench.version,
        versions=record.versions,
        scenario=record.scenario.name,
        machine=find_machine(record),
        variants=variants,
    )


def _require_found(folder: Path, limit: Mapping[str, Any]) -> None:
    interval = limit["interval"]
    if interval["low"] is None or interval["high"] is None or not limit["is_complete"]:
        raise BadInputError(
            f"{folder}: the search cannot be a baseline: with the horizon {limit['horizon']} its limit was not found in time; "
            "search again with a longer --within, or only for the other limit with --horizon"
        )


def _read_record_of(folder: Path, limit: Mapping[str, Any]) -> RunRecord:
    """Return the record of a probe: queue and servers are the same in all of them."""
    path = folder / limit["probes"][0]["run"] / "run.json"
    if not path.is_file():
        raise BadInputError(f"{folder}: the search cannot be a baseline: the folder of its run {path.parent.name} was removed")
    return read_record(path)


def _read_limit(
    folder: Path, content: Mapping[str, Any], limit: Mapping[str, Any], record: RunRecord
) -> tuple[str, BaselineVariant]:
    engine, version = find_primary(record)
    library = record.queue.library
    variant = BaselineVariant(
        conditions=find_probe_conditions(record.scenario, content["slo"]["text"]),
        engine=engine,
        server_version=version,
        library=f"{library.title} {library.version}" if library else None,
        runs=(folder.name,),
        metrics={SUSTAINED_RATE: BaselineMetric(better="higher", values=(limit["interval"]["low"],))},
    )
    return name_search(content["variant"], limit["horizon"]), variant
