"""A page can be read without colours, without a pointer, without JavaScript and on a narrow screen, and explains its rises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from stallbench.report import make_report
from stallbench.report.movements import find_movements
from stallbench.report.templates import TEMPLATES
from stallbench.report.timeline import VacuumRun, read_vacuums
from stallbench.verdicts import judge
from tests.unit.made_up_run import START_NS
from tests.unit.test_outcome import make_disturbed

STYLE = (TEMPLATES / "report.css").read_text()
LEAST_CONTRAST = {"ink": 4.5, "muted": 4.5, "edge": 3, "blue": 3, "orange": 3, "red": 3, "green": 3, "violet": 3, "amber": 3}
"""By WCAG 2.1: of text, and of lines and bars."""


class Elements(HTMLParser):
    """The elements of a page, each with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        """Yield the attributes of each element of that name."""
        return (attributes for name, attributes in self.found if name == tag)


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a run that was slower for a while."""
    run = make_disturbed(tmp_path_factory.mktemp("run"), latency_ms=lambda t_s: 8400.0 if t_s < 63 else 10.0)
    return make_report(run, judge(run)).read_text()


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_lines_and_bars_can_be_told_from_what_is_behind_them(scheme: int) -> None:
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", re.findall(r":root \{(.*?)\n *\}", STYLE, re.DOTALL)[scheme]))
    behind = [colours["background"], colours["raised"]]
    weak = {
        name: least for name, least in LEAST_CONTRAST.items() if min(contrast(colours[name], each) for each in behind) < least
    }
    assert not weak


def test_each_chart_has_its_title_its_meaning_and_its_values_by_phase_as_text(page: str) -> None:
    charts = re.findall(r'<figure class="chart.*?</figure>', page, re.DOTALL)
    titles = [re.sub(r"<[^>]+>", "", title) for chart in charts for title in re.findall(r"<h3.*?</h3>", chart)]
    assert titles[:3] == ["Latency from the intended time, ms (logarithmic axis)", "Queue depth, jobs", "Throughput, jobs/s"]
    for chart in charts:
        assert 'role="img" aria-label="Curve of ' in chart
        assert re.findall(r'<th scope="row">(\w+) </th>', chart) == ["baseline", "longtx", "recovered"]
        assert re.search(r'data-series="0"><i class="key', chart)
    assert "from a job&#39;s intended time of enqueue to its first completion" in charts[0]
    latency = re.findall(r'<th scope="row">longtx </th><td>([^<]*)</td>', charts[0])
    assert latency == ["8,400"]


def test_nothing_is_said_in_tooltips_alone_and_each_header_cell_has_a_scope(page: str) -> None:
    elements = Elements(page)
    assert not [attributes for _, attributes in elements.found if "title" in attributes]
    assert {attributes.get("scope") for attributes in elements.all("th")} == {"col", "row"}
    assert all(attributes.get("aria-label") or attributes.get("aria-hidden") for attributes in elements.all("svg"))


def test_events_are_on_the_time_axis_of_the_charts(page: str) -> None:
    (track,) = re.findall(r'<p>idle_writer-1 on primary, 25 s to 55 s</p>\s*<div class="track"[^>]*>(.*?)</div>', page)
    assert track == '<i class="injection" style="left: 31.25%; width: 37.5%"></i>'


def test_the_distribution_of_the_latency_is_shown_by_phase(tmp_path: Path) -> None:
    phases = make_disturbed(tmp_path)["phases"]
    rows = [
        {"phase": phase, "measure": "latency_ms", "statistic": name, "value": value, "count": 9}
        for phase, values in (("baseline", (10, 20, 50, 100)), ("longtx", (100, 1_000, 5_000, 10_000)))
        for name, value in zip(("p50", "p95", "p99", "max"), values, strict=True)
    ]
    others = phases[phases["measure"] != "latency_ms"]
    (tmp_path / "again").mkdir()
    run = make_disturbed(tmp_path / "again", phases=pd.concat([others, pd.DataFrame(rows)]))
    page = make_report(run, judge(run)).read_text()
    _, _, section = page.partition("How long jobs took, by phase")
    cells = re.findall(
        r'<th scope="row">(\w+)</th><td>[\d,]+</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>', section
    )
    assert cells == [("baseline", "10 ms", "20 ms", "50 ms", "100 ms"), ("longtx", "100 ms", "1.0 s", "5.0 s", "10.0 s")]
    assert "left: 33.3%; width: 66.7%" in section, "of three decades"


def test_a_rise_after_a_fault_is_described_with_the_vacuums_at_its_begin_and_end_and_the_scans_in_it(tmp_path: Path) -> None:
    windows = make_disturbed(tmp_path)["windows"].assign(
        claim_statement_buffers_per_call=lambda rows: [116.0 if 66 <= t_s < 71 else 14.0 for t_s in rows["t_s"]],
        claim_statement_calls=lambda rows: [100.0 * t_s for t_s in rows["t_s"]],
        sequential_scans_count=lambda rows: [210.0 if 66 <= t_s < 71 else 0.0 for t_s in rows["t_s"]],
    )
    (tmp_path / "again" / "samples").mkdir(parents=True)
    run = make_disturbed(tmp_path / "again", windows=windows)
    lines = [
        f"{START_NS + t_s * 10**9},primary,table:que_jobs,{metric},{value}\n"
        for t_s in range(80)
        for metric, value in (
            ("autovacuum_count", (t_s >= 66) + (t_s >= 71)),
            ("last_autovacuum_age_s", (t_s - 71 if t_s >= 71 else t_s - 66) + 0.5),
            ("removed_tuples", 11 if t_s >= 72 else 1327),
        )
    ]
    (tmp_path / "again" / "samples" / "vacuum.csv").write_text("".join(lines))
    assert read_vacuums(tmp_path / "again" / "samples" / "vacuum.csv", START_NS) == [
        VacuumRun(table="que_jobs", ended_s=65.5, removed=1327, kept=None),
        VacuumRun(table="que_jobs", ended_s=70.5, removed=11, kept=None),
    ]
    page = make_report(run, judge(run)).read_text()
    assert re.findall(r'<p class="event">(.*?)</p>', page) == [
        "From 66 s to 71 s a claim read 116 pages instead of 14. The server read the whole table, without an index, 2.1 times a call; it began "
        "when the autovacuum of que_jobs at 66 s, which removed 1,327 dead rows, had ended; it was over when the autovacuum of que_jobs at 70 s, "
        "which removed 11 dead rows, had ended."
    ]


def test_a_single_second_and_what_a_fault_explains_are_no_conspicuous_rise() -> None:
    values = [10.0] * 20 + [90.0] * 10 + [10.0] * 10 + [90.0] + [10.0] * 9 + [90.0] * 3
    quiet = [not 18 <= t_s <= 32 for t_s in range(len(values))]
    series = {"label": "", "hue": "", "values": values}
    found = list(find_movements(range(len(values)), series, quiet))  # type: ignore[arg-type]
    assert [(each.from_s, each.to_s, each.before, each.during) for each in found] == [(50, 53, 10.0, 90.0)]
