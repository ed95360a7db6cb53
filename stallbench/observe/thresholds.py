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
YOUNG_HOLDER_S = 10.0
"""A transaction that keeps most of a table's dead rows is to blame from this age on. Autovacuum looks at a database once a minute, so the rows that die
in a few seconds would lie there in any case."""
FEEDBACK_DELAY_S = 20.0
"""A replica reports its horizon every ten seconds (wal_receiver_status_interval), so a report that is older by one more interval is held back by
something on the replica."""
CLAIM_BUFFERS = 200
"""A claim that reads more pages than this (1.6 MB) reads past more than the jobs that it takes."""
SLOWER_CLAIM = 3.0
"""A claim that takes, or reads, so many times as much as earlier has become slow; less may be the load of other sessions."""
ALMOST_ALL_CONNECTIONS = 0.95
"""Share of the server's limit from which on hardly a connection is left."""
