"""MariaDB, as the bench knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stallbench.engines.deadlocks.style import DeadlockStyle
from stallbench.engines.innodb.family import InnoDBEngine

if TYPE_CHECKING:
    from stallbench.engines.starter import Starter


class MariaDB(InnoDBEngine):
    """Servers from version 10.6 on."""

    name = "mariadb"
    title = "MariaDB"
    schemes = ("mariadb",)
    word_for_replica = "SLAVE"
    deadlock_style = DeadlockStyle(lists_in_order=True)
    database_keys = frozenset({"version", "synchronous", "volatile_cache"})

    def starter(self) -> type[Starter]:
        """Return how its program is started."""
        from stallbench.engines.mariadb.starter import MariaDBStarter

        return MariaDBStarter


ENGINE = MariaDB()
