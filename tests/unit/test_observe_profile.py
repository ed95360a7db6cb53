"""What `stallbench observe --record-profile` makes of its readings: figures, a valid scenario, and no word of the observed server."""

from __future__ import annotations

import dataclasses
import random
import time
import tomllib
import typing
from pathlib import Path
from typing import Any

import pytest

from stallbench.errors import BadInputError, NotCarriedOutError
from stallbench.observe.known_queue import find_known_queues
from stallbench.observe.options import read_options
from stallbench.observe.profile.estimate import KindShare, Load, estimate_load
from stallbench.observe.profile.file import write_profile
from stallbench.observe.profile.levels import MOST_LEVELS, SHORTEST_S, Span, find_levels, lengthen
from stallbench.observe.profile.reading import LoadReading, Sampled
from stallbench.scenario.file import read_scenario, read_variants
from stallbench.setup import components
from stallbench.setup.components import MissingComponentError
from stallbench.studies.comparison.plan import make_plan

QUE = {"kind": "que"}
STATUS_COLUMN = {"kind": "status_column", "finish": "delete"}


def readings(rates: list[float], *, every_s: float = 5.0, **values: Any) -> list[LoadReading]:
    """Readings between which jobs came at these rates, and none stayed."""
    given: dict[str, Any] = {"waiting": 0, "oldest_s": 0.2, "running": 2, **values}
    inserted, found = 1_000.0, [LoadReading(at_s=0.0, inserted={7: 1_000}, **given)]
    for number, rate in enumerate(rates, 1):
        inserted += rate * every_s
        found.append(LoadReading(at_s=number * every_s, inserted={7: round(inserted)}, **given))
    return found


def recorded(path: Path, of: list[LoadReading], queue: dict[str, str] = QUE) -> dict[str, Any]:
    write_profile(path, of, queue, server="PostgreSQL 15", engine="postgres", every_s=5.0)
    return tomllib.loads(path.read_text())


def test_the_rate_is_what_was_inserted_and_the_work_time_is_little_s_law() -> None:
    load = estimate_load(readings([40.0] * 12))
    assert load.rate == pytest.approx(40)
    assert load.completed_rate == pytest.approx(40)
    assert load.work_s == pytest.approx(2 / 40)
    assert (load.workers, load.workers_are_sessions) == (2, False)


def test_what_stays_in_the_queue_was_not_completed() -> None:
    of = readings([40.0] * 10, running=4)
    growing = [dataclasses.replace(one, waiting=50 * number) for number, one in enumerate(of)]
    load = estimate_load(growing)
    assert load.completed_rate == pytest.approx(40 - 10)
    assert load.work_s == pytest.approx(4 / 30)
    assert (load.backlog, load.deepest) == (0, 500)


def test_work_times_of_the_jobs_themselves_are_preferred_if_most_of_the_sample_is_finished() -> None:
    mostly = Sampled(jobs=100, finished=95, work_s=0.3, work_p50_s=0.2, work_p95_s=0.9)
    partly = dataclasses.replace(mostly, finished=60)
    assert estimate_load(readings([40.0] * 6, sampled=mostly)).work_s == pytest.approx(0.3)
    assert estimate_load(readings([40.0] * 6, sampled=partly)).work_s == pytest.approx(0.05)
    assert estimate_load(readings([40.0] * 6, sampled=partly, running=1)).work_s == pytest.approx(0.3), (
        "seven running jobs are too few for Little's law"
    )


def test_sessions_that_claim_are_workers_even_if_they_are_not_busy() -> None:
    load = estimate_load(readings([40.0] * 6, worker_sessions=8))
    assert (load.workers, load.workers_are_sessions) == (8, True)


def test_a_counter_that_was_reset_or_a_new_partition_is_left_out() -> None:
    of = readings([40.0] * 8)
    of[4:] = [dataclasses.replace(one, inserted={7: one.inserted[7] - 1_500}) for one in of[4:]]
    of[7:] = [dataclasses.replace(one, inserted={**one.inserted, 8: 0}) for one in of[7:]]
    load = estimate_load(of)
    assert load.rate == pytest.approx(40)
    assert load.seen_s == pytest.approx(30)
    assert load.missed_s == pytest.approx(10)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (readings([40.0] * 2), ["the rate: the queue was read 3 times"]),
        (readings([0.0] * 8), ["no job was enqueued"]),
        (readings([40.0] * 8, running=0), ["the number of workers", "saw 0 running jobs, of 10 needed"]),
        (readings([40.0] * 8, running=None), ["the number of workers", "running jobs could not be counted"]),
        (readings([40.0] * 8, waiting=None), ["no completed job could be counted"]),
        ([], ["the rate", "the number of workers", "the work time"]),
    ],
)
def test_what_is_missing_is_one_message_and_the_old_file_stays(tmp_path: Path, of: list[LoadReading], words: list[str]) -> None:
    path = tmp_path / "profile.toml"
    path.write_text("old")
    with pytest.raises(NotCarriedOutError) as caught:
        recorded(path, of)
    for each in (*words, f"no profile was written to {path}"):
        assert each in str(caught.value)
    assert [one.name for one in tmp_path.iterdir()] == ["profile.toml"]
    assert path.read_text() == "old"


def test_chance_is_one_level_and_a_change_is_another() -> None:
    random.seed(1)
    noisy = [Span(5.0, sum(random.random() < 0.02 for _ in range(5_000))) for _ in range(60)]
    assert len(find_levels(noisy)) == 1
    steps = [*[Span(5.0, 100)] * 20, *[Span(5.0, 600)] * 6, *[Span(5.0, 0)] * 10]
    assert find_levels(steps) == [Span(100.0, 2_000), Span(30.0, 3_600), Span(50.0, 0)]


def test_there_are_few_levels_that_are_long_enough_and_have_all_jobs() -> None:
    random.seed(2)
    spans = [Span(1.0, random.choice([0, 50, 400, 3_000])) for _ in range(5_000)]
    levels = find_levels(lengthen(spans))
    assert 1 < len(levels) <= MOST_LEVELS
    assert min(level.length_s for level in levels) >= SHORTEST_S
    assert sum(level.jobs for level in levels) == pytest.approx(sum(span.jobs for span in spans))
    assert sum(level.length_s for level in levels) == pytest.approx(5_000)


def test_inserts_that_sessions_report_late_are_no_peak() -> None:
    load = estimate_load(readings([0.0, 80.0, 40.0, 0.0, 80.0] * 4, every_s=1.0))
    assert (load.lowest_rate, load.peak_rate) == (40, 40)


def test_a_day_of_readings_is_searched_quickly() -> None:
    spans = [Span(5.0, 100.0 + 900 * (number % 7 == 0)) for number in range(17_280)]
    began_s = time.process_time()
    assert sum(level.jobs for level in find_levels(lengthen(spans))) == pytest.approx(sum(span.jobs for span in spans))
    assert time.process_time() - began_s < 5


def test_the_scenario_is_valid_and_repeats_the_levels(tmp_path: Path) -> None:
    sampled = Sampled(jobs=200, payload_bytes=310.4, payload_p95_bytes=900.0, payload_max_bytes=4_000.0)
    kinds = {1: dataclasses.replace(sampled, jobs=60), 2: dataclasses.replace(sampled, jobs=140, payload_bytes=90.0)}
    of = readings([20.0] * 20 + [120.0] * 6 + [0.0] * 10 + [20.0] * 20, worker_sessions=6, sampled=sampled, by_kind=kinds)
    path = tmp_path / "profile.toml"
    recorded(path, of)
    scenario = read_scenario(str(path), variant="longtx")
    load = scenario.phases[-1]
    assert scenario.queue.kind == "que"
    assert (scenario.workers.count, scenario.producers.payload_bytes, scenario.producers.backlog) == (6, 310, 0)
    assert load.duration_s == 280
    assert [one.kind for one in load.longrunners] == ["idle_writer"]
    bursts = [(one.after_s, one.for_s, scenario.producers.rate + one.options["rate"]) for one in load.faults]
    assert bursts == [
        (0, 100, pytest.approx(20, rel=0.01)),
        (100, 30, pytest.approx(120, rel=0.01)),
        (180, None, pytest.approx(20, rel=0.01)),
    ]
    assert 0 < scenario.producers.rate < 1, "the quiet level"
    assert set(read_variants(path)) == {"longtx", "longtx_idle_timeout", "longtx_watchdog", "longtx_rotating_tables"}
    text = path.read_text()
    assert "kind-1: 70%, 90 bytes" in text
    assert "kind-2: 30%, 310 bytes" in text


def test_a_constant_rate_needs_no_burst_and_a_backlog_is_there_from_the_start(tmp_path: Path) -> None:
    content = recorded(tmp_path / "profile.toml", readings([40.0] * 12, waiting=2_000), STATUS_COLUMN)
    assert content["producers"] == {"rate": 40, "backlog": 2_000}
    assert content["phases"] == [{"name": "load", "duration": "60s"}], "a warm-up would work off a part of the backlog"
    assert content["queue"] == STATUS_COLUMN


def test_a_rate_that_is_rounded_down_needs_no_burst_for_the_rest(tmp_path: Path) -> None:
    content = recorded(tmp_path / "profile.toml", readings([11.94] * 12))
    assert content["producers"]["rate"] == 11.9
    assert "faults" not in content["phases"][-1]


def test_its_variants_can_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    recorded(path, readings([40.0] * 12))
    plan = make_plan(str(path), variants=None, rounds=2, seed=None)
    assert set(plan.chosen) == {"control", *read_variants(path)}
    assert [(one.metric, one.phase) for one in plan.subjects if one.role == "ranked"] == [("latency_ms.p95", "load")]


def test_a_claim_expires_after_the_work_and_a_bound_of_the_bench_is_said(tmp_path: Path) -> None:
    of = readings([40.0] * 12, running=900, sampled=Sampled(jobs=9, payload_bytes=2.0, payload_p95_bytes=2.0))
    path = tmp_path / "profile.toml"
    content = recorded(path, [dataclasses.replace(one, running=900 + number) for number, one in enumerate(of)], STATUS_COLUMN)
    assert content["workers"]["count"] == 256
    assert content["queue"]["expire_after"] > 60
    assert content["producers"]["payload_bytes"] == 16
    assert "There were 912; the bench has at most 256." in path.read_text()
    assert "The mean was 2 bytes" in path.read_text()


def test_no_text_of_a_server_can_reach_the_file() -> None:
    for record in (LoadReading, Sampled, Load, KindShare, Span):
        types = typing.get_type_hints(record)
        assert not [name for name, kind in types.items() if kind is str or str in typing.get_args(kind)], record


@pytest.mark.parametrize("name", find_known_queues())
def test_every_known_queue_has_a_queue_of_the_bench_that_stands_in(tmp_path: Path, name: str) -> None:
    known = find_known_queues()[name]
    assert known.recorded is not None
    assert not (known.recorded.started or known.recorded.finished) or known.recorded.newest, "which rows have times"
    content = recorded(tmp_path / "profile.toml", readings([40.0] * 6), known.recorded.queue)
    assert content["queue"] == known.recorded.queue
    if known.usual_table not in ("job", "jobs"):  # words of the comments
        assert known.usual_table not in (tmp_path / "profile.toml").read_text()


def options(path: Path, **values: Any) -> None:
    given: dict[str, Any] = {"every": "5s", "tables": [], "log": None, "once": False, "for_": "10m", "report": False}
    given |= {"expect": None, "expose": None, "runs": path, "dsn": ["postgresql://me@127.0.0.1:9/app"]}
    given |= values
    read_options(given.pop("dsn"), **given)


def test_a_report_needs_java_before_anything_is_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "find_java", lambda: None)
    with pytest.raises(MissingComponentError, match="a Java runtime, version 17 or later, was not found"):
        options(tmp_path, report=True, profile=None)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"for_": None}, "--record-profile needs --for"),
        ({"once": True, "for_": None}, "--record-profile needs --for"),
        ({"once": True}, "--record-profile cannot be combined with --once"),
        ({"for_": "20s"}, "expected at least --for 25s"),
        ({"profile": "My Load.toml"}, "a scenario's file is named"),
        ({"profile": "load.json"}, "a scenario's file is named"),
        ({"profile": "no/such/folder/load.toml"}, "no file can be written there"),
        (
            {"dsn": ["mysql://me@127.0.0.1:9/app"], "log": Path(__file__)},
            "--log .*: only a log of PostgreSQL can be read; leave it out",
        ),
    ],
)
def test_bad_input_is_refused_before_the_server_is_asked(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    profile = tmp_path / str(values.pop("profile", "profile.toml"))
    with pytest.raises(BadInputError, match=words):
        options(tmp_path, profile=profile, **values)
