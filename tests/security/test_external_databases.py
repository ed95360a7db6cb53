"""A user's database keeps what the bench did not create, also if that appeared there during the run."""

from __future__ import annotations

import pytest

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines import EngineName
from stallbench.engines.adapter import OBJECTS_TABLE
from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.libraries import find_libraries
from stallbench.queues import find_queue, find_queues
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.servers.join import open_adapter
from stallbench.visible_text import is_visible
from tests.integration.conftest import EmptyOn, TestDatabase

TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1"
ALL_IN_POSTGRES = (
    "CREATE TABLE it (n int)",
    "CREATE TABLE it (n int) PARTITION BY RANGE (n)",
    "CREATE VIEW it AS SELECT 1 AS n",
    "CREATE MATERIALIZED VIEW it AS SELECT 1 AS n",
    "CREATE SEQUENCE it",
    "CREATE FUNCTION it() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE PROCEDURE it() LANGUAGE sql AS 'SELECT 1'",
    "CREATE AGGREGATE it (int) (SFUNC = int4pl, STYPE = int)",
    "CREATE TYPE it AS ENUM ('a')",
    "CREATE TYPE it AS (n int)",
    "CREATE TYPE it AS RANGE (SUBTYPE = int)",
    "CREATE DOMAIN it AS int",
    "CREATE SCHEMA it",
    "CREATE PUBLICATION it FOR ALL TABLES",
    "CREATE SUBSCRIPTION it CONNECTION '' PUBLICATION it WITH (connect = false)",
    "CREATE EXTENSION hstore",
    "CREATE FOREIGN DATA WRAPPER it",
    "SELECT lo_create(0)",
    "CREATE OPERATOR ### (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl)",
    'CREATE COLLATION it FROM "C"',
    "CREATE TEXT SEARCH DICTIONARY it (TEMPLATE = simple)",
)
REMOVED = {
    "CREATE SUBSCRIPTION it CONNECTION '' PUBLICATION it WITH (connect = false)": "ALTER SUBSCRIPTION it DISABLE; "
    "ALTER SUBSCRIPTION it SET (slot_name = NONE)"
}
_ENDED_FIRST = ("EVENT TRIGGER", "FOREIGN TABLE", "SERVER")
FOREIGN_TABLE = "CREATE FOREIGN DATA WRAPPER wrapper; CREATE SERVER server FOREIGN DATA WRAPPER wrapper; CREATE FOREIGN TABLE it (n int) SERVER server"
EVENT_TRIGGER = (
    "CREATE FUNCTION it() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$; "
    "CREATE EVENT TRIGGER it ON sql_drop EXECUTE FUNCTION it()"
)


@pytest.mark.parametrize("statement", [*ALL_IN_POSTGRES, FOREIGN_TABLE, EVENT_TRIGGER])
def test_whatever_a_user_created_makes_a_database_not_empty(database: TestDatabase, statement: str) -> None:
    with connect(database.direct, "owner") as owner, open_adapter("primary", database.direct) as adapter:
        assert adapter.find_objects() == set()
        owner.execute(statement)
        with pytest.raises(NotCarriedOutError, match="is not empty: it has "):
            adapter.prepare_database()
        found = adapter.find_objects()
        assert found
        if statement in REMOVED:
            for prepared in REMOVED[statement].split("; "):
                owner.execute(prepared)
        for each in sorted(
            found, key=lambda one: _ENDED_FIRST.index(one.kind) if one.kind in _ENDED_FIRST else len(_ENDED_FIRST)
        ):
            owner.execute(each.removal)  # the statement that the bench tells its user is a valid one
        assert adapter.find_objects() == set()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE it (n int)",
        "CREATE VIEW it AS SELECT 1 AS n",
        "CREATE SEQUENCE it",
        "CREATE FUNCTION it() RETURNS int RETURN 1",
        "CREATE PROCEDURE it() SELECT 1",
        "CREATE EVENT it ON SCHEDULE EVERY 1 DAY DO SELECT 1",
    ],
)
def test_whatever_a_user_created_makes_a_database_of_mariadb_not_empty(empty_on: EmptyOn, statement: str) -> None:
    endpoint = empty_on("mariadb")
    with open_adapter("primary", endpoint) as adapter:
        adapter.execute(statement)
        with pytest.raises(NotCarriedOutError, match="is not empty: it has "):
            adapter.prepare_database()


def test_pg_stat_statements_may_be_in_an_empty_database(database: TestDatabase) -> None:
    with connect(database.direct, "owner") as owner, open_adapter("primary", database.direct) as adapter:
        owner.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        adapter.prepare_database()
        assert adapter.empty_database() == []


def test_a_user_without_special_rights_can_see_whether_a_database_is_empty(database: TestDatabase) -> None:
    with open_adapter("primary", database.direct) as adapter:
        adapter.execute("SET ROLE pg_monitor")
        assert adapter.find_objects() == set()


def queues_on(engine: str) -> list[str]:
    return sorted(
        kind
        for kind, queue in find_queues().items()
        if engine in queue.engines and queue.second_engine is None and queue.worker_command() is None
    )


def install_and_be_disturbed(kind: str, endpoint: Endpoint) -> tuple[list[str], list[str]]:
    """Install a queue while another session creates a table, and empty the database; returns what stays of the bench and of others."""
    with open_adapter("primary", endpoint) as adapter:
        adapter.prepare_database()
        with opened_queue(kind, {}, endpoint, "install") as queue:
            install = queue.install

            def disturbed() -> None:
                install()
                with open_adapter("primary", endpoint) as stranger:
                    stranger.execute(f"CREATE TABLE {stranger.name_object('TABLE', 'customer_data').name} AS SELECT 1 AS one")

            queue.install = disturbed  # type: ignore[method-assign]
            adapter.install(queue)
        return adapter.empty_database(), adapter.describe_others()


@pytest.mark.parametrize("kind", queues_on("postgres"))
def test_what_a_queue_created_is_removed_and_what_another_session_created_meanwhile_is_not(
    database: TestDatabase, kind: str
) -> None:
    remaining, (other,) = install_and_be_disturbed(kind, database.direct)
    assert remaining == []
    assert other.startswith(
        f"table public.customer_data is in database {database.direct.database} on primary, and was not there before"
    )
    assert other.endswith("remove it by DROP TABLE public.customer_data")
    with connect(database.direct, "owner") as owner:
        assert owner.execute(TABLES).fetchall() == [("customer_data",)]
        assert owner.execute("SELECT one FROM customer_data").fetchall() == [(1,)]


@pytest.mark.parametrize("kind", queues_on("mariadb"))
def test_on_mariadb_the_tables_that_a_queue_declares_are_removed(empty_on: EmptyOn, kind: str) -> None:
    remaining, (other,) = install_and_be_disturbed(kind, empty_on("mariadb"))
    assert remaining == []
    assert other.startswith("table `customer_data` is in database ")


def test_a_view_and_a_foreign_key_of_another_on_mariadb_keep_the_tables_that_they_need(empty_on: EmptyOn) -> None:
    endpoint = empty_on("mariadb")
    with open_adapter("primary", endpoint) as adapter:
        adapter.prepare_database()
        with opened_queue("laravel", {}, endpoint, "install") as queue:
            adapter.install(queue)
        for statement in (
            "CREATE VIEW report AS SELECT count(*) AS jobs FROM jobs",
            "CREATE TABLE audit (id bigint unsigned NOT NULL, FOREIGN KEY (id) REFERENCES jobs (id))",
        ):
            adapter.execute(statement)
        (left,) = adapter.empty_database()
        assert left.startswith(
            f"table `jobs` is still in database {endpoint.database} on primary: view `{endpoint.database}`.`report` reads it"
        )
        adapter.execute("DROP VIEW report")
        (left,) = adapter.empty_database()
        assert "a foreign key constraint fails" in left or "referenced by a foreign key" in left
        adapter.execute("DROP TABLE audit")
        assert adapter.empty_database() == []
        assert adapter.find_objects() == set()


def test_a_list_that_another_user_wrote_is_not_believed(database: TestDatabase) -> None:
    """Whoever may create tables in the schema could otherwise have the bench drop those of others."""
    with connect(database.direct, "owner") as owner:
        owner.execute("CREATE TABLE customer_data AS SELECT 1 AS one")
        role = f"other_{database.direct.database}"
        owner.execute(f"CREATE ROLE {role}")
        try:
            owner.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
            owner.execute(f"SET ROLE {role}")
            owner.execute(
                f"CREATE TABLE public.{OBJECTS_TABLE} AS SELECT 'TABLE'::text AS kind, 'public.customer_data'::text AS name"
            )
            owner.execute("RESET ROLE")
            with (
                open_adapter("primary", database.direct) as adapter,
                pytest.raises(NotCarriedOutError, match="is not the bench's list of what it created"),
            ):
                adapter.prepare_database()
            assert owner.execute("SELECT one FROM customer_data").fetchall() == [(1,)]
        finally:
            owner.execute(f"DROP OWNED BY {role}")
            owner.execute(f"DROP ROLE {role}")


def test_an_installation_that_cannot_be_one_transaction_is_recorded_by_the_tables_that_are_declared(
    database: TestDatabase,
) -> None:
    endpoint = database.direct
    with open_adapter("primary", endpoint) as adapter:
        adapter.prepare_database()
        with opened_queue("que", {}, endpoint, "install") as queue:
            install = queue.install

            def concurrently() -> None:
                install()
                queue.connection.execute("CREATE INDEX CONCURRENTLY ON que_jobs (priority)")

            queue.install = concurrently  # type: ignore[method-assign]
            adapter.install(queue)
        assert adapter.empty_database() == []
        assert adapter.find_objects() == set()


@pytest.mark.libraries
@pytest.mark.parametrize("engine", ["postgres", "mariadb"])
@pytest.mark.parametrize("name", find_libraries())
def test_what_a_library_created_is_removed_and_nothing_else(name: str, engine: EngineName, empty_on: EmptyOn) -> None:
    """Its own process creates it, of which the bench knows what the definition says."""
    kind = f"{LIBRARY_PREFIX}{name}"
    queue = find_queue(kind)
    if engine not in queue.engines:
        pytest.skip(f"{name} does not run on {engine}")
    queue.require_programs(print)
    remaining, (other,) = install_and_be_disturbed(kind, empty_on(engine))
    assert remaining == []
    assert "customer_data" in other


HIDDEN = "jobs\x1b[2J\u202e"


def test_a_name_that_hides_something_is_shown_and_its_statement_names_it(database: TestDatabase) -> None:
    with connect(database.direct, "owner") as owner, open_adapter("primary", database.direct) as adapter:
        owner.execute(f'CREATE TABLE "{HIDDEN}" (n int)')
        (other,) = adapter.describe_others()
        with pytest.raises(NotCarriedOutError) as refused:
            adapter.prepare_database()
        for sentence in (other, str(refused.value)):
            assert is_visible(sentence)
            assert r'table public.U&"jobs\001b[2J\202e"' in sentence
        owner.execute(other.rpartition("remove it by ")[2])
        assert adapter.find_objects() == set()


def test_a_name_on_mariadb_that_hides_something_is_shown_and_is_said_not_to_be_copied(empty_on: EmptyOn) -> None:
    with open_adapter("primary", empty_on("mariadb")) as adapter:
        adapter.prepare_database()
        hidden = adapter.name_object("TABLE", HIDDEN)
        adapter.execute(f"CREATE TABLE {hidden.name} (n int)")
        adapter.execute(f"CREATE VIEW `view{HIDDEN}` AS SELECT n FROM {hidden.name}")
        adapter.record([hidden])
        others = adapter.describe_others()
        (left,) = adapter.empty_database()
        for sentence in (*others, left):
            assert is_visible(sentence)
            assert r"`jobs\x1b[2J\u202e`" in sentence or r"`viewjobs\x1b[2J\u202e`" in sentence
            assert "(not to be copied: a name in it has hidden characters" in sentence
        adapter.execute(f"DROP VIEW `view{HIDDEN}`")
        assert adapter.empty_database() == []
