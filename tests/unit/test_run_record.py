"""``run.json`` is read back as it was written, and what is no record of this version is refused in one line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from stallbench.errors import BadInputError
from stallbench.processes.record import ProcessRecord
from stallbench.records.injections import InjectionRecord
from stallbench.run.record import FORMAT, read_record
from stallbench.run.recorder import RunRecorder
from stallbench.scenario.file import find_scenarios, read_scenario


def record_of(folder: Path, scenario: str = "longtx") -> RunRecorder:
    return RunRecorder(folder / "run.json", read_scenario(scenario))


@pytest.mark.parametrize("scenario", find_scenarios())
def test_a_record_is_read_back_as_it_was_written(scenario: str, tmp_path: Path) -> None:
    recorder = record_of(tmp_path, scenario)
    assert read_record(tmp_path / "run.json") == recorder.record


def test_what_goes_on_is_recorded_at_once(tmp_path: Path) -> None:
    recorder = record_of(tmp_path)
    recorder.begin_phase(0)
    recorder.note("The disk was slow.")
    recorder.note("The disk was slow.")
    recorder.end_phase(0)
    recorder.end("failed", "the primary did not start")
    record = read_record(tmp_path / "run.json")
    assert record.phases[0].start_ns
    assert record.phases[0].end_ns
    assert [phase.name for phase in record.started_phases] == [record.phases[0].name]
    assert record.notes == ("The disk was slow.",)
    assert (record.status, record.reason) == ("failed", "the primary did not start")


def test_what_others_change_during_a_phase_is_recorded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    recorder = record_of(tmp_path)
    worker = ProcessRecord(name="worker-1", role="worker", pid=7, start_ns=1)
    kill = InjectionRecord(name="kill-1", category="fault", kind="kill", on="workers")
    processes, injections = [worker], [kill]
    recorder.follow("processes", lambda: processes)
    recorder.follow("injections", lambda: injections)
    recorder.write()
    written_ns = (tmp_path / "run.json").stat().st_mtime_ns
    recorder.tick()
    assert (tmp_path / "run.json").stat().st_mtime_ns == written_ns, "nothing has changed"

    injections[0] = kill.model_copy(update={"start_ns": 2, "verified_ns": 3})
    recorder.tick()
    assert read_record(tmp_path / "run.json").injections == (injections[0],), "a fault is recorded at once"

    processes.append(worker.model_copy(update={"name": "worker-1-2"}))
    recorder.tick()
    assert len(read_record(tmp_path / "run.json").processes) == 1, "processes are read once a second"
    now_s += 1
    recorder.tick()
    assert [process.name for process in read_record(tmp_path / "run.json").processes] == ["worker-1", "worker-1-2"]


@pytest.mark.parametrize(("tries", "attempt_limit"), [(0, None), (1, 1)], ids=["a job is tried for ever", "a job is tried once"])
def test_the_queue_declares_after_how_many_attempts_it_fails_a_job(tries: int, attempt_limit: int | None, tmp_path: Path) -> None:
    scenario = read_scenario("laravel-deadlock", overrides=[f"queue.tries={tries}"])
    assert RunRecorder(tmp_path / "run.json", scenario).record.queue.attempt_limit == attempt_limit


@pytest.mark.parametrize(("format_", "age"), [(FORMAT - 1, "an older"), (FORMAT + 1, "a newer")], ids=["older", "newer"])
def test_a_record_of_another_format_is_refused_by_one_message(format_: int, age: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"format": format_, "id": "a run"}))
    with pytest.raises(BadInputError) as raised:
        read_record(path)
    assert str(raised.value) == (
        f"{path}: format {format_} was written by {age} stallbench; this version reads format {FORMAT}; "
        "run the scenario again, or read it with the version that wrote it"
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not a run's record: Invalid JSON"),
        ("[]", "not a run's record: Input should be an object"),
        ('{"format": 2}', "not a run's record: id: Field required"),
    ],
)
def test_what_is_no_record_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(BadInputError, match=complaint) as raised:
        read_record(tmp_path / "run.json")
    assert "\n" not in str(raised.value)


def test_phases_of_one_name_are_refused(tmp_path: Path) -> None:
    recorder = record_of(tmp_path)
    content = json.loads((tmp_path / "run.json").read_text())
    content["phases"] *= 2
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(BadInputError, match=f"two phases are named '{min(phase.name for phase in recorder.record.phases)}'"):
        read_record(tmp_path / "run.json")
