"""Series that only one engine has, and why: their queries are empty on the other engines."""

from __future__ import annotations

from dashboards.series import series

ONLY_ON = {
    series("dead_tuples"): ("postgres", "InnoDB counts transactions to purge, not rows"),
    series("history_list_length"): ("mariadb", "PostgreSQL counts dead rows, table by table"),
    "stallbench_vacuum_removed_tuples": ("postgres", "InnoDB has no vacuum"),
    "stallbench_vacuum_not_removable_tuples": ("postgres", "InnoDB has no vacuum"),
    series("vacuum_overdue_s"): ("postgres", "InnoDB has no vacuum"),
    "stallbench_last_autovacuum_age_seconds": ("postgres", "InnoDB has no vacuum"),
    series("autovacuum_workers_busy"): ("postgres", "InnoDB has no vacuum"),
    series("autovacuum_workers_free"): ("postgres", "InnoDB has no vacuum"),
    series("hot_updates") + "_total": ("postgres", "InnoDB updates rows in place"),
    series("conflicts") + "_total": ("postgres", "replicas of MariaDB cancel no queries"),
    series("row_lock_wait_ms") + "_total": ("mariadb", "PostgreSQL does not sum the waits of its sessions"),
    "stallbench_open_transactions": ("mariadb", "PostgreSQL reports them by the states of its sessions"),
}
"""By series: the engine that has it, and why the others do not."""
