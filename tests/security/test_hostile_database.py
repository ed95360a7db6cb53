"""`stallbench observe` as a superuser, in a database in which an unprivileged user has prepared tables: it never executes her code."""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.postgres.foreign_code import HAZARDS
from stallbench.observe.postgres.session import _Transaction
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import cannot_see, look_at, section_of, text_of
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

_ATTACKER, _OWNER, _READER = "mallory", "operator", "on_call"
_TABLES = """
CREATE TABLE tenant.procrastinate_jobs (id bigint, queue_name text, task_name text, status text, queueing_lock text, scheduled_at timestamptz,
  attempts int, worker_id bigint, args jsonb);
CREATE TABLE tenant.procrastinate_events (job_id bigint, type text, at timestamptz);
CREATE TABLE tenant.procrastinate_workers (id bigint, last_heartbeat timestamptz);
INSERT INTO tenant.procrastinate_jobs (id, status, worker_id) VALUES (1, 'todo', 1), (2, 'doing', 1);
INSERT INTO tenant.procrastinate_events VALUES (1, 'deferred', now()), (2, 'started', now());
INSERT INTO tenant.procrastinate_workers VALUES (1, now());
"""
_OPEN = "GRANT USAGE ON SCHEMA tenant TO PUBLIC; GRANT SELECT ON ALL TABLES IN SCHEMA tenant TO PUBLIC"
# It leaves a trace in the server's log, which no rollback removes, and what the next unqualified call would need.
_CODE = """
CREATE SCHEMA tenant;
CREATE FUNCTION tenant.attack() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  RAISE LOG '{mark} %', current_user;
  PERFORM pg_catalog.set_config('default_transaction_read_only', 'off', false);
  PERFORM pg_catalog.set_config('search_path', 'tenant, pg_catalog', false);
  PERFORM pg_catalog.pg_advisory_lock(4711);
  BEGIN
    EXECUTE 'ALTER ROLE {attacker} SUPERUSER';
  EXCEPTION WHEN OTHERS THEN NULL;
  END;
  RETURN true;
END $$;
CREATE FUNCTION tenant.attack(anyelement) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN tenant.attack(); END $$;
CREATE FUNCTION tenant.pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN tenant.attack(); END $$;
CREATE FUNCTION tenant.count() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN PERFORM tenant.attack(); RETURN 1; END $$;
"""


@dataclass(frozen=True, slots=True)
class Trap:
    """What the attacker does to the tables of a queue."""

    statements: str
    hazard: str
    """What the report says is in the way if the tables are those of a trusted owner."""
    is_sprung: bool = True
    """Whether a read that the user accepted does execute her function."""


TRAPS = {
    "a view as a table beside": Trap(
        "DROP TABLE tenant.procrastinate_events; CREATE VIEW tenant.procrastinate_events AS "
        "SELECT id AS job_id, 'started'::text AS type, now() AS at FROM tenant.procrastinate_jobs WHERE tenant.attack()",
        "tenant.procrastinate_events is a view",
    ),
    "a materialized view as a table beside": Trap(
        "DROP TABLE tenant.procrastinate_events; CREATE MATERIALIZED VIEW tenant.procrastinate_events AS "
        "SELECT 1::bigint AS job_id, 'started'::text AS type, now() AS at",
        "procrastinate_events",
        is_sprung=False,
    ),
    "the predicate of a partial index": Trap(
        "CREATE INDEX ON tenant.procrastinate_jobs (id) WHERE tenant.attack()", "uses the function tenant.attack()"
    ),
    "the expression of an index": Trap(
        "CREATE INDEX ON tenant.procrastinate_events ((tenant.attack())) ", "uses the function tenant.attack()"
    ),
    "a cast of a column's type": Trap(
        "CREATE TYPE tenant.state AS (name text); "
        "CREATE FUNCTION tenant.to_number(tenant.state) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS "
        "$$ BEGIN PERFORM tenant.attack(); RETURN 1; END $$; "
        "CREATE CAST (tenant.state AS bigint) WITH FUNCTION tenant.to_number(tenant.state) AS IMPLICIT; "
        "ALTER TABLE tenant.procrastinate_jobs DROP worker_id; ALTER TABLE tenant.procrastinate_jobs ADD worker_id tenant.state; "
        "UPDATE tenant.procrastinate_jobs SET worker_id = ROW('x')",
        "has the type tenant.state",
    ),
    "a cast of an enumerated type": Trap(
        "CREATE TYPE tenant.state AS ENUM ('todo', 'doing'); "
        "CREATE FUNCTION tenant.to_text(tenant.state) RETURNS text LANGUAGE plpgsql IMMUTABLE AS "
        "$$ BEGIN PERFORM tenant.attack(); RETURN 'todo'; END $$; "
        "CREATE CAST (tenant.state AS text) WITH FUNCTION tenant.to_text(tenant.state) AS IMPLICIT; "
        "ALTER TABLE tenant.procrastinate_jobs ALTER status TYPE tenant.state USING 'todo'",
        "uses the function tenant.to_text(tenant.state)",
        is_sprung=False,
    ),
    "a domain": Trap(
        "CREATE DOMAIN tenant.word AS text CHECK (tenant.attack()); "
        "ALTER TABLE tenant.procrastinate_jobs ALTER status TYPE tenant.word",
        "uses the function tenant.attack()",
        is_sprung=False,
    ),
    "a row-level policy": Trap(
        "ALTER TABLE tenant.procrastinate_jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; "
        "CREATE POLICY trap ON tenant.procrastinate_jobs USING (tenant.attack())",
        "uses the function tenant.attack()",
        is_sprung=False,
    ),
    "a rule": Trap(
        "CREATE RULE trap AS ON UPDATE TO tenant.procrastinate_jobs DO ALSO SELECT tenant.attack()",
        "has the rule trap",
        is_sprung=False,
    ),
    "a constraint of a child": Trap(
        "CREATE TABLE tenant.child (CHECK (tenant.attack())) INHERITS (tenant.procrastinate_jobs)",
        "tenant.child uses the function tenant.attack()",
    ),
    "extended statistics": Trap(
        "CREATE STATISTICS tenant.trap ON (tenant.attack(id)), status FROM tenant.procrastinate_jobs",
        "uses the function tenant.attack(anyelement)",
        is_sprung=False,
    ),
    "a partition key": Trap(
        "DROP TABLE tenant.procrastinate_events; CREATE TABLE tenant.procrastinate_events (job_id bigint, type text, at timestamptz) "
        "PARTITION BY LIST (tenant.attack(job_id)); CREATE TABLE tenant.part PARTITION OF tenant.procrastinate_events DEFAULT",
        "uses the function tenant.attack(anyelement)",
        is_sprung=False,
    ),
    "an operator": Trap(
        "CREATE FUNCTION tenant.same(bigint, bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN tenant.attack(); END $$; "
        "CREATE OPERATOR tenant.=== (FUNCTION = tenant.same, LEFTARG = bigint, RIGHTARG = bigint); "
        "CREATE INDEX ON tenant.procrastinate_jobs (id) WHERE 1::bigint OPERATOR(tenant.===) 2::bigint",
        "uses the function tenant.same(bigint,bigint)",
    ),
}


@dataclass(frozen=True, slots=True)
class HostileDatabase:
    """A database of its operator, in which an attacker may create schemas."""

    database: TestDatabase
    admin: Connection
    attacker: Endpoint
    owner: Endpoint
    reader: Endpoint
    """Of an unprivileged user who observes, and trusts the owner of the database."""
    mark: str

    @property
    def endpoint(self) -> Endpoint:
        """As a superuser."""
        return self.database.direct

    def prepare(self, statements: str, *, owner: str = _ATTACKER) -> None:
        """Let the attacker execute her statements, and make ``owner`` the owner of her schema and its tables."""
        with connect(self.attacker, "test") as attacker:
            attacker.execute(_CODE.format(mark=self.mark, attacker=_ATTACKER) + _TABLES)
            attacker.execute(statements)
            attacker.execute(_OPEN)
        if owner != _ATTACKER:
            self.give_to(owner)

    def give_to(self, owner: str) -> None:
        """Make ``owner`` the owner of the schema, its tables and its types, and not of its functions."""
        self.admin.execute(f"ALTER SCHEMA tenant OWNER TO {owner}")
        given = self.admin.execute(
            "SELECT CASE WHEN relkind = 'c' THEN 'TYPE' ELSE 'TABLE' END, relname FROM pg_class "
            "WHERE relnamespace = 'tenant'::regnamespace AND relkind IN ('r', 'p', 'c', 'v') AND relkind <> 'c'"
        ).fetchall()
        for kind, name in given:
            self.admin.execute(f"ALTER {kind} tenant.{name} OWNER TO {owner}")
        for (name,) in self.admin.execute(
            "SELECT typname FROM pg_type WHERE typnamespace = 'tenant'::regnamespace AND typtype IN ('e', 'd')"
        ).fetchall():
            self.admin.execute(f"ALTER TYPE tenant.{name} OWNER TO {owner}")

    def observe(self, *options: str) -> str:
        """Return what the command prints."""
        address = f"postgresql://{self.endpoint.user}@{self.endpoint.host}:{self.endpoint.port}/{self.endpoint.database}"
        ended = subprocess.run(
            [sys.executable, "-m", "stallbench.cli", "observe", "--once", "--all", "--dsn", address, *options],
            env={PASSWORD_VARIABLE: self.endpoint.password.get_secret_value(), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def was_called(self) -> bool:
        """Whether the attacker's function, called by who observes, has left its trace in the server's log."""
        log = self.database.cluster.server("primary").log
        assert log is not None
        return any(f"LOG:  {self.mark} {user}" in log.read_text(errors="replace") for user in (self.endpoint.user, _READER))

    def require_harmless(self) -> None:
        """Fail if the attacker has become a superuser."""
        assert self.admin.execute("SELECT rolsuper FROM pg_roles WHERE rolname = %s", (_ATTACKER,)).fetchone() == (False,)


@pytest.fixture
def hostile(database: TestDatabase) -> Iterator[HostileDatabase]:
    with hostile_on(database) as made:
        yield made


@contextmanager
def hostile_on(database: TestDatabase) -> Iterator[HostileDatabase]:
    """Give an empty database to its operator, and let an attacker in; in the end both are gone."""
    direct = database.direct
    with connect(direct, "test") as admin:
        for name in (_ATTACKER, _OWNER, _READER):
            admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
        admin.execute(f"GRANT pg_monitor TO {_READER}")
        admin.execute(f"ALTER DATABASE {direct.database} OWNER TO {_OWNER}")
        admin.execute(f"GRANT CREATE ON DATABASE {direct.database} TO {_ATTACKER}")
        as_role = {"password": type(direct.password)("secret")}
        try:
            yield HostileDatabase(
                database,
                admin,
                direct.model_copy(update={"user": _ATTACKER, **as_role}),
                direct.model_copy(update={"user": _OWNER, **as_role}),
                direct.model_copy(update={"user": _READER, **as_role}),
                f"trace {secrets.token_hex(8)}",
            )
        finally:
            admin.execute(f"ALTER DATABASE {direct.database} OWNER TO {direct.user}")
            for name in (_ATTACKER, _OWNER, _READER):
                admin.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def test_a_superuser_who_observes_executes_no_code_of_an_unprivileged_user(hostile: HostileDatabase) -> None:
    hostile.prepare(TRAPS["a view as a table beside"].statements)
    report = hostile.observe()
    assert not hostile.was_called()
    hostile.require_harmless()
    assert "Procrastinate (tenant.procrastinate_jobs)" in report
    assert "could execute code of others" in report
    assert "--table tenant.procrastinate_jobs" in report
    assert report.count("is a superuser") == 1
    assert "GRANT pg_monitor TO observer;" in report


@pytest.mark.parametrize("owner", [_ATTACKER, _OWNER])
@pytest.mark.parametrize("name", TRAPS)
def test_no_trap_is_sprung(hostile: HostileDatabase, name: str, owner: str) -> None:
    trap = TRAPS[name]
    hostile.prepare(trap.statements, owner=owner)
    not_visible = cannot_see(look_at(hostile.reader if owner == _OWNER else hostile.endpoint))
    assert not hostile.was_called()
    hostile.require_harmless()
    assert "could execute code of others" in not_visible
    assert trap.hazard in not_visible or (owner == _ATTACKER and f"belongs to {_ATTACKER}" in not_visible)


@pytest.mark.parametrize("name", [name for name, trap in TRAPS.items() if trap.is_sprung])
def test_a_table_that_the_user_named_is_read_and_the_report_names_the_risk(hostile: HostileDatabase, name: str) -> None:
    hostile.prepare(TRAPS[name].statements)
    observation = look_at(hostile.endpoint, tables=("tenant.procrastinate_jobs",))
    assert hostile.was_called(), "the trap is one"
    hostile.require_harmless()
    (risk,) = [one.sentence for one in observation.findings if "code of others" in one.sentence]
    assert f"with all rights of {hostile.endpoint.user}" in risk
    held = hostile.admin.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711").fetchall()
    assert held == [], "the session that executed her code was closed"


def test_tables_of_trusted_owners_with_types_of_their_own_are_counted(hostile: HostileDatabase) -> None:
    hostile.prepare(
        "CREATE TYPE tenant.state AS ENUM ('todo', 'doing'); CREATE DOMAIN tenant.word AS text CHECK (length(VALUE) < 9); "
        "ALTER TABLE tenant.procrastinate_jobs ALTER status TYPE tenant.state USING status::tenant.state, ALTER task_name TYPE tenant.word, "
        "ADD tags tenant.state[]; CREATE INDEX ON tenant.procrastinate_jobs (lower(queue_name)) WHERE status = 'todo'",
        owner=_OWNER,
    )
    assert "Procrastinate (tenant.procrastinate_jobs) | 1 |" in text_of(section_of(look_at(hostile.reader), "Queues"))


def test_a_partition_that_belongs_to_the_attacker_is_not_read(hostile: HostileDatabase) -> None:
    hostile.prepare(
        "DROP TABLE tenant.procrastinate_events; CREATE TABLE tenant.procrastinate_events (job_id bigint, type text, at timestamptz) "
        "PARTITION BY RANGE (job_id); CREATE TABLE tenant.part PARTITION OF tenant.procrastinate_events DEFAULT",
        owner=_OWNER,
    )
    assert "could execute" not in cannot_see(look_at(hostile.reader))
    hostile.admin.execute(f"ALTER TABLE tenant.part OWNER TO {_ATTACKER}; GRANT USAGE ON SCHEMA tenant TO {_ATTACKER}")
    assert f"tenant.part belongs to {_ATTACKER}" in cannot_see(look_at(hostile.reader))


def test_nothing_can_be_put_in_the_place_of_a_table_between_the_check_and_the_read(
    hostile: HostileDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile.prepare("", owner=_OWNER)
    read, refused = _Transaction.read, list[str]()

    def read_and_swap(self: _Transaction, query: str, *arguments: Any, **options: Any) -> Any:
        """Let the owner of everything try right after the last check."""
        rows = read(self, query, *arguments, **options)
        if HAZARDS.strip() in query and options.get("before"):
            with connect(hostile.owner, "test") as owner:
                for name in ("procrastinate_jobs", "procrastinate_events"):
                    try:
                        owner.execute(f"SET lock_timeout = '50ms'; ALTER TABLE tenant.{name} RENAME TO elsewhere")
                    except psycopg.errors.LockNotAvailable:
                        refused.append(name)
        return rows

    monkeypatch.setattr(_Transaction, "read", read_and_swap)
    assert "Procrastinate (tenant.procrastinate_jobs) | 1 |" in text_of(section_of(look_at(hostile.reader), "Queues"))
    assert set(refused) == {"procrastinate_jobs", "procrastinate_events"}


@pytest.mark.parametrize("of", ["ROLE", "DATABASE"])
def test_a_search_path_of_the_role_or_of_the_database_leads_nowhere(hostile: HostileDatabase, of: str) -> None:
    hostile.prepare("", owner=hostile.endpoint.user)
    name = hostile.endpoint.user if of == "ROLE" else hostile.endpoint.database
    hostile.admin.execute(f"ALTER {of} {name} SET search_path = tenant, pg_catalog")
    try:
        with pytest.raises(psycopg.Error), connect(hostile.endpoint, "test") as led_astray:
            led_astray.execute("SET default_transaction_read_only = on; SELECT count(*)")
        before = hostile.was_called()
        observation = look_at(hostile.endpoint)
    finally:
        hostile.admin.execute(f"ALTER {of} {name} RESET search_path")
    assert not before
    assert not hostile.was_called()
    assert "Procrastinate (tenant.procrastinate_jobs) | 1 |" in text_of(section_of(observation, "Queues"))


@pytest.mark.parametrize(
    "name", ["jobs(", "jobs|", "a'b", 'a""b', "100%", "%s", "{schema}", "$$", "\\", "job[s", "*", "a;b", " ", "Ж"]
)
def test_a_table_may_have_any_name(hostile: HostileDatabase, tmp_path: Path, name: str) -> None:
    quoted = f'public."{name}"'
    with connect(hostile.endpoint, "test") as admin:
        admin.pgconn.exec_(f"CREATE TABLE {quoted} (n int)".encode())
        admin.pgconn.exec_(f"INSERT INTO {quoted} VALUES (1)".encode())
    queues = text_of(section_of(look_at(hostile.endpoint, tables=(quoted,)), "Queues"))
    assert "| 1 |" in queues
    if name == "jobs(":
        record_observation(hostile, tmp_path, "--table", quoted)


def record_observation(hostile: HostileDatabase, tmp_path: Path, *options: str) -> Path:
    """Record an observation of five seconds; return its folder."""
    expectations = tmp_path / "expect.toml"
    expectations.write_text('[[expect]]\nmetric = "depth.max"\nat_most = 100000\n')
    address = f"postgresql://{hostile.endpoint.user}@{hostile.endpoint.host}:{hostile.endpoint.port}/{hostile.endpoint.database}"
    runs = tmp_path / "runs"
    recorded = ["--for", "5s", "--expect", str(expectations), "--runs", str(runs)]
    ended = subprocess.run(
        [sys.executable, "-m", "stallbench.cli", "observe", "--dsn", address, *recorded, *options],
        env={PASSWORD_VARIABLE: hostile.endpoint.password.get_secret_value(), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode in (0, 1), ended.stderr
    (folder,) = [path for path in runs.iterdir() if not path.is_symlink() and (path / "run.json").exists()]
    return folder


def test_no_literal_of_a_statement_is_recorded_and_the_folder_is_private(hostile: HostileDatabase, tmp_path: Path) -> None:
    hostile.prepare("", owner=_OWNER)
    card = "4111111111111111"
    with connect(hostile.owner, "test") as holder, connect(hostile.owner, "test") as waiter:
        holder.execute(f"BEGIN; UPDATE tenant.procrastinate_jobs SET task_name = '{card}' WHERE id = 1 /* {card} */")
        waiting = threading.Thread(
            target=lambda: waiter.execute(f"UPDATE tenant.procrastinate_jobs SET task_name = $${card}$$ WHERE id = 1")
        )
        waiting.start()
        try:
            wait_for(
                lambda: hostile.admin.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall(),
                "a session that waits",
            )
            time.sleep(1.2)  # a wait is a finding after a second
            folder = record_observation(hostile, tmp_path)
        finally:
            holder.execute("ROLLBACK")
            waiting.join()
    assert "blocks" in (folder / "run.json").read_text()
    for path in folder.rglob("*"):
        if path.is_file():
            assert card.encode() not in path.read_bytes(), path
    assert folder.stat().st_mode & 0o077 == 0
