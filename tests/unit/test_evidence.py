"""What is published of a run or a study: the same outcome and verdict as from its folder, without its machine, and stale when something has changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from stallbench.cli import app
from stallbench.errors import BadInputError
from stallbench.evidence import staleness
from stallbench.evidence.collection import EVIDENCE, Collection
from stallbench.evidence.document import FOLDERS, MOST_BYTES, RunDocument, make_evidence_schema, read_document, write_document
from stallbench.evidence.publication import make_run_document, publish
from stallbench.evidence.staleness import find_reasons, find_scenario_of_today
from stallbench.evidence.stored_run import StoredRun
from stallbench.queues import find_queue
from stallbench.queues.code_hash import hash_queue
from stallbench.run.record import MEASUREMENT
from stallbench.scenario.expectation import Expectation
from stallbench.scenario.schema import write_schema
from stallbench.studies.comparison.record import ComparisonFolder
from stallbench.studies.comparison.results import find_results
from stallbench.verdicts.check import RunTables
from tests.unit.made_up_comparison import conclude_comparison
from tests.unit.made_up_published import SAMPLE, MadeUpPublished, read_sample

SCHEMA = EVIDENCE / "schema.json"
PUBLISHED = sorted(EVIDENCE.glob("*/*.json"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that can be changed."""
    return Path(shutil.copytree(SAMPLE, tmp_path / "runs" / "20261123T205643Z-longtx"))


def change_record(run: Path, change: Callable[[Any], None]) -> None:
    content = json.loads((run / "run.json").read_text())
    change(content)
    (run / "run.json").write_text(json.dumps(content))


def test_outcome_and_verdict_follow_from_the_document() -> None:
    again = StoredRun(read_sample()).verdict
    of_folder = json.loads((SAMPLE / "verdict.json").read_text())
    assert (again.verdict, again.reason) == (of_folder["verdict"], of_folder["reason"])
    assert again.outcome is not None
    assert again.outcome.worst is not None
    expected = RunTables(SAMPLE).outcome.worst
    assert expected is not None
    assert (again.outcome.worst.effect, again.outcome.worst.recovery.kind) == (expected.effect, expected.recovery.kind)


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(write_document(read_sample()))
    assert read_document(path) == read_sample()


def test_the_figures_of_all_phases_are_published() -> None:
    stored, tables = StoredRun(read_sample()), RunTables(SAMPLE)
    for phase in ("baseline", "longtx", None):
        for measure, statistic in (("latency_ms", "p95"), ("dead_tuples", "mean"), ("completed", "rate")):
            found = tables.metric(measure, statistic, phase)
            assert stored.metric(measure, statistic, phase) == (None if found is None else pytest.approx(found, rel=1e-5))


def test_a_run_is_judged_again_by_the_expectations_of_today() -> None:
    today = find_scenario_of_today(read_sample().record)
    stricter = Expectation.model_validate({"metric": "latency_ms.p95", "phase": "longtx", "at_most": 0.001})
    verdict = StoredRun(read_sample(), today.model_copy(update={"expect": (stricter,)})).verdict
    assert verdict.verdict == "fail"
    assert "latency_ms.p95 in longtx" in verdict.reason


def test_nothing_of_the_machine_is_published(run: Path, tmp_path: Path) -> None:
    change_record(
        run,
        lambda content: content["notes"].append(f"see {run}/logs/primary.log, library:{run}/app and https://example.test/a/b"),
    )
    (path,) = publish(str(run), run.parent, tmp_path / "evidence", even_if_busy=True)
    text = path.read_text()
    assert str(tmp_path) not in text
    assert "see primary.log, library:app and https://example.test/a/b" in text
    document = read_document(path)
    assert isinstance(document, RunDocument)
    assert {process.pid for process in document.record.processes} == {0}
    assert document.record.host.boot_id == ""
    assert document.record.servers[0].port is None


def test_a_run_that_names_the_host_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "snowdrop")
    change_record(run, lambda content: content["notes"].append("the disk of snowdrop was slow"))
    with pytest.raises(BadInputError, match="would name the host of this machine, snowdrop"):
        publish(str(run), run.parent, tmp_path / "evidence", even_if_busy=True)
    assert not (tmp_path / "evidence").exists()


def test_a_run_on_a_busy_machine_is_published_only_on_request_and_says_so(run: Path, tmp_path: Path) -> None:
    """The sample run had the machine for itself by a fifth only."""
    command = ["publish", str(run), "--to", str(tmp_path / "evidence")]
    with pytest.raises(BadInputError, match=r"Other programs used 81 % of the processors in baseline.*\n(.*\n)*.*--busy-host"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    result = CliRunner().invoke(app, [*command, "--busy-host"], catch_exceptions=False)
    assert result.exit_code == 0
    (path,) = (tmp_path / "evidence" / "runs").iterdir()
    assert path.name in result.output
    assert read_document(path).busy[0].startswith("Other programs used 81 %")  # type: ignore[union-attr]


def test_a_run_whose_verdict_does_not_follow_from_its_figures_is_refused(run: Path) -> None:
    path = run / "verdict.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"verdict": "fail" if content["verdict"] == "pass" else "pass"}))
    with pytest.raises(
        BadInputError, match=r"computed again from its figures, is .*; judge it by this version first: stallbench report"
    ):
        make_run_document(run)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"status": "aborted"}, "its status is aborted; expected completed"),
        ({"is_observation": True}, "only a server was observed"),
    ],
)
def test_a_run_that_is_no_result_is_refused(run: Path, changes: dict[str, object], found: str) -> None:
    change_record(run, lambda content: content.update(changes))
    with pytest.raises(BadInputError, match=f"cannot be published: {found}"):
        make_run_document(run)


def make_current(document: RunDocument) -> RunDocument:
    """Return the document as a run of today would have it."""
    record = document.record
    bench = record.bench.model_copy(update={"measurement": MEASUREMENT})
    queue = record.queue.model_copy(update={"code": hash_queue(find_queue(record.queue.kind))})
    scenario = find_scenario_of_today(record)
    return document.model_copy(
        update={"record": record.model_copy(update={"bench": bench, "queue": queue, "scenario": scenario})}
    )


def test_a_result_is_stale_if_the_measurement_the_scenario_or_the_queue_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    current = make_current(read_sample())
    assert find_reasons(current) == ()
    record = current.record
    workers = record.scenario.workers.model_copy(update={"count": 99})
    changed = record.model_copy(update={"scenario": record.scenario.model_copy(update={"workers": workers})})
    (reason,) = find_reasons(current.model_copy(update={"record": changed}))
    assert reason.startswith("the scenario has changed: workers.count is ")
    other = record.model_copy(update={"queue": record.queue.model_copy(update={"code": "0123"})})
    assert find_reasons(current.model_copy(update={"record": other})) == ("the queue's code or statements have changed",)
    monkeypatch.setattr(staleness, "MEASUREMENT", MEASUREMENT + 1)
    assert find_reasons(current) == (f"measurement {MEASUREMENT}, today {MEASUREMENT + 1}",)


def test_a_change_of_a_sentence_or_a_bound_makes_nothing_stale() -> None:
    current = make_current(read_sample())
    scenario = current.record.scenario.model_copy(update={"summary": "Other words.", "expect": ()})
    assert find_reasons(current.model_copy(update={"record": current.record.model_copy(update={"scenario": scenario})})) == ()


def test_a_result_of_a_library_is_stale_if_its_packages_or_its_adapter_have_changed() -> None:
    document = MadeUpPublished().add_run("20260101T000000Z-longtx", "river", "longtx")
    library = {"title": "River", "version": "0.1.0", "language": "go", "completion": "", "rescue": "", "locks": "0123"}
    queue = document.record.queue.model_copy(update={"code": "0123"})
    queue = type(queue).model_validate({**queue.model_dump(), "library": library})
    found = find_reasons(document.model_copy(update={"record": document.record.model_copy(update={"queue": queue})}))
    assert "the library's packages have changed: 0.1.0 then, 0.51.1 today" in found
    assert "the library's adapter or definition has changed" in found


def test_a_comparison_and_its_runs_are_published_and_give_the_same_results(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    published = MadeUpPublished()
    record = published.add_comparison(runs, "20260101", {"river": 700.0, "pgmq": 500.0}, "own")
    for run in record.runs:
        shutil.copytree(SAMPLE, runs / str(run.folder))
        change_record(runs / str(run.folder), lambda content, name=run.folder: content.update(id=name))  # type: ignore[misc]
    (folder,) = runs.glob("*-compare-longtx")
    (folder / "study.json").write_text(record.model_copy(update={"id": folder.name}).model_dump_json())
    paths = publish(folder.name, runs, tmp_path / "evidence", even_if_busy=True)
    assert sorted(path.parent.name for path in paths) == ["runs", "runs", "studies"]
    (again,) = Collection(tmp_path / "evidence").comparisons("longtx")
    from_folder, _ = conclude_comparison(ComparisonFolder(folder))
    assert [run.values for run in again.runs] == [pytest.approx(run.values, rel=1e-4, nan_ok=True) for run in from_folder.runs]
    assert find_results(again).recommendation == find_results(from_folder).recommendation


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_every_published_file_is_small_valid_and_named_by_what_it_has(path: Path) -> None:
    assert path.stat().st_size <= MOST_BYTES
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(json.loads(path.read_text()))
    document = read_document(path)
    name = document.table if document.kind == "earlier" else document.id
    assert (path.parent.name, path.stem) == (FOLDERS[document.kind], name)


def test_every_published_run_has_an_outcome_and_a_verdict_by_the_present_rules() -> None:
    for stored in Collection().runs():
        assert stored.verdict.outcome is not None, stored.document.id


def test_the_schema_is_current() -> None:
    """Repeat ``python -m tools.evidence schema`` after a change of the models."""
    assert SCHEMA.read_text() == write_schema(make_evidence_schema())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "kind"),
        ("no", "not evidence"),
        ('{"format": 9}', "was written by a newer stallbench"),
        ('{"kind": "run"}', "Field required"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match=rf"damaged\.json: .*{why}"):
        read_document(path)
