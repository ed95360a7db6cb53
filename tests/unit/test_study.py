"""What every study does, of whatever kind: carries its runs out, records them, ends early, continues, and is found again. Nothing is started here."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import ClassVar, Literal

import psutil
import pytest
from pydantic import ValidationError

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.leftovers import remove_leftovers
from stallbench.report.outcome_text import VerdictWords
from stallbench.run.folder import RunFolder, find_study_folder
from stallbench.run.record import BenchRecord, describe_bench
from stallbench.scenario.model import Scenario
from stallbench.studies import study as study_module
from stallbench.studies.comparison.record import ComparisonFolder
from stallbench.studies.kind import find_kind, read_kind
from stallbench.studies.study import Runner, Study, StudyFolder, StudyRecord, StudyRun
from tests.unit.fake_runner import FakeRunner, raise_at
from tests.unit.made_up_comparison import make_scenario


class CountRecord(StudyRecord):
    kind: Literal["count"] = "count"

    @property
    def verdict(self) -> Literal["pass", "fail", "unknown"]:
        return "pass" if all(run.reason == "judged" for run in self.runs if run.status == "completed") else "fail"

    def word_verdict(self) -> VerdictWords:
        return VerdictWords(result=self.verdict, name="counted", sentence="Counted.")


class CountFolder(StudyFolder[CountRecord]):
    model = CountRecord


class Count(Study[CountRecord, StudyRun]):
    """A study of three completed runs."""

    def next_run(self) -> StudyRun | None:
        completed = [run for run in self.record.runs if run.status == "completed"]
        return StudyRun(number=len(self.record.runs) + 1) if len(completed) < 3 else None

    def scenario_of(self, run: StudyRun) -> Scenario:
        return make_scenario(seed=run.number)

    def judge(self, run: StudyRun, folder: RunFolder) -> StudyRun:
        self.runner.make_tables(folder)
        return run.model_copy(update={"reason": "judged"})


class PatientCount(Count):
    ends_at_failure: ClassVar[bool] = False


@pytest.fixture
def fake() -> FakeRunner:
    return FakeRunner(is_latest=False)


@pytest.fixture
def folder(tmp_path: Path) -> CountFolder:
    path = tmp_path / "20300101T000000Z-count"
    path.mkdir()
    return CountFolder(path)


def begin(folder: CountFolder, runner: Runner, kind: type[Count] = Count) -> Count:
    said: list[str] = []
    return kind(folder, CountRecord(id=folder.path.name, bench=describe_bench()), runner, said.append)


def test_the_record_says_before_and_after_each_run_where_the_study_is(folder: CountFolder, fake: FakeRunner) -> None:
    seen: list[list[tuple[str, bool]]] = []
    fake.before_run = lambda _: seen.append([(run.status, run.folder is not None) for run in folder.read().runs])
    record = begin(folder, fake).carry_out()
    done = ("completed", True)
    assert seen == [[("running", True)], [done, ("running", True)], [done, done, ("running", True)]]
    assert folder.read() == record
    assert (record.status, record.exit_code) == ("completed", 0)
    assert all((folder.path / str(run.folder) / "events").is_dir() for run in record.runs)
    assert [scenario.seed for scenario in fake.scenarios] == [1, 2, 3]


@pytest.mark.parametrize("at", ["before_run", "before_tables"])
@pytest.mark.parametrize(
    ("error", "status", "reason", "exit_code"),
    [
        (NotCarriedOutError("no server\nits records: here"), "failed", "no server", 3),
        (OSError("no space"), "failed", "no space", 3),
        (KeyboardInterrupt(), "aborted", "interrupted", 130),
    ],
    ids=["not carried out", "system error", "interrupted"],
)
def test_a_study_that_needs_each_run_ends_with_the_runs_so_far(
    folder: CountFolder, fake: FakeRunner, at: str, error: BaseException, status: str, reason: str, exit_code: int
) -> None:
    setattr(fake, at, raise_at(2, error))
    record = begin(folder, fake).carry_out()
    assert folder.read() == record
    assert (record.status, record.reason, record.exit_code) == (status, reason, exit_code)
    assert [(run.status, run.reason) for run in record.runs] == [("completed", "judged"), (status, reason)]


def test_a_study_that_does_not_need_each_run_goes_on(folder: CountFolder, fake: FakeRunner) -> None:
    fake.before_run = raise_at(2, NotCarriedOutError("no server"))
    record = begin(folder, fake, PatientCount).carry_out()
    assert [run.status for run in record.runs] == ["completed", "failed", "completed", "completed"]
    assert record.status == "completed"


def test_an_unforeseen_error_is_raised_and_recorded(folder: CountFolder, fake: FakeRunner) -> None:
    fake.before_run = raise_at(2, KeyError("unforeseen"))
    with pytest.raises(KeyError, match="unforeseen"):
        begin(folder, fake).carry_out()
    record = folder.read()
    assert (record.status, [run.status for run in record.runs]) == ("failed", ["completed", "failed"])


def test_a_full_disk_ends_the_study_with_what_was_found(
    folder: CountFolder, fake: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    fake.before_run = lambda number: monkeypatch.setattr(study_module, "replace_file", fail) if number == 2 else None
    record = begin(folder, fake).carry_out()
    assert (record.status, record.exit_code, record.runs[0].status) == ("failed", 3, "completed")
    assert record.reason == f"{folder.path / 'study.json'} could not be written: No space left on device"


def test_a_study_is_continued_after_the_run_in_which_its_bench_was_killed(folder: CountFolder, fake: FakeRunner) -> None:
    dead = BenchRecord(version="0", pid=1, process_started_s=1.0)
    runs = (StudyRun(number=1, status="completed", reason="judged"), StudyRun(number=2, status="running"))
    folder.write(CountRecord(id="count", bench=dead, status="running", runs=runs))
    record = Count(folder, folder.read_to_continue().continued(), fake, print).carry_out()
    assert [run.status for run in record.runs] == ["completed", "aborted", "completed", "completed"]
    assert record.runs[1].reason == "the bench was killed during it"
    assert (record.bench.pid, record.status, record.exit_code) == (os.getpid(), "completed", 0)


def test_a_study_that_another_process_carries_out_is_left_alone(folder: CountFolder) -> None:
    own = describe_bench()
    assert psutil.pid_exists(own.pid)
    folder.write(CountRecord(id="count", bench=own))
    with pytest.raises(BadInputError, match=f"is still running, in the process {own.pid}"):
        folder.read_to_continue()


def test_an_invalid_record_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text('{"format": 1}')
    with pytest.raises(BadInputError, match=r"study\.json: not a study's record: id: Field required"):
        ComparisonFolder(tmp_path).read()
    with pytest.raises(
        BadInputError,
        match=r"study\.json: not a study's record: kind is null; expected comparison or conformance or limit or soak or torture",
    ):
        read_kind(tmp_path)


@pytest.mark.parametrize(("format_", "age"), [(0, "an older"), (2, "a newer")])
def test_a_record_in_another_format_is_refused_with_what_to_do(tmp_path: Path, format_: int, age: str) -> None:
    (tmp_path / "study.json").write_text(json.dumps({"format": format_, "kind": "comparison", "id": "other"}))
    with pytest.raises(BadInputError) as raised:
        ComparisonFolder(tmp_path).read()
    assert str(raised.value) == (
        f"{tmp_path}/study.json: format {format_} was written by {age} stallbench; this version reads format 1; "
        "repeat the study, or read it with the version that wrote it"
    )


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("comparison.json", "comparison"),
        ("torture.json", "torture"),
        ("limit.json", "search for a limit"),
        ("soak.json", "soak"),
        ("conformance.json", "test of conformance"),
    ],
)
def test_a_folder_of_an_earlier_version_is_refused_with_what_to_do(tmp_path: Path, file: str, title: str) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / file).write_text('{"format": 2}')
    with pytest.raises(BadInputError) as raised:
        find_study_folder("old", tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}/old: is a {title} of an earlier version of stallbench, which wrote {file}; this version reads study.json: "
        "repeat the study, or read it with the version that wrote it"
    )


@pytest.mark.parametrize("file", ["comparison.json", "limit.json", "soak.json"])
def test_a_folder_of_an_earlier_version_is_deleted_with_the_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nothing-else"))
    old = tmp_path / "runs" / "20250101T000000Z-compare-longtx"
    old.mkdir(parents=True)
    dead = {"version": "0.1.0", "pid": 1, "process_started_s": 1.0}
    (old / file).write_text(json.dumps({"format": 2, "status": "completed", "bench": dead, "variants": []}))
    assert remove_leftovers(tmp_path / "runs", delete_runs=True) == [f"{old.name}: deleted"]


@pytest.mark.parametrize("name", ["comparison", "conformance", "limit", "soak", "torture"])
def test_the_name_of_a_kind_is_that_of_its_folder(name: str) -> None:
    assert find_kind(name, "study.json").folder.model.model_fields["kind"].default == name


@pytest.mark.parametrize(
    "sent", ["javascript:alert(1)//x", "https://evil.test/x", "/etc", "../../home", "a//b", "a/../b", "", ".", "a\nb"]
)
def test_a_record_that_was_sent_leads_to_no_folder_outside_and_to_no_address(folder: CountFolder, sent: str) -> None:
    with pytest.raises(ValidationError, match="is not the path of a folder below that of the runs"):
        StudyRun(number=1, folder=sent)
    folder.write(CountRecord(id="count", bench=describe_bench(), runs=(StudyRun(number=1, folder="cycles/0001"),)))
    path = folder.path / "study.json"
    path.write_text(path.read_text().replace('"cycles/0001"', json.dumps(sent)))
    with pytest.raises(BadInputError, match="is not the path of a folder below that of the runs"):
        folder.read()
