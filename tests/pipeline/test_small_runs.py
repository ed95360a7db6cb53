"""What makes a small run cheap: no question is asked twice, no rows move between tasks, and what is known without Spark is written without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from stallbench.pipeline import read
from stallbench.pipeline.failures import PipelineError
from stallbench.pipeline.job_states import make_jobs
from stallbench.pipeline.paths import name_folder
from stallbench.pipeline.table_writer import TableWriter
from tests.pipeline.conftest import ReadParts
from tests.synthetic_run import SyntheticRun

_QUESTION = "r\n"
"""How a message to Java begins that asks for a class or a function."""


def test_java_is_not_asked_again_for_the_name_of_a_function(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    client, messages = gateway._gateway_client, list[str]()
    send = client.send_command

    def note_and_send(command: str, *rest: object, **named: object) -> object:
        messages.append(command)
        return send(command, *rest, **named)

    def make_columns() -> None:
        F.coalesce(F.max("a"), F.lit(1))

    make_columns()
    monkeypatch.setattr(client, "send_command", note_and_send)
    make_columns()
    assert len(messages) > 3
    assert [message for message in messages if message.startswith(_QUESTION)] == []


@pytest.mark.parametrize(("most_lines", "is_exchanged"), [(7, False), (6, True)])
def test_the_rows_of_a_run_with_few_lines_stay_in_one_task(
    read_parts: ReadParts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_lines: int, is_exchanged: bool
) -> None:
    """This run has four events, two lines of a torn file, and the end of its final snapshot."""
    monkeypatch.setattr(read, "ONE_TASK_LINES", most_lines)
    run = SyntheticRun(tmp_path / "run").live(1, at_s=1).garble("events/worker-2.csv", b"torn\ntorn\n")
    parts = read_parts(run.write(final_snapshot={}))
    assert parts.records.line_count == 7
    plan = make_jobs(parts.records, parts.record)._jdf.queryExecution().executedPlan().toString()
    assert ("Exchange" in plan) == is_exchanged


def test_a_table_that_cannot_be_written_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("")
    with (
        pytest.raises(PipelineError, match=r"^\S+/tables/torn: the table cannot be written: \w"),
        TableWriter(spark, name_folder(tmp_path)) as writer,
    ):
        writer.put("torn")
