"""MariaDB and MySQL do not say who made a table, or wrote a row: what somebody else lists in `OBJECTS_TABLE` is not dropped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from stallbench.engines import EngineName, driver_of
from stallbench.engines.adapter import OBJECTS_TABLE
from stallbench.errors import NotCarriedOutError
from stallbench.queues.queue_client import opened_queue
from stallbench.records.endpoint import Endpoint
from stallbench.servers.cleanup_journal import CleanupJournal, clean_up
from stallbench.servers.join import open_adapter
from tests.integration.conftest import EmptyOn

pytestmark = [pytest.mark.integration, pytest.mark.parametrize("engine", ["mariadb", "mysql"])]

_LIST = f"CREATE TABLE {OBJECTS_TABLE} (kind varchar(32) NOT NULL, name varchar(2000) NOT NULL"
_ENTRY = "('TABLE', '`orders_of_bob`'"


def execute(endpoint: Endpoint, *statements: str) -> list[tuple[object, ...]]:
    with closing(driver_of(endpoint.engine).connect(endpoint, "test")) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@contextmanager
def mallory(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Yield the address of somebody who may create tables in the database, and write to them, but not drop any."""
    account = f"mallory@'{endpoint.host}'"
    execute(endpoint, "CREATE TABLE orders_of_bob (id int)", f"CREATE USER {account} IDENTIFIED BY 'secret'")
    try:
        execute(endpoint, f"GRANT CREATE, INSERT, SELECT ON {endpoint.database}.* TO {account}")
        attacker = endpoint.model_copy(update={"user": "mallory", "password": type(endpoint.password)("secret")})
        with pytest.raises(driver_of(endpoint.engine).errors, match="denied"):
            execute(attacker, "DROP TABLE orders_of_bob")
        yield attacker
        assert ("orders_of_bob",) in execute(endpoint, "SHOW TABLES")
    finally:
        execute(endpoint, f"DROP USER {account}")


@pytest.mark.parametrize("columns", [(")", ")"), (", proof char(64) NOT NULL)", f", '{'0' * 64}')")])
def test_a_list_that_another_user_made_is_not_believed(empty_on: EmptyOn, engine: EngineName, columns: tuple[str, str]) -> None:
    endpoint = empty_on(engine)
    with mallory(endpoint) as attacker:
        execute(attacker, _LIST + columns[0], f"INSERT INTO {OBJECTS_TABLE} VALUES {_ENTRY}{columns[1]}")
        with (
            open_adapter("primary", endpoint) as adapter,
            pytest.raises(NotCarriedOutError, match="is not empty: it has stallbench_objects"),
        ):
            adapter.prepare_database()


def test_an_entry_that_another_user_adds_to_the_list_of_a_run_is_not_believed(empty_on: EmptyOn, engine: EngineName) -> None:
    endpoint = empty_on(engine)
    with open_adapter("primary", endpoint) as adapter:
        adapter.prepare_database()
        with opened_queue("laravel", {}, endpoint, "install") as queue:
            adapter.install(queue)
        with mallory(endpoint) as attacker:
            ((_, _, proof),) = execute(attacker, f"SELECT * FROM {OBJECTS_TABLE}")
            execute(attacker, f"INSERT INTO {OBJECTS_TABLE} VALUES {_ENTRY}, '{proof}')")
            assert adapter.empty_database() == []
        assert execute(endpoint, "SHOW TABLES") == [("orders_of_bob",)]


def test_the_journal_of_a_killed_run_has_what_proves_its_entries(
    empty_on: EmptyOn, engine: EngineName, tmp_path_factory: pytest.TempPathFactory
) -> None:
    endpoint, scratch = empty_on(engine), tmp_path_factory.mktemp("scratch")
    with open_adapter("primary", endpoint) as adapter:
        adapter.prepare_database()
        CleanupJournal(scratch).record_database("primary", endpoint, adapter.list_key)
        with opened_queue("laravel", {}, endpoint, "install") as queue:
            adapter.install(queue)
    assert clean_up(scratch).sentences == []
    assert execute(endpoint, "SHOW TABLES") == []
