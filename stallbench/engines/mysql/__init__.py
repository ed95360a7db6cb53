"""MySQL; what it shares with MariaDB is in `stallbench.engines.innodb`."""
