"""A published run, read as if its folder were there: outcome and verdict are computed from its document by the same functions as from the folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from stallbench.evidence.document import FoundBefore, RepeatedJobs, RunDocument
from stallbench.measures import WHOLE_RUN
from stallbench.pipeline.tables import schema_of, to_pandas
from stallbench.run.record import RunRecord
from stallbench.scenario.model import Scenario
from stallbench.verdicts import Verdict, judge_figures
from stallbench.verdicts.attribution import Attribution
from stallbench.verdicts.check import Finding, RunTables, Severity

STORED_TABLES = ("conservation", "injections", "overdue", "recoveries")
"""Small tables, of which every row is published."""
_ATTRIBUTION: TypeAdapter[Attribution] = TypeAdapter(Attribution)


class StoredRun(RunTables):
    """What a document has of a run."""

    def __init__(self, document: RunDocument, scenario: Scenario | None = None) -> None:
        """Read nothing yet. ``scenario``: by whose expectations and requirements it is judged; those of the run if none."""
        super().__init__(Path(document.id))
        self.document = document
        self._scenario = scenario

    @cached_property
    def record(self) -> RunRecord:
        """The published part of ``run.json``."""
        judged = {"expect": self._scenario.expect, "require": self._scenario.require} if self._scenario else {}
        scenario = self.document.record.scenario.model_copy(update=judged)
        return self.document.record.model_copy(update={"scenario": scenario})

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._tables:
            self._tables[name] = self._read(name)
        return self._tables[name]

    def _read(self, name: str) -> pd.DataFrame:
        if name == "windows":
            seconds = pd.DataFrame(self.document.seconds.model_dump()).astype({"latency_ms_p95": float, "depth": float})
            names = [None if each is None else self.document.phases[each] for each in self.document.seconds.phase]
            return seconds.assign(phase=pd.Series(names, dtype=object))
        if name in STORED_TABLES:
            return to_pandas(name, pa.Table.from_pylist(list(map(dict, self.document.tables[name])), schema_of(name)))
        raise KeyError(f"the table {name} of a run is not published; published are windows, {', '.join(STORED_TABLES)}")

    @cached_property
    def _metrics(self) -> Mapping[tuple[str, str, str], tuple[float, int]]:
        columns = (*self.document.phases[:-1], WHOLE_RUN)
        return {
            (measure, statistic, phase): (float(value), self.document.executions if measure == "order_diff" else 0)
            for measure, statistics in self.document.figures.items()
            for statistic, values in statistics.items()
            for phase, value in zip(columns, values, strict=True)
            if value is not None
        }

    def count_events(self, *measures: str) -> int:
        """Return how many events the counting ``measures`` have from the first record to the last."""
        return sum(self.document.events.get(name, 0) for name in measures)

    def batches(self, name: str, columns: list[str], where: pc.Expression | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``duplicates``; the ids of most of them are null."""
        yield from self._duplicates(name, where).select(columns).to_batches()

    def first(self, name: str, count: int, where: pc.Expression | None = None) -> pd.DataFrame:
        """Return the first rows of ``duplicates``."""
        return to_pandas(name, self._duplicates(name, where).drop_null().slice(0, count))

    def _duplicates(self, name: str, where: pc.Expression | None) -> pa.Table:
        if name != "duplicates":
            raise KeyError(f"the table {name} of a run is not published")
        schema = pa.schema([schema_of(name).field(each) for each in ("job_id", "executions", "completions", "excused")])
        rows: list[dict[str, Any]] = [row for group in self.document.repeated for row in _expand(group)]
        table = pa.Table.from_pylist(rows, schema).sort_by("job_id")
        return table if where is None else table.filter(where)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict by the present rules. What checks found that need the records stays as it was found."""
        attribution = _ATTRIBUTION.validate_python(dict(self.document.attribution))
        return judge_figures(self, [_as_finding(each) for each in self.document.findings], attribution)


def _expand(group: RepeatedJobs) -> Iterator[dict[str, Any]]:
    """Yield a row for each job."""
    ids = [*group.examples, *[None] * (group.jobs - len(group.examples))]
    alike = {"executions": group.executions, "completions": group.completions, "excused": group.excused}
    yield from ({"job_id": job_id, **alike} for job_id in ids)


def _as_finding(found: FoundBefore) -> Finding:
    return Finding(
        check=found.check,
        subject=found.subject,
        result=found.result,
        reason=found.reason,
        severity=Severity[found.severity.upper()],
    )
