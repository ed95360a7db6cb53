"""Transaction ids run out: the server warns, and then refuses every statement that needs one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import psycopg
from pydantic import Field

from stallbench.base.duration import Duration
from stallbench.engines import engines_with
from stallbench.engines.error_kinds import ErrorKind
from stallbench.engines.postgres.driver import connect
from stallbench.engines.postgres.transaction_ids import HOLDER
from stallbench.errors import NotCarriedOutError
from stallbench.injection.faults.fault import Fault, FaultOptions
from stallbench.records.injections import Evidence
from stallbench.waiting import wait_until

_ACCEPTED_WITHIN_S = 120.0
_POLL_S = 0.2
_WARNED, _REFUSED = b"must be vacuumed within", b"database is not accepting commands"
_AGE = "SELECT pg_catalog.max(pg_catalog.age(datfrozenxid)) FROM pg_catalog.pg_database"
_SLOT = "SELECT NOT active FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"
_FREEZE = "VACUUM (FREEZE, TRUNCATE false)"
"""Truncating a table needs a transaction id, without which the whole VACUUM fails."""
_DATABASES = "SELECT datname FROM pg_catalog.pg_database WHERE datallowconn ORDER BY datname"


class WraparoundOptions(FaultOptions):
    """Options of `Wraparound`."""

    ended: Literal["when_warned", "when_refused"] = Field(
        default="when_refused", description="the event after which the operator drops the slot and freezes the databases"
    )
    ended_after_s: Duration = Field(
        default=5.0, alias="ended_after", ge=0, le=3600, description="time from that event until the operator begins"
    )


class Wraparound(Fault[WraparoundOptions]):
    """An abandoned logical slot holds back the horizon of the system catalogs while the last transaction ids are used (``database.xids_left``).

    Autovacuum runs all the time, but cannot advance the oldest transaction id of the databases. The fault ends as an operator would end it: the slot
    is dropped, and VACUUM (FREEZE) moves the limit.
    """

    kind = "wraparound"
    meanwhile = "transaction ids ran out"
    summary = "an abandoned slot holds back the catalogs' horizon until transaction ids run out; over when it is dropped and all databases are frozen"
    source = "PostgreSQL's documentation, Preventing Transaction ID Wraparound Failures; mediacloud/backend pull request 786"
    explains_errors = frozenset({ErrorKind.LIMIT_REACHED})
    targets = ("primary",)
    engines = engines_with("xids_left")
    on_external = "never"
    needs_of_database = ("xids_left", "a number like 10000")
    options_type = WraparoundOptions

    _log: Path | None = None
    _seen_s: float | None = None
    """When the text that the operator waits for was seen."""

    def inject(self) -> Evidence:
        """Verify that the slot holds the horizon. The load then uses the transaction ids."""
        self._server = self.context.cluster.server(self.on)
        with connect(self._server.direct, self.name) as connection:
            (age,) = connection.execute(_AGE).fetchone() or (None,)
            held = connection.execute(_SLOT, (HOLDER,)).fetchone()
        if held != (True,):
            raise NotCarriedOutError(f"slot {HOLDER} does not hold the horizon of {self.on}; set database.xids_left")
        self._log = self._server.log
        assert self._log is not None
        self._log_begins = self._log.stat().st_size
        return {"slot": HOLDER, "age": age}

    def tick(self) -> None:
        """Search the server's log for the text."""
        if self._seen_s is None and self._count(_WARNED if self.options.ended == "when_warned" else _REFUSED):
            self._seen_s = time.monotonic()

    def is_over(self) -> bool:
        """Whether the operator begins."""
        return self._seen_s is not None and time.monotonic() >= self._seen_s + self.options.ended_after_s

    def why_inactive(self) -> str | None:
        """Return that the event did not occur; none if it did."""
        if self._seen_s is not None:
            return None
        awaited = "warned of a wraparound" if self.options.ended == "when_warned" else "refused to assign a transaction id"
        return f"{self.on} never {awaited}"

    def undo(self) -> Evidence:
        """Drop the slot, freeze every database, and wait until the server assigns transaction ids."""
        if self._log is None:
            return {}
        warned, refused = self._count(_WARNED), self._count(_REFUSED)
        began_s = time.monotonic()
        with connect(self._server.direct, self.name) as connection:
            connection.execute(
                "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name = %s",
                (HOLDER,),
            )
            databases = [name for (name,) in connection.execute(_DATABASES).fetchall()]
        for database in databases:
            with connect(self._server.direct.model_copy(update={"database": database}), self.name) as connection:
                connection.execute(_FREEZE)
        # Autovacuum freezes template0, to which no client can connect.
        if not wait_until(self._is_accepting, within_s=_ACCEPTED_WITHIN_S, every_s=_POLL_S):
            raise NotCarriedOutError(
                f"{self.on} assigned no transaction id within {_ACCEPTED_WITHIN_S:.0f} s after it was vacuumed"
            )
        return {
            "warnings": warned,
            "refusals": refused,
            "frozen_in_s": round(time.monotonic() - began_s, 3),
            "age_after": self._age,
        }

    def _is_accepting(self) -> bool:
        """Whether the server assigns a transaction id without a warning."""
        with connect(self._server.direct, self.name) as connection:
            (self._age,) = connection.execute(_AGE).fetchone() or (None,)
            warnings: list[str] = []
            connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))
            try:
                connection.execute("SELECT pg_catalog.txid_current()")
            except psycopg.errors.ProgramLimitExceeded:
                return False
            return not warnings

    def _count(self, text: bytes) -> int:
        assert self._log is not None
        with self._log.open("rb") as log:
            log.seek(self._log_begins)
            return log.read().count(text)
