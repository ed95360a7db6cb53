"""A session that listens and stays in a transaction. Meanwhile it receives no notifications, so the server must keep all of them.

Its snapshot holds the horizon, like that of any long transaction. In addition the server cannot empty the notification queue, which all its
databases share. If that queue is full, every transaction with a NOTIFY fails, such as an enqueue. The queue takes 8 GB unless
``max_notify_queue_pages`` (PostgreSQL 17) sets another size.
"""

from __future__ import annotations

from longrunners.longrunner import LongrunnerOptions
from longrunners.postgres_longrunner import Connection
from longrunners.transaction import TransactionLongrunner


class ListeningTransaction(TransactionLongrunner[LongrunnerOptions]):
    """Keeps the notification queue from being emptied, and holds the horizon."""

    kind = "listening_transaction"
    summary = "listens (LISTEN), then reads once under REPEATABLE READ and idles in the transaction"
    source = "PostgreSQL's documentation of NOTIFY: a session that listens and enters a transaction for a very long time"

    def open_transaction(self, connection: Connection) -> None:
        """Listen in a transaction that ends, then begin the one that stays open."""
        connection.execute(f"LISTEN {self.object_name}")
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute("SELECT pg_catalog.count(*) FROM pg_catalog.pg_class")
