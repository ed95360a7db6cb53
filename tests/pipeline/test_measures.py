"""Windows and phases: what was counted, how it was distributed, how it went, in figures that can be worked out by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from stallbench.measures import MEASURES, metric_names
from stallbench.records.events import Event
from tests.pipeline.conftest import MakeTables, Tables
from tests.synthetic_run import SyntheticRun, at_ns


@pytest.fixture(scope="module")
def tables(make: MakeTables, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Warm-up from 0 to 2 s, baseline from 2 to 6 s, longtx from 6 to 10 s; second 4 is silent."""
    run = SyntheticRun(
        tmp_path_factory.mktemp("measures") / "run", phases={"warmup": 2, "baseline": 4, "longtx": 4}, warm_up=["warmup"]
    )
    run.event(Event.EMPTY, at_s=-0.5, by="worker-1", took_ms=4)
    run.live(1000, at_s=1.2)
    for job in range(1, 101):  # in second 2: claims of 1 to 100 ms
        run.enqueue(job, at_s=2.1 + job / 1e4, took_ms=2, intended_s=2.05)
        run.claim(job, at_s=2.5 + job / 1e4, took_ms=job)
        run.complete(job, at_s=2.8, took_ms=3)
    run.event(Event.EMPTY, at_s=3.1, by="worker-1", took_ms=200)
    run.event(Event.LOST_RACE, at_s=3.2, by="worker-1", job=1, took_ms=300)
    run.raise_error("40P01 in claim: deadlock", at_s=3.3)
    run.raise_error("53300 in connect: sorry; too many clients already", at_s=6.3)
    run.raise_error("53300 in connect: sorry; too many clients already", at_s=6.4)
    run.claim(7, at_s=3.4, took_ms=5).event(Event.FAILED, at_s=3.5, by="worker-1", job=7)
    run.enqueue(200, at_s=6.2, took_ms=1).claim(200, at_s=6.4, took_ms=50).complete(200, at_s=6.6)
    run.event(Event.QUERY_ANSWERED, at_s=2.702, intended_s=2.7, by="bystander")
    run.event(Event.QUERY_ANSWERED, at_s=6.2, intended_s=5.9, by="bystander")
    run.event(Event.QUERY_FAILED, at_s=7.1, by="bystander", detail="08006 in read: gone")
    run.event(Event.QUERY_UNANSWERED, at_s=9.9, intended_s=7.1, by="bystander")
    for second in range(2, 10):
        if second != 4:
            sample(run, second + 0.25, second)
            sample(run, second + 0.75, second + 0.5)
    return make(run.write(final_snapshot={}))


def sample(run: SyntheticRun, at_s: float, t: float) -> None:
    """Let everything that is sampled go on by ``t``: two tables and two servers, one of which restarts at second 8."""
    run.sample("backlog", "queue", at_s=at_s, depth=10 * t, oldest_job_s=t)
    for table, tuples in (("que_jobs", 100 * t), ("que_values", 1000 * t)):
        run.sample(
            "tables",
            f"table:{table}",
            at_s=at_s,
            dead_tuples=tuples,
            live_tuples=1,
            table_bytes=8192,
            toast_bytes=16384,
            updates=8 * t,
            hot_updates=6 * t,
        )
    for index in ("que_jobs_pkey", "que_values_pkey"):
        run.sample("tables", f"index:{index}", at_s=at_s, index_bytes=16384)
    # From second 6 on, a claim statement takes 3 ms and reads 50 buffers instead of 1 ms and 5 buffers.
    calls, slow_calls = 10 * t, 10 * max(0.0, t - 6)
    total_ms, buffers = calls + 2 * slow_calls, 5 * calls + 45 * slow_calls
    run.sample(
        "statements",
        "claim_statement",
        at_s=at_s,
        claim_statement_calls=calls,
        claim_statement_ms=total_ms,
        claim_statement_buffers=buffers,
    )
    run.sample("statements", "statement:-4711", at_s=at_s, calls=calls, total_ms=total_ms, rows=calls, buffers=buffers)
    run.sample("transactions", "server", at_s=at_s, oldest_transaction_s=t)
    run.sample("transactions", "server", at_s=at_s, source="replica-1", oldest_transaction_s=2 * t)
    run.sample("horizon", "server", at_s=at_s, horizon_age_s=t, horizon_age_xids=100 * t, holders=0)
    run.sample("locks", "server", at_s=at_s, deadlocks=t, row_lock_wait_ms=10 * t, conflicts=0, blocked_backends=1)
    run.sample("locks", "server", at_s=at_s, source="replica-1", deadlocks=0, conflicts=t if t < 8 else t - 8, blocked_backends=2)
    run.sample("sessions", "session:idle", at_s=at_s, sessions=4)
    run.sample("sessions", "session:active", at_s=at_s, sessions=3)
    run.sample("replication", "server", at_s=at_s, wal_bytes=1000 * t)
    run.sample("slots", "server", at_s=at_s, wal_kept_bytes=16 * t)
    run.sample("slots", "slot:old", at_s=at_s, active=0, wal_status="extended", slot_wal_bytes=5 * t)
    run.sample("slru", "server", at_s=at_s, subtransaction_lookups=20 * t, multixact_lookups=3 * t, slru_reads=t)
    run.sample("replication", "replica-1", at_s=at_s, lag_bytes=64, lag_s=0.1, state="streaming")
    run.sample("host", "host", at_s=at_s, source="host", cpu_percent=50)
    run.sample("host", "process:worker-1", at_s=at_s, source="host", cpu_percent=99)
    run.sample("host", "server", at_s=at_s, cpu_percent=12)


@pytest.fixture(scope="module")
def windows(tables: Tables) -> pd.DataFrame:
    return tables("windows").set_index("t_s")


@pytest.fixture(scope="module")
def phases(tables: Tables) -> dict[tuple[str, str], Any]:
    """The value of each (phase, metric)."""
    rows = tables("phases")
    return {(str(row.phase), f"{row.measure}.{row.statistic}"): row.value for row in rows.itertuples()}


def test_every_second_from_the_first_record_to_the_last_has_a_window(windows: pd.DataFrame) -> None:
    assert list(windows.index) == list(range(-1, 10))
    assert windows.t_ns[4] == at_ns(4)


def test_a_window_belongs_to_the_phase_of_its_middle(windows: pd.DataFrame) -> None:
    assert windows.phase.where(windows.phase.notna(), None).to_dict() == {
        -1: None,
        **dict.fromkeys((0, 1), "warmup"),
        **dict.fromkeys((2, 3, 4, 5), "baseline"),
        **dict.fromkeys((6, 7, 8, 9), "longtx"),
    }


def test_a_silent_second_counts_nothing_and_measures_nothing(windows: pd.DataFrame) -> None:
    silent = windows.loc[4]
    assert (silent.enqueued, silent.claimed, silent.completed, silent.errors) == (0, 0, 0, 0)
    assert pd.isna(silent.claim_ms_p50)
    assert pd.isna(silent.depth)


def test_a_window_counts_what_happened_in_it(windows: pd.DataFrame) -> None:
    assert tuple(windows.loc[2, ["enqueued", "claimed", "completed"]]) == (100, 100, 100)
    assert tuple(windows.loc[3, ["claimed", "empty", "lost_race", "errors", "failed"]]) == (1, 1, 1, 1, 1)
    assert windows["empty"][-1] == 1


def test_a_window_has_the_growth_of_a_counter_since_the_sample_before(windows: pd.DataFrame) -> None:
    growth = windows["deadlocks_count"].dropna()
    assert tuple(growth[[2, 3, 5]]) == (0.5, 1, 2), "second 4 has no sample, and second 2 has two"
    assert growth.sum() == 9.5 - 2


def test_percentiles_are_by_nearest_rank(windows: pd.DataFrame) -> None:
    assert tuple(windows.loc[2, ["claim_ms_p50", "claim_ms_p95", "claim_ms_p99", "claim_ms_max"]]) == (50, 95, 99, 100)


def test_calls_of_claim_include_those_that_got_nothing(windows: pd.DataFrame) -> None:
    assert windows.claim_ms_p95[3] == 5
    assert windows.claim_call_ms_p95[3] == 300


def test_latency_counts_from_the_intended_time_to_the_first_completion(windows: pd.DataFrame) -> None:
    assert windows.latency_ms_p50[2] == pytest.approx(750)


def test_lag_is_how_late_the_call_began(windows: pd.DataFrame) -> None:
    """Jobs n = 1 to 100 were wanted at 2.05 s; the call for n began at 2.098 s and n tenths of a millisecond."""
    assert windows.lag_ms_p50[2] == pytest.approx(48 + 5.0)


def test_a_window_has_the_last_sample_of_its_second(windows: pd.DataFrame) -> None:
    assert windows.depth[3] == 35
    assert windows.wal_bytes[3] == 3500
    assert windows.cpu_percent[3] == 50


def test_tables_indexes_and_blocked_backends_add_up_and_of_transactions_the_oldest_counts(windows: pd.DataFrame) -> None:
    assert windows.dead_tuples[2] == 1100 * 2.5
    assert windows.index_bytes[2] == 2 * 16384
    assert windows.blocked_backends[2] == 3
    assert windows.connections[2] == 7
    assert windows.oldest_transaction_s[2] == 5


_OF_OTHER_RUNS = (
    "history_list_length",
    "replica_history_list_length",
    "recovery_s",
    "advisory_locks",
    "claim_by_position",
    "start_delay_ms",
    "default_queue_latency_ms",
    "notification_queue_percent",
    "notification_queue_bytes",
    "notify_lock_waits",
    "stuck_clients",
    "autovacuum_workers_busy",
    "autovacuum_workers_free",
    "vacuum_overdue_s",
    "sequential_scans",
)
OF_OTHER_RUNS = {name for name in metric_names() if name.partition(".")[0] in _OF_OTHER_RUNS}
"""What only runs on InnoDB, with a backlog, faults, scheduled jobs or listeners have: here are none of them, and not everything is sampled."""


def test_every_metric_is_there_for_every_measured_phase_and_the_run(phases: dict[tuple[str, str], Any]) -> None:
    for phase in ("baseline", "longtx", "run"):
        there = {metric for of, metric in phases if of == phase}
        of_run = {name for name in metric_names() if MEASURES[name.partition(".")[0]].is_of_run}
        without_window = {name for name in of_run if name.startswith("claim_round")}
        again = {name for name in metric_names() if name.startswith("re_executed_after_ms") and phase == "longtx"}
        assert there == set(metric_names()) - OF_OTHER_RUNS - again - (of_run if phase != "run" else without_window)


def test_a_phase_has_its_own_distribution_not_one_of_its_windows(phases: dict[tuple[str, str], Any]) -> None:
    """101 claims: 1 to 100 ms in second 2, and one of 5 ms in second 3."""
    assert phases["baseline", "claim_ms.p50"] == 50
    assert phases["baseline", "claim_ms.p95"] == 95
    assert phases["baseline", "claim_ms.max"] == 100
    assert phases["baseline", "claim_ms.mean"] == pytest.approx((5050 + 5) / 101)
    assert phases["longtx", "claim_ms.p95"] == 50


def test_a_query_of_the_bystander_is_of_the_phase_in_which_it_was_due(
    windows: pd.DataFrame, phases: dict[tuple[str, str], Any]
) -> None:
    assert [phases["baseline", f"bystander_ms.{name}"] for name in ("p50", "max")] == pytest.approx([2, 300])
    assert phases["longtx", "bystander_ms.max"] == pytest.approx(2800), "not answered when the load ended"
    assert [phases[phase, "bystander_errors.count"] for phase in ("baseline", "longtx")] == [0, 1]
    assert windows.bystander_ms_max[[2, 5, 7]].tolist() == pytest.approx([2, 300, 2800])
    assert phases["longtx", "errors.count"] == 2, "no error of the queue"


def test_a_statement_has_its_mean_in_each_phase_and_second(tables: Tables, phases: dict[tuple[str, str], Any]) -> None:
    """From the last sample before longtx to its last one there are 40 calls, of which 5 are quick."""
    assert phases["baseline", "claim_statement_ms.mean"] == pytest.approx(1)
    assert phases["baseline", "claim_statement_buffers.per_call"] == pytest.approx(5)
    assert phases["longtx", "claim_statement_ms.mean"] == pytest.approx((5 * 1 + 35 * 3) / 40)
    assert phases["longtx", "claim_statement_buffers.per_call"] == pytest.approx((5 * 5 + 35 * 50) / 40)
    windows = tables("windows").set_index("t_s")
    assert windows["claim_statement_buffers_per_call"][3] == pytest.approx(5)
    assert windows["claim_statement_buffers_per_call"][8] == pytest.approx(50)


def test_each_statement_has_its_cost_in_each_phase(tables: Tables) -> None:
    baseline, longtx = tables("statements").to_dict("records")
    assert [(row["phase"], row["statement"]) for row in (baseline, longtx)] == [("baseline", "-4711"), ("longtx", "-4711")]
    assert (longtx["calls"], longtx["row_count"], longtx["total_ms"], longtx["buffers"]) == (
        40,
        40,
        5 * 1 + 35 * 3,
        5 * 5 + 35 * 50,
    )


def test_ratios_are_of_the_counts_of_the_same_phase(phases: dict[tuple[str, str], Any]) -> None:
    assert phases["baseline", "hot_updates.share"] == pytest.approx(0.75)
    assert phases["longtx", "wal_bytes.per_job"] == pytest.approx(phases["longtx", "wal_bytes.count"] / 1)
    assert phases["longtx", "subtransaction_lookups.per_job"] == pytest.approx(80)
    assert phases["baseline", "retried.per_job"] == 0
    assert phases["baseline", "completed.share"] == phases["baseline", "completed.count"] / phases["baseline", "enqueued.count"]


def test_dead_tuples_per_job_are_what_the_phase_added_for_each_job_completed_in_it(phases: dict[tuple[str, str], Any]) -> None:
    """In the baseline dead tuples rise from 2200 to 6050 while 100 jobs are completed, in longtx from 6600 to 10450 while one is."""
    assert phases["baseline", "dead_tuples.per_job"] == pytest.approx((1100 * 5.5 - 1100 * 2) / 100)
    assert phases["longtx", "dead_tuples.per_job"] == pytest.approx(1100 * 9.5 - 1100 * 6)


def test_an_execution_again_is_measured_from_the_one_before_it(phases: dict[tuple[str, str], Any]) -> None:
    """Job 7 was claimed at 2.5007 s and at 3.4 s."""
    assert phases["baseline", "re_executed_after_ms.max"] == pytest.approx(899.3)


def test_counts_and_rates_are_over_the_whole_phase(phases: dict[tuple[str, str], Any]) -> None:
    assert phases["baseline", "enqueued.count"] == 100
    assert phases["baseline", "enqueued.rate"] == 25
    assert phases["longtx", "errors.count"] == 2
    assert phases["longtx", "failed_connections.count"] == 2
    assert phases["baseline", "failed_connections.count"] == 0


def test_the_run_is_from_the_first_measured_phase_to_the_last(phases: dict[tuple[str, str], Any]) -> None:
    assert phases["warmup", "enqueued.count"] == 1
    assert phases["run", "enqueued.count"] == 101
    assert phases["run", "enqueued.rate"] == pytest.approx(101 / 8)


def test_a_series_is_of_all_samples(phases: dict[tuple[str, str], Any]) -> None:
    """Depth is 20, 25, 30, 35, 50, 55 in the baseline: second 4 has none."""
    found = {name: phases["baseline", f"depth.{name}"] for name in ("first", "last", "min", "max", "mean")}
    assert found == {"first": 20, "last": 55, "min": 20, "max": 55, "mean": pytest.approx(215 / 6)}


def test_a_slope_is_per_second(phases: dict[tuple[str, str], Any]) -> None:
    assert phases["longtx", "dead_tuples.slope"] == pytest.approx(1100)
    assert phases["longtx", "cpu_percent.slope"] == pytest.approx(0)


def test_a_counter_counts_its_growth_from_the_sample_before_the_phase(phases: dict[tuple[str, str], Any]) -> None:
    """WAL is at 5500 when the baseline's last sample is taken, and at 9500 at the last of longtx."""
    assert phases["longtx", "wal_bytes.count"] == 4000
    assert phases["longtx", "wal_bytes.rate"] == 1000
    assert phases["run", "wal_bytes.count"] == 7500


def test_a_counter_that_starts_anew_has_grown_from_zero(phases: dict[tuple[str, str], Any]) -> None:
    """The replica's conflicts go 5.5, 6, 6.5, 7, 7.5, then, restarted, 0, 0.5, 1, 1.5."""
    assert phases["longtx", "conflicts.count"] == pytest.approx(2 + 1.5)


def test_the_count_is_the_number_of_values_behind_a_figure(tables: Tables) -> None:
    rows = tables("phases").set_index(["phase", "measure", "statistic"])["count"]
    assert rows["baseline", "claim_ms", "p95"] == 101
    assert rows["baseline", "depth", "max"] == 6
    assert rows["baseline", "errors", "rate"] == 1


def test_without_a_backlog_the_positions_of_claims_are_not_measured(tables: Tables) -> None:
    measures = set(tables("phases").measure)
    assert "claim_ms" in measures
    assert "claim_by_position" not in measures
