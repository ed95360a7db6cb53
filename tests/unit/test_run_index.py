"""The page of all runs: what it lists, what it does with damaged and hostile folders, and what it costs."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from stallbench.report.run_index import ENTRY, IndexEntry, renew_index, write_entry, write_run_entry
from stallbench.verdicts import judge
from tests.unit.test_outcome import make_disturbed

HOSTILE = '</td><script>alert("1")</script>\x1b]0;x\x07\u202e'


def make_entry(runs: Path, name: str, **changes: Any) -> Path:
    """Write the folder of a run that fell behind, with its row and its page."""
    known: dict[str, Any] = {
        "kind": "run",
        "scenario": "longtx",
        "queue": "que on postgres 15.18",
        "began_ns": 1_795_000_000_000_000_000,
        "verdict": "pass",
        "outcome": "While one transaction was idle, 2,226 piled up.",
        "effect": "falling behind",
        "latency_before_ms": 10.0,
        "latency_ms": 8400.0,
        "curve_ms": (10.0, 8400.0, None, 12.0),
        "disturbed": ((0.25, 0.5),),
    }
    folder = runs / name
    folder.mkdir()
    write_entry(folder, IndexEntry(**{**known, **changes}))
    (folder / "report.html").touch()
    return folder


def renew(runs: Path) -> str:
    """Return the page."""
    renew_index(runs)
    return (runs / "index.html").read_text()


def rows_of(page: str) -> list[list[str]]:
    """Return the texts of each row of the table of runs."""
    body = re.search(r'<table id="runs".*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    assert body is not None
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body[1], re.DOTALL)
    cells = [re.findall(r"<(?:th|td)[^>]*>(.*?)</(?:th|td)>", row, re.DOTALL) for row in rows]
    return [[" ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split()) for cell in row] for row in cells]


def test_a_run_is_listed_with_its_outcome_its_curve_and_a_link_to_its_page(tmp_path: Path) -> None:
    folder = tmp_path / "20261128T085626Z-longtx"
    folder.mkdir()
    run = make_disturbed(folder, latency_ms=lambda t_s: 8400.0 if t_s < 63 else 10.0)
    write_run_entry(run, judge(run))
    (folder / "report.html").touch()
    page = renew(tmp_path)
    ((began, subject, happened, latency, verdict),) = rows_of(page)
    assert (began, subject, latency, verdict) == ("2027-01-15 08:00", "longtx que", "10 ms to 8.4 s", "passed")
    assert happened.startswith("slower While one transaction was idle for 30 s, 95 of 100 jobs took up to 8.4 s instead of 10 ms")
    assert 'href="./20261128T085626Z-longtx/report.html"' in page
    assert '<polyline points="' in page
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", page)
    assert "<th>" not in page


def test_runs_studies_and_what_has_no_row_are_listed_the_newest_first(tmp_path: Path) -> None:
    make_entry(tmp_path, "20261128T000001Z-longtx")
    make_entry(tmp_path, "20261128T000002Z-compare-longtx", kind="comparison", outcome="Use batch.", latency_ms=None, curve_ms=())
    made: dict[str, dict[str, Any]] = {
        "20261128T000003Z-old": {
            "run.json": {"scenario": {"name": "failover"}, "status": "completed"},
            "verdict.json": {"verdict": "fail", "reason": "lost"},
        },
        "20261128T000004Z-killed": {"run.json": {"scenario": {"name": "longtx"}, "status": "running", "queue": {"kind": "que"}}},
        "20261128T000005Z-soak-longtx": {"soak.json": {"status": "aborted", "scenario": ["no name"]}},
    }
    for name, files in made.items():
        (tmp_path / name).mkdir()
        for file, content in files.items():
            (tmp_path / name / file).write_text(json.dumps(content))
    (tmp_path / "targets").mkdir()
    (tmp_path / "latest").symlink_to("20261128T000001Z-longtx")
    assert [row[1:3] + row[4:] for row in rows_of(renew(tmp_path))] == [
        ["soak 20261128T000005Z-soak-longtx", "without a result here: aborted", ""],
        ["longtx que", "not judged: it is running, or was killed", ""],
        ["failover", "judged by an earlier version lost", "fail"],
        ["comparison longtx que on postgres 15.18", "falling behind Use batch.", "pass"],
        ["longtx que on postgres 15.18", "falling behind While one transaction was idle, 2,226 piled up.", "pass"],
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (ENTRY, b"{", "cannot be read: index.json"),
        (ENTRY, b"\xff\xfe", "cannot be read: index.json"),
        (ENTRY, b"[" * 100_000, "cannot be read: index.json"),
        (ENTRY, b'{"kind": "run", "verdict": "pass", "latency_ms": -1}', "cannot be read: index.json: latency_ms"),
        (ENTRY, b'{"kind": "run", "verdict": "pass", "curve_ms": [1e999]}', "cannot be read: index.json: curve_ms"),
        (ENTRY, b'{"format": 2}', "cannot be read: index.json: format"),
        (ENTRY, b" " * (2 << 20), "cannot be read: index.json"),
        ("run.json", b"[" * 100_000, "cannot be read: "),
        ("run.json", b"[]", "cannot be read: run.json: is no object"),
        ("other", b"", "cannot be read: it has no record"),
    ],
)
def test_a_damaged_folder_is_listed_as_such(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    make_entry(tmp_path, "20261128T000001Z-longtx")
    folder = tmp_path / "20261128T000002Z-longtx"
    folder.mkdir()
    (folder / name).write_bytes(content)
    damaged, sound = rows_of(renew(tmp_path))
    assert damaged[2].startswith(said)
    assert damaged[4] == ""
    assert sound[4] == "pass"


def test_a_pipe_and_a_link_are_not_read(tmp_path: Path) -> None:
    sound = make_entry(tmp_path, "20261128T000001Z-longtx")
    pipe, link = (tmp_path / f"20261128T00000{number}Z-longtx" for number in (2, 3))
    pipe.mkdir()
    os.mkfifo(pipe / ENTRY)
    link.mkdir()
    (link / ENTRY).symlink_to(sound / ENTRY)
    assert [row[2].startswith("cannot be read: ") for row in rows_of(renew(tmp_path))] == [True, True, False]


def test_hostile_text_is_shown_as_text(tmp_path: Path) -> None:
    texts = dict.fromkeys(("kind", "scenario", "variant", "queue", "outcome", "effect"), HOSTILE)
    make_entry(tmp_path, "20261128T000001Z-javascript:alert(1)", **texts)
    make_entry(tmp_path, '20261128T000002Z-"><script>', **texts | {"kind": "run"})
    make_entry(tmp_path, "20261128T000003Z-longtx", **texts | {"kind": "run"})
    page = renew(tmp_path)
    assert page.count("<script>") == 1, "its own"
    assert "\x1b" not in page and "\u202e" not in page
    assert 'href="./20261128T000001Z-javascript%3Aalert%281%29/report.html"' in page


def test_the_trend_of_a_scenario_has_a_point_for_each_of_its_runs(tmp_path: Path) -> None:
    for number, latency_ms in enumerate((8400.0, 8000.0, 90.0)):
        effect = "falling behind" if latency_ms > 100 else "slower"
        make_entry(tmp_path, f"20261128T00000{number}Z-longtx", latency_ms=latency_ms, effect=effect)
    make_entry(tmp_path, "20261128T000009Z-failover", scenario="failover")
    page = renew(tmp_path)
    trends = page[: page.index('<table id="runs"')]
    assert re.findall(r"<h3>(\w+)", trends) == ["longtx"]
    assert "3 runs, from 8.4 s to <strong>90 ms</strong>" in trends
    places = [float(y) for y in re.findall(r'<circle[^>]* cy="([^"]*)"', trends)]
    assert places == sorted(places), "the newest is the lowest"


def test_the_page_goes_with_the_last_run(tmp_path: Path) -> None:
    folder = make_entry(tmp_path, "20261128T000001Z-longtx")
    renew(tmp_path)
    shutil.rmtree(folder)
    renew_index(tmp_path)
    assert not list(tmp_path.iterdir())


def test_hundreds_of_runs_cost_little(tmp_path: Path) -> None:
    for number in range(300):
        make_entry(tmp_path, f"20261128T{number:06}Z-longtx", curve_ms=tuple(float(value + 1) for value in range(60)))
    renew_index(tmp_path)
    before_s = time.process_time()
    renew_index(tmp_path)
    assert time.process_time() - before_s < 0.8
    assert (tmp_path / "index.html").stat().st_size < 1_000_000


def test_nothing_is_made_where_there_is_no_run_and_nothing_is_raised_where_nothing_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    renew_index(tmp_path / "none")
    renew_index(tmp_path)
    assert not list(tmp_path.iterdir())
    make_entry(tmp_path, "20261128T000001Z-longtx")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stallbench.report.run_index.replace_file", fail)
    renew_index(tmp_path)
    assert capsys.readouterr().err == f"{tmp_path}/index.html: cannot be renewed: No space left on device\n"
