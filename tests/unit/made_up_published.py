"""Published results without real runs: runs and comparisons of libraries, made out of the document of the sample run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from stallbench.evidence.document import EarlierRow, EarlierTable, RunDocument
from stallbench.evidence.publication import make_run_document
from stallbench.evidence.stored_run import StoredRun
from stallbench.studies.comparison.plan import Load, Plan, interleave
from stallbench.studies.comparison.record import ComparisonRecord, begin_comparison
from stallbench.verdicts.baseline.compared_metric import choose_subjects
from tests.unit.made_up_comparison import make_scenario

SAMPLE = Path(__file__).resolve().parents[1] / "small_run"
HELD_CHANGES = ("phases.longtx.until=duration", "phases.longtx.jobs=10_000")
COMMON_CHANGES = ("phases.longtx.until=duration", "phases.longtx.jobs=2_500")


@cache
def read_sample() -> RunDocument:
    """Return the document of the sample run."""
    return make_run_document(SAMPLE)


@dataclass
class MadeUpPublished:
    """A `tools.published.Published` in memory."""

    documents: dict[str, RunDocument] = field(default_factory=dict)
    records: list[ComparisonRecord] = field(default_factory=list)
    tables: dict[str, EarlierTable] = field(default_factory=dict)
    stale: dict[str, str] = field(default_factory=dict)
    """Why a run or comparison is stale, by its id."""

    def runs(self) -> Iterator[StoredRun]:
        yield from (StoredRun(self.documents[each]) for each in sorted(self.documents))

    def run(self, run_id: str) -> StoredRun:
        return StoredRun(self.documents[run_id])

    def comparisons(self, scenario: str) -> Sequence[ComparisonRecord]:
        return [each for each in self.records if each.scenario.name == scenario]

    def earlier(self, table: str) -> EarlierTable | None:
        return self.tables.get(table)

    def find_reasons(self, document: RunDocument | ComparisonRecord) -> tuple[str, ...]:
        return (self.stale[document.id],) if document.id in self.stale else ()

    def add_run(
        self, run_id: str, library: str, scenario: str = "worker-crash", changes: Sequence[str] = (), **of_scenario: Any
    ) -> RunDocument:
        """Publish a run of a library, whose figures are those of the sample run; returns its document."""
        sample = read_sample()
        kind = f"library:{library}"
        origin = {
            "name": scenario,
            "file": f"scenarios/{scenario}.toml",
            "changes": (f'queue={{kind="{kind}"}}', *changes),
            **of_scenario,
        }
        record = sample.record.model_copy(
            update={
                "id": run_id,
                "scenario": sample.record.scenario.model_copy(update=origin),
                "queue": sample.record.queue.model_copy(update={"kind": kind}),
            }
        )
        command = f"stallbench run {scenario} of {library} {' '.join(changes)}"
        self.documents[run_id] = sample.model_copy(update={"id": run_id, "record": record, "command": command})
        return self.documents[run_id]

    def add_comparison(
        self,
        runs: Path,
        date: str,
        capacities: Mapping[str, float],
        load: Load,
        changes: Sequence[str] | None = None,
        scenario: str = "longtx",
        left_out: Mapping[str, str] | None = None,
    ) -> ComparisonRecord:
        """Publish a comparison of libraries with one round, whose runs have the figures of the sample run."""
        if changes is None:
            changes = COMMON_CHANGES if load == "common" else HELD_CHANGES
        chosen = {f"library:{name}": make_scenario(name=scenario, variant=None) for name in capacities}
        plan = Plan(
            scenario=make_scenario(name=scenario, file=f"scenarios/{scenario}.toml", changes=tuple(changes)),
            chosen=chosen,
            rounds=1,
            seed=1,
            subjects=choose_subjects(list(chosen.values())),
            runs=tuple(interleave(list(chosen), 1, 1)),
            load=load,
            capacities={f"library:{name}": capacity for name, capacity in capacities.items()},
            left_out={f"library:{name}": reason for name, reason in (left_out or {}).items()},
            measured=("producers.rate=40",) if load == "common" else (),
        )
        _, record = begin_comparison(plan, runs)
        for run in record.runs:
            run_id = f"{date}T00000{run.number}Z-{scenario}"
            self.add_run(run_id, run.variant.removeprefix("library:"), scenario)
            record = record.with_run(run.model_copy(update={"status": "completed", "folder": run_id, "verdict": "pass"}))
        self.records.append(record.model_copy(update={"status": "completed", "id": f"{date}T000000Z-compare-{scenario}"}))
        return self.records[-1]

    def add_earlier(self, table: str, name: str, **cells: str) -> None:
        """Publish a row of an earlier version; ``cells``: by heading, with ``_`` for a space."""
        row = EarlierRow(
            name=name, cells={key.replace("_", " "): text for key, text in cells.items()}, source="long ago: `command`"
        )
        rows = (*self.tables[table].rows, row) if table in self.tables else (row,)
        self.tables[table] = EarlierTable(table=table, rows=rows)


def read_rows(lines: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the cells of each row of a table by their headings, by the row's first cell."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}
