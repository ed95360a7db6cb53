"""MariaDB, which speaks MySQL's protocol."""

from __future__ import annotations

from stallbench.engines.mysql import MySQLDriver

DRIVER = MySQLDriver()
