"""What a soak does with its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from junitparser import TestSuite

from stallbench.studies.junit import make_run_suite, write_junit
from stallbench.studies.kind import Conclusion, StudyKind
from stallbench.studies.soak.baseline import read_soak_baseline
from stallbench.studies.soak.drift import find_drifts
from stallbench.studies.soak.folder import SoakFolder
from stallbench.studies.soak.record import SoakRecord
from stallbench.studies.soak.regression import find_regressions
from stallbench.studies.soak.report import make_pages
from stallbench.studies.soak.screen import print_soak
from stallbench.verdicts.baseline.baseline_file import Baseline


class SoakKind(StudyKind[SoakRecord]):
    """A scenario that is repeated on the same servers."""

    title = "soak"
    folder = SoakFolder

    def conclude_record(self, folder: SoakFolder, record: SoakRecord) -> Conclusion[SoakRecord]:
        """Find the drift, and compare it with that of the baseline."""
        drifts = find_drifts(record)
        drift = {name: drift.as_json() if drift else None for name, drift in drifts.items()}
        record = record.model_copy(update={"drift": drift, "regressions": find_regressions(folder, record, drifts)})

        def write() -> None:
            make_pages(folder, record, drifts)
            write_junit(folder.path, record.scenario.name, record, _list_suites(folder, record))

        return Conclusion(folder, record, write, lambda report: print_soak(record, drifts, report))

    def read_baselines(self, folder: Path) -> Sequence[tuple[str, Baseline]]:
        """Return the figures at the end, and their drift."""
        return [(str(folder), read_soak_baseline(folder))]


def _list_suites(folder: SoakFolder, record: SoakRecord) -> Iterator[TestSuite]:
    for cycle in record.runs:
        number = f"{cycle.number:04d}"
        suite = make_run_suite(f"{record.scenario.name}.cycle-{number}", folder.runs, cycle, f"{record.id}.{number}")
        suite.time = cycle.spent_s
        yield suite


KIND = SoakKind()
