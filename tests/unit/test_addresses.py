"""Runs at an address are read and written like those in a folder; ``memory://`` is a file system within this process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from stallbench.base.storage.address import address_errors, is_address, open_address
from stallbench.base.storage.atomic_file import replace_file
from stallbench.cli import main
from stallbench.commands.endings import move_run
from stallbench.errors import EXIT_BAD_INPUT, EXIT_NOT_CARRIED_OUT, BadInputError, NotCarriedOutError
from stallbench.pipeline.large_tables import read_first
from stallbench.pipeline.paths import name_folder
from stallbench.pipeline.tables import read_table
from stallbench.report import make_report
from stallbench.run.folder import find_run_at
from stallbench.run.upload import open_for_upload, upload
from stallbench.verdicts import RunTables, judge
from tests.unit.made_up_run import make_record, make_run

pytestmark = pytest.mark.slow

ADDRESS = "memory://bucket/runs/one"


@pytest.fixture(autouse=True)
def memory() -> MemoryFileSystem:
    """The file system within this process, empty."""
    file_system = MemoryFileSystem()
    file_system.store.clear()
    file_system.pseudo_dirs[:] = [""]
    return file_system


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/run", True),
        ("s3a://b/r", True),
        ("gs://b/r", True),
        ("reports/runs", False),
        ("/a:b//c", False),
        ("file:///a", False),
    ],
)
def test_an_address_is_told_from_a_path(text: str, expected: bool) -> None:
    assert is_address(text) is expected


@pytest.mark.parametrize("address", ["s3://bucket/run", "s3a://bucket/run", "s3a://bucket/run/"])
def test_both_names_of_a_bucket_are_one_address_and_spark_gets_the_one_that_it_knows(address: str) -> None:
    assert str(open_address(address)) == "s3://bucket/run"
    assert name_folder(address) == "s3a://bucket/run"


def test_a_report_of_an_uploaded_run_is_that_of_the_folder(tmp_path: Path, memory: MemoryFileSystem) -> None:
    local = make_run(tmp_path)
    make_report(local, judge(local))
    address = open_address(ADDRESS)
    upload(tmp_path, address)
    for name in ("verdict.json", "report.html", "junit.xml", "summary.md"):
        (address / name).unlink()
    there = RunTables(find_run_at(ADDRESS))
    make_report(there, judge(there))
    for name in ("verdict.json", "report.html", "summary.md"):
        assert (address / name).read_text() == (tmp_path / name).read_text()
    assert read_table(address, "phases").equals(read_table(tmp_path, "phases"))
    assert list(read_first(address, "order", 2)["diff"]) == [0, 3]


def test_where_the_record_is_the_records_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: MemoryFileSystem
) -> None:
    make_run(tmp_path)
    copied: list[str] = []
    put_file = MemoryFileSystem.put_file

    def put_and_remember(self: MemoryFileSystem, file: str, path: str) -> None:
        put_file(self, file, path)
        copied.append(path)

    monkeypatch.setattr(MemoryFileSystem, "put_file", put_and_remember)
    upload(tmp_path, open_address(ADDRESS))
    assert len(copied) > 10
    assert copied[-1].endswith("/run.json")


def test_a_run_can_be_uploaded_again_but_does_not_replace_another(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        (tmp_path / name).mkdir()
        make_run(tmp_path / name, make_record(seed=seed))
    address = open_address(ADDRESS)
    upload(tmp_path / "one", address)
    upload(tmp_path / "one", address)
    before = (address / "run.json").read_text()
    with pytest.raises(NotCarriedOutError, match="another run is already there; upload this one to another address"):
        upload(tmp_path / "two", address)
    assert (address / "run.json").read_text() == before


def test_a_run_that_was_moved_is_only_there(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    make_run(folder)
    (tmp_path / "latest").symlink_to("one")
    assert move_run(folder, open_address("memory://bucket/runs"))
    assert (open_address(ADDRESS) / "run.json").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_arrives_in_part_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: MemoryFileSystem
) -> None:
    make_run(tmp_path)
    monkeypatch.setattr(MemoryFileSystem, "put_file", lambda self, file, path: self.pipe_file(path, b"x"))
    with pytest.raises(NotCarriedOutError, match=r"has 1 of its \d+ bytes after the upload") as error:
        upload(tmp_path, open_address(ADDRESS))
    assert error.value.exit_code == EXIT_NOT_CARRIED_OUT


def test_a_place_for_uploads_is_tried_and_left_empty(memory: MemoryFileSystem) -> None:
    open_for_upload(ADDRESS)
    assert not [path for path in memory.store if ".stallbench" in path]


def test_a_file_at_an_address_is_replaced_as_a_whole() -> None:
    path = open_address(f"{ADDRESS}/verdict.json")
    for text in ("longer than the next", "short"):
        replace_file(path, text)
    assert path.read_text() == "short"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("s3://", r'^s3://: the bucket is ""; expected s3://BUCKET/FOLDER$'),
        ("s3a:///run", r'^s3a:///run: the bucket is ""; expected s3a://BUCKET/FOLDER$'),
        ("s3://my bucket/run", r'^s3://my bucket/run: the bucket is "my bucket"; expected s3://BUCKET/FOLDER$'),
        ("foo://bucket/run", r"^foo://bucket/run: its file system is not available: .*foo"),
        ("gs://bucket/run", r"^gs://bucket/run: its file system is not available: .*gcsfs"),
        ("memory://bucket/none", r"^memory://bucket/none: not a run's folder: it has no run\.json$"),
    ],
)
def test_an_address_without_a_run_is_one_line_and_bad_input(address: str, expected: str) -> None:
    with pytest.raises(BadInputError, match=expected):
        find_run_at(address)


def test_a_secret_in_an_address_is_refused_without_repeating_it() -> None:
    with pytest.raises(BadInputError, match=r"^s3://\.\.\.@bucket: the address contains a secret") as error:
        find_run_at("s3://me:hunter2@bucket/run")
    assert "hunter2" not in str(error.value)


def test_what_the_bench_does_wrong_is_no_error_of_the_file_system() -> None:
    with pytest.raises(ZeroDivisionError), address_errors(ADDRESS):
        _ = 1 / 0


@pytest.mark.parametrize("command", [["compare", "longtx"], ["soak", "longtx-again"], ["clean"]])
def test_commands_that_need_a_folder_refuse_an_address(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["stallbench", *command, "--runs", "s3://bucket/runs"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == EXIT_BAD_INPUT
    assert capsys.readouterr().err.startswith("--runs s3://bucket/runs: expected a folder on this machine")


def test_a_run_is_refused_before_it_starts_if_it_could_not_be_copied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["stallbench", "run", "baseline", "--runs", "foo://bucket/runs"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == EXIT_BAD_INPUT
    assert capsys.readouterr().err.startswith("foo://bucket/runs: its file system is not available")


def test_without_an_address_no_library_of_file_systems_is_loaded() -> None:
    script = "import sys, stallbench.cli; print(sorted({'fsspec', 's3fs', 'upath', 'botocore'} & set(sys.modules)))"
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    assert json.loads(shown.stdout.replace("'", '"')) == []
