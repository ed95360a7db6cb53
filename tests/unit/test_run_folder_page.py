"""docs/run-folder.md is a contract: it names every column of every file and table."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel

from stallbench import PROJECT
from stallbench.pipeline.tables import TABLES
from stallbench.queues.record import QueueRecord
from stallbench.records.events import EVENT_COLUMNS
from stallbench.records.injections import InjectionRecord
from stallbench.records.samples import SAMPLE_COLUMNS
from stallbench.run.record import BenchRecord, HostRecord, PhaseRecord, RunRecord
from stallbench.run.sampling import find_collectors
from stallbench.run.sampling.own_cost import NAME as OWN_COST

PAGE = (PROJECT / "docs" / "run-folder.md").read_text()
ROWS = dict(re.findall(r"^\| `(\w+)` \| (.*)$", PAGE, re.MULTILINE))


def test_it_has_the_columns_of_events_and_samples() -> None:
    assert f"Columns: `{', '.join(EVENT_COLUMNS)}`." in PAGE
    assert f"Columns: `{', '.join(SAMPLE_COLUMNS)}`." in PAGE


@pytest.mark.parametrize("table", sorted(TABLES.keys() - {"windows"}))
def test_it_has_every_column_of_every_table(table: str) -> None:
    columns = [declared.split()[0] for declared in TABLES[table].split(", ")]
    assert not [column for column in columns if f"`{column}`" not in ROWS[table]]


def test_it_has_the_file_of_every_collector() -> None:
    assert not [name for name in (*find_collectors(), OWN_COST) if name not in ROWS]


@pytest.mark.parametrize(
    "part", [RunRecord, BenchRecord, QueueRecord, HostRecord, PhaseRecord, InjectionRecord], ids=lambda part: part.__name__
)
def test_it_has_every_key_of_run_json(part: type[BaseModel]) -> None:
    assert not [key for key in part.model_fields if f"`{key}`" not in PAGE]
