"""Tables are read without Spark, and only when they are whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stallbench.pipeline.failures import NoTableError
from stallbench.pipeline.tables import MOST_ROWS, read_table

FEW_KILOBYTES = {"holder": pa.string(), "server": pa.string(), "from_ns": pa.int64()}


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A run with a table of which Spark wrote two files, its checksum files and its mark beside them."""
    folder = tmp_path / "tables" / "holders"
    folder.mkdir(parents=True)
    for number, (holder, from_ns, pid) in enumerate(
        [("b", 1_800_000_000_000_000_003, None), ("a", 1_800_000_000_000_000_001, 7)]
    ):
        table = pa.table({"holder": [holder], "server": ["primary"], "from_ns": [from_ns], "pid": pa.array([pid], pa.int64())})
        pq.write_table(table, folder / f"part-{number}.parquet")
        (folder / f".part-{number}.parquet.crc").write_bytes(b"crc")
    (folder / "_SUCCESS").touch()
    return tmp_path


def test_all_files_of_a_table_are_read_in_a_fixed_order(run_folder: Path) -> None:
    assert list(read_table(run_folder, "holders").holder) == ["a", "b"]


def test_integers_stay_integers_beside_missing_values(run_folder: Path) -> None:
    table = read_table(run_folder, "holders")
    assert table.from_ns[1] == 1_800_000_000_000_000_003
    assert table.pid[0] == 7
    assert pd.isna(table.pid[1])


def test_some_columns_can_be_read_alone(run_folder: Path) -> None:
    assert list(read_table(run_folder, "holders", columns=["pid"]).columns) == ["pid"]


def test_a_table_that_is_not_there_is_missed_with_what_to_do(run_folder: Path) -> None:
    with pytest.raises(NoTableError, match=r"tables/jobs: the table is not there or not whole; make it by: stallbench report"):
        read_table(run_folder, "jobs")


def test_a_table_that_is_not_whole_is_not_read(run_folder: Path) -> None:
    (run_folder / "tables" / "holders" / "_SUCCESS").unlink()
    with pytest.raises(NoTableError):
        read_table(run_folder, "holders")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda file: pq.write_table(pa.table({"x": [1]}), file), "has none of its columns"),
        (lambda file: file.write_bytes(b"PAR1garbage"), "cannot be read"),
        (
            lambda file: pq.write_table(pa.table({"holder": ["b"], "server": ["p"], "from_ns": ["no number"]}), file),
            "has something else in its column from_ns",
        ),
        (
            lambda file: pq.write_table(
                pa.table({name: pa.nulls(MOST_ROWS + 1, kind) for name, kind in FEW_KILOBYTES.items()}), file
            ),
            "and at most 1,000,000 are read",
        ),
    ],
    ids=["other columns", "no Parquet", "other types", "more rows than memory"],
)
def test_what_somebody_has_put_in_the_place_of_a_table_is_one_message(
    run_folder: Path, make: Callable[[Path], object], said: str
) -> None:
    folder = run_folder / "tables" / "holders"
    for file in folder.glob("*.parquet"):
        file.unlink()
    make(folder / "part-0.parquet")
    with pytest.raises(NoTableError, match=said):
        read_table(run_folder, "holders")


def test_a_name_that_no_table_has_is_a_mistake_of_the_caller(run_folder: Path) -> None:
    with pytest.raises(ValueError, match="there is no table 'holder'; there are jobs, windows"):
        read_table(run_folder, "holder")


def test_reading_needs_neither_spark_nor_java(run_folder: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from stallbench.pipeline.tables import read_table\n"
        f"read_table(Path({str(run_folder)!r}), 'holders')\n"
        "assert not {'pyspark', 'py4j'} & set(sys.modules), 'Spark was loaded'"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PATH": "/nowhere"}, cwd=Path(__file__).parents[2])
