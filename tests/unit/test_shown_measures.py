"""What is shown of a measure is declared with the measure: the report's table, the live view and the charts of comparisons have no labels of their own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from stallbench.console import VisibleConsole
from stallbench.measures import MEASURES
from stallbench.report.rows import find_highlights, list_phase_rows
from stallbench.run.live_figures import LiveFigures
from stallbench.run.panel import Curve, Panel, RunProgress
from stallbench.run.shown_figures import list_shown
from stallbench.run.view import RunView
from stallbench.studies.comparison.report import list_charts
from tests.unit.made_up_run import PHASES, make_phases, make_run

OF_LIBRARIES = ("pickup_ms", "claim_statement_ms", "claim_statement_buffers")


def test_the_table_of_phases_has_every_metric_that_its_measure_asks_for(tmp_path: Path) -> None:
    asked = [
        (measure, statistic)
        for measure in MEASURES.values()
        if measure.name not in OF_LIBRARIES
        for statistic in measure.in_report
    ]
    values = {(phase, f"{measure.name}.{statistic}"): 1.0 for phase, _, _ in PHASES for measure, statistic in asked}
    rows = list_phase_rows(make_run(tmp_path, phases=make_phases(values)))
    assert [row.label for row in rows] == [measure.title_of(statistic) for measure, statistic in asked]


@pytest.mark.parametrize("hides_zero", [True, False])
def test_a_measure_says_whether_its_row_is_left_out_if_it_is_always_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hides_zero: bool
) -> None:
    monkeypatch.setitem(MEASURES, "updates", replace(MEASURES["updates"], in_report=("count",), hides_zero=hides_zero))
    phases = make_phases({(phase, "updates.count"): 0.0 for phase, _, _ in PHASES})
    labels = [row.label for row in list_phase_rows(make_run(tmp_path, phases=phases))]
    assert ("updates" in labels) is not hides_zero


def test_a_tile_has_the_label_and_the_unit_of_its_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "claim_ms", replace(MEASURES["claim_ms"], label="time of a claim", unit="s"))
    tile = find_highlights(make_run(tmp_path))[0]
    assert (tile.label, tile.unit) == ("time of a claim p50", "s")


def test_a_tile_compares_the_baseline_with_another_phase_even_if_claims_were_slowest_in_the_baseline(tmp_path: Path) -> None:
    phases = make_phases({("baseline", "claim_ms.p50"): 3.0, ("longtx", "claim_ms.p50"): 2.0, ("recovered", "claim_ms.p50"): 1.0})
    tile = find_highlights(make_run(tmp_path, phases=phases))[0]
    assert (tile.before, tile.after, tile.phase) == (3.0, 2.0, "longtx")


PROGRESS = RunProgress(
    phase="longtx",
    number=2,
    phases=3,
    left_s=40.0,
    done_s=60.0,
    whole_s=140.0,
    may_end_earlier=True,
    in_force=["idle_writer-1 on primary"],
)
FIGURES = LiveFigures(
    enqueued_rate=40.4,
    completed_rate=None,
    claim_ms_p95=1.234,
    times_claims=True,
    depth=1234,
    dead_tuples=7,
    history_list_length=None,
    deadlocks=0,
    oldest_transaction_s=None,
    oldest_job_s=None,
    holder=None,
)


def test_the_live_view_of_a_library_leaves_out_its_claims_which_are_not_timed() -> None:
    of_library = replace(FIGURES, claim_ms_p95=None, times_claims=False)
    assert [shown.label for shown in list_shown(of_library)] == [
        "enqueued",
        "completed",
        "queue depth",
        "dead tuples",
        "deadlocks",
    ]


def test_the_live_view_has_the_labels_and_units_of_its_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "depth", replace(MEASURES["depth"], label="waiting jobs"))
    assert [(shown.label, shown.value, shown.unit) for shown in list_shown(FIGURES)] == [
        ("enqueued", "40", "jobs/s"),
        ("completed", "?", "jobs/s"),
        ("waiting jobs", "1,234", ""),
        ("claim time p95", "1.23", "ms"),
        ("dead tuples", "7", ""),
        ("deadlocks", "0", ""),
    ]


def test_where_there_is_no_terminal_figures_are_labelled_once_in_at_most_120_characters() -> None:
    out = StringIO()
    view = RunView(VisibleConsole(file=out, soft_wrap=True, highlight=False))
    longest = replace(
        FIGURES,
        completed_rate=98765.0,
        depth=1_234_567,
        dead_tuples=12_345_678,
        history_list_length=None,
        oldest_transaction_s=3600.0,
    )
    for holder in (None, "idle_writer-1 on primary (pid 5702, idle in transaction)", None):
        view._last_line_s = float("-inf")
        figures = replace(longest, holder=holder)
        view.show(replace(PROGRESS, phase="a-phase-with-a-long-name", left_s=118.0), partial(replace, figures))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 120, lines
    assert [line.split() for line in lines[:2]] == [
        ["left", "enqueued", "completed", "queue", "claim", "time", "dead", "oldest"],
        ["phase", "s", "jobs/s", "jobs/s", "depth", "p95", "ms", "tuples", "deadlocks", "transaction", "s"],
    ]
    assert [line[10:].split()[0] for line in lines[2:]] == ["a-phase-with", "a-phase-with", "horizon", "a-phase-with", "horizon"]


def test_the_panel_fits_100_columns_and_says_what_is_in_force_and_how_long_it_takes() -> None:
    out = StringIO()
    console = VisibleConsole(file=out, width=100, force_terminal=True, color_system=None)
    panel, figures = (
        Panel(),
        replace(FIGURES, oldest_job_s=8.5, holder="idle_writer-1 on primary (pid 5702, idle in transaction)" * 3),
    )
    for depth in range(200):
        drawn = panel.draw(PROGRESS, replace(figures, depth=depth))
    console.print(drawn)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 100, lines
    text = " ".join(out.getvalue().split())
    for part in (
        "longtx (2 of 3), 40 s left",
        "at most 1 min 20 s left",
        "in force idle_writer-1 on primary",
        "queue depth 199",
        "most 199",
    ):
        assert part in text, part
    (depths,) = [line for line in lines if "queue depth" in line]
    assert "▁" in depths
    assert "█" in depths


def test_a_curve_has_the_greatest_value_of_each_part_of_the_time_since_the_start() -> None:
    curve = Curve(width=8)
    for value in [0.0] * 50 + [100.0] + [0.0] * 49:
        curve.add(value)
    assert len(str(curve)) <= 8
    assert str(curve).count("█") == 1
    assert curve.greatest == 100.0
    gap = Curve(width=8)
    for each in (1.0, None, 2.0):
        gap.add(each)
    assert str(gap) == "▅ █"
    assert str(Curve()) == ""


def test_the_charts_of_a_comparison_have_the_titles_of_their_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEASURES, "depth", replace(MEASURES["depth"], label="waiting jobs"))
    assert [(chart["column"], chart["title"]) for chart in list_charts()] == [
        ("claim_ms_p95", "claim time p95, ms"),
        ("depth", "waiting jobs"),
        ("dead_tuples", "dead tuples"),
        ("completed", "completed, jobs/s"),
    ]
