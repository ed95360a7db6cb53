"""The tables on the pages about mitigations: which comparison a row comes from, what it says, and what stays unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stallbench.evidence.collection import Collection
from stallbench.scenario.file import find_scenarios
from stallbench.studies.comparison.plan import make_plan
from stallbench.studies.comparison.record import begin_comparison, find_comparison_folders
from tests.unit.made_up_comparison import make_made_up_record
from tests.unit.made_up_published import MadeUpPublished, read_rows
from tests.unit.scenario_text import SMALL
from tools import mitigation_tables
from tools.generated_blocks import fill
from tools.mitigation_tables import PAGES, make_blocks

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
ANOTHER = "*with another measure than the scenario's:* "
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


def publish(runs: Path) -> MadeUpPublished:
    """Return the comparisons in ``runs``, as if they were published."""
    return MadeUpPublished(records=[folder.read() for folder in find_comparison_folders(runs)])


def lines_of(tmp_path: Path) -> list[str]:
    return make_blocks(publish(tmp_path / "runs"))[0]["made-up"]


def table_of(tmp_path: Path) -> dict[str, str]:
    """Return the rows of the table by mitigation."""
    return {line.split("`")[1]: line for line in lines_of(tmp_path) if line.startswith("| `")}


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
    assert "| mitigation | outcome | with it | without it | cost | proposed by | from |" in "\n".join(lines_of(tmp_path))
    assert "| **works** (3 % of the degradation is left) | 3 | 81 | slowest claim, ms 50.2 (5.2) | a book | 1 |" in rows["cure"]


def test_a_mitigation_against_another_problem_is_judged_by_its_own_metric(tmp_path: Path) -> None:
    measure_counts(tmp_path)
    row = table_of(tmp_path)["relief"]
    assert "| **reduces** (by lost_race.count in longtx: 51 % of the degradation is left) | 21 | 41 | jobs/s × 0.8 |" in row
    assert "2. [" in "\n".join(lines_of(tmp_path))
    assert "*with it* and *without it*: `lost_race.count in longtx`." in "\n".join(lines_of(tmp_path))


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
    assert "; *with it* and *without it* (`other`): `latency_ms.p95 in longtx`." in "\n".join(lines_of(tmp_path))


def test_a_scenario_without_a_healthy_phase_has_no_costs_at_the_baseline(tmp_path: Path) -> None:
    measure_counts(tmp_path, phase="baseline")
    rows = table_of(tmp_path)
    assert "| slowest claim, ms 50.2 (5.2) |" in rows["cure"]
    assert "jobs/s" not in rows["relief"]


def test_a_mitigation_without_a_comparison_has_the_row_of_an_earlier_version(tmp_path: Path) -> None:
    measure(tmp_path / "runs", {"control": DEGRADED, "relief": MEASURED["relief"]})
    published = publish(tmp_path / "runs")
    published.add_earlier("mitigations-made-up", "cure", outcome="**works**", with_it="1", without_it="8")
    lines = make_blocks(published)[0]["made-up"]
    rows = read_rows(lines)
    (cure,) = (row for name, row in rows.items() if name.startswith("`cure`"))
    assert (cure["outcome"], cure["with it"], cure["from"]) == (f"{ANOTHER}**works**", "1", "1 *stale*"), (
        "the source names no measure"
    )
    assert any(line.startswith("1. long ago: `command` *Stale*: measured by a version of the bench") for line in lines)
    measure(tmp_path / "runs", MEASURED)
    published.records = publish(tmp_path / "runs").records
    assert "long ago" not in "".join(make_blocks(published)[0]["made-up"])


def test_an_outcome_of_another_measure_says_so_until_it_is_measured_again(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED)
    assert ANOTHER not in table_of(tmp_path)["cure"]
    (tmp_path / "made-up.toml").write_text(f'{TEXT}[comparison]\nmetric = "latency_ms.p50"\nphase = "longtx"\nbetter = "lower"\n')
    assert f"{ANOTHER}**works** (" in table_of(tmp_path)["cure"]


def test_a_stale_comparison_is_marked(tmp_path: Path) -> None:
    measure(tmp_path / "runs", MEASURED)
    published = publish(tmp_path / "runs")
    published.stale[published.records[0].id] = "measured by another measurement"
    assert make_blocks(published)[0]["made-up"][0] == "*Stale: all of this was measured by another measurement.*"


def test_the_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat ``python -m tools.mitigation_tables`` after a change of ``evidence/``, of a scenario's mitigations or of a rule."""
    monkeypatch.setattr(mitigation_tables, "find_scenarios", find_scenarios)
    blocks, _ = make_blocks(Collection())
    assert {page: page.read_text() for page in PAGES} == fill(PAGES, blocks)
