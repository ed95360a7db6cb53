"""What is to be published: every command of the plan can be carried out, and a campaign measures what is stale or missing, and goes on after a kill."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.evidence.collection import Collection
from stallbench.evidence.document import write_document
from stallbench.scenario.file import read_scenario
from stallbench.scenario.model import CONTROL
from stallbench.studies.comparison.plan import make_plan
from tests.unit.made_up_published import SAMPLE, MadeUpPublished
from tests.unit.test_evidence import make_current
from tools.evidence import campaign
from tools.evidence.plan import Entry, find_standing, list_measurements, read_plan

RUN = Entry(study="run", tier=1, shown="a page", scenarios=("longtx",), rounds=1, minutes=1)
(LONGTX,) = list_measurements([RUN])


def test_every_command_of_the_plan_names_what_exists() -> None:
    measurements = list_measurements(read_plan())
    for each in measurements:
        if each.entry.study == "compare" and not each.entry.libraries:
            variants = ",".join(each.entry.variants) or None
            make_plan(each.subject, variants=variants, rounds=each.entry.rounds, seed=None, overrides=each.entry.changes)
        elif each.entry.study in ("run", "matrix", "limit") and each.seed in (None, 1):
            read_scenario(each.subject, variant=each.variant, overrides=each.changes)
    assert len({each.command for each in measurements}) == len(measurements), "nothing is measured twice"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[measure]]\nstudy = 'run'\ntier = 1\nshown = ''\nminutes = 1\n", "run needs scenarios"),
        ("[[measure]]\nstudy = 'dance'\n", "study"),
        ("[[", "plan.toml"),
    ],
)
def test_a_plan_that_is_not_valid_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(BadInputError, match=why):
        read_plan(tmp_path / "plan.toml")


def write_current(folder: Path, seed: int = 1, variant: str | None = None) -> str:
    """Publish a run of longtx that is current; returns its id."""
    document = make_current(MadeUpPublished().add_run(f"2026010{seed}T000000Z-longtx", "river", "longtx"))
    scenario = read_scenario("longtx", variant=variant, overrides=[f"seed={seed}"])
    record = document.record.model_copy(update={"scenario": scenario, "seed": seed, "queue": make_current(document).record.queue})
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    (folder / "runs" / f"{document.id}.json").write_text(
        write_document(document.model_copy(update={"record": record, "busy": ()}))
    )
    return document.id


def test_a_measurement_is_current_stale_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_standing(LONGTX, Collection(tmp_path)).state == "missing"
    name = write_current(tmp_path)
    standing = find_standing(LONGTX, Collection(tmp_path))
    assert (standing.state, standing.published) == ("current", name)
    monkeypatch.setattr("stallbench.evidence.staleness.MEASUREMENT", 99)
    standing = find_standing(LONGTX, Collection(tmp_path))
    assert (standing.state, standing.reasons) == ("stale", ("measurement 1, today 99",))


def test_a_run_of_another_variant_or_seed_is_not_the_measurement(tmp_path: Path) -> None:
    write_current(tmp_path, seed=2)
    write_current(tmp_path, seed=1, variant="batch")
    assert find_standing(LONGTX, Collection(tmp_path)).state == "missing"


def test_what_an_earlier_version_published_is_stale(tmp_path: Path) -> None:
    published = MadeUpPublished()
    published.add_earlier("mitigations-longtx", "batch", outcome="works")
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "mitigations-longtx.json").write_text(write_document(published.tables["mitigations-longtx"]))
    (compared,) = list_measurements([RUN.model_copy(update={"study": "compare"})])
    assert find_standing(compared, Collection(tmp_path)).state == "stale"
    assert find_standing(LONGTX, Collection(tmp_path)).state == "missing", "a run is no comparison of mitigations"


def test_a_comparison_with_fewer_rounds_or_variants_is_not_the_measurement(tmp_path: Path) -> None:
    (compared,) = list_measurements([RUN.model_copy(update={"study": "compare", "variants": (CONTROL, "batch"), "rounds": 3})])
    record = MadeUpPublished().add_comparison(tmp_path, "20260101", {"river": 1.0, "pgmq": 2.0}, "common", ())
    content = json.loads(record.model_dump_json())
    variants = [{"name": CONTROL, "summary": ""}, {"name": "batch", "summary": ""}]
    assert compared.is_of_study("comparison", {**content, "rounds": 3, "variants": variants})
    assert not compared.is_of_study("comparison", {**content, "rounds": 2, "variants": variants})
    assert not compared.is_of_study("comparison", {**content, "rounds": 3, "variants": variants[:1]})
    changed = {**content["scenario"], "changes": ["workers.count=9"]}
    assert not compared.is_of_study("comparison", {**content, "rounds": 3, "variants": variants, "scenario": changed})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for runs and one for evidence, with a plan of one run and a quiet machine."""
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(campaign, "read_plan", lambda: (RUN,))
    monkeypatch.setattr(campaign, "Collection", lambda: Collection(tmp_path / "evidence"))
    monkeypatch.setattr(campaign, "require_quiet", lambda: None)
    monkeypatch.setattr(campaign, "_PROGRAM", Path("/bin/false"))
    monkeypatch.setattr(campaign, "find_reasons_of_run", lambda _: ())
    return tmp_path


def test_a_campaign_carries_out_what_is_missing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = place / "stallbench"
    program.write_text(f'#!/bin/sh\necho "$@" > {place}/words\n')
    program.chmod(0o755)
    monkeypatch.setattr(campaign, "_PROGRAM", program)
    said: list[str] = []
    campaign.carry_out(600, said.append, place / "runs")
    assert (place / "words").read_text() == f"run longtx --set seed=1 --runs {place / 'runs'}\n"
    assert said == ["stallbench run longtx --set seed=1"]


def test_a_campaign_publishes_what_was_measured_before_it_was_killed(place: Path) -> None:
    run = place / "runs" / "20261123T205643Z-longtx"
    shutil.copytree(SAMPLE, run)
    record = json.loads((run / "run.json").read_text())
    record["scenario"]["changes"] = ["producers.rate=40", "phases.longtx.duration=8s"]
    (run / "run.json").write_text(json.dumps(record))
    said: list[str] = []
    campaign.carry_out(600, said.append, place / "runs")
    assert said[0].startswith("not published: "), "the sample run was measured beside other programs"
    assert "--busy-host" in said[0]


def test_a_campaign_begins_no_run_that_it_could_not_end(place: Path) -> None:
    said: list[str] = []
    campaign.carry_out(30, said.append, place / "runs")
    assert said == ["not begun, because 30s are left: stallbench run longtx --set seed=1"]


def test_a_campaign_does_nothing_for_what_is_current(place: Path) -> None:
    write_current(place / "evidence")
    said: list[str] = []
    campaign.carry_out(600, said.append, place / "runs")
    assert said == []


def test_a_machine_that_is_not_quiet_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: 60.0)
    with pytest.raises(NotCarriedOutError, match="the machine is not quiet: 60 % of its processors were in use"):
        campaign.require_quiet()
