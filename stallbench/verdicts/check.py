"""The interface of every check: what it reads (`RunTables`), and what it returns (`Finding`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stallbench.base.storage.address import AnyPath
from stallbench.base.storage.private import require_plain
from stallbench.measures import MEASURES, WHOLE_RUN
from stallbench.pipeline.large_tables import LARGE, read_batches, read_first
from stallbench.pipeline.tables import read_table
from stallbench.records.job_ids import describe_job
from stallbench.run.record import RunRecord, read_record

if TYPE_CHECKING:
    from stallbench.verdicts.outcome import Outcome

Result = Literal["pass", "fail", "unknown", "info"]
"""``unknown``: the data that the check needs are missing. ``info``: the check does not apply to this run; it neither passes nor fails."""

WORST_FIRST: tuple[Result, ...] = ("fail", "unknown", "pass", "info")


class Severity(IntEnum):
    """What a finding that does not pass means for the user. The verdict's reason is that of the finding with the lowest number."""

    JOBS_LOST = 0
    JOBS_REPEATED = 1
    """Jobs that were re-executed without a reason, or that are still in the queue after their completion and will be re-executed."""
    JOBS_UNEXPECTED = 2
    """Jobs that no producer enqueued."""
    JOBS_LEFT_BEHIND = 3
    RUN_INCOMPLETE = 4
    """The run did not complete: less severe findings may be a consequence of that."""
    PROPERTY = 5
    EXPECTATION = 6
    REGRESSION = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of checking one property."""

    check: str
    subject: str
    """The expectation, property or injection that was checked."""
    result: Result
    reason: str
    """One sentence with the figures in it."""
    severity: Severity = Severity.PROPERTY
    expected: str = ""
    found: str = ""
    """Only the figures, if the reason says more than these."""
    because: str = ""
    """What the expectation shows, in the scenario's words."""
    examples: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return it for ``verdict.json``."""
        return {**asdict(self), "severity": self.severity.name.lower()}


class RunTables:
    """A run's record and tables, each read when it is first used."""

    def __init__(self, folder: AnyPath) -> None:
        """Remember the folder; raises `UntrustedError` if there is a link in it. Comparisons name the folders of their runs themselves."""
        if isinstance(folder, Path):
            require_plain(folder)
        self.folder = folder
        self._tables: dict[str, pd.DataFrame] = {}

    @cached_property
    def record(self) -> RunRecord:
        """``run.json``."""
        return read_record(self.folder / "run.json")

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name in LARGE:
            raise ValueError(f"table {name!r} may be larger than memory; read it by `batches` or `first`")
        if name not in self._tables:
            self._tables[name] = read_table(self.folder, name)
        return self._tables[name]

    @cached_property
    def outcome(self) -> Outcome:
        """What happened to the queue (`stallbench.verdicts.outcome.find_outcome`)."""
        from stallbench.verdicts.outcome import find_outcome  # which reads these tables

        return find_outcome(self)

    def batches(self, name: str, columns: list[str], where: pc.Expression | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a large table; see `stallbench.pipeline.large_tables.read_batches`."""
        return read_batches(self.folder, name, columns, where=where)

    def first(self, name: str, count: int, where: pc.Expression | None = None) -> pd.DataFrame:
        """Return the first rows of a large table; see `stallbench.pipeline.large_tables.read_first`."""
        return read_first(self.folder, name, count, where=where)

    def metric(self, measure: str, statistic: str, phase: str | None) -> float | None:
        """Return a metric's value in ``phase`` (the whole run if none), or none if there are no data for it."""
        found = self._metrics.get((measure, statistic, phase or WHOLE_RUN))
        return found[0] if found else None

    def metric_or_ratio(self, metric: str, phase: str | None, relative_to: str | None) -> float | None:
        """Return the value of ``metric``, like ``claim_ms.p95``, or its ratio to that in ``relative_to``; none if it cannot be computed."""
        measure, _, statistic = metric.partition(".")
        value = self.metric(measure, statistic, phase)
        if relative_to is None or value is None:
            return value
        base = self.metric(measure, statistic, relative_to)
        return value / base if base else None

    def count_behind(self, measure: str, statistic: str, phase: str | None) -> int:
        """Return how many events or samples are behind a metric's value; 0 if there is none."""
        found = self._metrics.get((measure, statistic, phase or WHOLE_RUN))
        return found[1] if found else 0

    @cached_property
    def _metrics(self) -> Mapping[tuple[str, str, str], tuple[float, int]]:
        """Value and count of each measure, statistic and phase: a verdict and its report ask for hundreds, and to search the table takes a millisecond."""
        phases = self["phases"]
        keys = zip(phases["measure"], phases["statistic"], phases["phase"], strict=True)
        return dict(
            zip(keys, zip(phases["value"].astype(float), phases["count"].fillna(0).astype(int), strict=True), strict=True)
        )

    def count_events(self, *measures: str) -> int:
        """Return how many events the counting ``measures`` have from the first record to the last, also outside the phases."""
        windows = self["windows"]
        return int(sum(windows[name].sum() for name in measures if name in windows))

    def count_operations(self) -> int:
        """Return how many operations of any kind were recorded."""
        return self.count_events(*(name for name, measure in MEASURES.items() if measure.is_counted))

    def state_count(self, state: str) -> int:
        """Return how many jobs are in ``state`` of the conservation table."""
        rows = self["conservation"]
        return int(rows.loc[rows["state"] == state, "jobs"].sum())

    def state_examples(self, state: str) -> tuple[str, ...]:
        """Return the first ids of the jobs in ``state``."""
        rows = self["conservation"]
        return tuple(describe_job(job) for jobs in rows.loc[rows["state"] == state, "examples"] for job in jobs)


class Check(ABC):
    """One property of a run."""

    name: ClassVar[str]
    position: ClassVar[int]
    """Where the report shows its findings; the smallest is at the top."""
    severity: ClassVar[Severity] = Severity.PROPERTY
    judges_observations: ClassVar[bool] = False
    """Whether it can judge a server that was only observed, of which there are only samples."""
    judges_figures: ClassVar[bool] = False
    """Whether it needs only the figures and the outcome of a run, so that it judges a published run again."""

    @abstractmethod
    def judge(self, run: RunTables) -> list[Finding]:
        """Return at least one finding. If this raises, the check is unknown."""

    def finding(
        self,
        result: Result,
        subject: str,
        reason: str,
        *,
        severity: Severity | None = None,
        expected: str = "",
        found: str = "",
        because: str = "",
        examples: tuple[str, ...] = (),
    ) -> Finding:
        """Return a finding of this check, with the check's severity unless another is given."""
        return Finding(
            check=self.name,
            subject=subject,
            result=result,
            reason=reason,
            severity=self.severity if severity is None else severity,
            expected=expected,
            found=found,
            because=because,
            examples=examples,
        )

    def unknown(self, subject: str, reason: str) -> Finding:
        """Return that ``subject`` could not be decided, and which data are missing."""
        return self.finding("unknown", subject, reason)

    def not_applicable(self, subject: str, reason: str) -> Finding:
        """Return that the check does not apply to this run, and why."""
        return self.finding("info", subject, reason)
