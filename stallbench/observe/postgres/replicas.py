"""Is each server that was given as a replica one of this server, and does it stream under the name that it was given?

A session of another server would be named as a holder of this server's horizon, and a name under which nothing streams would let the report say that
nothing is hidden.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from stallbench.errors import BadInputError
from stallbench.observe.diagnostic import Diagnostic, NotVisible, Reading, Section

_STREAMING = """
SELECT application_name FROM pg_catalog.pg_stat_replication WHERE application_name IS NOT NULL
UNION
SELECT slot_name FROM pg_catalog.pg_replication_slots WHERE active_pid IS NOT NULL AND slot_type = 'physical'
ORDER BY 1
"""
_SYSTEM = "SELECT system_identifier FROM pg_catalog.pg_control_system()"
# The columns of who is no member of pg_read_all_stats are NULL.
_ON_REPLICA = """
SELECT pg_catalog.pg_is_in_recovery(), (SELECT conninfo FROM pg_catalog.pg_stat_wal_receiver), (SELECT slot_name FROM pg_catalog.pg_stat_wal_receiver)
"""


class ReplicasDiagnostic(Diagnostic):
    """Looks before the subjects that ask replicas, and takes those away from them that are none."""

    name = "replicas"
    what = "whether the given replicas are this server's"
    position = 5

    def __init__(self) -> None:
        """Know no replica."""
        self._issues: dict[str, str] = {}
        """What is wrong with each replica that was checked; empty if nothing is."""
        self._unchecked: tuple[NotVisible, ...] = ()
        self._is_first = True

    def read(self, reading: Reading) -> Section:
        """Check those that were not checked. Raises `BadInputError` at the first reading; later, what is no replica is left out."""
        new = {name: session for name, session in reading.state.replicas.items() if name not in self._issues}
        if new:
            names = [name for (name,) in reading.server.execute(_STREAMING).fetchall()]
            system = self._read_system(reading.server, "this server")
            self._issues |= {name: self._find_issue(name, session, names, system) for name, session in new.items()}
        issues = [f"--dsn {name}: {issue}" for name, issue in self._issues.items() if issue]
        if self._is_first and issues:
            raise BadInputError("\n".join(issues))
        self._is_first = False
        reading.state.replicas = {name: session for name, session in reading.state.replicas.items() if not self._issues[name]}
        left_out = (NotVisible(what=f"replica {name}", why=issue) for name, issue in self._issues.items() if issue)
        return Section(title="", not_visible=(*left_out, *self._unchecked))

    def _find_issue(self, name: str, session: Any, names: list[str], system: int | None) -> str:
        is_replica, conninfo, slot = session.execute(_ON_REPLICA).fetchone() or (False, None, None)
        if not is_replica:
            return "this server is no replica: it is not in recovery; give the address of a replica of the observed server, or leave it out"
        own = self._read_system(session, f"replica {name}")
        if system is not None and own is not None and system != own:
            return "this is a replica of another server: their system identifiers differ; give the address of one of the observed server's"
        known_as = ", ".join(names) if names else "none"
        if name not in names:
            return f"no replica streams from the observed server under this name; expected one of: {known_as}"
        own_name = conninfo_to_dict(conninfo).get("application_name", "") if conninfo else ""
        if own_name and name not in (own_name, slot):
            return f"the replica at this address streams as {own_name}; name it so: --dsn {own_name}=.."
        return ""

    def _read_system(self, session: Any, name: str) -> int | None:
        try:
            (system,) = session.execute(_SYSTEM).fetchone() or (None,)
        except psycopg.errors.InsufficientPrivilege:
            why = f"this user may not execute pg_control_system on {name}"
            self._unchecked = (NotVisible(what=self.what, why=why, could_change_the_answer=False),)
            return None
        return int(system) if system is not None else None
