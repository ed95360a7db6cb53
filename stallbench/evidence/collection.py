"""Reads the folder ``evidence/``: which runs, studies and earlier tables are published, and what they show by the present rules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from stallbench import PROJECT
from stallbench.errors import BadInputError
from stallbench.evidence.document import FOLDERS, EarlierTable, RunDocument, StudyDocument, read_document
from stallbench.evidence.staleness import find_reasons, find_scenario_of_today
from stallbench.evidence.stored_run import StoredRun
from stallbench.studies.comparison.conclusion import read_run
from stallbench.studies.comparison.record import ComparisonRecord
from stallbench.verdicts.verdict_file import RecordedVerdict

EVIDENCE = PROJECT / "evidence"


class Collection:
    """The published results in one folder. Files are read when they are first needed."""

    def __init__(self, folder: Path = EVIDENCE) -> None:
        """Read nothing yet."""
        self.folder = folder
        self._runs: dict[str, StoredRun] = {}
        self._reasons: dict[str, tuple[str, ...]] = {}

    @cached_property
    def run_ids(self) -> tuple[str, ...]:
        """Names of all published runs, the oldest first, those of comparisons included."""
        return tuple(sorted(path.stem for path in (self.folder / FOLDERS["run"]).glob("*.json")))

    def run(self, run_id: str) -> StoredRun:
        """Return a published run. It is judged by the expectations of today's scenario, unless it is stale. Raises `BadInputError` if there is none."""
        if run_id not in self._runs:
            path = self.folder / FOLDERS["run"] / f"{run_id}.json"
            document = read_document(path)
            if not isinstance(document, RunDocument):
                raise BadInputError(f"{path}: not evidence of a run: its kind is {document.kind}")
            reasons = self._reasons[run_id] = find_reasons(document)
            self._runs[run_id] = StoredRun(document, None if reasons else find_scenario_of_today(document.record))
        return self._runs[run_id]

    def runs(self) -> Iterator[StoredRun]:
        """Yield all published runs, the oldest first."""
        yield from map(self.run, self.run_ids)

    @cached_property
    def studies(self) -> tuple[StudyDocument, ...]:
        """All published studies, the oldest first."""
        documents = [read_document(path) for path in sorted((self.folder / FOLDERS["study"]).glob("*.json"))]
        return tuple(each for each in documents if isinstance(each, StudyDocument))

    def comparisons(self, scenario: str) -> list[ComparisonRecord]:
        """Return the published comparisons of a scenario, the oldest first, with what their runs show by the present rules."""
        records = [ComparisonRecord.model_validate(dict(each.record)) for each in self.studies if each.study == "comparison"]
        return [self._with_runs(record) for record in records if record.scenario.name == scenario]

    def _with_runs(self, record: ComparisonRecord) -> ComparisonRecord:
        for run in record.runs:
            if run.status == "completed" and run.folder is not None:
                stored = self.run(Path(run.folder).name)
                verdict = RecordedVerdict.model_validate(stored.verdict.as_json())
                record = record.with_run(read_run(stored, verdict, run, record))
        return record

    def find_reasons(self, document: RunDocument | StudyDocument | ComparisonRecord) -> tuple[str, ...]:
        """Return why a result is stale; empty if it is current. A comparison is stale if one of its runs is."""
        if isinstance(document, RunDocument):
            self.run(document.id)
            return self._reasons[document.id]
        if isinstance(document, StudyDocument) and document.study != "comparison":
            return find_reasons(document)
        record = document if isinstance(document, ComparisonRecord) else ComparisonRecord.model_validate(dict(document.record))
        ids = [Path(run.folder).name for run in record.runs if run.status == "completed" and run.folder]
        found = [reason for each in ids for reason in self.find_reasons(self.run(each).document)]
        return tuple(dict.fromkeys(found))

    def earlier(self, table: str) -> EarlierTable | None:
        """Return what an earlier version published in a table; none if nothing is left of it."""
        path = self.folder / FOLDERS["earlier"] / f"{table}.json"
        document = read_document(path) if path.is_file() else None
        return document if isinstance(document, EarlierTable) else None
