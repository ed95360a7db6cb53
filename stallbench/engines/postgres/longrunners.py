"""What PostgreSQL reports about a longrunner: the evidence that it holds the horizon, and that it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import psycopg

from stallbench.engines.postgres.collectors.horizon import Holder, read_horizon
from stallbench.engines.postgres.driver import connect
from stallbench.records.endpoint import Endpoint
from stallbench.records.injections import Evidence


def find_longrunner(servers: Mapping[str, Endpoint], on: str, name: str, evidence: Mapping[str, Any]) -> Evidence | None:
    """Return the holder of the horizon that it is, or its snapshot on a replica without feedback; see `Engine.find_longrunner`."""
    with ExitStack() as stack:
        connections = {server: stack.enter_context(connect(endpoint, "verify")) for server, endpoint in servers.items()}
        replicas = {server: connection for server, connection in connections.items() if server != "primary"}
        for holder in read_horizon(connections["primary"], replicas):
            if _is(holder, on, name, evidence):
                return {**asdict(holder), "holds_primary": not holder.catalog_only}
        return _read_open_snapshot(connections[on], on, name)


def _is(holder: Holder, on: str, name: str, evidence: Mapping[str, Any]) -> bool:
    """Whether a holder that the server names is this longrunner: everything that identifies the holder matches."""
    if holder.kind != evidence.get("kind"):
        return False
    if holder.kind == "backend":
        return holder.source == on and holder.application == f"stallbench:longrunner:{name}"
    return holder.key == evidence.get("key")


def _read_open_snapshot(server: psycopg.Connection[tuple[Any, ...]], on: str, name: str) -> Evidence | None:
    """Find a longrunner that holds its own server's snapshot but, without feedback, not the primary's horizon."""
    row = server.execute(
        "SELECT pid, state, extract(epoch FROM pg_catalog.now() - xact_start)::double precision FROM pg_catalog.pg_stat_activity "
        "WHERE application_name = %s AND backend_xmin IS NOT NULL ORDER BY xact_start LIMIT 1",
        (f"stallbench:longrunner:{name}",),
    ).fetchone()
    if row is None:
        return None
    return {"source": on, "pid": row[0], "state": row[1], "age_s": row[2], "holds_primary": False}
