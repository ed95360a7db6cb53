"""A bench can be killed at any moment: what it left behind still has all tables, with the columns that they must have."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from stallbench.pipeline.conservation import count_fates, make_conservation
from stallbench.pipeline.failures import RunFolderError
from stallbench.pipeline.make import write_tables
from stallbench.pipeline.paths import name_folder
from stallbench.pipeline.read import make_torn
from stallbench.pipeline.table_writer import TableWriter
from stallbench.pipeline.tables import TABLES, read_table
from stallbench.pipeline.time_axis import make_time_axis
from stallbench.pipeline.unrecorded_enqueues import explain_unrecorded
from stallbench.run.record import parse_record
from tests.pipeline.conftest import MakeTables, ReadParts, Tables
from tests.synthetic_run import SyntheticRun, at_ns


def columns_of(name: str) -> list[str]:
    return [column.split()[0] for column in TABLES[name].replace("array<long>", "array").split(", ")]


def test_a_run_that_recorded_nothing_has_empty_tables(make: MakeTables, tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "run", status="running")
    run.record["phases"] = [
        {
            "name": "baseline",
            "measured": True,
            "planned_start_s": 0,
            "planned_duration_s": 10,
            "start_ns": None,
            "end_ns": None,
        }
    ]
    read = make(run.write())
    for name in TABLES:
        table = read(name)
        assert list(table.columns) == columns_of(name), name
        assert len(table) == 0, name


def test_a_bench_that_was_killed_in_a_phase(make: MakeTables, tmp_path: Path) -> None:
    """Nobody wrote down when the phase ended, how the processes did, or what the queue still held."""
    run = SyntheticRun(tmp_path / "run", phases={"baseline": 5, "longtx": 60, "recovery": 60}, status="aborted")
    _, longtx, recovery = run.record["phases"]
    longtx["end_ns"] = recovery["start_ns"] = recovery["end_ns"] = None
    run.process("worker-1", exit_code=None, end_s=None).process("producer-1", exit_code=None, end_s=None)
    run.longrunner("idle_writer-1", phase="longtx", from_s=5, to_s=None)
    run.live(1, at_s=1).enqueue(2, at_s=7).claim(2, at_s=8)
    run.claim(3, at_s=9)
    run.sample("backlog", "queue", at_s=9.5, depth=1)
    read = make(run.write())

    assert read("jobs").set_index("job_id").state.to_dict() == {1: "completed", 2: "unknown", 3: "unknown"}
    assert read("conservation").set_index("state").jobs.to_dict() == {
        "completed": 1,
        "unknown": 2,
        "enqueued": 2,
        "enqueue_unrecorded": 1,
    }
    windows = read("windows").set_index("t_s")
    assert list(windows.index) == list(range(10))
    assert windows.phase[9] == "longtx"
    phases = read("phases").set_index(["phase", "measure", "statistic"]).value
    assert phases["longtx", "claimed", "rate"] == pytest.approx(2 / 4.5)
    assert phases["run", "claimed", "count"] == 3
    assert "recovery" not in phases.index.get_level_values("phase")
    (injection,) = read("injections").to_dict("records")
    assert injection["to_s"] == pytest.approx(9.5)


def test_a_phase_without_an_end_gives_way_to_the_next(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path / "run", phases={"baseline": 5, "longtx": 5})
    run.record["phases"][0]["end_ns"] = None
    axis = make_time_axis(parse_record((run.write() / "run.json").read_text(), "run.json"), at_ns(-1), at_ns(20))
    assert [(interval.name, interval.start_ns, interval.end_ns) for interval in axis.intervals] == [
        ("baseline", at_ns(0), at_ns(5)),
        ("longtx", at_ns(5), at_ns(10)),
        ("run", at_ns(0), at_ns(10)),
    ]


@pytest.fixture(scope="module")
def without_phase(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A run that failed before its first phase; it has no folder of samples."""
    run = SyntheticRun(tmp_path_factory.mktemp("failed") / "run", status="failed")
    run.record["phases"][0] |= {"start_ns": None, "end_ns": None}
    folder = run.live(1, at_s=3).live(2, at_s=5.5).write()
    assert not (folder / "samples").exists()
    return make(folder)


def test_without_a_phase_time_counts_from_the_first_record(without_phase: Tables) -> None:
    windows = without_phase("windows")
    assert list(windows.t_s) == [0, 1, 2]
    assert windows.t_ns[0] == at_ns(3)
    assert windows.phase.isna().all()


def test_missing_folders_count_as_empty_ones(without_phase: Tables) -> None:
    assert len(without_phase("jobs")) == 2
    assert without_phase("windows").depth.isna().all()


@pytest.mark.parametrize("mishap", ["none", "died", "raised", "torn"])
def test_a_producer_that_died_or_had_an_error_may_have_left_an_enqueue_unrecorded(
    read_parts: ReadParts, tmp_path: Path, mishap: str
) -> None:
    run = SyntheticRun(tmp_path / "run").live(1, at_s=1).execute(2, at_s=2)
    match mishap:
        case "died":
            run.process("producer-1", exit_code=-9)
        case "raised":
            run.raise_error("OperationalError in enqueue: gone", at_s=1.5, by="producer-1")
        case "torn":
            run.garble("events/producer-1.csv", b"torn")
        case "none":
            run.raise_error("OperationalError in claim: gone", at_s=1.5, by="worker-1").garble("events/worker-1.csv", b"torn")
    parts = read_parts(run.write())
    unrecorded = explain_unrecorded(parts.jobs, parts.records, parts.record)
    conservation = make_conservation(count_fates(parts.jobs), unrecorded=unrecorded)
    origin = "unexpected" if mishap == "none" else "enqueue_unrecorded"
    assert list(conservation.loc[conservation["state"] == origin, "jobs"]) == [1]


def test_a_failed_enqueue_explains_its_own_batch_within_its_ids_and_no_other_job(read_parts: ReadParts, tmp_path: Path) -> None:
    """Job 3 may be of the call that failed; jobs 5 and 6 have higher ids than one that was enqueued long after it."""
    run = SyntheticRun(tmp_path / "run").live(2, at_s=1).execute(3, at_s=1.8).live(4, at_s=8)
    run.raise_error("OperationalError in enqueue: gone", at_s=1.5, by="producer-1").execute(5, at_s=9).execute(6, at_s=9.1)
    parts = read_parts(run.write())
    unrecorded = explain_unrecorded(parts.jobs, parts.records, parts.record)
    assert (unrecorded.explained_examples, unrecorded.unexpected_examples) == ((3,), (5, 6))


@pytest.fixture(scope="module")
def made_twice(
    spark: SparkSession, read_parts: ReadParts, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, pd.DataFrame]]:
    """The tables of jobs and of files of one run, first with one job and then with two."""
    run = SyntheticRun(tmp_path_factory.mktemp("again") / "it's {a} [b] run* ä%20", phases={"baseline": 5})

    def make_two_tables(folder: Path) -> dict[str, pd.DataFrame]:
        parts = read_parts(folder)
        with TableWriter(spark, name_folder(folder)) as writer:
            writer.put("torn", make_torn(parts.records))
            writer.start("jobs", lambda: parts.jobs)
        return {name: read_table(folder, name) for name in ("jobs", "torn")}

    return [make_two_tables(run.live(job, at_s=job).write(final_snapshot={})) for job in (1, 2)]


def test_making_tables_again_replaces_them(made_twice: list[dict[str, pd.DataFrame]]) -> None:
    assert [len(tables["jobs"]) for tables in made_twice] == [1, 2]


def test_a_folder_with_a_name_that_looks_like_a_pattern(made_twice: list[dict[str, pd.DataFrame]]) -> None:
    first, _ = made_twice
    assert list(first["jobs"].state) == ["completed"]
    assert list(first["torn"].file) == ["events/producer-1.csv", "events/worker-1.csv", "final_snapshot.csv"]


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (None, "not a run's folder: it has no run.json"),
        ("", "run.json: not a run's record: Invalid JSON"),
        ("[]", "run.json: not a run's record: Input should be an object"),
        ('{"format": 2, "status": "running"}', "run.json: not a run's record: id: Field required"),
        (
            '{"format": 1, "status": "running", "queue": {"promise": "x"}}',
            "run.json: format 1 was written by an older stallbench; this version reads format 2; "
            "run the scenario again, or read it with the version that wrote it",
        ),
    ],
)
def test_a_folder_that_is_no_run_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, record: str | None, complaint: str
) -> None:
    if record is not None:
        (tmp_path / "run.json").write_text(record)
    with pytest.raises(RunFolderError) as raised:
        write_tables(spark, tmp_path)
    assert complaint in str(raised.value)
    assert str(tmp_path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_phase_that_is_there_twice_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = SyntheticRun(tmp_path / "run").write()
    record = json.loads((folder / "run.json").read_text())
    record["phases"] *= 2
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(RunFolderError, match="two phases are named 'baseline'"):
        write_tables(spark, folder)
