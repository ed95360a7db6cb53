"""`stallbench observe` on MariaDB and MySQL reads no view, which would execute functions with the rights of its definer."""

from __future__ import annotations

from contextlib import closing

import pytest

from stallbench.engines import Engine, driver_of
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.observed import cannot_see, innodb_observer_of, section_of, text_of

pytestmark = pytest.mark.integration

_TABLE = "CREATE TABLE elsewhere (id bigint PRIMARY KEY, queue varchar(9), payload text, attempts int, reserved_at int, available_at int, created_at int)"
_FUNCTION = (
    "CREATE FUNCTION attack() RETURNS int NOT DETERMINISTIC READS SQL DATA BEGIN DO get_lock('attacked', 0); RETURN 1; END"
)
_VIEW = "CREATE SQL SECURITY DEFINER VIEW jobs AS SELECT id, queue, payload, attempts, reserved_at, available_at, created_at FROM elsewhere WHERE attack()"


def execute(endpoint: Endpoint, *statements: str) -> list[tuple[object, ...]]:
    with closing(driver_of(endpoint.engine).connect(endpoint, "test")) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
@pytest.mark.parametrize("tables", [(), ("jobs",)])
def test_a_view_is_no_queue(empty_on: EmptyOn, engine: Engine, tables: tuple[str, ...]) -> None:
    endpoint = empty_on(engine)
    execute(endpoint, _TABLE, "INSERT INTO elsewhere (id, available_at) VALUES (1, 0)", _FUNCTION, _VIEW)
    with innodb_observer_of(endpoint, tables) as observer:
        unseen = cannot_see(observer.look(reads_everything=True))
        assert execute(endpoint, "SELECT is_used_lock('attacked')") == [(None,)], (
            "a lock that the function takes stays until its session ends"
        )
    assert "table" in unseen


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_a_view_in_the_place_of_a_table_is_not_read(empty_on: EmptyOn, engine: Engine) -> None:
    endpoint = empty_on(engine)
    execute(endpoint, _TABLE.replace("elsewhere", "jobs"), "INSERT INTO jobs (id, available_at) VALUES (1, 0)", _FUNCTION)
    with innodb_observer_of(endpoint) as observer:
        assert "no table but a view" not in cannot_see(observer.look(reads_everything=True))
        execute(endpoint, "RENAME TABLE jobs TO elsewhere", _VIEW)
        assert "no table but a view" in cannot_see(observer.look(reads_everything=True))
        assert execute(endpoint, "SELECT is_used_lock('attacked')") == [(None,)]


@pytest.mark.parametrize("engine", ["ARCHIVE", "CSV", "MRG_MyISAM"])
def test_a_table_of_a_storage_engine_without_handler_hides_no_other_queue(empty_on: EmptyOn, engine: str) -> None:
    endpoint = empty_on("mariadb")
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in (("queue", "varchar(9)"), ("payload", "text")))
    columns += "".join(f", {name} int NOT NULL" for name in ("id", "attempts", "reserved_at", "available_at", "created_at"))
    try:
        execute(endpoint, f"CREATE TABLE jobs ({columns}) ENGINE={engine}")
    except driver_of("mariadb").errors as error:
        pytest.skip(f"the server has no such engine: {error}")
    execute(endpoint, "CREATE TABLE mine (n int)", "INSERT INTO mine VALUES (1)")
    with innodb_observer_of(endpoint, ("jobs", "mine")) as observer:
        observation = observer.look(reads_everything=True)
    assert ".`mine`) | 1 |" in text_of(section_of(observation, "Queues"))
    assert "storage engine without HANDLER" in cannot_see(observation)
