"""The metrics that an expectation can name: ``<measure>.<statistic>``, each computed by the pipeline for each phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DISTRIBUTION = ("p50", "p95", "p99", "max", "mean")
SERIES = ("first", "last", "min", "max", "mean", "slope")
COUNT = ("count", "rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Something measured in every phase."""

    name: str
    """Ends in its unit, where it has one."""
    meaning: str
    statistics: tuple[str, ...]
    """`DISTRIBUTION`: of single calls. `SERIES`: of samples; ``slope`` is by least squares, per second. `COUNT`: ``rate`` is
    per second of the phase."""
    is_of_run: bool = False
    """Whether it is of the whole run only: an order has no phases."""
    better: Literal["higher", "lower"] = "lower"
    """Which of two values a user would rather have, all else being equal."""


MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure(name="claim_ms", meaning="claims that got a job, from the call to the claimed row", statistics=DISTRIBUTION),
        Measure(name="claim_call_ms", meaning="all calls of claim: also empty ones and lost races", statistics=DISTRIBUTION),
        Measure(name="enqueue_ms", meaning="calls of enqueue", statistics=DISTRIBUTION),
        Measure(name="complete_ms", meaning="calls of complete", statistics=DISTRIBUTION),
        Measure(
            name="latency_ms",
            meaning="from when the schedule wanted the job enqueued to its completion, of jobs completed in the phase",
            statistics=DISTRIBUTION,
        ),
        Measure(
            name="lag_ms",
            meaning="how late the enqueue began behind its schedule",
            statistics=DISTRIBUTION,
        ),
        Measure(name="enqueued", meaning="jobs enqueued", statistics=COUNT, better="higher"),
        Measure(name="completed", meaning="completions", statistics=COUNT, better="higher"),
        Measure(name="claimed", meaning="claims that got a job", statistics=COUNT, better="higher"),
        Measure(name="failed", meaning="executions that failed", statistics=COUNT),
        Measure(name="empty", meaning="claims that found nothing", statistics=COUNT),
        Measure(name="lost_race", meaning="claims that a re-check took back", statistics=COUNT),
        Measure(name="errors", meaning="calls that raised", statistics=COUNT),
        Measure(name="refused", meaning="jobs that a full queue did not take", statistics=COUNT),
        Measure(
            name="claim_round",
            meaning="round in which a job is claimed where workers choose among the first N, N picks a round",
            statistics=("mean", "max"),
            is_of_run=True,
        ),
        Measure(
            name="retried",
            meaning="calls that raised and that the queue itself tried again; per job completed",
            statistics=(*COUNT, "per_job"),
        ),
        Measure(name="re_executions", meaning="executions of jobs that had been executed before", statistics=COUNT),
        Measure(
            name="re_executed_after_ms",
            meaning="from the claim of a job's execution to that of its next one",
            statistics=DISTRIBUTION,
        ),
        Measure(name="deadlocks_in_claim", meaning="claims that the server rolled back to break a deadlock", statistics=COUNT),
        Measure(
            name="deadlocks_in_complete", meaning="completions that the server rolled back to break a deadlock", statistics=COUNT
        ),
        Measure(
            name="deadlocks_in_enqueue", meaning="enqueues that the server rolled back to break a deadlock", statistics=COUNT
        ),
        Measure(
            name="order_diff",
            meaning="places between an execution and its job's turn",
            statistics=("mean", "p99", "max"),
            is_of_run=True,
        ),
        Measure(
            name="claim_by_position",
            meaning="claim time against how many jobs were claimed before, a straight line: its slope in µs for each of them, claim time at "
            "its first and at its last place, how many times longer the last is, and how well it fits; of runs with a backlog",
            statistics=("slope_us", "first_ms", "last_ms", "times", "r2"),
            is_of_run=True,
        ),
        Measure(
            name="stalled_s",
            meaning="seconds in which nothing was completed although jobs waited",
            statistics=("total", "longest"),
        ),
        Measure(
            name="recovery_s",
            meaning="from the end of the phase's faults to the next completion, to 90 % of the baseline's rate, to no more open jobs than there",
            statistics=("to_first_completion", "to_rate", "to_empty_backlog"),
        ),
        Measure(
            name="lost",
            meaning="jobs that nobody has, and nobody did, although their enqueue was acknowledged",
            statistics=("count",),
            is_of_run=True,
        ),
        Measure(
            name="start_delay_ms",
            meaning="from when a scheduled job was due to its claim",
            statistics=DISTRIBUTION,
        ),
        Measure(name="duplicates", meaning="jobs with a second completion in the phase", statistics=("count",)),
        Measure(name="depth", meaning="jobs ready and not claimed", statistics=SERIES),
        Measure(name="oldest_job_s", meaning="age of the oldest job that is ready", statistics=SERIES),
        Measure(name="dead_tuples", meaning="dead tuples of the queue's tables", statistics=SERIES),
        Measure(
            name="history_list_length", meaning="transactions whose old row versions InnoDB has not purged", statistics=SERIES
        ),
        Measure(name="replica_history_list_length", meaning="the same on the replica that has the most", statistics=SERIES),
        Measure(name="live_tuples", meaning="live tuples of the queue's tables", statistics=SERIES),
        Measure(name="table_bytes", meaning="size of the queue's tables without indexes", statistics=SERIES),
        Measure(name="index_bytes", meaning="size of the queue's indexes", statistics=SERIES),
        Measure(name="oldest_transaction_s", meaning="age of the oldest transaction on any server", statistics=SERIES),
        Measure(name="horizon_age_s", meaning="age of the primary's oldest horizon holder", statistics=SERIES),
        Measure(name="horizon_age_xids", meaning="the horizon's age in transactions", statistics=SERIES),
        Measure(name="blocked_backends", meaning="backends waiting for another's lock", statistics=SERIES),
        Measure(name="deadlocks", meaning="deadlocks that the server broke", statistics=("count",)),
        Measure(name="advisory_locks", meaning="advisory locks of the session that holds the most", statistics=SERIES),
        Measure(name="row_lock_wait_ms", meaning="time that statements have waited for rows, of all sessions", statistics=COUNT),
        Measure(name="conflicts", meaning="queries of a replica that recovery cancelled", statistics=("count",)),
        Measure(name="replication_lag_bytes", meaning="bytes that the replica is behind", statistics=SERIES),
        Measure(name="wal_bytes", meaning="WAL written; per job completed", statistics=(*COUNT, "per_job")),
        Measure(name="updates", meaning="rows of the queue's tables that were updated", statistics=COUNT),
        Measure(
            name="hot_updates",
            meaning="those of them that touched no index; their share, 0 to 1",
            statistics=(*COUNT, "share"),
            better="higher",
        ),
        Measure(name="cpu_percent", meaning="of the whole host, 0 to 100", statistics=SERIES),
        Measure(name="notification_queue_percent", meaning="how full the notification queue is", statistics=SERIES),
        Measure(name="notification_queue_bytes", meaning="what the notification queue holds, in whole pages", statistics=SERIES),
        Measure(name="notify_lock_waits", meaning="commits with a NOTIFY that wait for another's", statistics=SERIES),
        Measure(
            name="stuck_clients", meaning="sessions that for a second have waited for their client to read", statistics=SERIES
        ),
        Measure(name="autovacuum_workers_busy", meaning="autovacuum workers that there are", statistics=SERIES),
        Measure(
            name="autovacuum_workers_free", meaning="autovacuum workers that could still come", statistics=SERIES, better="higher"
        ),
        Measure(
            name="vacuum_overdue_s",
            meaning="for how long a table of the queue has had too many dead tuples without being vacuumed",
            statistics=SERIES,
        ),
    )
}


def metric_names() -> list[str]:
    """Every metric that an expectation can name, in order of the table above."""
    return [f"{measure.name}.{statistic}" for measure in MEASURES.values() for statistic in measure.statistics]
