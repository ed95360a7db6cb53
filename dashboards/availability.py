"""Which figures only one engine has, and why: a query of one of them is empty on the other, and has to be."""

from __future__ import annotations

ONLY_ON = {
    "stallbench_dead_tuples": ("postgres", "InnoDB counts transactions to purge, not rows"),
    "stallbench_history_list_length": ("mariadb", "PostgreSQL counts dead rows, table by table"),
    "stallbench_vacuum_removed_tuples": ("postgres", "InnoDB has no vacuum"),
    "stallbench_vacuum_not_removable_tuples": ("postgres", "InnoDB has no vacuum"),
    "stallbench_vacuum_overdue_seconds": ("postgres", "InnoDB has no vacuum"),
    "stallbench_last_autovacuum_age_seconds": ("postgres", "InnoDB has no vacuum"),
    "stallbench_autovacuum_workers_busy": ("postgres", "InnoDB has no vacuum"),
    "stallbench_autovacuum_workers_free": ("postgres", "InnoDB has no vacuum"),
    "stallbench_table_hot_updates_total": ("postgres", "InnoDB updates rows in place"),
    "stallbench_recovery_conflicts_total": ("postgres", "replicas of MariaDB cancel no queries"),
    "stallbench_row_lock_wait_seconds_total": ("mariadb", "PostgreSQL does not add up what its sessions wait"),
    "stallbench_open_transactions": ("mariadb", "PostgreSQL tells them by the states of its sessions"),
}
"""By metric: the engine that has it, and why the other has not."""
