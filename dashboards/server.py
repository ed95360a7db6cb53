"""*Server*: the servers of one run: vacuum and purge, locks, waits, connections, replication."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from dashboards.board import SERVER_UID, board
from dashboards.panels import BYTES, BYTES_PER_SECOND, COUNT, RATIO, SECONDS, Limits, Panel, Query, Row, curve
from dashboards.series import series
from dashboards.variables import OF_SERVER, datasource, engine, one_run, scenario, servers

_RATE = "[$__rate_interval]"


def _last(name: str, *by: str) -> str:
    return f"max by ({', '.join(by)}) ({name}{{{OF_SERVER}}})"


def _rate(name: str, *by: str) -> str:
    return f"sum by ({', '.join(by)}) (rate({name}{{{OF_SERVER}}}{_RATE}))"


def server() -> model.Dashboard:
    """Return the dashboard."""
    return board(
        "Stallbench: Server",
        SERVER_UID,
        "The servers of one run. A panel that names an engine in its title is empty on other engines.",
        since="now-5m",
        variables=[
            datasource(),
            engine(),
            scenario('engine=~"$engine"'),
            one_run('engine=~"$engine",scenario="$scenario"'),
            servers('engine=~"$engine",scenario="$scenario",run="$run"'),
        ],
        rows=[
            Row("Vacuum and purge", _vacuum()),
            Row("Locks", _locks()),
            Row("Waits and connections", _sessions()),
            Row("Replication and size", _replication()),
        ],
    )


def _vacuum() -> list[Panel]:
    return [
        curve(
            "Dead rows",
            "PostgreSQL: dead tuples. InnoDB: history list, in transactions. If it rises although autovacuum runs, a session holds the "
            "horizon; if autovacuum does not run, it is starved or switched off.",
            COUNT,
            Query(_last(series("dead_tuples"), "server", "table"), "{{server}} {{table}}"),
            Query(_last(series("history_list_length"), "server"), "{{server}} history list"),
        ),
        curve(
            "Age of the horizon",
            "How long the oldest holder has prevented the removal of dead rows. End its session, drop the slot, or turn hot_standby_feedback off.",
            SECONDS,
            Query(_last(series("horizon_age_s"), "server"), "{{server}}"),
            limits=Limits(look=5, bad=30),
        ),
        curve(
            "Rows that the last autovacuum removed (PostgreSQL)",
            "Rows that it could not remove are dead, but a snapshot may still see them: the next vacuum reads them again.",
            COUNT,
            Query(_last("stallbench_vacuum_removed_tuples", "server", "table"), "{{table}}: removed"),
            Query(_last("stallbench_vacuum_not_removable_tuples", "server", "table"), "{{table}}: not removable"),
        ),
        curve(
            "Vacuum that is due (PostgreSQL)",
            "How long a table has had more dead rows than autovacuum's threshold without being vacuumed. If no worker is free, other tables "
            "keep the workers busy: allow more workers, or reduce the cost delay.",
            SECONDS,
            Query(_last(series("vacuum_overdue_s"), "server", "table"), "{{table}}: overdue"),
            Query(_last("stallbench_last_autovacuum_age_seconds", "server", "table"), "{{table}}: since the last one"),
            limits=Limits(look=60, bad=300),
        ),
        curve(
            "Autovacuum workers (PostgreSQL)",
            "If all are busy for long, autovacuum is starved.",
            COUNT,
            Query(_last(series("autovacuum_workers_busy"), "server"), "{{server}}: busy"),
            Query(_last(series("autovacuum_workers_free"), "server"), "{{server}}: free"),
            stacked=True,
        ),
        curve(
            "Updates that needed no index (PostgreSQL)",
            "Share of HOT updates. Near 100 %, dead rows are removed page by page without vacuum; a low fillfactor and fewer indexes help.",
            RATIO,
            Query(
                f"{_rate(series('hot_updates') + '_total', 'table')} / ({_rate(series('updates') + '_total', 'table')} > 0)",
                "{{table}}",
            ),
        ),
    ]


def _locks() -> list[Panel]:
    return [
        curve(
            "Backends that wait for another's lock",
            "If it is above 0 for long, workers wait for each other. samples/locks.csv of the run (InnoDB: innodb_locks.csv) names the blocking sessions.",
            COUNT,
            Query(_last(series("blocked_backends"), "server"), "{{server}}"),
            limits=Limits(look=1, bad=5),
        ),
        curve(
            "Deadlocks and rollbacks",
            "Deadlocks that the server broke, and transactions rolled back for any reason. The report draws their cycles.",
            "suffix: /s",
            Query(_rate(series("deadlocks") + "_total", "server"), "{{server}}: deadlocks"),
            Query(_rate("stallbench_rollbacks_total", "server"), "{{server}}: rollbacks"),
        ),
        curve(
            "Waiting for row locks (InnoDB)",
            "Seconds waited per second: 3 means that three sessions waited all the time. Use shorter transactions, or SKIP LOCKED.",
            COUNT,
            Query(_rate(series("row_lock_wait_ms") + "_total", "server"), "{{server}}"),
        ),
        curve(
            "Queries cancelled by recovery (PostgreSQL)",
            "On a replica. With hot_standby_feedback off, its queries are cancelled; with it on, they hold the primary's horizon.",
            "suffix: /s",
            Query(_rate(series("conflicts") + "_total", "server"), "{{server}}"),
        ),
    ]


def _sessions() -> list[Panel]:
    return [
        curve(
            "What active backends wait for",
            "By the server's wait events. CPU: they do not wait. Lock, LWLock: they wait for each other. IO: for the disk. Client: for their client.",
            COUNT,
            Query(_last("stallbench_active_backends", "server", "event"), "{{server}} {{event}}"),
            stacked=True,
        ),
        curve(
            "Connections and their limit",
            "By state. `idle in transaction` holds the horizon. At the limit, new connections are refused: use a pooler, or smaller pools.",
            COUNT,
            Query(_last("stallbench_sessions", "server", "state"), "{{server}} {{state}}"),
            Query(_last("stallbench_sessions_limit", "server"), "{{server}}: allowed"),
        ),
        curve(
            "Open transactions (InnoDB)",
            "If many of them are old, an application does not commit.",
            COUNT,
            Query(_last("stallbench_open_transactions", "server"), "{{server}}"),
        ),
        curve(
            "Oldest transaction",
            "On each server.",
            SECONDS,
            Query(_last(series("oldest_transaction_s"), "server"), "{{server}}"),
            limits=Limits(look=5, bad=30),
        ),
    ]


def _replication() -> list[Panel]:
    return [
        curve(
            "Replication lag in time",
            "A healthy replica may fall behind during a network fault, and catches up afterwards.",
            SECONDS,
            Query(_last("stallbench_replication_lag_seconds", "server"), "{{server}}"),
            limits=Limits(look=1, bad=10),
        ),
        curve(
            "Replication lag in bytes",
            "With a slot, the primary keeps these bytes on disk until the replica has received them.",
            BYTES,
            Query(_last(series("replication_lag_bytes"), "server"), "{{server}}"),
        ),
        curve(
            "WAL, or redo log, written",
            "The write load on the disk and on every replica.",
            BYTES_PER_SECOND,
            Query(_rate(series("wal_bytes") + "_total", "server"), "{{server}}"),
        ),
        curve(
            "Size of tables and indexes",
            "Vacuum hardly shrinks tables and indexes, so bloat remains visible after the queue has recovered.",
            BYTES,
            Query(_last(series("table_bytes"), "server", "table"), "{{table}}"),
            Query(_last(series("index_bytes"), "server", "index"), "{{index}}"),
        ),
    ]
