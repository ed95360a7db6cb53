"""The tables of libraries in the documentation are made from what is published, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from stallbench.base.number_text import format_value
from stallbench.evidence.collection import Collection
from stallbench.evidence.document import RunDocument
from stallbench.libraries import find_libraries
from tests.unit.made_up_published import HELD_CHANGES, MadeUpPublished, read_rows
from tools.generated_blocks import fill
from tools.library_tables.library_run import LibraryRun
from tools.library_tables.tables import PAGES, README, make_blocks

RIVER, PGMQ, PROCRASTINATE = "River 0.51.1", "PGMQ 1.1.4", "Procrastinate 3.10.0"


@pytest.fixture
def published() -> MadeUpPublished:
    return MadeUpPublished()


def rows_of(published: MadeUpPublished, block: str) -> dict[str, dict[str, str]]:
    return read_rows(make_blocks(published)[0][block])


def with_figure(document: RunDocument, measure: str, statistic: str, values: Sequence[float]) -> RunDocument:
    figures = {**document.figures, measure: {**document.figures[measure], statistic: tuple(values)}}
    return document.model_copy(update={"figures": figures})


def test_the_pages_are_current() -> None:
    """Repeat ``python -m tools.library_tables`` after a change of ``evidence/``, of a library's definition or of a rule."""
    blocks, _ = make_blocks(Collection())
    assert {page: page.read_text() for page in (*PAGES, README)} == fill([*PAGES, README], blocks)


def test_a_cell_is_of_the_newest_run_and_refers_to_it(published: MadeUpPublished) -> None:
    published.add_run("20260101T000000Z-worker-crash", "procrastinate")
    published.add_run("20260102T000000Z-worker-crash", "procrastinate")
    lines = make_blocks(published)[0]["faults"]
    assert read_rows(lines)[PROCRASTINATE]["`worker-crash`"].endswith("(1)")
    assert lines[-1].startswith("1. [20260102T000000Z](../evidence/runs/20260102T000000Z-worker-crash.json): `stallbench run")
    assert not any("20260101" in line for line in lines)


def test_a_cell_says_what_happened_to_the_queue(published: MadeUpPublished) -> None:
    run = LibraryRun(
        published.run(published.add_run("20260101T000000Z-stuck-listener", "river", "stuck-listener", ["producers.rate=30"]).id)
    )
    outcome = run.stored.verdict.outcome
    assert outcome is not None
    assert outcome.worst is not None
    before, held = (run.metric("claim_statement_buffers.per_call", phase) for phase in ("baseline", "longtx"))
    assert before is not None
    assert held is not None
    cell = rows_of(published, "faults")[RIVER]["`stuck-listener`"]
    assert cell.startswith(outcome.worst.effect)
    assert "nothing lost, repeated or stranded" in cell
    assert f"{format_value(before)} → {format_value(held)} buffers per claim" in cell


def test_a_cell_without_a_run_has_what_an_earlier_version_published_marked_as_stale(published: MadeUpPublished) -> None:
    published.add_earlier("libraries-server-crash", RIVER, **{"server-crash": "fell over"})
    assert rows_of(published, "faults")[RIVER]["`server-crash`"] == "fell over"
    assert make_blocks(published)[0]["faults"][0].startswith("*Stale: all of this was measured by a version")
    published.add_run("20260101T000000Z-worker-crash", "river")
    assert rows_of(published, "faults")[RIVER]["`server-crash`"] == "*earlier:* fell over"
    published.add_run("20260101T000000Z-server-crash", "river", "server-crash")
    assert "fell over" not in rows_of(published, "faults")[RIVER]["`server-crash`"]


def test_a_stale_run_is_marked_with_the_reason(published: MadeUpPublished) -> None:
    published.add_run("20260101T000000Z-worker-crash", "river")
    published.add_run("20260101T000001Z-worker-crash", "procrastinate")
    published.stale["20260101T000000Z-worker-crash"] = "the scenario has changed"
    lines = make_blocks(published)[0]["faults"]
    assert read_rows(lines)[RIVER]["`worker-crash`"].endswith("(2 *stale*)")
    assert read_rows(lines)[PROCRASTINATE]["`worker-crash`"].endswith("(1)")
    assert lines[-1].endswith("*Stale*: the scenario has changed.")


def test_a_variant_with_a_column_of_its_own_does_not_replace_a_run_of_its_scenario(published: MadeUpPublished) -> None:
    at_30 = ["producers.rate=30"]
    published.add_run("20260101T000000Z-pgbouncer", "river", "pgbouncer", at_30)
    published.add_run("20260102T000000Z-pgbouncer", "river", "pgbouncer", at_30, variant="from_the_start")
    published.add_run("20260103T000000Z-pgbouncer", "river", "pgbouncer", at_30, variant="que")
    cells = rows_of(published, "faults")[RIVER]
    assert cells["`pgbouncer`"].endswith("(1)")
    assert cells["`pgbouncer --variant from_the_start`"].endswith("(2)")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("phases.baseline.duration=1s", "phases.baseline.duration"),
        ('queue={kind="library:procrastinate",concurrency=9}', "queue.concurrency"),
        ("database.version=18", "database.version"),
    ],
)
def test_a_run_with_other_settings_than_the_page_allows_replaces_no_cell(
    published: MadeUpPublished, change: str, key: str
) -> None:
    published.add_run("20260101T000000Z-worker-crash", "procrastinate")
    published.add_run("20260102T000000Z-worker-crash", "procrastinate", changes=[change])
    published.add_run("20260103T000000Z-worker-crash", "procrastinate", file="mine/worker-crash.toml")
    blocks, messages = make_blocks(published)
    assert "[20260101T000000Z]" in blocks["faults"][-1]
    assert any(f"20260102T000000Z-worker-crash is left out: it changes {key}" in message for message in messages), messages
    assert any("20260103T000000Z-worker-crash is left out: its file is mine" in message for message in messages), messages


def test_a_run_at_another_load_replaces_no_cell_of_a_run_without(published: MadeUpPublished) -> None:
    published.add_run("20260102T000000Z-worker-crash", "procrastinate", changes=["producers.rate=40", "workers.count=4"])
    assert "workers.count=4" in make_blocks(published)[0]["faults"][-1]
    published.add_run("20260101T000000Z-worker-crash", "procrastinate")
    blocks, messages = make_blocks(published)
    assert "[20260101T000000Z]" in blocks["faults"][-1]
    reason = "20260102T000000Z-worker-crash is left out: it changes producers.rate, workers.count, and there is a run without"
    assert reason in messages


def test_a_comparison_at_a_common_load_leaves_the_rows_at_own_capacity(published: MadeUpPublished, tmp_path: Path) -> None:
    published.add_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    assert rows_of(published, "longtx")[RIVER]["capacity, jobs/s"] == "700"
    assert rows_of(published, "libraries")[RIVER]["capacity, jobs/s"] == "700"
    published.add_comparison(tmp_path, "20260102", {"river": 600.0, "pgmq": 400.0}, "common")
    assert rows_of(published, "longtx")[RIVER]["capacity, jobs/s"] == "700"
    common = rows_of(published, "longtx-common")[RIVER]
    load = published.run("20260102T000001Z-longtx").record.scenario.producers.rate
    assert (common["capacity, jobs/s"], common["load, jobs/s"]) == ("600", format_value(load))


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("phases.longtx.jobs=100",),
        (*HELD_CHANGES, "phases.baseline.duration=1s"),
        (*HELD_CHANGES, "workers.count=9"),
        (*HELD_CHANGES, "database.version=18"),
    ],
)
def test_a_comparison_with_other_settings_replaces_no_row(
    published: MadeUpPublished, tmp_path: Path, changes: Sequence[str]
) -> None:
    published.add_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    published.add_comparison(tmp_path, "20260102", {"river": 600.0, "pgmq": 400.0}, "own", changes)
    blocks, messages = make_blocks(published)
    assert read_rows(blocks["longtx"])[RIVER]["capacity, jobs/s"] == "700"
    assert any("20260102T000000Z-compare-longtx is left out" in message for message in messages), messages


def test_a_row_without_a_comparison_is_of_an_earlier_version(published: MadeUpPublished, tmp_path: Path) -> None:
    published.add_earlier("libraries-longtx", RIVER, **{"latency p95, ms": "202 → 287"})
    lines = make_blocks(published)[0]["longtx"]
    assert lines[0].startswith("*Stale: all of this was measured by a version of the bench that kept neither")
    assert read_rows(lines)[RIVER]["latency p95, ms"] == "202 → 287"
    published.add_comparison(tmp_path, "20260101", {"pgmq": 500.0, "oban": 1.0}, "own")
    rows = rows_of(published, "longtx")
    assert rows[PGMQ]["from"] == "1"
    assert rows[RIVER]["from"] == "2 *stale*"


def test_the_cost_of_dead_tuples_is_the_rise_of_the_claim_statement_by_the_rise_of_dead_tuples(
    published: MadeUpPublished, tmp_path: Path
) -> None:
    published.add_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    run = LibraryRun(published.run("20260101T000001Z-longtx"))
    metrics = ("claim_statement_buffers.per_call", "claim_statement_ms.mean", "dead_tuples.mean")
    buffers, milliseconds, dead = ((run.metric(name, "longtx") or 0) - (run.metric(name, "baseline") or 0) for name in metrics)
    cells = rows_of(published, "longtx")[RIVER]
    assert float(cells["buffers per claim and 1,000 dead tuples"]) == pytest.approx(1000 * buffers / dead, rel=0.01)
    assert float(cells["µs per claim and 1,000 dead tuples"]) == pytest.approx(1_000_000 * milliseconds / dead, rel=0.01)


def test_a_figure_that_was_not_measured_is_empty(published: MadeUpPublished, tmp_path: Path) -> None:
    published.add_comparison(tmp_path, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    for name, document in published.documents.items():
        figures = {measure: each for measure, each in document.figures.items() if not measure.startswith("claim_statement")}
        published.documents[name] = document.model_copy(update={"figures": figures})
    cells = rows_of(published, "longtx")[RIVER]
    assert cells["dead tuples per job"]
    assert cells["buffers per claim and 1,000 dead tuples"] == cells["µs per claim and 1,000 dead tuples"] == ""


def test_a_library_that_does_not_run_has_a_row_with_the_reason(published: MadeUpPublished, tmp_path: Path) -> None:
    published.add_comparison(tmp_path, "20260101", {"river": 7.0, "pgmq": 5.0}, "own", left_out={"oban": "no Python 3.12"})
    published.add_comparison(tmp_path, "20260102", {"river": 1, "pgqueuer": 1}, "common", [], "deep-backlog")
    rows = rows_of(published, "longtx-innodb")
    without = {library.title_and_version for library in find_libraries().values() if "mariadb" not in library.engines}
    assert set(rows) == without
    assert rows[RIVER]["capacity, jobs/s"] == "does not run on MariaDB: its drivers are for PostgreSQL and SQLite"
    assert rows_of(published, "longtx")["Oban for Python 0.7.0"]["capacity, jobs/s"] == "not run: no Python 3.12"
    backlog = rows_of(published, "deep-backlog")
    assert backlog[PGMQ]["claim statement, ms"] == "does not run in this scenario: each queue has a table of its own"


def test_each_library_has_the_figures_of_the_idle_phase(published: MadeUpPublished, tmp_path: Path) -> None:
    published.add_comparison(tmp_path, "20260101", {"river": 1, "pgmq": 1}, "common", ["workers.count=4"], "idle-cost")
    for name, document in published.documents.items():  # the sample run has no phase ``idle``
        phases = tuple("idle" if phase == "longtx" else phase for phase in document.phases)
        published.documents[name] = with_figure(
            document.model_copy(update={"phases": phases}), "pickup_ms", "p50", [4.5] * len(phases)
        )
    assert rows_of(published, "idle-cost")[RIVER]["pickup p50, ms"] == "4.5"
    published.add_comparison(tmp_path, "20260102", {"river": 1, "pgmq": 1}, "common", ["workers.count=16"], "idle-cost")
    _, messages = make_blocks(published)
    assert [each for each in messages if each.startswith("20260102") and "it changes workers.count" in each]


def test_what_definitions_say_is_listed(published: MadeUpPublished) -> None:
    blocks, _ = make_blocks(published)
    titles = [library.title_and_version for library in find_libraries().values()]
    assert list(read_rows(blocks["rescue"])) == titles
    assert "never; failed after 1.5m" in "".join(blocks["rescue"]), "Laravel, one attempt"
    workers = read_rows(blocks["workers"])
    assert list(workers) == titles
    shown = ("concurrency", "batch size", "poll interval", "rescue interval", "pool")
    assert [workers["pg-boss 12.38.0"][name] for name in shown] == ["1", "10", "30 s", "60 s", "4"]
    assert "*poll interval*: dist/attorney.js: notifyPollingInterval" in workers["pg-boss 12.38.0"]["where the values are from"]
    differs = read_rows(blocks["start"])["Celery with a database as broker 5.7.0"]["in what the adapter differs"]
    assert "--pool=solo" in differs
