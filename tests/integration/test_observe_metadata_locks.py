"""`stallbench observe` on MariaDB and MySQL while everything waits behind a change of a table, which waits for an idle transaction."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest

from stallbench.engines import EngineName
from stallbench.observe.innodb.metadata_locks import MEANS
from stallbench.observe.observer import Observation
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.observed import cannot_see, section_of
from tests.integration.observed_states import record_state
from tests.integration.test_observe_innodb import connected, execute, look_at
from tests.waiting import wait_for

pytestmark = pytest.mark.integration


_RECORDS = "UPDATE performance_schema.setup_instruments SET enabled = '{}' WHERE name = 'wait/lock/metadata/sql/mdl'"


@pytest.fixture(params=[("mariadb", "NO"), ("mariadb", "YES"), ("mysql", "YES")], ids=str)
def server(empty_on: EmptyOn, request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """A database with a table, on a server that records who holds metadata locks, or does not; MariaDB's default is not."""
    engine, is_recorded = request.param
    endpoint = empty_on(engine)
    execute(endpoint, "CREATE TABLE work (id int PRIMARY KEY)", _RECORDS.format(is_recorded))
    yield endpoint
    execute(endpoint, _RECORDS.format("NO" if engine == "mariadb" else "YES"))


def test_what_waits_for_a_metadata_lock_is_shown_and_who_holds_it_if_that_is_recorded(server: Endpoint) -> None:
    with connected(server) as idle, connected(server) as changing, connected(server) as claiming:
        idle.execute("START TRANSACTION")
        idle.execute("SELECT * FROM work")
        idle.execute(
            "SELECT connection_id(), enabled FROM performance_schema.setup_instruments WHERE name = 'wait/lock/metadata/sql/mdl'"
        )
        ((holder, is_recorded),) = idle.fetchall()
        waiting = [Thread(target=changing.execute, args=("ALTER TABLE work ADD COLUMN n int",))]
        waiting[0].start()
        wait_for(lambda: "ALTER TABLE work" in str(rows_of(look_at(server))), "the change that waits")
        waiting.append(Thread(target=claiming.execute, args=("SELECT id FROM work FOR UPDATE SKIP LOCKED",)))
        waiting[1].start()

        def find() -> Observation | None:
            observation = look_at(server)
            rows = [row for row in rows_of(observation) if "metadata lock" in row[3]]
            return observation if len(rows) == 2 and MEANS in str(observation.findings) else None

        try:
            found = wait_for(find, "two sessions that wait for a metadata lock")
        finally:
            idle.execute("ROLLBACK")
            for one in waiting:
                one.join()
    rows = rows_of(found)
    change, claim = rows[-2:]
    assert (change[3], change[4]) == ("table metadata lock", "ALTER TABLE work ADD COLUMN n int")
    assert (claim[3], claim[4]) == ("table metadata lock", "SELECT id FROM work FOR UPDATE SKIP LOCKED")
    finding = next(one for one in found.findings if one.because == MEANS)
    cancel = f"KILL QUERY {change[0].partition('session ')[2].partition(' ')[0]};"
    if is_recorded == "YES":
        assert [row[0].partition("session")[0] for row in rows] == ["", "└─ ", "   └─ "]
        assert f"Session {holder} " in finding.sentence
        assert "blocks 2 sessions: 1 directly (the ALTER TABLE of session" in finding.sentence
        assert finding.statement == f"KILL {holder};"
        assert [way.statement for way in finding.other_ways] == [cancel]
    else:
        assert "2 sessions wait for a metadata lock" in finding.sentence
        assert finding.statement == cancel
        assert "unless the unknown holder excludes it, too" in finding.caution
        assert f"it is one of these: session {holder} (" in finding.sentence
        assert "the only transaction that began before" in finding.sentence
        assert f"KILL {holder};" not in str(found.findings), "it is likely, and not certain"
        record_state(
            f"{server.engine} records no metadata locks; an ALTER TABLE waits for the only old transaction",
            "that transaction, which is likely, and not certain",
            found,
        )
        assert "the performance schema does not record metadata locks" in cannot_see(found)


def test_behind_lock_tables_a_reader_is_not_taken_for_a_holder(server: Endpoint) -> None:
    with connected(server) as locking, connected(server) as reading, connected(server) as writing:
        locking.execute(
            "SELECT connection_id(), enabled FROM performance_schema.setup_instruments WHERE name = 'wait/lock/metadata/sql/mdl'"
        )
        ((holder, is_recorded),) = locking.fetchall()
        reading.execute("START TRANSACTION")
        reading.execute("SELECT * FROM work")
        locking.execute("LOCK TABLES work READ")
        waiting = Thread(target=writing.execute, args=("INSERT INTO work VALUES (1)",))
        waiting.start()

        def find() -> Observation | None:
            observation = look_at(server)
            return observation if MEANS in str(observation.findings) else None

        try:
            found = wait_for(find, "a writer that waits for a metadata lock")
        finally:
            locking.execute("UNLOCK TABLES")
            waiting.join()
            reading.execute("ROLLBACK")
    statements = [one.statement for one in found.findings if one.because == MEANS]
    if is_recorded == "NO":
        assert statements == [""]
        (sentence,) = [one.sentence for one in found.findings if one.because == MEANS]
        assert "a session that has executed LOCK TABLES" in sentence
        assert "it is one of these" in sentence, "the only old transaction is innocent here"
    elif server.engine == "mariadb":  # shows the lock as SHARED_READ, like that of the reader
        assert f"KILL {holder};" in statements
    else:
        assert statements == [f"KILL {holder};"]


def rows_of(observation: Observation) -> tuple[tuple[str, ...], ...]:
    return section_of(observation, "Blocked sessions").rows


@pytest.mark.parametrize("engine", ["mariadb", "mysql"])
def test_writers_that_wait_for_a_lock_of_the_whole_server_are_found(empty_on: EmptyOn, engine: EngineName) -> None:
    endpoint = empty_on(engine)
    execute(endpoint, "CREATE TABLE work (id int PRIMARY KEY)")
    with connected(endpoint) as backup, connected(endpoint) as writing:
        backup.execute("FLUSH TABLES WITH READ LOCK")
        waiting = Thread(target=writing.execute, args=("INSERT INTO work VALUES (1)",))
        waiting.start()

        def find() -> Observation | None:
            observation = look_at(endpoint)
            found = [one for one in observation.findings if "waits for a lock of the whole server" in one.sentence]
            return observation if found else None

        try:
            observation = wait_for(find, "a finding about the lock")
        finally:
            backup.execute("UNLOCK TABLES")
            waiting.join()
    record_state(
        f"{engine}: a session is idle after FLUSH TABLES WITH READ LOCK, and a worker waits to write",
        "that session holds the lock; UNLOCK TABLES in it, or its end, lets all write",
        observation,
    )
    (finding,) = [one for one in observation.findings if "lock of the whole server" in one.sentence]
    assert "FLUSH TABLES WITH READ LOCK" in finding.sentence
    assert finding.because == "nobody can write before it is released"
    assert finding.statement == ""
