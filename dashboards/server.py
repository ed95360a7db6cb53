"""*Server*: what the servers of one run are busy with: vacuum and purge, locks, waits, connections, replication."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from dashboards.board import SERVER_UID, board
from dashboards.panels import BYTES, BYTES_PER_SECOND, COUNT, RATIO, SECONDS, Limits, Panel, Query, Row, curve
from dashboards.variables import OF_SERVER, datasource, engine, one_run, scenario, servers

_RATE = "[$__rate_interval]"


def _last(name: str, *by: str) -> str:
    return f"max by ({', '.join(by)}) (stallbench_{name}{{{OF_SERVER}}})"


def _rate(name: str, *by: str) -> str:
    return f"sum by ({', '.join(by)}) (rate(stallbench_{name}{{{OF_SERVER}}}{_RATE}))"


def server() -> model.Dashboard:
    """Return the dashboard."""
    return board(
        "Stallbench: Server",
        SERVER_UID,
        "The servers of one run, from inside. Panels that only one engine has say so, and are empty on the other.",
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
            "PostgreSQL: dead tuples. InnoDB: history list, in transactions. If it rises and autovacuum does come by, somebody holds the "
            "horizon; if it does not come by, it is starved or switched off.",
            COUNT,
            Query(_last("dead_tuples", "server", "table"), "{{server}} {{table}}"),
            Query(_last("history_list_length", "server"), "{{server}} history list"),
        ),
        curve(
            "Age of the horizon",
            "Since when the oldest holder keeps rows from being removed. End the holder, drop the slot, or turn hot_standby_feedback off.",
            SECONDS,
            Query(_last("horizon_age_seconds", "server"), "{{server}}"),
            limits=Limits(look=5, bad=30),
        ),
        curve(
            "What the last autovacuum could remove (PostgreSQL)",
            "Rows that it had to leave were dead, but somebody might still see them: it worked for nothing, and will again.",
            COUNT,
            Query(_last("vacuum_removed_tuples", "server", "table"), "{{table}}: removed"),
            Query(_last("vacuum_not_removable_tuples", "server", "table"), "{{table}}: had to leave"),
        ),
        curve(
            "Vacuum that is due (PostgreSQL)",
            "For how long a table has had more dead rows than autovacuum waits for, with nobody at it. If no worker is free, other tables "
            "keep them busy: more workers, or less cost delay.",
            SECONDS,
            Query(_last("vacuum_overdue_seconds", "server", "table"), "{{table}}: overdue"),
            Query(_last("last_autovacuum_age_seconds", "server", "table"), "{{table}}: since the last one"),
            limits=Limits(look=60, bad=300),
        ),
        curve(
            "Autovacuum workers (PostgreSQL)",
            "All busy for long: autovacuum is starved.",
            COUNT,
            Query(_last("autovacuum_workers_busy", "server"), "{{server}}: busy"),
            Query(_last("autovacuum_workers_free", "server"), "{{server}}: free"),
            stacked=True,
        ),
        curve(
            "Updates that needed no index (PostgreSQL)",
            "HOT updates, of all. Near 100 % dead rows are cleared page by page without vacuum; a low fillfactor and fewer indexes help.",
            RATIO,
            Query(f"{_rate('table_hot_updates_total', 'table')} / ({_rate('table_updates_total', 'table')} > 0)", "{{table}}"),
        ),
    ]


def _locks() -> list[Panel]:
    return [
        curve(
            "Backends that wait for another's lock",
            "Above 0 for long: workers stand in line. The summary of the run names who blocks whom.",
            COUNT,
            Query(_last("blocked_backends", "server"), "{{server}}"),
            limits=Limits(look=1, bad=5),
        ),
        curve(
            "Deadlocks and rollbacks",
            "Deadlocks that the server broke, and transactions rolled back for any reason. The report draws the circles of deadlocks.",
            "suffix: /s",
            Query(_rate("deadlocks_total", "server"), "{{server}}: deadlocks"),
            Query(_rate("rollbacks_total", "server"), "{{server}}: rollbacks"),
        ),
        curve(
            "Waiting for row locks (InnoDB)",
            "Seconds waited in a second: 3 means that three sessions waited all the time. Shorter transactions, or SKIP LOCKED.",
            COUNT,
            Query(_rate("row_lock_wait_seconds_total", "server"), "{{server}}"),
        ),
        curve(
            "Queries cancelled by recovery (PostgreSQL)",
            "On a replica. The other side of hot_standby_feedback: off, these are cancelled; on, they hold the primary's horizon.",
            "suffix: /s",
            Query(_rate("recovery_conflicts_total", "server"), "{{server}}"),
        ),
    ]


def _sessions() -> list[Panel]:
    return [
        curve(
            "What active backends wait for",
            "By the server's own words; CPU, or none: for nothing. Lock and LWLock: for each other. IO: for the disk. Client: for us.",
            COUNT,
            Query(_last("active_backends", "server", "event"), "{{server}} {{event}}"),
            stacked=True,
        ),
        curve(
            "Connections, and how many may be",
            "By their state. `idle in transaction` is what holds horizons. At the limit new ones are refused: use a pooler, or smaller pools.",
            COUNT,
            Query(_last("sessions", "server", "state"), "{{server}} {{state}}"),
            Query(_last("sessions_limit", "server"), "{{server}}: allowed"),
        ),
        curve(
            "Open transactions (InnoDB)",
            "Many old ones: somebody forgets to commit.",
            COUNT,
            Query(_last("open_transactions", "server"), "{{server}}"),
        ),
        curve(
            "Oldest transaction",
            "On each server.",
            SECONDS,
            Query(_last("oldest_transaction_seconds", "server"), "{{server}}"),
            limits=Limits(look=5, bad=30),
        ),
    ]


def _replication() -> list[Panel]:
    return [
        curve(
            "How far replicas are behind",
            "In time. A replica that is behind during a network fault and catches up after it is well.",
            SECONDS,
            Query(_last("replication_lag_seconds", "server"), "{{server}}"),
            limits=Limits(look=1, bad=10),
        ),
        curve(
            "How much replicas are behind",
            "In bytes. With a slot the primary keeps all of it on disk until the replica has it.",
            BYTES,
            Query(_last("replication_lag_bytes", "server"), "{{server}}"),
        ),
        curve(
            "WAL, or redo log, written",
            "What the load costs the disk and every replica.",
            BYTES_PER_SECOND,
            Query(_rate("wal_bytes_total", "server"), "{{server}}"),
        ),
        curve(
            "Size of tables and indexes",
            "It does not shrink by vacuum: bloat that stays after a collapse is found here.",
            BYTES,
            Query(_last("table_bytes", "server", "table"), "{{table}}"),
            Query(_last("index_bytes", "server", "index"), "{{index}}"),
        ),
    ]
