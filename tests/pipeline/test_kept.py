"""A pipeline that is kept for further runs, without a service: one Java for all of them, and what it cannot do is done without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallbench.pipeline import process as pipeline_process
from stallbench.pipeline.process import PipelineProcess
from stallbench.pipeline.tables import read_table
from stallbench.run.folder import RunFolder
from stallbench.waiting import wait_until
from tests.pipeline.test_process import java_of
from tests.synthetic_run import SyntheticRun

pytestmark = [
    pytest.mark.timeout(600),  # it starts Java, on a machine that may be busy with others
    pytest.mark.long,  # test_service has the same done by the service, which keeps a pipeline
]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where its processes keep their files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def make_folder(path: Path, jobs: int) -> RunFolder:
    run = SyntheticRun(path)
    for job in range(1, jobs + 1):
        run.live(job, at_s=1)
    return RunFolder(run.write(final_snapshot={}))


def test_runs_follow_each_other_in_one_java_and_what_that_cannot_do_is_done_without_it(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_folder(tmp_path / "first", 1), make_folder(tmp_path / "second", 2)
    done_without: list[RunFolder] = []
    monkeypatch.setattr(pipeline_process, "make_tables", done_without.append)
    with PipelineProcess() as pipeline:
        pipeline.make_tables(first)
        (java,) = java_of(scratch)
        pipeline.make_tables(second)
        assert java_of(scratch) == [java]
        assert [len(read_table(folder.path, "jobs")) for folder in (first, second)] == [1, 2]
        assert done_without == []
        second.record.unlink()
        pipeline.make_tables(second)
        assert done_without == [second]
    assert java_of(scratch) == []
    assert list(scratch.iterdir()) == []


def test_a_process_that_is_started_before_the_records_are_complete_makes_the_tables(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path / "run", 1)
    with PipelineProcess() as pipeline:
        pipeline.prepare(folder)
        assert wait_until(lambda: bool(java_of(scratch)), within_s=120, every_s=0.1)
        for start in ("_start", "make_tables"):
            monkeypatch.delattr(pipeline_process, start)
        pipeline.make_tables(make_folder(folder.path, 2))
        assert len(read_table(folder.path, "jobs")) == 2
    assert java_of(scratch) == []


def test_a_process_that_is_not_needed_after_all_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    with PipelineProcess() as pipeline:
        pipeline.prepare(make_folder(tmp_path / "run", 1))
        assert wait_until(lambda: bool(java_of(scratch)), within_s=120, every_s=0.1)
    assert java_of(scratch) == []
    assert list(scratch.iterdir()) == []


def test_an_interrupt_while_spark_starts_leaves_no_java(tmp_path: Path, scratch: Path) -> None:
    with PipelineProcess() as pipeline:
        pipeline.prepare(make_folder(tmp_path / "run", 1))
        assert wait_until(lambda: bool(java_of(scratch)), within_s=120, every_s=0.1)
        pipeline._is_at_work = True  # as if its tables were waited for
    assert wait_until(lambda: java_of(scratch) == [], within_s=20, every_s=0.1)
