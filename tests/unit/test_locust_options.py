"""Where Locust enqueues: chosen by options that fit together, and by a scenario's phases."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from producers.locust_options import find_target, read_bounds, read_rate
from producers.locust_target import ScenarioAlone
from stallbench.errors import BadInputError
from stallbench.injection.faults import find_faults
from stallbench.injection.faults.fault import Fault
from stallbench.processes.role import Stop
from stallbench.records.endpoint import Endpoint
from stallbench.scenario.file import read_scenario
from stallbench.scenario.locust_bounds import LocustBounds, bounds_of
from tests.unit.scenario_text import SMALL, find_lines

HERE = {"dsn": "postgresql://me@127.0.0.1/queues", "database": "queues"}
NO_QUEUE = "expected one of --join DIR (a run that accepts external processes), --scenario NAME with --dsn and --database (its queue, without a run)"


def options(**given: object) -> argparse.Namespace:
    usual: dict[str, object] = dict.fromkeys(("join", "scenario", "document", "variant", "dsn", "database", "run_time"))
    usual |= {"set": [], "install": False, "rate": "", "max_failure_ratio": None, "max_ms": []}
    return argparse.Namespace(**usual | given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, f"there is no queue; {NO_QUEUE}"),
        ({"join": "runs", "scenario": "baseline"}, f"--join and --scenario exclude each other; {NO_QUEUE}"),
        ({"join": "/nowhere"}, "--join /nowhere: expected one folder: a run's folder, or the folder of all runs"),
        ({"join": "/", "variant": "que", "set": ["a=b"]}, "--variant, --set needs --scenario; --join defines it already"),
        ({"scenario": "baseline"}, "--scenario needs --dsn and --database: the address and the name of the database"),
        (
            {"scenario": "baseline", "run_time": 90, **HERE},
            "--run-time 90s: the phases of scenarios/baseline.toml end after 35 s",
        ),
        (
            {"scenario": "baseline", "set": ["producers.rate=0"], **HERE},
            "scenarios/baseline.toml: producers.rate is 0: Locust has nothing to enqueue; expected --rate JOBS",
        ),
        (
            {"scenario": "baseline", **HERE, "database": "other"},
            "--dsn primary: names database 'queues', and --database says 'other'; repeat the name there, because the bench writes into that database",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_one_message(given: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        find_target(options(**given), Stop(by=()))
    assert str(caught.value) == message


def test_an_unknown_queue_gets_the_message_of_the_bench() -> None:
    with pytest.raises(BadInputError, match=r'queue.kind is "quee"; did you mean "que"\? Expected one of '):
        find_target(options(scenario="baseline", set=["queue.kind=quee"], **HERE), Stop(by=()))


@pytest.mark.parametrize("rate", ["-4", "0", "many", "nan", "1e9"])
def test_a_rate_is_jobs_a_second(rate: str) -> None:
    with pytest.raises(BadInputError, match=f"--rate {rate}: expected jobs per second, more than 0 and at most 1000000"):
        read_rate(rate, 100)
    assert read_rate("", 100) == 100


def test_bounds_of_options_are_laid_over_those_of_the_scenario() -> None:
    of_scenario = LocustBounds(max_failure_ratio=0.5, at_most_ms={"p95": 20, "max": 400})
    told = read_bounds(options(max_failure_ratio=0.1, max_ms=["p95=5", "p50=1"]), of_scenario)
    assert told == LocustBounds(max_failure_ratio=0.1, at_most_ms={"p95": 5, "max": 400, "p50": 1})
    with pytest.raises(BadInputError, match=r"--max-ms: 'p90' is invalid: input should be 'p50', 'p95', 'p99', 'max' or 'mean'"):
        read_bounds(options(max_ms=["p90=5"]), of_scenario)
    with pytest.raises(BadInputError, match="--max-failure-ratio: 2 is invalid: input should be less than or equal to 1"):
        read_bounds(options(max_failure_ratio=2), of_scenario)


SCENARIO = """\
summary = "Two bursts."
[queue]
kind = "skip_locked"
[producers]
kind = "locust"
rate = 100
max_failure_ratio = 0.25
[[phases]]
name = "quiet"
duration = "10s"
[[phases]]
name = "busy"
duration = "20s"
faults = [
  { kind = "burst", on = "producers", rate = 50, after = "5s", for = "10s" },
  { kind = "burst", on = "producers", rate = 25, after = "10s" },
]
[[expect]]
metric = "enqueue_ms.p95"
at_most = 20
[[expect]]
metric = "enqueue_ms.p99"
phase = "quiet"
at_most = 10
"""


def test_alone_it_follows_the_phases_and_bursts_of_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "busy.toml").write_text(SCENARIO)
    scenario = read_scenario(str(tmp_path / "busy.toml"))
    alone = ScenarioAlone(scenario, Endpoint(engine="postgres", host="", port=1, database="", user=""))
    assert [alone.extra_rate_at(at_s) for at_s in (0, 14.9, 15, 20, 25, 29.9, 30)] == [0, 0, 50, 75, 25, 25, None]
    assert alone.bounds == bounds_of(scenario) == LocustBounds(max_failure_ratio=0.25, at_most_ms={"p95": 20})


def test_alone_it_refuses_a_burst_that_it_would_not_apply(tmp_path: Path) -> None:
    (tmp_path / "busy.toml").write_text(SCENARIO.replace("rate = 25, after", "rate = 25, at_once = 500, after"))
    scenario = read_scenario(str(tmp_path / "busy.toml"))
    with pytest.raises(BadInputError) as caught:
        ScenarioAlone(scenario, Endpoint(engine="postgres", host="", port=1, database="", user=""))
    assert str(caught.value) == (
        f"{tmp_path}/busy.toml: phases[1].faults[1] enqueues 500 jobs at once, which Locust does only in a run; "
        "expected a burst with a rate only, or --join and a run of this scenario"
    )


def test_every_fault_that_adds_load_says_how_much() -> None:
    says = {
        name
        for name, kind in find_faults().items()
        if any("find_added_load" in vars(base) for base in kind.__mro__[:-1] if base is not Fault)
    }
    assert says == {name for name, kind in find_faults().items() if kind.adds_load}
    assert says


@pytest.mark.parametrize(
    ("producers", "message"),
    [
        ("users = 5", 'producers.users is for Locust; it needs producers.kind = "locust"'),
        ("max_failure_ratio = 0.1", 'producers.max_failure_ratio is for Locust; it needs producers.kind = "locust"'),
        (
            'kind = "locust"\nmax_batch = 2',
            "producers.max_batch is given, but a user of Locust enqueues one job per request; leave it out",
        ),
        (
            'kind = "locust"\nlinger = "1s"',
            "producers.linger is given, but a user of Locust enqueues one job per request; leave it out",
        ),
        (
            'linger = "1s"',
            "producers.linger is given, but max_batch is 1, so a job has none to wait for; add max_batch",
        ),
        (
            'kind = "locust"\nusers = 200',
            "workers.count is 2: with the other processes that makes about 222 connections, but the server accepts 100; "
            "expected fewer, or database.settings.max_connections of at least 222",
        ),
    ],
)
def test_what_only_locust_has_and_what_it_cannot_do(tmp_path: Path, producers: str, message: str) -> None:
    assert find_lines(tmp_path, SMALL.replace("[producers]\n", f"[producers]\n{producers}\n")) == [message]
