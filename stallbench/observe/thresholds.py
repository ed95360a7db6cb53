"""From when on `stallbench observe` mentions what it sees, on every engine."""

from __future__ import annotations

BRIEF_S = 1.0
"""Younger transactions and shorter waits for a lock are those of a server at work."""
LONG_WAIT_S = 30.0
"""A wait for a lock that is critical."""
LONG_TRANSACTION_S = 60.0
"""A transaction that holds the horizon and is a finding."""
VERY_LONG_TRANSACTION_S = 300.0
"""One that is critical."""
MANY_XIDS = 1_000_000
"""So many transactions can leave so many dead rows in a queue's table, however short the time was."""
MANY_CONNECTIONS = 0.9
"""Share of the connections that ordinary users may have from which on a finding says who has them."""
FEW_CONNECTIONS = 3
"""So few that are left are a finding, too."""
ALMOST_ALL_CONNECTIONS = 0.95
"""Share of the server's limit from which on hardly a connection is left."""
