"""A user of the server without rights of her own prepares an external database before a run, and tries to change it afterwards: nothing of hers is executed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import pytest

from stallbench.engines.adapter import OBJECTS_TABLE, DatabaseObject
from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.servers.join import open_adapter
from tests.integration.conftest import Connection, TestDatabase

pytestmark = pytest.mark.integration

ATTACKER = "mallory"
# It leaves a trace in the server's log, which no rollback removes.
ATTACK = """
CREATE FUNCTION {schema}.attack() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE LOG '{mark} %', current_user; RETURN true; END $$;
CREATE FUNCTION {schema}.same(oid, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN {schema}.attack(); END $$;
CREATE FUNCTION {schema}.same("char", text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN {schema}.attack(); END $$;
CREATE OPERATOR {schema}.>= (LEFTARG = oid, RIGHTARG = int, FUNCTION = {schema}.same);
CREATE OPERATOR {schema}.= (LEFTARG = "char", RIGHTARG = text, FUNCTION = {schema}.same)
"""
VIEW = "CREATE VIEW public.{table} AS SELECT 'TABLE'::text AS kind, 'public.it'::text AS name WHERE public.attack()"
EACH = (
    "CREATE TABLE public.it (n int)",
    "CREATE VIEW public.it AS SELECT 1 AS n",
    "CREATE FUNCTION public.now() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TYPE public.it AS (n int)",
    "CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = int, FUNCTION = pg_catalog.oideq)",
    "CREATE CAST (text AS integer) WITH INOUT AS IMPLICIT",
    "CREATE SCHEMA {user}",
    "CREATE SCHEMA it",
)


@dataclass(frozen=True, slots=True)
class SharedServer:
    """An empty database, and somebody who may connect to it."""

    database: TestDatabase
    admin: Connection
    attacker: Endpoint
    mark: str

    @property
    def endpoint(self) -> Endpoint:
        """As the bench's user, a superuser."""
        return self.database.direct

    def attack(self, statements: str) -> None:
        """Let the attacker execute statements."""
        with connect(self.attacker, "test") as attacker:
            attacker.execute(statements.format(schema="public", mark=self.mark, table=OBJECTS_TABLE, user=self.endpoint.user))

    def was_called(self) -> bool:
        """Whether the attacker's function, called by the bench, has left its trace in the server's log."""
        log = self.database.cluster.server("primary").log
        assert log is not None
        return f"LOG:  {self.mark} {self.endpoint.user}" in log.read_text(errors="replace")


@pytest.fixture
def shared(database: TestDatabase) -> Iterator[SharedServer]:
    direct = database.direct
    with connect(direct, "test") as admin:
        admin.execute(f"CREATE ROLE {ATTACKER} LOGIN PASSWORD 'secret'")
        attacker = direct.model_copy(update={"user": ATTACKER, "password": type(direct.password)("secret")})
        try:
            yield SharedServer(database, admin, attacker, f"trace {secrets.token_hex(8)}")
        finally:
            admin.execute(f"DROP OWNED BY {ATTACKER} CASCADE; DROP ROLE {ATTACKER}")


def test_the_check_whether_a_database_is_empty_executes_no_operator_of_another_user(shared: SharedServer) -> None:
    shared.admin.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    shared.attack(ATTACK)
    shared.admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    with open_adapter("primary", shared.endpoint) as adapter:
        with pytest.raises(NotCarriedOutError, match="is not empty"):
            adapter.prepare_database()
        adapter.read_settings()
        adapter.find_differing({"work_mem": "4MB"})
        adapter.describe_others()
        adapter.empty_database()
    assert not shared.was_called()
    with connect(shared.endpoint, "test") as careless:
        careless.execute("SELECT count(*) FROM pg_class WHERE oid >= 16384")
    assert shared.was_called(), "the trap is one"


@pytest.mark.parametrize(
    ("granted", "remedy"),
    [
        ("GRANT CREATE ON SCHEMA public TO PUBLIC", "REVOKE CREATE ON SCHEMA public FROM PUBLIC"),
        (f"GRANT CREATE ON SCHEMA public TO {ATTACKER}", f"REVOKE CREATE ON SCHEMA public FROM {ATTACKER}"),
        (f"ALTER SCHEMA public OWNER TO {ATTACKER}", "ALTER SCHEMA public OWNER TO CURRENT_USER"),
        (f"GRANT CREATE ON DATABASE {{database}} TO {ATTACKER}", f"REVOKE CREATE ON DATABASE {{database}} FROM {ATTACKER}"),
    ],
)
def test_a_database_in_which_others_may_create_is_refused_until_the_statement_of_the_message(
    shared: SharedServer, granted: str, remedy: str
) -> None:
    name = shared.endpoint.database
    shared.admin.execute(granted.format(database=name))
    with open_adapter("primary", shared.endpoint) as adapter:
        with pytest.raises(NotCarriedOutError) as refused:
            adapter.prepare_database()
        assert f"{ATTACKER} may create" in str(refused.value)
        assert f"{remedy.format(database=name)};" in str(refused.value)
        shared.admin.execute(remedy.format(database=name))
        adapter.prepare_database()
        assert adapter.empty_database() == []
        for each in EACH:
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidObjectDefinition)):
                shared.attack(each)


def test_a_group_in_which_somebody_else_is_may_not_create_either(shared: SharedServer) -> None:
    shared.admin.execute(f"CREATE ROLE apps; GRANT apps TO {ATTACKER}; GRANT CREATE ON SCHEMA public TO apps")
    try:
        with (
            open_adapter("primary", shared.endpoint) as adapter,
            pytest.raises(NotCarriedOutError, match="REVOKE CREATE ON SCHEMA public FROM apps;"),
        ):
            adapter.prepare_database()
    finally:
        shared.admin.execute("DROP OWNED BY apps; DROP ROLE apps")


def test_what_another_user_creates_in_an_open_transaction_is_waited_for(shared: SharedServer) -> None:
    shared.admin.execute(f"GRANT CREATE ON SCHEMA public TO {ATTACKER}")
    with connect(shared.attacker, "test") as attacker, open_adapter("primary", shared.endpoint) as adapter:
        attacker.execute(f"BEGIN; {ATTACK.format(schema='public', mark=shared.mark)}; {VIEW.format(table=OBJECTS_TABLE)}")
        shared.admin.execute(f"REVOKE CREATE ON SCHEMA public FROM {ATTACKER}")
        with pytest.raises(NotCarriedOutError, match=f"an open transaction of {ATTACKER} .*began before"):
            adapter.prepare_database()
        attacker.execute("COMMIT")
        with pytest.raises(NotCarriedOutError, match="is no plain table of user"):
            adapter.prepare_database()
        with pytest.raises(NotCarriedOutError, match="is no plain table of user"):
            adapter.empty_database()
    assert not shared.was_called()


def test_a_prepared_transaction_of_another_user_is_waited_for(shared: SharedServer) -> None:
    shared.admin.execute(f"GRANT CREATE ON SCHEMA public TO {ATTACKER}")
    shared.attack("BEGIN; CREATE VIEW public.it AS SELECT 1 AS n; PREPARE TRANSACTION '{mark}'")
    try:
        shared.admin.execute(f"REVOKE CREATE ON SCHEMA public FROM {ATTACKER}")
        with (
            open_adapter("primary", shared.endpoint) as adapter,
            pytest.raises(NotCarriedOutError, match=f"a prepared transaction of {ATTACKER} .*began before"),
        ):
            adapter.prepare_database()
    finally:
        shared.admin.execute(f"ROLLBACK PREPARED '{shared.mark}'")


@pytest.mark.parametrize("statement", ["SELECT 1", "SELECT 1/0"])
def test_a_transaction_of_another_user_that_wrote_nothing_is_not_waited_for(shared: SharedServer, statement: str) -> None:
    with connect(shared.attacker, "test") as attacker, open_adapter("primary", shared.endpoint) as adapter:
        attacker.execute("BEGIN")
        with suppress(psycopg.errors.DivisionByZero):
            attacker.execute(statement)
        adapter.prepare_database()
        assert adapter.empty_database() == []


def test_the_list_of_the_bench_is_read_in_a_session_with_a_search_path_of_its_own(shared: SharedServer) -> None:
    shared.admin.execute(f"CREATE SCHEMA attack; GRANT ALL ON SCHEMA attack TO {ATTACKER}")
    with connect(shared.attacker, "test") as attacker:
        attacker.execute(ATTACK.format(schema="attack", mark=shared.mark))
    shared.admin.execute(
        f"GRANT USAGE ON SCHEMA attack TO PUBLIC; ALTER DATABASE {shared.endpoint.database} SET search_path = attack, public"
    )
    with open_adapter("primary", shared.endpoint) as adapter, pytest.raises(NotCarriedOutError, match="is not empty"):
        adapter.prepare_database()
    assert not shared.was_called()


def test_what_an_installation_created_is_found_without_operators_of_its_search_path(shared: SharedServer) -> None:
    shared.admin.execute(f"CREATE SCHEMA attack; GRANT ALL ON SCHEMA attack TO {ATTACKER}")
    with connect(shared.attacker, "test") as attacker:
        attacker.execute(ATTACK.format(schema="attack", mark=shared.mark))
    with open_adapter("primary", shared.endpoint) as adapter, connect(shared.endpoint, "install") as installing:
        adapter.begin_list()
        installing.execute("SET search_path = attack, public")

        def create() -> None:
            installing.execute("CREATE TABLE public.it (n int)")

        adapter.create_recorded(installing, create)
        assert not shared.was_called()
        assert adapter.empty_database() == []


def test_a_lock_of_another_session_is_not_waited_for_without_end(shared: SharedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallbench.engines.postgres.adapter._LOCKED_WITHIN", "200ms")
    with open_adapter("primary", shared.endpoint) as adapter:
        adapter.prepare_database()
        with connect(shared.endpoint, "holder") as holder:
            holder.execute(f"BEGIN; LOCK TABLE {adapter.objects_table}")
            for use in (lambda: adapter.record([DatabaseObject("TABLE", "public.it")]), adapter.read_created_objects):
                with pytest.raises(NotCarriedOutError, match="waits for a lock that another session holds"):
                    use()
            holder.execute("ROLLBACK")
        assert adapter.empty_database() == []


@pytest.mark.parametrize("is_superuser", [True, False])
def test_the_owner_of_the_database_may_create_only_if_he_gains_nothing_by_it(shared: SharedServer, *, is_superuser: bool) -> None:
    name = shared.endpoint.database
    shared.admin.execute(f"ALTER DATABASE {name} OWNER TO {ATTACKER}; CREATE ROLE bench_user LOGIN PASSWORD 'secret'")
    try:
        shared.admin.execute(f"GRANT CREATE ON DATABASE {name} TO bench_user; GRANT CREATE, USAGE ON SCHEMA public TO bench_user")
        with connect(shared.attacker, "test") as attacker:
            attacker.execute(f"ALTER DATABASE {name} SET search_path = public")
        endpoint = shared.attacker.model_copy(update={"user": "bench_user"})
        with open_adapter("primary", shared.endpoint if is_superuser else endpoint) as adapter:
            if is_superuser:
                with pytest.raises(NotCarriedOutError, match=f"ALTER DATABASE {name} OWNER TO CURRENT_USER;"):
                    adapter.prepare_database()
            else:
                adapter.prepare_database()
                adapter.empty_database()
    finally:
        shared.admin.execute(f"ALTER DATABASE {name} OWNER TO {shared.endpoint.user}; ALTER DATABASE {name} RESET ALL")
        shared.admin.execute("DROP OWNED BY bench_user; DROP ROLE bench_user")


def test_a_queue_in_a_database_of_the_bench_alone_is_installed_and_removed(shared: SharedServer) -> None:
    with open_adapter("primary", shared.endpoint) as adapter:
        adapter.prepare_database()
        with opened_queue("que", {}, shared.endpoint, "install") as queue:
            adapter.install(queue)
        for each in (*EACH, VIEW):
            with pytest.raises(psycopg.Error):
                shared.attack(each)
        assert adapter.empty_database() == []
