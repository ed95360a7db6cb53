"""Gauges and counters of what the collectors measured last.

What a sample is called for Prometheus stands in `SERIES`: names by its conventions, in base units. A subject that may be one of very many
(a backend, a deadlock) has no series of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stallbench.records.samples import Sample

_STALE_S = 15.0
"""A figure that was not measured again for so long is no longer told: a server that is gone has no dead tuples."""
_FLEETING = {"wait", "session", "holder"}
"""Kinds of which a look finds only those that there are: one that the next look does not find is gone at once."""
_FLEETING_BEATS = 2.5


@dataclass(frozen=True, slots=True)
class Series:
    """How a sampled metric is told."""

    name: str
    help: str
    scale: float = 1.0
    is_counter: bool = False


def _total(name: str, help_: str, scale: float = 1.0) -> Series:
    return Series(name, help_, scale, is_counter=True)


SERIES: Mapping[tuple[str, str], Series] = {
    ("queue", "depth"): Series("queue_depth", "Jobs ready and not claimed."),
    ("queue", "oldest_job_s"): Series("oldest_job_seconds", "Age of the oldest job that is ready."),
    ("table", "dead_tuples"): Series("dead_tuples", "Dead tuples of a table of the queue."),
    ("table", "live_tuples"): Series("live_tuples", "Live tuples of a table of the queue."),
    ("table", "table_bytes"): Series("table_bytes", "Size of a table of the queue, without indexes."),
    ("table", "inserts"): _total("table_inserts", "Rows inserted."),
    ("table", "updates"): _total("table_updates", "Rows updated."),
    ("table", "hot_updates"): _total("table_hot_updates", "Rows updated in their own page, without the indexes (HOT)."),
    ("table", "deletes"): _total("table_deletes", "Rows deleted."),
    ("table", "autovacuum_count"): _total("autovacuum_runs", "Times that autovacuum has finished a table."),
    ("table", "last_autovacuum_age_s"): Series("last_autovacuum_age_seconds", "Time since autovacuum has last finished a table."),
    ("table", "removed_tuples"): Series("vacuum_removed_tuples", "Dead tuples that the last autovacuum removed."),
    ("table", "not_removable_tuples"): Series(
        "vacuum_not_removable_tuples", "Dead tuples that the last autovacuum had to leave, for somebody may still see them."
    ),
    ("table", "vacuum_overdue_s"): Series("vacuum_overdue_seconds", "For how long a table has been due for a vacuum."),
    ("index", "index_bytes"): Series("index_bytes", "Size of an index of the queue."),
    ("server", "oldest_transaction_s"): Series("oldest_transaction_seconds", "Age of the oldest transaction."),
    ("server", "open_transactions"): Series("open_transactions", "Transactions that are open."),
    ("server", "holders"): Series("horizon_holders", "Who keeps vacuum or purge from removing rows: how many there are."),
    ("server", "horizon_age_s"): Series("horizon_age_seconds", "Age of the oldest holder of the horizon."),
    ("server", "horizon_age_xids"): Series("horizon_age_transactions", "Age of the horizon in transactions."),
    ("server", "history_list_length"): Series(
        "history_list_length", "Transactions whose old row versions InnoDB has not purged."
    ),
    ("server", "replica_history_list_length"): Series(
        "history_list_length", "Transactions whose old row versions InnoDB has not purged."
    ),
    ("server", "deadlocks"): _total("deadlocks", "Deadlocks that the server broke."),
    ("server", "rollbacks"): _total("rollbacks", "Transactions rolled back."),
    ("server", "conflicts"): _total("recovery_conflicts", "Queries of a replica that recovery cancelled."),
    ("server", "blocked_backends"): Series("blocked_backends", "Backends that wait for another's lock."),
    ("server", "row_lock_wait_ms"): _total("row_lock_wait_seconds", "Time that statements have waited for rows.", 1e-3),
    ("server", "wal_bytes"): _total("wal_bytes", "WAL, or redo log, written."),
    ("server", "autovacuum_workers_busy"): Series("autovacuum_workers_busy", "Autovacuum workers that there are."),
    ("server", "autovacuum_workers_free"): Series("autovacuum_workers_free", "Autovacuum workers that could still come."),
    ("server", "notification_queue_percent"): Series("notification_queue_ratio", "How full the notification queue is.", 1e-2),
    ("server", "notify_lock_waits"): Series("notify_lock_waits", "Commits with a NOTIFY that wait for another's."),
    ("server", "stuck_clients"): Series("stuck_clients", "Sessions that wait for their client to read."),
    ("wait", "backends"): Series("active_backends", "Active backends by what they wait for; CPU if for nothing."),
    ("session", "sessions"): Series("sessions", "Connections by their state."),
    ("server", "max_connections"): Series("sessions_limit", "Connections that the server allows."),
    ("replica", "lag_bytes"): Series("replication_lag_bytes", "Bytes that a replica is behind."),
    ("replica", "lag_s"): Series("replication_lag_seconds", "How far a replica is behind."),
    ("host", "cpu_percent"): Series("host_cpu_ratio", "Use of all the host's cores together.", 1e-2),
    ("host", "load1"): Series("host_load1", "Load average of the last minute."),
    ("host", "memory_used_bytes"): Series("host_memory_used_bytes", "Memory in use on the host."),
    ("process", "cpu_percent"): Series("process_cpu_ratio", "Use of one core by a process of the run.", 1e-2),
    ("process", "memory_bytes"): Series("process_memory_bytes", "Memory of a process of the run."),
    ("collector", "sample_ms"): Series("collector_sample_seconds", "How long a collector's last sample took.", 1e-3),
    ("collector", "failures"): _total("collector_failures", "Samples that were not, or not wholly, measured."),
    ("holder", "age_s"): Series("horizon_holder_age_seconds", "Age of who holds the horizon: the oldest of each server."),
}
"""By the kind of the subject and the metric, as docs/run-folder.md has them."""

_NAMED_BY = {
    "table": "table",
    "index": "index",
    "wait": "event",
    "session": "state",
    "process": "process",
    "collector": "collector",
}
"""The label in which the rest of a subject goes, by its kind."""


class SampleFigures(Collector):
    """Keeps what every collector measured last."""

    def __init__(self, interval_s: float) -> None:
        """Begin with nothing. ``interval_s``: between two looks."""
        self._fleeting_stale_s = min(_STALE_S, _FLEETING_BEATS * interval_s)
        self._lock = threading.Lock()
        self._last: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, float]] = {}
        """Value and time by the metric's key and its labels."""

    def observe(self, samples: Sequence[Sample]) -> None:
        """Take the samples of one moment."""
        now_s = time.monotonic()
        told = {}
        for sample in samples:
            kind, _, rest = sample.subject.partition(":")
            if kind not in _NAMED_BY and kind.startswith("replica"):
                kind, rest = "replica", sample.subject
            key = (kind, sample.metric)
            if key not in SERIES or isinstance(sample.value, str):
                continue
            labels = {"server": sample.source}
            if kind == "holder":
                holder = {
                    one.metric: one.value for one in samples if one.source == sample.source and one.subject == sample.subject
                }
                if holder.get("rank") != 0:
                    continue
                labels |= {"holder": str(holder.get("kind", "")), "application": str(holder.get("application", ""))}
            elif kind == "replica":
                labels["server"] = rest
            elif kind in _NAMED_BY:
                labels[_NAMED_BY[kind]] = rest
            told["/".join(key), tuple(sorted(labels.items()))] = (float(sample.value), now_s)
        with self._lock:
            self._last |= told

    def collect(self) -> Iterable[Metric]:
        """Return those that were measured lately."""
        now_s = time.monotonic()
        with self._lock:
            self._last = {key: value for key, value in self._last.items() if now_s - value[1] <= self._stale_s(key[0])}
            last = dict(self._last)
        families: dict[str, Metric] = {}
        for (key, labels), (value, _) in sorted(last.items()):
            kind, _, metric = key.partition("/")
            series = SERIES[kind, metric]
            names = [name for name, _ in labels]
            family = families.get(series.name)
            if family is None:
                make = CounterMetricFamily if series.is_counter else GaugeMetricFamily
                family = families[series.name] = make(f"stallbench_{series.name}", series.help, labels=names)
            assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
            family.add_metric([text for _, text in labels], value * series.scale)
        return families.values()

    def _stale_s(self, key: str) -> float:
        return self._fleeting_stale_s if key.partition("/")[0] in _FLEETING else _STALE_S
