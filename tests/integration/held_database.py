"""A database, longrunners on it as the bench starts them, and what PostgreSQL itself says of the horizon: for the
longrunners' tests."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from psycopg.errors import Diagnostic

from stallbench.engines.postgres.collectors.horizon import Holder, read_horizon
from stallbench.engines.postgres.driver import connect
from stallbench.processes.process import Process
from stallbench.processes.role_command import role_command
from stallbench.processes.supervisor import Supervisor
from stallbench.servers.cluster import Cluster, Server
from tests.waiting import PATIENCE_S, wait_for

_NOT_REMOVABLE = re.compile(r"(\d+) are dead but not yet removable")
FEEDBACK_S = 1
"""How often the replica reports its horizon here. What it reports is that old even if nothing on it holds anything."""


@dataclass(kw_only=True)
class HeldDatabase:
    """Use as a context; whatever was started ends with it."""

    cluster: Cluster
    processes: Supervisor
    logs: Path
    name: str
    """Of the database."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _started: list[Process] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Connect directly to every server, once the database has come to it."""
        for server in self.cluster.servers:
            wait_for(partial(self._has_come_to, server), f"database {self.name} on {server.name}")
        self.servers = {
            server.name: self._stack.enter_context(connect(server.direct.model_copy(update={"database": self.name}), "test"))
            for server in self.cluster.servers
        }
        self.primary = self.servers["primary"]
        self.primary.execute("CREATE TABLE IF NOT EXISTS jobs (id int) WITH (autovacuum_enabled = off)")
        self.primary.execute("TRUNCATE jobs")
        return self

    def __exit__(self, *exception: object) -> None:
        """Kill what is left, and leave nothing of it to the next test."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
        self.primary.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE 'stallbench:longrunner:%'"
        )
        # Whoever used a slot may have gone without the server having noticed yet, and a slot in use cannot be dropped.
        self.primary.execute(
            "SELECT pg_terminate_backend(active_pid, 60000) FROM pg_replication_slots "
            "WHERE slot_name LIKE 'stallbench_%' AND active_pid IS NOT NULL"
        )
        self.primary.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE 'stallbench_%'"
        )
        gids = self.primary.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()").fetchall()
        for (gid,) in gids:
            self.primary.execute(f"ROLLBACK PREPARED '{gid}'")
        tables = self.primary.execute("SELECT relname FROM pg_class WHERE relname LIKE 'stallbench%'").fetchall()
        for (table,) in tables:
            self.primary.execute(f"DROP TABLE {table}")
        self._stack.close()

    def _has_come_to(self, server: Server) -> bool:
        with connect(server.direct, "test") as connection:
            query = "SELECT 1 FROM pg_database WHERE datname = %s"
            return connection.execute(query, (self.name,)).fetchone() is not None

    def document(self, kind: str, on: str = "primary", **options: object) -> dict[str, object]:
        """Return the document of a longrunner, with the server's proxied address, as the bench writes it."""
        endpoint = self.cluster.server(on).proxied.model_copy(update={"database": self.name})
        return {"name": f"{kind}-1", "kind": kind, "on": on, "endpoint": endpoint.with_password(), "options": options}

    def run(self, document: dict[str, object]) -> Process:
        """Start ``python -m longrunners``."""
        name = str(document["name"])
        argv = role_command("longrunners")
        log = self.logs / f"{name}.log"
        process = self.processes.start(name, "longrunner", argv, document=document, log=log, ready=True)
        self._started.append(process)
        return process

    def start(self, document: dict[str, object]) -> tuple[Process, dict[str, Any]]:
        """Start a longrunner and return it with the holder that it says it is."""
        process = self.run(document)
        return process, process.wait_ready(PATIENCE_S)["holder"]

    def release(self, document: dict[str, object]) -> list[str]:
        """Clean up after a killed longrunner; returns what it says it removed."""
        process = self.run({**document, "release": True})
        process.wait_end(PATIENCE_S)
        assert process.exit_code == 0, process.tail_log()
        (message,) = process.messages()
        assert message["released"] is True
        return list(message["removed"])

    def find(self, holder: dict[str, Any]) -> Holder | None:
        """Find the holder in what the servers say."""
        replicas = {name: connection for name, connection in self.servers.items() if name != "primary"}
        for found in read_horizon(self.primary, replicas):
            own = {"backend": found.pid, "prepared": found.key, "slot": found.key}.get(found.kind)
            asked = holder.get("pid") if holder["kind"] == "backend" else holder.get("key")
            if found.kind == holder["kind"] and own == asked:
                return found
        return None

    def wait_until_held(self, holder: dict[str, Any]) -> Holder:
        """Wait until the servers name the holder: a replica's feedback takes up to its interval."""
        return wait_for(lambda: self.find(holder), f"holder {holder}")

    def delete_jobs(self) -> None:
        """Leave 10 dead rows, and wait until the replica reports that it no longer needs them; or, if something needs them,
        for as long as the report would have taken."""
        self.primary.execute("INSERT INTO jobs SELECT generate_series(1, 10)")
        self.primary.execute("DELETE FROM jobs")
        (next_xid,) = self.primary.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int").fetchone() or (0,)
        report_due_s = time.monotonic() + 1.5 * FEEDBACK_S
        query = "SELECT count(*) FROM pg_stat_replication WHERE backend_xmin::text::int < %s"

        def is_reported_or_wanted() -> bool:
            is_reported = self.primary.execute(query, (next_xid,)).fetchone() == (0,)
            return is_reported or (time.monotonic() > report_due_s and self._are_wanted(next_xid))

        wait_for(is_reported_or_wanted, "a replica that no longer needs the deleted rows, or what needs them")

    def _are_wanted(self, next_xid: int) -> bool:
        """Whether something that began before that transaction goes on; of what does so on the primary a replica knows, too."""
        query = """
        SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type <> 'walsender'
          AND least(backend_xid::text::int, backend_xmin::text::int) < %(next_xid)s)
        OR EXISTS (SELECT FROM pg_prepared_xacts WHERE transaction::text::int < %(next_xid)s)
        """
        answers = [connection.execute(query, {"next_xid": next_xid}).fetchone() for connection in self.servers.values()]
        return (True,) in answers

    def kept_dead_rows(self, table: str = "jobs") -> int:
        """Vacuum, and return how many dead rows PostgreSQL reports that it cannot remove yet."""
        notices: list[str] = []

        def listen(diagnostic: Diagnostic) -> None:
            notices.append(diagnostic.message_primary or "")

        self.primary.add_notice_handler(listen)
        self.primary.execute(f"VACUUM (VERBOSE) {table}")
        self.primary.remove_notice_handler(listen)
        report, *_ = [match for text in notices if (match := _NOT_REMOVABLE.search(text))]  # its TOAST table follows
        return int(report[1])

    def wait_until_vacuum_removes(self, table: str = "jobs") -> None:
        """Wait until vacuum removes every dead row."""
        wait_for(lambda: self.kept_dead_rows(table) == 0, "a vacuum that removes everything")

    def leftovers(self) -> list[str]:
        """Return what is on the primary of the bench's longrunners: sessions, tables, slots, prepared transactions."""
        rows = self.primary.execute(
            "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'stallbench:longrunner:%' "
            "UNION ALL SELECT relname FROM pg_class WHERE relname LIKE 'stallbench%' "
            "UNION ALL SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'stallbench%' "
            "UNION ALL SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'stallbench%'"
        ).fetchall()
        return [str(name) for (name,) in rows]


@pytest.fixture(scope="module")
def prompt_feedback(cluster: Cluster) -> Iterator[None]:
    """Let the replica report its horizon each second, not each ten, so that a test need not wait for it."""
    with connect(cluster.server("replica-1").direct, "fixture") as replica:
        replica.execute(f"ALTER SYSTEM SET wal_receiver_status_interval = '{FEEDBACK_S}s'")
        replica.execute("SELECT pg_reload_conf()")
        yield
        replica.execute("ALTER SYSTEM RESET wal_receiver_status_interval")
        replica.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="module")
def database_name(cluster: Cluster) -> Iterator[str]:
    """A database for the tests of one file: each leaves it as it found it, and making one takes longer than most tests."""
    name = f"test_{secrets.token_hex(4)}"
    with connect(cluster.server("primary").direct, "fixture") as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield name
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def held(started_cluster: Any, database_name: str, tmp_path: Path, prompt_feedback: None) -> Iterator[HeldDatabase]:
    """A database to hold, on the servers that all tests share."""
    with HeldDatabase(
        cluster=started_cluster.cluster,
        processes=started_cluster.processes,
        logs=tmp_path,
        name=database_name,
    ) as held_database:
        yield held_database
