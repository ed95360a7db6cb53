"""MariaDB; what it shares with MySQL is in `stallbench.engines.innodb`."""
