"""A run's folder that somebody has sent, as an archive or a repository: nothing outside of it is read, written, removed or waited for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stallbench import PROJECT
from stallbench.base.storage.private import UntrustedError
from stallbench.errors import EXIT_BAD_INPUT, EXIT_FAIL, EXIT_NOT_CARRIED_OUT, BadInputError
from stallbench.pipeline.failures import NoTableError
from stallbench.pipeline.large_tables import read_batches
from stallbench.pipeline.tables import read_table
from stallbench.records.sealing import remove_event_logs, seal
from stallbench.run.folder import find_study_folder
from stallbench.run.record import read_record
from stallbench.studies.kind import read_kind
from stallbench.studies.limit.record import LimitRecord
from stallbench.studies.study import parse_study
from stallbench.verdicts.baseline.against import read_against
from tests.end_to_end.conftest import RunHere

SAMPLE = PROJECT / "tests" / "small_run"
NAME = "20260101T000000Z-sent"

pytestmark = pytest.mark.usefixtures("use_pipeline_service")


def says(ended: subprocess.CompletedProcess[str]) -> str:
    """What a command says, in one line, however wide its terminal is."""
    return " ".join((ended.stdout + ended.stderr).split())


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """A finished run."""
    folder = tmp_path / "runs" / NAME
    shutil.copytree(SAMPLE, folder)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user's, with names as the bench gives them."""
    folder = tmp_path / "outside"
    for name in ("jobs", "order"):
        (folder / name).mkdir(parents=True)
        (folder / name / "precious").write_text("keep")
    for name in ("config", "password"):
        (folder / name).write_text("keep")
    return folder


def list_kept(outside: Path) -> dict[str, str]:
    return {str(path.relative_to(outside)): path.read_text() for path in outside.rglob("*") if path.is_file()}


def put_link(at: Path, to: Path) -> None:
    if at.is_dir():
        shutil.rmtree(at)
    at.unlink(missing_ok=True)
    at.symlink_to(to)


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("logs/pipeline.log", "config"),
        ("logs", ""),
        ("tables", ""),
        ("tables/order", "order"),
        ("sealed", ""),
        ("events/worker-1.csv", "config"),
        ("run.json", "run.json"),
        ("report.html", "config"),
    ],
)
def test_a_report_follows_no_link(run_here: RunHere, sent: Path, outside: Path, name: str, to: str) -> None:
    shutil.copy(sent / "run.json", outside)
    before = list_kept(outside)
    put_link(sent / name, outside / to)
    ended = run_here("report", sent)
    assert (ended.returncode, list_kept(outside)) == (EXIT_NOT_CARRIED_OUT, before)
    assert f"{sent / name}: is a link; expected only files and folders in {sent}: remove it" in says(ended)


@pytest.mark.parametrize("command", ["report", "baseline"])
def test_no_command_follows_a_link_in_the_folder_of_a_study(
    run_here: RunHere, tmp_path: Path, outside: Path, command: str
) -> None:
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "study.json").write_text("{}")
    (folder / "report.html").symlink_to(outside / "config")
    ended = run_here(command, folder)
    assert "report.html: is a link" in says(ended)
    assert ended.returncode in (EXIT_BAD_INPUT, EXIT_NOT_CARRIED_OUT)
    assert (outside / "config").read_text() == "keep"


@pytest.mark.parametrize("link", ["current", ".current"])
def test_the_link_to_the_running_cycle_of_a_soak_is_no_reason_to_refuse_it_and_one_of_its_cycles_is(
    tmp_path: Path, link: str
) -> None:
    soak = tmp_path / "soak"
    cycle = soak / "cycles" / "000001"
    cycle.mkdir(parents=True)
    (soak / "study.json").write_text("{}")
    (soak / link).symlink_to("cycles/000001")
    assert find_study_folder("soak", tmp_path) == soak
    (cycle / link).symlink_to("..")
    with pytest.raises(UntrustedError, match=f"{cycle / link}: is a link"):
        find_study_folder("soak", tmp_path)


def test_an_upload_copies_nothing_to_which_a_link_leads(run_here: RunHere, sent: Path, outside: Path, tmp_path: Path) -> None:
    put_link(sent / "logs" / "worker-9.log", outside / "config")
    bucket = tmp_path / "bucket"
    shutil.copytree(SAMPLE, bucket / NAME)  # an address of this kind makes no folders
    ended = run_here("upload", sent, f"local://{bucket}")
    assert ended.returncode == EXIT_NOT_CARRIED_OUT
    assert "worker-9.log: is a link" in says(ended)
    assert not list(bucket.rglob("worker-9.log"))


@pytest.mark.parametrize("name", ["against.json", "events/worker-9.csv", "README"])
def test_a_report_does_not_wait_for_a_pipe(run_here: RunHere, sent: Path, name: str) -> None:
    os.mkfifo(sent / name)
    ended = run_here("report", sent)
    assert ended.returncode == EXIT_NOT_CARRIED_OUT
    assert f"{sent / name}: is a pipe, a socket or a device" in says(ended)


def test_clean_removes_no_password_to_which_a_link_leads(run_here: RunHere, sent: Path, outside: Path) -> None:
    before = list_kept(outside)
    put_link(sent / "external", outside)
    ended = run_here("clean", "--runs", sent.parent)
    assert (ended.returncode, list_kept(outside)) == (0, before)
    assert f"left as it is: {sent / 'external'}" in says(ended)


def test_clean_removes_the_password_of_a_run_that_a_group_may_join(run_here: RunHere, sent: Path) -> None:
    external = sent / "external"
    external.mkdir()
    (external / "password").write_text("secret")
    external.chmod(0o3770)
    assert run_here("clean", "--runs", sent.parent).returncode == 0
    assert not list(external.iterdir())


@pytest.mark.parametrize("name", ["run.json", "study.json", "soak.json", "comparison.json"])
def test_a_record_that_is_nested_too_deeply_is_one_message_and_stops_no_clean(run_here: RunHere, sent: Path, name: str) -> None:
    deep = sent.with_name("20260101T000000Z-deep")
    (deep / "events").mkdir(parents=True)
    (deep / name).write_text("[" * 200_000)
    (sent / "external").mkdir()
    (sent / "external" / "password").write_text("secret")
    cleaned = run_here("clean", "--runs", sent.parent)
    assert (cleaned.returncode, "Traceback" in says(cleaned)) == (0, False)
    assert not (sent / "external" / "password").exists(), "the folder after it is cleaned"
    reported = run_here("report", deep)
    assert (reported.returncode, "Traceback" in says(reported)) == (EXIT_BAD_INPUT, False)


def test_a_baseline_that_is_nested_too_deeply_is_one_message(run_here: RunHere, sent: Path) -> None:
    (sent / "against.json").write_text("[" * 200_000)
    ended = run_here("report", sent)
    assert (ended.returncode, "Traceback" in says(ended)) == (EXIT_FAIL, False)
    assert "against.json: damaged" in says(ended)


def test_a_folder_without_links_is_reported_also_by_a_link_of_its_user(run_here: RunHere, sent: Path) -> None:
    (sent.parent / "latest").symlink_to(sent.name)
    ended = run_here("report", "latest", "--runs", sent.parent)
    assert "is a link" not in says(ended)
    assert ended.returncode == 0, says(ended)


def repeat_text(times: int) -> pa.DictionaryArray:
    """A text of two kilobytes, which Parquet stores once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array(["x" * 2000]))


@pytest.mark.parametrize(
    ("name", "column", "make"),
    [
        ("torn", "file", lambda: repeat_text(900_000)),
        ("errors", "faults", lambda: pa.ListArray.from_arrays(list(range(0, 900_001, 900)), repeat_text(900_000))),
        ("conservation", "examples", lambda: pa.ListArray.from_arrays([0, 11_000_000], pa.array([0] * 11_000_000))),
    ],
)
def test_a_small_table_with_gigabytes_in_it_is_not_read(sent: Path, name: str, column: str, make: Callable[[], pa.Array]) -> None:
    shutil.rmtree(sent / "tables" / name)
    (sent / "tables" / name).mkdir()
    file = sent / "tables" / name / "part.parquet"
    pq.write_table(pa.table({column: make()}), file, store_schema=False, write_statistics=False)
    (sent / "tables" / name / "_SUCCESS").touch()
    assert file.stat().st_size < 50_000
    with pytest.raises(NoTableError, match=f"in its column {column}.*, and at most .* are read"):
        read_table(sent, name)


def test_a_small_table_with_gigabytes_in_it_is_not_read_in_batches_either(sent: Path) -> None:
    shutil.rmtree(sent / "tables" / "duplicates")
    (sent / "tables" / "duplicates").mkdir()
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 50_000, pa.int32()), pa.array(["x" * 30_000]))
    file = sent / "tables" / "duplicates" / "part.parquet"
    pq.write_table(pa.table({"job_id": range(50_000), "reason": long}), file, store_schema=False, write_statistics=False)
    (sent / "tables" / "duplicates" / "_SUCCESS").touch()
    assert file.stat().st_size < 1_000_000
    with pytest.raises(NoTableError, match=r"in its column reason, and at most .* are read"):
        list(read_batches(sent, "duplicates", ["job_id", "reason"]))
    assert sum(batch.num_rows for batch in read_batches(sent, "duplicates", ["job_id"])) == 50_000


def test_a_sealed_record_of_some_kilobytes_with_a_million_rows_is_not_read(sent: Path) -> None:
    """Its event logs were removed, so that only the sealed ones are there: they are not used, and not made again."""
    seal(sent)
    remove_event_logs(sent)
    file, manifest = sent / "sealed" / "events" / "worker-1.parquet", sent / "sealed" / "records.json"
    row = pq.read_table(file).slice(0, 1)
    pq.write_table(row.take([0] * 1_000_000), file, compression="none", store_schema=False, write_statistics=False)
    assert file.stat().st_size < 20_000
    content = json.loads(manifest.read_text())
    (forged,) = [each for each in content["files"] if each["name"] == "events/worker-1.csv"]
    forged |= {"lines": 1_000_000}
    manifest.write_text(json.dumps(content))
    with pytest.raises(OSError, match=r"sealed/ has the only copy of 5 event logs, but .* damaged"):
        seal(sent)


@pytest.mark.parametrize(
    ("name", "read"),
    [("run.json", lambda folder: read_record(folder / "run.json")), ("study.json", read_kind), ("against.json", read_against)],
)
def test_a_record_of_gigabytes_is_one_message(sent: Path, name: str, read: Callable[[Path], object]) -> None:
    with (sent / name).open("a") as file:
        file.truncate(2 << 30)
    with pytest.raises(BadInputError, match=f"{name}: has 2,147,483,648 bytes; a record has at most"):
        read(sent)


def test_a_study_that_is_no_text_is_one_message(sent: Path) -> None:
    (sent / "study.json").write_bytes(b'{"kind": "limit", "reason": "\xff"}')
    with pytest.raises(BadInputError, match=r"study\.json: not a record: byte 29 is no text in UTF-8"):
        read_kind(sent)
    with pytest.raises(BadInputError, match="not a study's record: Exceeds the limit"):
        parse_study('{"format": ' + "9" * 5000 + "}", "sent", LimitRecord)


def test_texts_in_lists_of_a_table_are_read(sent: Path) -> None:
    shutil.rmtree(sent / "tables" / "errors")
    (sent / "tables" / "errors").mkdir()
    pq.write_table(pa.table({"phase": ["a", "b"], "faults": [["x", "y"], None]}), sent / "tables" / "errors" / "part.parquet")
    (sent / "tables" / "errors" / "_SUCCESS").touch()
    found = read_table(sent, "errors")
    assert [list(found["phase"]), list(found["faults"][0]), found["faults"][1]] == [["a", "b"], ["x", "y"], None]
