"""MySQL, as the bench knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallbench.engines.innodb.family import InnoDBEngine

if TYPE_CHECKING:
    from stallbench.engines.starter import Starter


class MySQL(InnoDBEngine):
    """Servers from version 8.0 on. Before 8.0.18 they list only two transactions of a longer deadlock."""

    name = "mysql"
    title = "MySQL"
    schemes = ("mysql",)
    word_for_replica = "REPLICA"
    database_keys = frozenset({"version", "volatile_cache"})

    def starter(self) -> type[Starter]:
        """Return how its program is started."""
        from stallbench.engines.mysql.starter import MySQLStarter

        return MySQLStarter


ENGINE = MySQL()
