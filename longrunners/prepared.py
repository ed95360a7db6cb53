"""An abandoned prepared transaction: no session, nothing in pg_stat_activity, survives restarts, and holds the horizon for ever."""

from __future__ import annotations

from typing import Any

from longrunners.longrunner import Longrunner, LongrunnerOptions, LostError
from stallbench.role import Stop

_LOOK_EVERY_S = 0.5


class Prepared(Longrunner[LongrunnerOptions]):
    """Prepares a transaction and closes its connection."""

    kind = "prepared"
    summary = "prepares a transaction, as a two-phase commit does, and never finishes it"
    source = "PostgreSQL's documentation of PREPARE TRANSACTION warns of it"
    needs = {"max_prepared_transactions": "at least 1"}

    def hold(self) -> dict[str, Any]:
        """Write a row and prepare."""
        with self.connect() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS stallbench_prepared (written_at timestamptz NOT NULL)")
            connection.execute("BEGIN")
            connection.execute("INSERT INTO stallbench_prepared VALUES (now())")
            connection.execute(f"PREPARE TRANSACTION '{self.object_name}'")
        return {"kind": "prepared", "gid": self.object_name}

    def keep(self, stop: Stop) -> None:
        """Look now and then whether it is still there."""
        while not stop.wait(_LOOK_EVERY_S):
            if not self._is_there():
                raise LostError(f"somebody finished prepared transaction {self.object_name}")

    def let_go(self) -> None:
        """Roll it back."""
        with self.connect() as connection:
            connection.execute(f"ROLLBACK PREPARED '{self.object_name}'")

    def release(self) -> None:
        """Roll it back if it is there."""
        if self._is_there():
            self.let_go()

    def _is_there(self) -> bool:
        with self.connect() as connection:
            query = "SELECT 1 FROM pg_prepared_xacts WHERE gid = %s"
            return connection.execute(query, (self.object_name,)).fetchone() is not None
