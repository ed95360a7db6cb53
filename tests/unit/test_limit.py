"""The search for a limit: which rates are tried, what interval follows from runs that may contradict each other, and what was exhausted first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stallbench.cli import app
from stallbench.errors import BadInputError
from stallbench.scenario.file import read_scenario
from stallbench.studies.limit.probes import PROBE, find_held_phase, make_probe_scenario, read_horizon
from stallbench.studies.limit.rates import Interval, find_interval, find_next_rate, is_contradictory
from stallbench.studies.limit.resources import UNKNOWN, find_first_exhausted, find_uses
from stallbench.studies.limit.slo import parse_slo
from stallbench.verdicts import RunTables
from tests.unit.made_up_limit import plan, use
from tests.unit.made_up_run import PRIMARY, START_NS, make_phases, make_record, make_run


def search(is_sustained: Callable[[float, int], bool], start: float, precision: float = 0.1) -> list[tuple[float, bool]]:
    """Return all rates that are tried, and whether each was sustained: a function of the rate and of how often it was tried before."""
    results: list[tuple[float, bool]] = []
    while (rate := find_next_rate(results, start=start, precision=precision)) is not None:
        before = sum(rate == tried for tried, _ in results)
        results.append((rate, is_sustained(rate, before)))
        assert len(results) < 50, "the search ends"
    return results


class TestSearch:
    @pytest.mark.parametrize(("limit", "start"), [(800.0, 100.0), (100.0, 800.0), (333.0, 333.0), (5.0, 4000.0)])
    def test_the_limit_is_in_an_interval_as_narrow_as_asked_for(self, limit: float, start: float) -> None:
        interval = find_interval(search(lambda rate, _: rate <= limit, start))
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low <= limit < interval.high
        assert interval.is_within(0.1)

    def test_it_goes_up_until_a_rate_is_not_sustained_then_between_and_then_to_both_ends_again(self) -> None:
        rates = [rate for rate, _ in search(lambda rate, _: rate <= 200, 100, precision=0.2)]
        assert rates == [100, 150, 225, 184, 203, 184, 203]

    def test_without_confirmation_it_ends_when_the_interval_is_narrow_enough(self) -> None:
        assert find_next_rate([(100, True), (110, False)], start=100, precision=0.1, confirms=False) is None
        assert find_next_rate([(100, True), (110, False)], start=100, precision=0.1) == 100

    def test_an_end_that_is_contradicted_makes_the_interval_wider(self) -> None:
        results = search(lambda rate, before: rate < 184 or (rate == 184 and before == 0), 100, precision=0.2)
        assert results[-1] == (184, False), "the second run at the lower end"
        assert is_contradictory(results)
        assert find_interval(results) == Interval(low=150, high=203), (
            "neither end is 184, at which two runs contradict each other"
        )

    def test_without_a_lower_end_after_a_contradiction_lower_rates_are_tried(self) -> None:
        """The first rate was the lower end, and is not sustained when it is tried again."""
        results = search(lambda rate, before: rate < 60 or (rate == 100 and before == 0), 100)
        assert results[-2:] == [(100, False), (50, True)]
        assert find_interval(results) == Interval(low=50, high=110)

    def test_without_an_upper_end_after_a_contradiction_higher_rates_are_tried(self) -> None:
        results = search(lambda rate, before: rate < 92 or (rate == 100 and before == 1), 100)
        assert results[-2:] == [(100, True), (150, False)]
        assert find_interval(results) == Interval(low=91.7, high=150)

    def test_a_rate_that_was_never_sustained_has_no_lower_end(self) -> None:
        results = search(lambda rate, _: False, 10)
        assert find_interval(results) == Interval(low=None, high=min(rate for rate, _ in results))
        assert min(rate for rate, _ in results) >= 1


class TestSlo:
    @pytest.mark.parametrize(
        ("text", "bound"),
        [
            ("latency_ms.p95 < 1s", 1000),
            ("latency_ms.p99<=250ms", 250),
            ("oldest_job_s.max < 2", 2),
            ("latency_ms.p95 < 80", 80),
            ("completed.rate >= 100", 100),
        ],
    )
    def test_a_bound_is_read_in_the_metric_s_unit(self, text: str, bound: float) -> None:
        assert parse_slo(text).bound == bound

    def test_a_bound_without_spaces_is_the_same_one_in_a_baseline(self) -> None:
        assert parse_slo("latency_ms.p95<1s").text == parse_slo(" latency_ms.p95  < 1s ").text == "latency_ms.p95 < 1s"

    def test_the_operator_decides(self) -> None:
        bounds = ("depth.max < 5", "depth.max <= 5", "completed.rate > 5", "completed.rate >= 5")
        assert [parse_slo(text).holds(5) for text in bounds] == [
            False,
            True,
            False,
            True,
        ]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("latency", 'expected METRIC < VALUE (or <=, >, >=), like "latency_ms.p95 < 1s"'),
            ("latency_ms.p95 = 1s", "expected METRIC < VALUE"),
            ("latencies.p95 < 1s", 'metric is "latencies.p95"; expected a metric that docs/measures.md lists'),
            ("latency_ms.p96 < 1s", "expected latency_ms with one of .p50, .p95"),
            ("latency_ms.p95 < inf", 'the bound is "inf"; expected a number of ms'),
            ("latency_ms.p95 < nan", 'the bound is "nan"; expected a number of ms'),
            ("latency_ms.p95 < soon", 'the bound is "soon"; expected a number of ms, or a duration like 1s or 500ms'),
            ("depth.max < 1s", 'the bound is "1s"; expected a number of jobs'),
            ("latency_ms.p95 > 1s", "latency_ms is better when it is lower; expected < or <="),
            ("completed.rate <= 50", "completed is better when it is higher; expected > or >="),
            ("lost.count < 1", "lost is measured over a whole run; expected a metric of a phase"),
        ],
    )
    def test_any_other_is_refused_with_what_is_allowed(self, text: str, message: str) -> None:
        with pytest.raises(BadInputError) as caught:
            parse_slo(text)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f'--slo "{text}": ')


class TestProbe:
    def test_the_horizon_is_held_for_the_whole_phase_or_not_at_all(self) -> None:
        scenario = read_scenario("longtx")
        free, held = (make_probe_scenario(scenario, horizon, 120, 7) for horizon in ("free", "held"))
        assert [phase.name for phase in free.phases] == ["warmup", PROBE]
        assert [len(phase.longrunners) for phase in free.phases] == [0, 0]
        assert [[one.kind for one in phase.longrunners] for phase in held.phases] == [[], ["idle_writer"]]
        assert {one.phases[1].duration_s for one in (free, held)} == {7}
        assert {(one.producers.rate, one.producers.capacity_share, one.expect) for one in (free, held)} == {(120, None, ())}

    def test_without_a_longrunner_there_is_nothing_to_hold(self) -> None:
        assert find_held_phase(read_scenario("baseline")) is None
        with pytest.raises(
            BadInputError, match=r"--horizon held: scenarios/baseline\.toml has no measured phase with a longrunner"
        ):
            plan("baseline", horizon="held")
        assert plan("baseline").horizons == ("free",)
        assert plan("longtx").horizons == ("free", "held")

    def test_bad_input_is_refused(self) -> None:
        with pytest.raises(BadInputError, match="--horizon holding: expected free or held"):
            read_horizon("holding")
        with pytest.raises(BadInputError, match=r"--within 20s: is too short for one probe of 15 s, which takes about 40 s"):
            plan("longtx", within_s=20, horizon="held")
        with pytest.raises(
            BadInputError,
            match=r"--within 60s: is too short for a probe of 15 s with the horizon free and one with it held, which take about 80 s",
        ):
            plan("longtx", within_s=60)
        with pytest.raises(
            BadInputError, match=r"collectors\.enabled is false, but `limit` needs samples of the depth of the queue"
        ):
            plan("longtx", overrides=["collectors.enabled=false"])


class TestResource:
    def test_the_one_that_is_exhausted_at_the_lowest_rate_is_the_first(self) -> None:
        at_400 = (use("claim statement", 0.95), use("CPU", 0.99))
        assert find_first_exhausted([(400, at_400), (300, (use("claim statement", 0.5), use("CPU", 0.92)))]) == "CPU"
        assert find_first_exhausted([(400, at_400)]) == "claim statement", "of two at the same rate the more specific one"

    def test_without_one_it_is_unknown(self) -> None:
        assert find_first_exhausted([(400, (use("CPU", 0.4),)), (500, ())]) == UNKNOWN

    def test_uses_are_read_from_a_run(self, tmp_path: Path) -> None:
        phases = [
            ("longtx", "connections.max"),
            ("longtx", "cpu_percent.mean"),
            ("longtx", "claim_call_ms.mean"),
            ("longtx", "completed.count"),
        ]
        values = dict(zip(phases, (97.0, 93.0, 10.0, 4000.0), strict=True))
        tables = {"phases": make_phases(values, {("longtx", "claim_call_ms.mean"): 12_000})}
        make_run(tmp_path, make_record(servers=[PRIMARY]), **tables)
        waiting = [
            f"{START_NS + (20 + t_s) * 10**9},primary,wait:IO:{name},backends,3"
            for t_s, name in enumerate(["WALSync", "WalSync"] * 20)
        ]
        (tmp_path / "samples" / "waits.csv").write_text("\n".join([*waiting, f"{START_NS},primary,wait:CPU,backends,9", ""]))
        uses = {use.resource: use for use in find_uses(RunTables(tmp_path), "longtx")}
        assert uses["connections"].description == "97 of 100 connections"
        assert uses["WAL"].description == "3.0 of 5 sessions wait for it on average"
        assert uses["claim statement"].share == pytest.approx(12_000 * 0.010 / (4 * 40))
        assert uses["workers"].share == pytest.approx(4000 * 0.002 / (4 * 40))
        assert uses["CPU"].description == "93% of all cores"
        assert [name for name, use in uses.items() if use.is_exhausted] == ["connections", "WAL", "claim statement", "CPU"]

    @pytest.mark.parametrize(("concurrency", "share"), [(10, 4000 * 0.002 / (4 * 40 * 10)), ("no limit", None)])
    def test_a_library_claims_on_the_server_and_may_execute_several_jobs_at_once(
        self, tmp_path: Path, concurrency: object, share: float | None
    ) -> None:
        values = {("longtx", "claim_statement_ms.count"): 96_000.0, ("longtx", "claim_statement_ms.mean"): 24.0}
        record = make_record(servers=[PRIMARY])
        record["queue"]["library"] = {"title": "x", "version": "1", "language": "y", "completion": "z", "rescue": "r"}
        record["queue"]["library"]["settings"] = {"concurrency": concurrency}
        make_run(tmp_path, record, phases=make_phases({**values, ("longtx", "completed.count"): 4000.0}))
        uses = {use.resource: use for use in find_uses(RunTables(tmp_path), "longtx")}
        assert uses["claim statement"].is_exhausted
        assert uses["claim statement"].description == (
            "the server executes claim statements for 60% of the worker processes' time, 24 ms each"
        )
        assert (uses["workers"].share if "workers" in uses else None) == (share and pytest.approx(share))

    @pytest.mark.parametrize("code", ["53300", "1040", "1203", "1226"])
    def test_a_server_that_refuses_connections_has_none_left(self, tmp_path: Path, code: str) -> None:
        columns = ("phase", "process", "event", "kind", "operation", "count")
        errors = pd.DataFrame([("longtx", "worker-1", "error", code, "connect", 3)], columns=columns)
        tables = {"phases": make_phases({("longtx", "connections.max"): 40.0}), "errors": errors}
        make_run(tmp_path, make_record(servers=[PRIMARY]), **tables)
        (use,) = (use for use in find_uses(RunTables(tmp_path), "longtx") if use.resource == "connections")
        assert use.description == "3 connections were refused"
        assert use.is_exhausted


@pytest.mark.parametrize("rate", ["0", "inf", "nan", "1000001"])
def test_a_first_rate_that_no_producer_can_have_is_refused_before_a_run(rate: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["limit", "longtx", "--start", rate, "--runs", str(tmp_path)])
    assert ended.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_claim_times_of_a_library_are_refused_before_a_server_starts() -> None:
    with pytest.raises(
        BadInputError, match=r"claim_ms.p95 < 10ms: the worker of library:river does not show the times of its calls"
    ):
        plan("longtx", overrides=["queue.kind=library:river"], slo="claim_ms.p95 < 10ms")
