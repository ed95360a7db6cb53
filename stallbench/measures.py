"""Every measure of a run, declared once. The pipeline, scenarios, reports, charts, Prometheus and the docs read `MEASURES`.

An expectation names a *metric*: ``<measure>.<statistic>``. To add a measure, add one entry to `MEASURES` (docs/add-a-measure.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from stallbench.measure_definition import QUANTILES, WITHOUT_DIRECTION, Chart, FromEvents, FromSamples, FromTable, Measure
from stallbench.records.events import Event

WHOLE_RUN = "run"
"""Name of the phase that covers the whole run, from the first measured phase's start to the last one's end."""
DISTRIBUTION = (*QUANTILES, "max", "mean")
"""Statistics of single values, such as the durations of calls."""
SERIES = ("first", "last", "min", "max", "mean", "slope")
"""Statistics of samples over time. ``slope``: by least squares, per second."""
COUNT = ("count", "rate")
"""How many; ``rate`` is per second of the phase. Of a counter: by how much it grew."""
COUNT_PER_JOB = (*COUNT, "per_job")
"""``per_job``: the count divided by the jobs completed in the phase."""
SERIES_PER_JOB = (*SERIES, "per_job")
"""``per_job``: (largest in the phase - first in the phase) / jobs completed in the phase."""

CHARTS = (
    Chart("Latency from the intended time", is_logarithmic=True),
    Chart("Queue depth"),
    Chart("Throughput"),
    Chart("Other queries", is_logarithmic=True),
    Chart("Repeated executions", hides_zero=True),
    Chart("Claim time"),
    Chart("Claim statement on the server"),
    Chart("Pages that a claim reads", hides_zero=True),
    Chart("Dead tuples", hides_zero=True),
    Chart("History list length", hides_zero=True),
    Chart("Oldest transaction"),
    Chart("Rolled back to break a deadlock", hides_zero=True),
)
"""In the order of the page: what happened to the jobs, then what is behind it."""

_CLAIM, _ENQUEUE, _COMPLETE = (Event.CLAIMED,), (Event.ENQUEUED,), (Event.COMPLETED,)
_CLAIM_CALLS = (Event.CLAIMED, Event.EMPTY, Event.LOST_RACE)
_RAISED = (Event.ERROR, Event.RETRIED)
_QUANTILES = tuple(QUANTILES)

# A table: each entry says what is measured, then where it is shown.
# fmt: off
MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        Measure("completed", "jobs", FromEvents(_COMPLETE), (*COUNT, "share"), "completed", "completions that the queue confirmed",
                better="higher", chart="Throughput", prometheus_name="jobs_completed", in_report=("rate",), divided_by="enqueued"),
        Measure("claim_ms", "ms", FromEvents(_CLAIM, "duration"), DISTRIBUTION, "claim time",
                "claims that got a job, from the call to the claimed row", chart="Claim time", prometheus_name="claim_seconds",
                by_second=(*_QUANTILES, "max"), in_report=_QUANTILES),
        Measure("claim_call_ms", "ms", FromEvents(_CLAIM_CALLS, "duration"), DISTRIBUTION, "time of claim calls",
                "all calls of claim, including those that found nothing or lost a race", by_second=("p95",)),
        Measure("enqueue_ms", "ms", FromEvents(_ENQUEUE, "duration"), DISTRIBUTION, "enqueue time", "calls of enqueue",
                prometheus_name="enqueue_seconds", by_second=("p95",)),
        Measure("complete_ms", "ms", FromEvents(_COMPLETE, "duration"), DISTRIBUTION, "complete time", "calls of complete",
                prometheus_name="complete_seconds", by_second=("p95",)),
        Measure("latency_ms", "ms", FromTable("jobs", by_time=True), DISTRIBUTION, "latency",
                "from a job's intended time of enqueue to its first completion, of jobs completed in the phase",
                chart="Latency from the intended time", by_second=_QUANTILES, in_report=("p95",)),
        Measure("pickup_ms", "ms", FromTable("jobs", by_time=True), DISTRIBUTION, "pickup time",
                "from a job's intended time of enqueue to the start of its first execution, of jobs started in the phase",
                by_second=_QUANTILES, in_report=("p50", "p95")),
        Measure("lag_ms", "ms", FromEvents(_ENQUEUE, "lag"), DISTRIBUTION, "schedule lag",
                "how long after its intended time the enqueue began", by_second=("p50", "p99"), in_report=("p99",), hides_zero=True),
        Measure("enqueued", "jobs", FromEvents(_ENQUEUE), COUNT, "enqueued", "jobs that the queue accepted", better="higher",
                chart="Throughput", prometheus_name="jobs_enqueued"),
        Measure("claimed", "jobs", FromEvents(_CLAIM), COUNT, "claimed", "claims that got a job", better="higher", prometheus_name="jobs_claimed"),
        Measure("failed", "jobs", FromEvents((Event.FAILED,)), COUNT, "failed", "executions that failed", prometheus_name="jobs_failed"),
        Measure("expired", "jobs", FromEvents((Event.EXPIRED,)), COUNT, "expired", "claims that expired before their job was completed",
                prometheus_name="jobs_expired"),
        Measure("empty", "calls", FromEvents((Event.EMPTY,)), COUNT, "empty claims", "claims that found nothing", has_direction=False,
                prometheus_name="claims_empty"),
        Measure("lost_race", "calls", FromEvents((Event.LOST_RACE,)), COUNT, "lost races", "claims in which the queue found that another worker was faster",
                prometheus_name="claims_lost_race", in_report=("count",), hides_zero=True),
        Measure("errors", "calls", FromEvents((Event.ERROR,)), COUNT, "errors", "calls of any operation that ended with an error", prometheus_name="errors"),
        Measure("failed_connections", "calls", FromEvents((Event.ERROR,), error_in="connect"), COUNT, "failed connections",
                "connections to the queue's server that a producer, worker or scheduler could not open"),
        Measure("refused", "jobs", FromEvents((Event.REFUSED,)), COUNT, "refused",
                "jobs that were not enqueued: the queue is full, or has a job with the same key, or no connection could be opened for the call"),
        Measure("retried", "calls", FromEvents((Event.RETRIED,)), COUNT_PER_JOB, "retried", "errors after which the queue's own policy tried again"),
        Measure("bystander_ms", "ms", FromEvents((Event.QUERY_ANSWERED, Event.QUERY_UNANSWERED), "since_due"), DISTRIBUTION, "other queries",
                "reads and writes of single rows of another table, from when they were due to the answer, by the bystander",
                chart="Other queries", prometheus_name="bystander_seconds", by_second=("p50", "p95", "max"), in_report=("p50", "p95"),
                hides_zero=True),
        Measure("bystander_errors", "calls", FromEvents((Event.QUERY_FAILED,)), COUNT, "other queries, errors",
                "attempts of the bystander to connect or to query that ended with an error; it then tries again", in_report=("count",),
                hides_zero=True),
        Measure("re_executions", "executions", FromTable("duplicates", by_time=True), COUNT, "repeated executions",
                "executions of jobs that had been executed before", chart="Repeated executions", in_report=("count",), hides_zero=True),
        Measure("re_executed_after_ms", "ms", FromTable("duplicates", by_time=True), DISTRIBUTION, "time until re-executed",
                "from the claim of one execution of a job to the claim of the next", has_direction=False),
        Measure("re_completed", "jobs", FromTable("duplicates", by_time=True), ("count",), "jobs re-completed",
                "jobs that were completed a second time in the phase"),
        Measure("deadlocks_in_claim", "calls", FromEvents(_RAISED, deadlock_in="claim"), COUNT, "deadlocks, claim rolled back",
                "claims that the server rolled back to break a deadlock", chart="Rolled back to break a deadlock",
                in_report=("count",), hides_zero=True),
        Measure("deadlocks_in_complete", "calls", FromEvents(_RAISED, deadlock_in="complete"), COUNT,
                "deadlocks, completion rolled back", "completions that the server rolled back to break a deadlock",
                chart="Rolled back to break a deadlock", in_report=("count",), hides_zero=True),
        Measure("deadlocks_in_enqueue", "calls", FromEvents(_RAISED, deadlock_in="enqueue"), COUNT,
                "deadlocks, enqueue rolled back", "enqueues that the server rolled back to break a deadlock"),
        Measure("start_delay_ms", "ms", FromTable("jobs", by_time=True), DISTRIBUTION, "start delay", "from the due time of a scheduled job to its claim"),
        Measure("default_queue_latency_ms", "ms", FromTable("jobs", by_time=True), DISTRIBUTION, "latency of the default queue",
                "the latency of the jobs of the default queue; only for runs that also have jobs of other queues", by_second=_QUANTILES),
        Measure("overlaps", "executions", FromTable("waiting", by_time=True), COUNT, "overlapping executions",
                "executions that began while another job was executed with the same limit, which allows one at a time", in_report=("count",), hides_zero=True),
        Measure("repeated_keys", "jobs", FromTable("jobs", by_time=True), COUNT, "repeated keys",
                "jobs with a key that an earlier job had; the key of a library's periodic job is its period"),
        Measure("skipped_keys", "keys", FromTable("jobs", by_time=True), COUNT, "skipped keys", "keys between the first and the last one that no job has"),
        Measure("fired", "executions", FromEvents((Event.FIRED,)), COUNT, "periodic jobs",
                "executions of periodic jobs, which the scheduler of a library has inserted", has_direction=False),
        Measure("stalled_s", "s", FromTable("windows"), ("total", "longest"), "stalled",
                "whole seconds in which nothing was completed although jobs waited, in the queue or to be enqueued",
                in_report=("longest",), hides_zero=True),
        Measure("recovery_s", "s", FromTable("recoveries"), ("to_first_completion", "to_rate", "to_empty_backlog"), "recovery",
                "from the end of the phase's faults to the next completion, to 90 % of the baseline's rate or of open jobs, to no more open ones than then"),
        Measure("lost", "jobs", FromTable("jobs"), ("count",), "lost jobs",
                "jobs whose enqueue was confirmed and that are neither completed nor in the queue", is_of_run=True),
        Measure("order_diff", "positions", FromTable("order"), ("mean", "p99", "max"), "order difference",
                "distance from the position of an execution to the position of its job in the order of enqueueing", is_of_run=True),
        Measure("claim_round", "rounds", FromTable("rounds"), ("mean", "max"), "claim round",
                "round of N picks in which a job is claimed, if workers choose among the first N jobs", is_of_run=True),
        Measure("claim_by_position", "", FromTable("jobs"), ("slope_us", "first_ms", "last_ms", "times", "r2"),
                "claim time by position",
                "claim time against the number of jobs claimed before, as a straight line; only for runs with a backlog",
                is_of_run=True),
        Measure("claim_statement_calls", "calls", FromSamples("claim_statement", combine="sum", is_counter=True), COUNT_PER_JOB,
                "claim statements", "executions of the queue's claim statement, as the server counts them"),
        Measure("claim_statement_ms", "ms", FromSamples("claim_statement", combine="sum", is_counter=True), (*COUNT, "mean"),
                "claim statement, time", "time of one execution of the claim statement on the server, without the network and the client",
                chart="Claim statement on the server", by_second=("mean",), divided_by="claim_statement_calls", in_report=("mean",)),
        Measure("claim_statement_buffers", "buffers", FromSamples("claim_statement", combine="sum", is_counter=True), (*COUNT, "per_call"),
                "claim statement, buffers", "pages (8 kB) that one execution of the claim statement reads, from memory or disk (PostgreSQL)",
                chart="Pages that a claim reads", by_second=("per_call",), divided_by="claim_statement_calls", in_report=("per_call",)),
        Measure("depth", "jobs", FromSamples("queue"), SERIES, "queue depth",
                "jobs ready and not claimed, counted exactly; more than 30 000 not each second, but at least every 5 s", chart="Queue depth",
                prometheus_name="queue_depth", in_report=("last",)),
        Measure("oldest_job_s", "s", FromSamples("queue"), SERIES, "oldest job", "age of the oldest job that is ready", prometheus_name="oldest_job_seconds"),
        Measure("dead_tuples", "tuples", FromSamples("table", combine="sum"), SERIES_PER_JOB, "dead tuples",
                "dead tuples of the queue's tables (PostgreSQL)", chart="Dead tuples", prometheus_name="dead_tuples",
                in_report=("max",), hides_zero=True, singular="dead tuple"),
        Measure("history_list_length", "transactions", FromSamples("server"), SERIES_PER_JOB, "history list length",
                "transactions whose old row versions InnoDB has not purged", chart="History list length",
                prometheus_name="history_list_length", in_report=("max",), hides_zero=True, singular="entry of the history list"),
        Measure("replica_history_list_length", "transactions", FromSamples("server"), SERIES_PER_JOB, "history list length, replica",
                "the same, on the replica where it is longest", prometheus_name="history_list_length", in_report=("max",), hides_zero=True),
        Measure("live_tuples", "tuples", FromSamples("table", combine="sum"), SERIES, "live tuples",
                "live tuples of the queue's tables", has_direction=False, prometheus_name="live_tuples"),
        Measure("table_bytes", "bytes", FromSamples("table", combine="sum"), SERIES_PER_JOB, "table size",
                "size of the queue's tables without indexes", prometheus_name="table_bytes"),
        Measure("toast_bytes", "bytes", FromSamples("table", combine="sum"), SERIES_PER_JOB, "TOAST size",
                "size of what is stored outside the rows of the queue's tables because it is large (PostgreSQL)", prometheus_name="toast_bytes"),
        Measure("index_bytes", "bytes", FromSamples("index", combine="sum"), SERIES_PER_JOB, "index size",
                "size of the indexes of the queue's tables", prometheus_name="index_bytes"),
        Measure("oldest_transaction_s", "s", FromSamples("server"), SERIES, "oldest transaction",
                "age of the oldest transaction on any server", chart="Oldest transaction",
                prometheus_name="oldest_transaction_seconds"),
        Measure("horizon_age_s", "s", FromSamples("server"), SERIES, "horizon age",
                "age of the oldest holder of the primary's horizon", prometheus_name="horizon_age_seconds"),
        Measure("horizon_age_xids", "transactions", FromSamples("server"), SERIES, "horizon age",
                "transactions begun since the primary's horizon", prometheus_name="horizon_age_transactions"),
        Measure("blocked_backends", "sessions", FromSamples("server", combine="sum"), SERIES, "blocked sessions",
                "sessions that wait for another session's lock", prometheus_name="blocked_backends"),
        Measure("connections", "sessions", FromSamples("session", "sessions", combine="sum"), SERIES, "connections",
                "connections of clients to all servers, collectors' left out", has_direction=False, prometheus_name="connections"),
        Measure("deadlocks", "deadlocks", FromSamples("server", combine="sum", is_counter=True), ("count",), "deadlocks",
                "deadlocks that the server broke", prometheus_name="deadlocks", by_second=("count",), in_report=("count",), hides_zero=True),
        Measure("row_lock_wait_ms", "ms", FromSamples("server", combine="sum", is_counter=True), COUNT, "row lock waits",
                "time that statements of all sessions waited for row locks (InnoDB)", prometheus_name="row_lock_wait_seconds",
                in_report=("rate",), hides_zero=True),
        Measure("advisory_locks", "locks", FromSamples("server"), SERIES, "advisory locks",
                "advisory locks of the session that holds the most; only for a queue that uses advisory locks"),
        Measure("conflicts", "queries", FromSamples("server", combine="sum", is_counter=True), ("count",), "recovery conflicts",
                "queries of a replica that recovery cancelled", prometheus_name="recovery_conflicts"),
        Measure("replication_lag_bytes", "bytes", FromSamples("", "lag_bytes"), SERIES, "replication lag",
                "bytes of WAL that the replica is behind", prometheus_name="replication_lag_bytes"),
        Measure("wal_bytes", "bytes", FromSamples("server", combine="sum", is_counter=True), COUNT_PER_JOB, "WAL",
                "WAL, or redo log, written", prometheus_name="wal_bytes"),
        Measure("subtransaction_lookups", "look-ups", FromSamples("server", combine="sum", is_counter=True), COUNT_PER_JOB,
                "subtransaction look-ups", "look-ups of a subtransaction's parent; sessions need them if their snapshot does not list all "
                "subtransactions (PostgreSQL)", prometheus_name="subtransaction_lookups"),
        Measure("multixact_lookups", "look-ups", FromSamples("server", combine="sum", is_counter=True), COUNT_PER_JOB,
                "MultiXact look-ups", "look-ups of the transactions that share a row lock (PostgreSQL)",
                prometheus_name="multixact_lookups"),
        Measure("slru_reads", "pages", FromSamples("server", combine="sum", is_counter=True), COUNT_PER_JOB, "SLRU reads",
                "pages of subtransactions and MultiXacts that were read from disk (PostgreSQL)", prometheus_name="slru_reads"),
        Measure("wal_kept_bytes", "bytes", FromSamples("server"), SERIES, "WAL kept", "size of the WAL files (PostgreSQL's primary, SQLite)",
                prometheus_name="wal_kept_bytes"),
        Measure("slot_wal_bytes", "bytes", FromSamples("slot"), SERIES, "WAL kept for a slot",
                "WAL that is kept for the replication slot that is furthest behind", prometheus_name="slot_wal_bytes"),
        Measure("updates", "tuples", FromSamples("table", combine="sum", is_counter=True), COUNT, "updates",
                "rows of the queue's tables that were updated (PostgreSQL)", has_direction=False, prometheus_name="table_updates"),
        Measure("hot_updates", "tuples", FromSamples("table", combine="sum", is_counter=True), (*COUNT, "share"), "HOT updates",
                "updates that touched no index; `share` of all updates, 0 to 1", better="higher",
                prometheus_name="table_hot_updates", divided_by="updates"),
        Measure("sequential_scans", "scans", FromSamples("table", combine="sum", is_counter=True), COUNT, "sequential scans",
                "reads of a whole table of the queue, without an index (PostgreSQL)", has_direction=False, by_second=("count",)),
        Measure("cpu_percent", "%", FromSamples("host"), SERIES, "host CPU", "use of all the host's cores, 0 to 100",
                prometheus_name="host_cpu_ratio", in_report=("mean",)),
        Measure("server_cpu_percent", "%", FromSamples("server", "cpu_percent", combine="sum"), SERIES, "server CPU",
                "use of processor time by the processes of the bench's own servers; 100 is one core"),
        Measure("notification_queue_percent", "%", FromSamples("server"), SERIES, "notification queue",
                "how full the notification queue (`LISTEN`, `NOTIFY`) is", prometheus_name="notification_queue_ratio"),
        Measure("notification_queue_bytes", "bytes", FromSamples("server"), SERIES_PER_JOB, "notification queue",
                "content of the notification queue, in whole pages"),
        Measure("notify_lock_waits", "sessions", FromSamples("server"), SERIES, "NOTIFY lock waits",
                "commits with a `NOTIFY` that wait for another commit with a `NOTIFY`", prometheus_name="notify_lock_waits"),
        Measure("stuck_clients", "sessions", FromSamples("server"), SERIES, "stuck clients",
                "sessions that have waited for a second or more for their client to read (ClientWrite)",
                prometheus_name="stuck_clients"),
        Measure("autovacuum_workers_busy", "workers", FromSamples("server"), SERIES, "autovacuum workers, busy",
                "autovacuum workers that are running", has_direction=False, prometheus_name="autovacuum_workers_busy"),
        Measure("autovacuum_workers_free", "workers", FromSamples("server"), SERIES, "autovacuum workers, free",
                "autovacuum workers that the server could still start", better="higher",
                prometheus_name="autovacuum_workers_free"),
        Measure("vacuum_overdue_s", "s", FromSamples("table"), SERIES, "vacuum overdue",
                "how long a table of the queue has had more dead tuples than autovacuum's threshold without being vacuumed",
                prometheus_name="vacuum_overdue_seconds"),
    )
}
# fmt: on
"""Every measure by its name, in the order in which reports and docs list them."""


def metric_names() -> list[str]:
    """Return every metric that an expectation can name, in the order of `MEASURES`."""
    return [f"{measure.name}.{statistic}" for measure in MEASURES.values() for statistic in measure.statistics]


def split_metric(metric: str) -> tuple[str, str]:
    """Return the measure's name and the statistic of ``metric``."""
    measure, _, statistic = metric.partition(".")
    return measure, statistic


def has_direction(metric: str) -> bool:
    """Whether a change of ``metric`` in one direction is worse by itself."""
    measure, statistic = split_metric(metric)
    return MEASURES[measure].has_direction and statistic not in WITHOUT_DIRECTION


def measure_of(metric: str) -> Measure | None:
    """Return the measure that ``metric`` is of; none if there is no such measure."""
    return MEASURES.get(split_metric(metric)[0])


RE_EXECUTED = "re_executed.count"
EXECUTIONS_PER_JOB = "executions.per_job"
LOST = "lost.count"
REFUSED = "refused_in_all.count"
OF_THE_RUN: Mapping[str, str] = {
    RE_EXECUTED: "jobs re-executed",
    LOST: "jobs that the queue no longer holds and that no worker executed",
    REFUSED: "jobs that were refused, by a full queue or for lack of a connection, including those of the backlog",
    EXECUTIONS_PER_JOB: "executions per executed job; 1 if no job was re-executed",
}
"""Figures that only a whole run has, beside `MEASURES`, and their meanings."""
