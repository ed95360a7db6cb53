"""What a comparison, or a matrix of versions, does with its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stallbench.errors import BadInputError
from stallbench.studies.comparison.conclusion import conclude_comparison, write_files
from stallbench.studies.comparison.record import ComparisonFolder, ComparisonRecord
from stallbench.studies.comparison.screen import print_comparison
from stallbench.studies.kind import Conclusion, StudyKind
from stallbench.studies.run_baseline import read_run_baseline
from stallbench.verdicts.baseline.baseline_file import Baseline


class ComparisonKind(StudyKind[ComparisonRecord]):
    """Several variants of a scenario, interleaved."""

    title = "comparison"
    folder = ComparisonFolder

    def conclude_record(self, folder: ComparisonFolder, record: ComparisonRecord) -> Conclusion[ComparisonRecord]:
        """Find the results."""
        record, results = conclude_comparison(folder, record)

        def write() -> None:
            write_files(folder, record, results)

        return Conclusion(folder, record, write, lambda report: print_comparison(record, results, report))

    def read_baselines(self, folder: Path) -> Sequence[tuple[str, Baseline]]:
        """Return a baseline for each completed run."""
        of_comparison = ComparisonFolder(folder)
        record = of_comparison.read()
        completed = [run for run in record.runs if run.status == "completed" and run.folder is not None]
        if not completed:
            raise BadInputError(f"{folder}: no run of the comparison was completed")
        paths = [of_comparison.runs / (run.folder or "") for run in completed]
        return [
            (str(path), read_run_baseline(path, variant=run.variant, metrics=record.subjects))
            for path, run in zip(paths, completed, strict=True)
        ]


KIND = ComparisonKind()
