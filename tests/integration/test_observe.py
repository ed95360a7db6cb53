"""`stallbench observe` on a server with everything wrong at once, and on servers that hardly let it see anything."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from stallbench.engines.postgres.driver import connect
from stallbench.errors import BadInputError
from stallbench.observe.address import ObservedServers
from stallbench.observe.diagnostic import Severity
from stallbench.observe.postgres.load import LoadDiagnostic
from stallbench.observe.postgres.observer import make_postgres_observer
from stallbench.observe.postgres.queues import QueuesDiagnostic
from stallbench.observe.postgres.session import APPLICATION
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import find_all_postgres
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.held_database import HeldDatabase, database_name, held, prompt_feedback
from tests.integration.observed import cannot_see, finding_about, look_at, observer_of, section_of, text_of
from tests.integration.pooled_queue import que
from tests.waiting import wait_for

pytestmark = pytest.mark.integration
__all__ = ["database_name", "held", "prompt_feedback", "que"]

OpenConnection = Callable[..., Connection]


@contextmanager
def role(database: TestDatabase, name: str, *grants: str) -> Iterator[Endpoint]:
    """A user with these rights and no others; yields its endpoint."""
    with connect(database.direct, "fixture") as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
        for grant in grants:
            admin.execute(grant)
        try:
            yield database.direct.model_copy(update={"user": name, "password": SecretStr("secret")})
        finally:
            admin.execute(f"DROP OWNED BY {name}")
            admin.execute(f"DROP ROLE {name}")


def test_on_a_busy_server_it_names_everything_that_is_wrong(
    held: HeldDatabase, open_connection: OpenConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.slots.BRIEFLY_INACTIVE_S", 0.0)  # its slot is some seconds old
    endpoint = held.cluster.server("primary").direct.model_copy(update={"database": held.name})
    major = held.primary.info.server_version // 10_000
    program = max(
        (each.bin_dir for each in find_all_postgres() if (each.bin_dir / "pg_dump").exists() and each.major >= major),
        default=None,
    )
    if program is None:
        pytest.skip(f"this machine has no pg_dump for PostgreSQL {major}")
    held.primary.execute("SELECT pg_create_physical_replication_slot('old_replica', true)")
    held.start(held.document("stuck_listener"))
    writer = open_connection(endpoint, "two-phase")
    writer.execute("BEGIN")
    writer.execute("CREATE TABLE prepared (n int)")
    writer.execute("PREPARE TRANSACTION 'for''gotten'")
    locker = open_connection(endpoint, "migration")
    locker.execute("CREATE TABLE locked (n int)")
    locker.execute("BEGIN")
    locker.execute("LOCK TABLE locked")
    builder = open_connection(endpoint, "builder")
    builder.pgconn.send_query(b"CREATE INDEX CONCURRENTLY new_index ON jobs (id)")
    environment = {**os.environ, "PGPASSWORD": endpoint.password.get_secret_value()}
    address = ["-h", endpoint.host, "-p", str(endpoint.port), "-U", endpoint.user]
    dump = subprocess.Popen([program / "pg_dump", *address, endpoint.database], env=environment, stdout=subprocess.DEVNULL)
    backup = subprocess.Popen(
        [program / "pg_basebackup", *address, "-D", tmp_path / "backup", "--max-rate=32k", "--checkpoint=fast", "-X", "none"],
        env=environment,
        stderr=subprocess.DEVNULL,
    )
    end_locker = f"SELECT pg_terminate_backend({locker.info.backend_pid});"
    try:
        with observer_of(endpoint) as observer:

            def read() -> Any:
                observation = observer.read(reads_everything=True)
                everything = "\n".join(
                    [one.sentence for one in observation.findings] + [text_of(one) for one in observation.sections]
                )
                wanted = (
                    "for'gotten",
                    "old_replica",
                    "its client to read",
                    "base backup",
                    "pg_dump",
                    "CREATE INDEX CONCURRENTLY on",
                )
                missing = [words for words in wanted if words not in everything]
                names_blocker = any(one.statement == end_locker for one in observation.findings)
                return observation if names_blocker and not missing else None

            observation = wait_for(read, "a report that names everything")
        prepared = finding_about(observation, "for'gotten")
        assert prepared.statement == "ROLLBACK PREPARED 'for''gotten';"
        assert held.name in prepared.where
        slot = finding_about(observation, "The physical replication slot old_replica")
        assert slot.statement == "SELECT pg_catalog.pg_drop_replication_slot('old_replica');"
        listener = finding_about(observation, "for its client to read")
        assert "stuck_listener" in listener.sentence
        assert listener.statement.startswith("SELECT pg_terminate_backend(")
        index = finding_about(observation, "CREATE INDEX CONCURRENTLY on")
        assert "waits for" in index.sentence
        (blocker,) = [one for one in observation.findings if one.statement == end_locker]
        assert "blocks 1 session" in blocker.sentence
        held.primary.execute(end_locker)  # it does end the wait
        wait_for(lambda: not [one for one in look_at(endpoint).findings if one.statement == end_locker], "a dump that goes on")
    finally:
        for process in (dump, backup):
            process.kill()
            process.wait()
        for connection in (builder, locker):
            connection.close()
        for statement in ("ROLLBACK PREPARED 'for''gotten'", "DROP TABLE IF EXISTS locked"):
            with suppress(psycopg.Error):
                held.primary.execute(statement)
        held.primary.execute("SELECT pg_drop_replication_slot('old_replica')")


def test_the_oldest_holder_is_shown_with_the_statement_that_ends_it(que: TestDatabase, open_connection: OpenConnection) -> None:
    writer = open_connection(que.direct, "report")
    writer.execute("BEGIN")
    writer.execute("CREATE TABLE written (n int)")
    pid = writer.info.backend_pid

    def find() -> tuple[str, ...] | None:
        rows = section_of(look_at(que.direct), "Who holds").rows
        return next((row for row in rows if f"session {pid} " in row[0]), None)

    row = wait_for(find, "the holder")
    assert "stallbench:report" in row[0]
    assert row[-1] == f"SELECT pg_terminate_backend({pid});"
    with connect(que.direct, "test") as admin:
        admin.execute(row[-1])
    wait_for(lambda: find() is None, "a horizon that is free")


def test_behind_a_replica_s_feedback_it_needs_the_replica_s_address(held: HeldDatabase, open_connection: OpenConnection) -> None:
    primary, replica = (
        held.cluster.server(name).direct.model_copy(update={"database": held.name}) for name in ("primary", "replica-1")
    )
    reader = open_connection(replica, "reader")
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT count(*) FROM pg_class")
    held.primary.execute("CREATE TABLE moved_on (n int)")
    try:
        without = wait_for(
            lambda: one if "replica replica-1" in text_of(section_of(one := look_at(primary), "Who holds")) else None, "feedback"
        )
        assert "--dsn replica-1=" in cannot_see(without)
        pid = reader.info.backend_pid
        found = wait_for(
            lambda: (
                one
                if f"session {pid} " in text_of(section_of(one := look_at(primary, {"replica-1": replica}), "Who holds"))
                else None
            ),
            "the reader",
        )
        assert "on replica-1" in text_of(section_of(found, "Who holds"))
    finally:
        held.primary.execute("DROP TABLE moved_on")


def test_a_user_without_rights_learns_what_is_hidden_and_how_to_see_it(
    que: TestDatabase, open_connection: OpenConnection
) -> None:
    with connect(que.direct, "test") as admin:
        admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    with role(que, "nobody_much") as endpoint:
        observation = look_at(endpoint)
    hidden = cannot_see(observation)
    assert "time and buffers of other users' statements, so the claim may be missing" in hidden
    assert 'GRANT pg_monitor TO "nobody_much";' in hidden
    assert 'GRANT SELECT ON public.que_jobs TO "nobody_much";' in hidden
    assert "Que 0.x (public.que_jobs) | ? |" in text_of(section_of(observation, "Queues"))
    assert "No statement of those that this user may see was recognised as the claim" in text_of(
        section_of(observation, "Statements")
    )
    assert "workers are busy is hidden from this user" in text_of(section_of(observation, "Tables"))


@pytest.mark.parametrize("version", ["1.7", "1.8"])
def test_statements_are_read_although_an_upgrade_left_the_extension_at_an_old_version(que: TestDatabase, version: str) -> None:
    with connect(que.direct, "test") as admin:
        admin.execute(f"CREATE EXTENSION pg_stat_statements VERSION '{version}'".encode())
    with observer_of(que.direct) as observer:
        observer.read()
        observation = observer.read(reads_everything=True)
    assert section_of(observation, "Statements").rows
    assert "earlier: since the statistics were reset." in text_of(section_of(observation, "Statements"))
    assert f"still at version {version} ALTER EXTENSION pg_stat_statements UPDATE; in database" in cannot_see(observation)


def test_the_suggested_grants_let_a_user_with_an_unusual_name_read_an_unusual_table(que: TestDatabase) -> None:
    with connect(que.direct, "test") as admin:
        admin.execute('CREATE SCHEMA "Work; now"; ALTER TABLE que_jobs SET SCHEMA "Work; now"')
    with role(que, '"on ""call"" – 2"') as quoted:
        endpoint = quoted.model_copy(update={"user": 'on "call" – 2'})
        (refused,) = [one for one in look_at(endpoint).not_visible if "may not read the table" in one.why]
        with connect(que.direct, "test") as admin:
            admin.execute(refused.remedy.encode())
        observation = look_at(endpoint)
    assert "| 3 |" in text_of(section_of(observation, "Queues"))


def test_with_pg_monitor_and_select_everything_is_seen(que: TestDatabase) -> None:
    grants = ("GRANT pg_monitor TO on_call", "GRANT SELECT ON que_jobs TO on_call")
    with connect(que.direct, "test") as admin:
        admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    with role(que, "on_call", *grants) as endpoint:
        observation = look_at(endpoint)
    assert not [one for one in observation.not_visible if "replica" not in one.what]
    assert "Que 0.x (public.que_jobs) | 3 |" in text_of(section_of(observation, "Queues"))


def test_a_replica_is_observed_too_and_says_what_only_the_primary_knows(que: TestDatabase) -> None:
    replica = que.on(que.cluster.server("replica-1"))
    wait_for(lambda: has_come_to(replica), "the database on the replica")
    observation = look_at(replica)
    assert ", replica, " in observation.title
    queues = QueuesDiagnostic()
    load = LoadDiagnostic(queues)
    with closing(make_postgres_observer(ObservedServers(primary=replica, replicas={}), queues, None, load)) as observer:
        observer.read()
        with pytest.raises(BadInputError, match="this server is a replica, which does not count enqueued jobs"):
            load.require_queue()
    assert "observe the primary" in cannot_see(observation)
    assert "WAL receiver streaming" in text_of(section_of(observation, "Replication"))


def has_come_to(endpoint: Endpoint) -> bool:
    with suppress(psycopg.OperationalError), connect(endpoint, "test") as connection:
        return connection.execute("SELECT to_regclass('que_jobs') IS NOT NULL").fetchone() == (True,)
    return False


def test_an_empty_database_has_no_queue_and_no_findings(database: TestDatabase) -> None:
    observation = look_at(database.direct)
    assert not [one for one in observation.findings if one.severity is Severity.CRITICAL]
    assert "No queue table was recognised" in text_of(section_of(observation, "Queues"))
    assert "no queue table was recognised" in cannot_see(observation), "a report without findings is no all-clear"


def test_a_locked_queue_table_delays_neither_the_look_nor_the_lock(que: TestDatabase, open_connection: OpenConnection) -> None:
    locker = open_connection(que.direct, "locker")
    locker.execute("BEGIN")
    locker.execute("LOCK TABLE que_jobs")
    observation = look_at(que.direct)
    assert "another session has locked the table" in cannot_see(observation)
    assert section_of(observation, "Who holds")


def test_a_server_that_goes_away_is_reported_and_found_again(que: TestDatabase) -> None:
    with observer_of(que.direct) as observer:
        assert not observer.read().gone
        with connect(que.direct, "test") as admin:
            admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{APPLICATION}'")
        assert "terminating connection" in observer.read(reads_everything=True).gone
        assert not observer.read(reads_everything=True).gone


def test_what_a_server_s_version_does_not_have_is_listed_and_the_rest_is_read(
    que: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.wraparound._AGES", "SELECT no_such_column FROM pg_database")
    observation = look_at(que.direct)
    assert "the distance to wraparound: this server does not have what the query needs" in cannot_see(observation)
    assert section_of(observation, "Queues").rows


def test_an_unknown_version_is_read_as_far_as_it_goes(que: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.rights.NEWEST_VERSION", 13)
    monkeypatch.setattr("stallbench.observe.postgres.rights.OLDEST_VERSION", 13)
    observation = look_at(que.direct)
    assert "what is different in PostgreSQL 1" in cannot_see(observation)
    assert section_of(observation, "Queues").rows
