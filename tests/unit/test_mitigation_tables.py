"""The tables on the pages about mitigations: which comparison a row comes from, what it says, and what stays unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import BadInputError
from stallbench.scenario.file import find_scenarios, read_scenario, read_variants
from stallbench.studies.comparison.plan import make_plan
from stallbench.studies.comparison.record import begin_comparison
from stallbench.verdicts.baseline.compared_metric import choose_subjects, judged_subject_of
from tests.unit.made_up_comparison import make_made_up_record
from tests.unit.scenario_text import SMALL
from tools import mitigation_tables
from tools.mitigation_tables import PAGES, write_tables

TEXT = f"""{SMALL}
[variants.cure]
summary = "A cure."
mitigation = "a book"
workers.count = 3
[variants.relief]
summary = "A relief."
mitigation = "a talk"
workers.count = 4
[variants.other]
summary = "No mitigation."
workers.count = 5
"""
MARKS = "before\n<!-- made-up: begin -->\nSTALE\n<!-- made-up: end -->\nafter\n"
RANKED_BY = {"metric": "latency_ms.p95", "phase": "longtx", "better": "lower"}
"""What a scenario with a longrunner is ranked by, unless it chooses something else."""
DEGRADED = [8.0, 8.2, 7.9]
MEASURED = {"control": DEGRADED, "cure": [1.1, 1.0, 1.05], "relief": [4.0, 4.2, 4.1]}
SATURATION_S = {"control": 12.0, "relief": 31.0, "cure": 40.0}


@pytest.fixture(autouse=True)
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made-up.toml"
    path.write_text(TEXT)
    monkeypatch.setattr(mitigation_tables, "find_scenarios", lambda: {"made-up": path})


def measure(
    runs: Path,
    measured: Mapping[str, Sequence[float | None]],
    saturation_s: Mapping[str, float] = SATURATION_S,
    unsafe: Mapping[str, str] | None = None,
    **changes: Any,
) -> None:
    """Leave a comparison in ``runs`` whose runs measured that, each variant saturates after ``saturation_s``."""
    runs.mkdir(exist_ok=True)
    folder, record = make_made_up_record(measured, runs, comparison=RANKED_BY)
    for run in record.runs:
        values = {**run.values, "time_to_saturation_s in longtx": saturation_s.get(run.variant)}
        record = record.with_run(run.model_copy(update={"values": values, "unsafe": (unsafe or {}).get(run.variant, "")}))
    folder.write(record.model_copy(update=changes))


def table_of(tmp_path: Path) -> dict[str, str]:
    """Write the table into a page of marks and return its rows by mitigation."""
    page = tmp_path / "page.md"
    page.write_text(MARKS)
    write_tables(tmp_path / "runs", pages=[page])
    text = page.read_text()
    assert text.startswith("before\n<!-- made-up: begin -->\n")
    assert text.endswith("<!-- made-up: end -->\nafter\n")
    assert "STALE" not in text
    return {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}


def test_each_mitigation_has_its_outcome_and_other_variants_have_no_row(tmp_path: Path) -> None:
    measure(tmp_path / "runs", {**MEASURED, "other": DEGRADED})
    rows = table_of(tmp_path)
    assert list(rows) == ["cure", "relief"]
    assert "| **works** (" in rows["cure"]
    assert "| a book | 1 |" in rows["cure"]


def test_a_delay_is_given_in_seconds(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED)
    assert "**delays** by 19 s (" in table_of(tmp_path)["relief"]


def test_a_variant_that_does_not_saturate_delays_by_at_least_that(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED, {"control": 12.0, "relief": 40.0})
    assert "**delays** by at least 28 s (" in table_of(tmp_path)["relief"]


def test_no_delay_is_given_where_control_does_not_saturate(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED, {"control": 40.0, "relief": 40.0})
    assert "**delays** (" in table_of(tmp_path)["relief"]


def test_what_was_not_measured_is_listed_with_the_reason(tmp_path: Path) -> None:
    measure(tmp_path / "runs", {"control": DEGRADED, "other": DEGRADED}, left_out={"relief": "too new"})
    rows = table_of(tmp_path)
    assert "| not measured |" in rows["cure"]
    assert "| not measured: too new |" in rows["relief"]


def test_too_few_rounds_assess_nothing(tmp_path: Path) -> None:
    measure(tmp_path / "runs", {name: values[:1] for name, values in MEASURED.items()})
    assert "| not assessed: not enough rounds |" in table_of(tmp_path)["cure"]


def test_a_comparison_that_decides_is_preferred_to_a_newer_one_that_does_not(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED)
    measure(tmp_path / "runs", {name: values[:1] for name, values in MEASURED.items()})
    assert "**works**" in table_of(tmp_path)["cure"]


def test_an_unsafe_mitigation_is_marked_whatever_its_outcome(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED, unsafe={"cure": "3 jobs lost"})
    assert "; **not safe**: 3 jobs lost" in table_of(tmp_path)["cure"]


def judge_by_a_count(tmp_path: Path, phase: str) -> None:
    """Make a scenario that ranks by errors, of which there are none without the problem; ``relief`` is judged by lost races instead."""
    judged = 'judged_by = { metric = "lost_race.count", phase = "longtx", better = "lower", undegraded = 0 }\n'
    compared = f'[comparison]\nmetric = "errors.count"\nphase = "{phase}"\nbetter = "lower"\nundegraded = 0\n'
    compared += 'columns = [{ title = "slowest claim, ms", metric = "claim_ms.max", phase = "longtx" }]\n'
    expected = 'also_expect = [{ metric = "completed.rate", phase = "longtx", at_least = 1 }]\n'
    text = TEXT.replace('mitigation = "a talk"\n', f'mitigation = "a talk"\n{judged}{expected}')
    (tmp_path / "made-up.toml").write_text(f"{text}{compared}")


def measure_counts(tmp_path: Path, phase: str = "longtx") -> None:
    """Compare ``cure`` and ``relief``: few errors with the one, few lost races with the other, and slow claims with both."""
    judge_by_a_count(tmp_path, phase)
    (tmp_path / "runs").mkdir()
    plan = make_plan(str(tmp_path / "made-up.toml"), variants=None, rounds=3, seed=1)
    folder, record = begin_comparison(plan, tmp_path / "runs")
    errors = {"control": 80.0, "cure": 2.0, "relief": 79.0}
    races = {"control": 40.0, "cure": 39.0, "relief": 20.0}
    claim_ms = {"control": 5.0, "cure": 50.0, "relief": 5.0}
    for run in record.runs:
        values = {
            f"errors.count in {phase}": errors[run.variant] + run.round % 2,
            "lost_race.count in longtx": races[run.variant] + run.round % 2,
            "claim_ms.max in longtx": claim_ms[run.variant] + run.round / 10,
            "completed.rate in longtx": 90.0,
            "completed.rate in baseline": 100.0 - 20 * (run.variant == "relief"),
        }
        record = record.with_run(run.model_copy(update={"status": "completed", "verdict": "pass", "values": values}))
    folder.write(
        record.model_copy(update={"status": "completed", "scenario": record.scenario.model_copy(update={"name": "made-up"})})
    )


def test_a_scenario_about_a_count_has_no_time_to_saturation_and_shows_what_its_columns_cost(tmp_path: Path) -> None:
    measure_counts(tmp_path)
    rows = table_of(tmp_path)
    assert "| mitigation | outcome | with it | without it | cost | proposed by | from |" in (tmp_path / "page.md").read_text()
    assert "| **works** (3 % of the degradation is left) | 3 | 81 | slowest claim, ms 50.2 (5.2) | a book | 1 |" in rows["cure"]


def test_a_mitigation_against_another_problem_is_judged_by_its_own_metric(tmp_path: Path) -> None:
    measure_counts(tmp_path)
    row = table_of(tmp_path)["relief"]
    assert "| **reduces** (by lost_race.count in longtx: 51 % of the degradation is left) | 21 | 41 | jobs/s × 0.8 |" in row
    assert "2. `" in (tmp_path / "page.md").read_text()
    assert "*with it* and *without it*: `lost_race.count in longtx`." in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize("variants", [None, "other,relief"], ids=["with control", "without control"])
def test_a_mitigation_of_another_variant_has_the_figures_of_that_one(tmp_path: Path, variants: str | None) -> None:
    judged = 'judged_by = { metric = "latency_ms.p95", phase = "longtx", better = "lower", reference = "other" }\n'
    (tmp_path / "made-up.toml").write_text(TEXT.replace('mitigation = "a talk"\n', f'mitigation = "a talk"\n{judged}'))
    (tmp_path / "runs").mkdir()
    plan = make_plan(str(tmp_path / "made-up.toml"), variants=variants, rounds=3, seed=1)
    folder, record = begin_comparison(plan, tmp_path / "runs")
    latency_ms = {"control": 100.0, "cure": 12.0, "relief": 300.0, "other": 4000.0}
    saturation_s = {"control": 30.0, "cure": 40.0, "relief": 35.0, "other": 5.0}
    for run in record.runs:
        values = {
            "latency_ms.p95 in longtx": latency_ms[run.variant] + run.round,
            "latency_ms.p95 in baseline": 10.0,
            "time_to_saturation_s in longtx": saturation_s[run.variant],
        }
        record = record.with_run(run.model_copy(update={"status": "completed", "verdict": "pass", "values": values}))
    folder.write(
        record.model_copy(update={"status": "completed", "scenario": record.scenario.model_copy(update={"name": "made-up"})})
    )
    row = table_of(tmp_path)["relief"]
    assert "| **works** (compared with other: 7 % of the degradation is left) | 302 | 4,002 | 35 s (5 s) |" in row
    assert "; *with it* and *without it* (`other`): `latency_ms.p95 in longtx`." in (tmp_path / "page.md").read_text()


def test_a_scenario_without_a_healthy_phase_has_no_costs_at_the_baseline(tmp_path: Path) -> None:
    measure_counts(tmp_path, phase="baseline")
    rows = table_of(tmp_path)
    assert "| slowest claim, ms 50.2 (5.2) |" in rows["cure"]
    assert "jobs/s" not in rows["relief"]


def test_a_row_of_which_no_comparison_is_left_stays_with_its_footnote(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(MARKS)
    measure(tmp_path / "earlier", {"control": DEGRADED, "cure": MEASURED["cure"]})
    write_tables(tmp_path / "earlier", pages=[page])
    before = page.read_text().splitlines()
    (cure,) = [line for line in before if line.startswith("| `cure`")]
    measure(tmp_path / "later", {"control": DEGRADED, "relief": MEASURED["relief"]}, id="later-compare-made-up")
    write_tables(tmp_path / "later", pages=[page])
    after = page.read_text().splitlines()
    assert cure in after
    assert next(line for line in before if line.startswith("1. ")) in after
    assert next(line for line in after if line.startswith("2. ")).endswith("`latency_ms.p95 in longtx`.")
    assert any(line.startswith("| `relief`") and line.endswith("| a talk | 2 |") for line in after)


@pytest.mark.parametrize("status", ["aborted", "running"])
def test_an_unfinished_comparison_gives_no_table_and_the_page_stays(tmp_path: Path, status: str) -> None:
    measure(tmp_path / "runs", MEASURED, status=status)
    page = tmp_path / "page.md"
    page.write_text(MARKS)
    with pytest.raises(BadInputError, match="stallbench compare longtx"):
        write_tables(tmp_path / "runs", pages=[page])
    assert page.read_text() == MARKS


def test_a_page_without_markers_is_refused_with_the_missing_lines(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED)
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(BadInputError, match="<!-- made-up: begin -->"):
        write_tables(tmp_path / "runs", pages=[page])


def test_a_table_is_written_on_the_page_that_has_its_markers(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED)
    other, page = tmp_path / "other.md", tmp_path / "page.md"
    other.write_text("nothing\n")
    page.write_text(MARKS)
    write_tables(tmp_path / "runs", pages=[other, page])
    assert other.read_text() == "nothing\n"
    assert "STALE" not in page.read_text()


def test_an_outcome_of_another_measure_says_so_until_it_is_measured_again(tmp_path: Path) -> None:
    scenario, page = tmp_path / "made-up.toml", tmp_path / "page.md"
    mark = "| *with another measure than the scenario's:* **"
    measure(tmp_path / "runs", MEASURED)
    assert mark not in table_of(tmp_path)["cure"]
    scenario.write_text(f'{TEXT}[comparison]\nmetric = "latency_ms.p50"\nphase = "longtx"\nbetter = "lower"\n')
    write_tables(tmp_path / "runs", pages=[page])
    assert f"{mark}works** (" in page.read_text()
    measure(tmp_path / "others", {"control": DEGRADED, "relief": MEASURED["relief"]})
    write_tables(tmp_path / "others", pages=[page])
    assert page.read_text().count(f"{mark}works** (") == 1
    scenario.write_text(TEXT)
    write_tables(tmp_path / "others", pages=[page])
    assert mark not in page.read_text()


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_mark_every_outcome_of_another_measure(page: Path) -> None:
    for name in find_scenarios():
        _, _, rest = page.read_text().partition(f"<!-- {name}: begin -->\n")
        section, _, _ = rest.partition("<!--")
        measured_by = dict(re.findall(r"^(\d+)\. .* `([^`]+)`\.$", section, re.MULTILINE))
        ranked = choose_subjects([read_scenario(name)])[0]
        for variant, outcome, number in re.findall(r"^\| `(\w+)`: [^|]*\| ([^|]*) \|.*\| (\d+) \|$", section, re.MULTILINE):
            now = judged_subject_of(read_scenario(name, variant=variant)) or ranked
            assert (measured_by[number] != now.key) == outcome.startswith("*with another measure than the scenario's:*"), (
                name,
                variant,
            )


def test_one_page_has_markers_for_each_scenario_with_mitigations() -> None:
    texts = [page.read_text() for page in PAGES]
    for name, path in find_scenarios().items():
        has_mitigations = any(read_scenario(name, variant=variant).mitigation for variant in read_variants(path))
        assert sum(f"<!-- {name}: begin -->" in text for text in texts) == has_mitigations
