"""`stallbench observe` on MariaDB and MySQL: read views, locks, digests, queues, and a user with few rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pymysql
import pytest
from pydantic import SecretStr

from stallbench.discovery import LIBRARY_PREFIX
from stallbench.engines import driver_of
from stallbench.engines.database import Database
from stallbench.libraries import find_library
from stallbench.libraries.installation import is_installed
from stallbench.observe.innodb.session import InnoDBSession
from stallbench.observe.observer import Observation
from stallbench.queues import find_queue
from stallbench.records.endpoint import Endpoint
from tests.integration.conftest import EmptyOn
from tests.integration.engines import FAST
from tests.integration.observed import cannot_see, finding_about, innodb_observer_of, section_of, text_of
from tests.integration.running_cluster import running_cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

LARAVEL = """
CREATE TABLE jobs (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, queue varchar(255), payload longtext, attempts tinyint unsigned,
  reserved_at int unsigned NULL, available_at int unsigned, created_at int unsigned, KEY jobs_queue_index (queue))
"""


@pytest.fixture(params=["mariadb", "mysql"])
def server(empty_on: EmptyOn, request: pytest.FixtureRequest) -> Endpoint:
    """A database with Laravel's table: two jobs are ready, one was reserved two minutes ago."""
    endpoint = empty_on(request.param)
    execute(
        endpoint,
        LARAVEL,
        "INSERT INTO jobs (queue, available_at) VALUES ('default', unix_timestamp() - 20), ('default', unix_timestamp() - 10)",
        "INSERT INTO jobs (queue, available_at, reserved_at) VALUES ('default', 0, unix_timestamp() - 120)",
    )
    return endpoint


def execute(endpoint: Endpoint, *statements: str) -> None:
    with connected(endpoint) as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def connected(endpoint: Endpoint) -> Iterator[Any]:
    with closing(driver_of("mariadb").connect(endpoint, "test")) as connection, connection.cursor() as cursor:
        yield cursor


def look_at(endpoint: Endpoint) -> Observation:
    with innodb_observer_of(endpoint) as observer:
        observation = observer.read()
        assert not observation.gone
        return observation


def test_an_old_read_view_is_shown_with_the_statement_that_ends_it(server: Endpoint) -> None:
    with connected(server) as reader:
        reader.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        reader.execute("SELECT count(*) FROM jobs")
        reader.execute("SELECT connection_id()")
        ((thread,),) = reader.fetchall()
        execute(server, "UPDATE jobs SET attempts = 1")

        def find() -> tuple[str, ...] | None:
            rows = section_of(look_at(server), "Who holds purge back").rows
            return next((row for row in rows if row[0].startswith(f"session {thread} ") and row[3] != "no read view"), None)

        row = wait_for(find, "the read view")
        assert row[4:] == ("idle in transaction", f"KILL {thread};")
        execute(server, row[5])
        wait_for(lambda: find() is None, "a horizon that is free")
        with pytest.raises(pymysql.Error):
            reader.execute("SELECT 1")


def test_the_history_list_grows_behind_a_read_view(server: Endpoint) -> None:
    updates = ["UPDATE jobs SET available_at = available_at + 1 WHERE id = 1"] * 300
    with connected(server) as reader:
        reader.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        reader.execute("SELECT count(*) FROM jobs")
        execute(server, *updates)
        wait_for(lambda: history_list_length(server) >= len(updates), "a history list that contains the updates")
        reader.execute("COMMIT")

    def is_purged() -> bool:
        execute(server, updates[0])  # MySQL's purge sleeps until a further transaction if the list is short
        return history_list_length(server) < len(updates)

    wait_for(is_purged, "a history list that is purged")


def history_list_length(server: Endpoint) -> int:
    found = re.search(r"History list: ([\d,]+) transactions", text_of(section_of(look_at(server), "Who holds purge back")))
    assert found
    return int(found[1].replace(",", ""))


def test_a_blocked_session_is_named_with_its_blocker(server: Endpoint) -> None:
    with connected(server) as blocker, connected(server) as blocked:
        blocker.execute("START TRANSACTION")
        blocker.execute("UPDATE jobs SET attempts = 1 WHERE id = 1")
        blocker.execute("SELECT connection_id()")
        ((thread,),) = blocker.fetchall()
        waiting = Thread(target=blocked.execute, args=("UPDATE jobs SET attempts = 2 WHERE id = 1",))
        waiting.start()
        try:
            found = wait_for(
                lambda: one if "blocks 1 session" in str((one := look_at(server)).findings) else None,
                "the blocked session",
            )
        finally:
            blocker.execute("ROLLBACK")
            waiting.join()
        finding = finding_about(found, "blocks 1 session")
        assert finding.sentence.startswith(f"Session {thread} (user ")
        assert finding.statement == f"KILL {thread};"
        assert "on" in text_of(section_of(found, "Blocked sessions"))


def test_jobs_are_counted_and_the_overdue_ones_named(server: Endpoint) -> None:
    observation = look_at(server)
    row = section_of(observation, "Queues").rows[0]
    assert (row[0].partition(" (")[0], row[1], row[4], row[6]) == ("Laravel's database queue", "2", "1", "1")
    assert row[3] in {"20 s", "21 s", "22 s", "23 s", "24 s", "25 s"}
    assert (
        "1 of 1 running jobs have been running for longer than 90 s" in finding_about(observation, "have been running").sentence
    )


def test_tables_that_the_user_names_are_counted_one_by_one_and_in_their_own_database(server: Endpoint) -> None:
    other = f"{server.database}.other"
    execute(
        server,
        f"CREATE DATABASE `{other}`",
        f"CREATE TABLE `{other}`.jobs SELECT 1 AS n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5",
        "CREATE TABLE own_jobs SELECT 1 AS n",
    )
    try:
        with innodb_observer_of(server, ("jobs", f"{server.database}.jobs", "own_jobs", f"`{other}`.jobs")) as observer:
            observer.read()
            execute(server, "INSERT INTO own_jobs VALUES (2)")
            rows = section_of(observer.read(reads_everything=True), "Queues").rows
    finally:
        execute(server, f"DROP DATABASE `{other}`")
    assert [(row[0], row[1]) for row in rows] == [
        (f"Laravel's database queue (`{server.database}`.`jobs`)", "2"),
        (f"unknown queue (`{server.database}`.`own_jobs`)", "2"),
        (f"unknown queue (`{other}`.`jobs`)", "5"),
    ]
    changes = [row[2] for row in rows]
    assert (changes[0], changes[2]) == ("+0.0/s", "+0.0/s"), "no change is that of another table"
    assert changes[1].startswith("+")
    assert changes[1] != "+0.0/s"


@pytest.mark.parametrize("name", ["no_such_table", "no_such_database.jobs", "a;b", "jobs`", "a.b.c", ""])
def test_a_table_that_cannot_be_found_is_no_other_table(server: Endpoint, name: str) -> None:
    with innodb_observer_of(server, (name,)) as observer:
        observation = observer.read()
    assert f"table {name}: this user sees no such table give it as TABLE, or DATABASE.TABLE" in cannot_see(observation)
    assert not section_of(observation, "Queues").rows


@pytest.mark.parametrize("name", ["laravel", "delayed_job"])
def test_a_library_s_own_tables_are_recognised_and_counted(empty_on: EmptyOn, name: str) -> None:
    library = find_library(name)
    if not is_installed(library):
        pytest.skip(f"{library.title} is not installed: stallbench libraries setup {name}")
    endpoint = empty_on("mariadb")
    queue_type = find_queue(LIBRARY_PREFIX + name)
    with closing(driver_of("mariadb").connect(endpoint, "fixture")) as connection:
        queue = queue_type(connection, queue_type.options_type())
        queue.introduce(endpoint, "fixture")
        queue.install()
    (row,) = section_of(look_at(endpoint), "Queues").rows
    assert row[1] == "0"
    assert row[4] == "0"


def test_the_times_of_the_claim_statement_are_those_since_the_last_look(server: Endpoint) -> None:
    with innodb_observer_of(server) as observer:
        observer.read()
        claim = "SELECT * FROM jobs WHERE queue = 'default' AND reserved_at <= 1 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
        execute(server, claim, claim, claim)
        observation = observer.read(reads_everything=True)
    rows = section_of(observation, "Statements").rows
    assert any(row[0].startswith("claim: ") and row[2].endswith("ms") for row in rows)


def test_the_observation_s_own_queries_are_not_listed_among_the_statements(server: Endpoint) -> None:
    look_at(server)  # an earlier observation, whose queries are counted, too
    with innodb_observer_of(server) as observer:
        for _ in range(3):
            section = section_of(observer.read(reads_everything=True), "Statements")
        text = text_of(section)
        own = [
            row
            for row in section.rows
            if re.search("innodb_metrics|digest|trx_mysql_thread_id|reserved_at", row[0], re.IGNORECASE)
        ]
    assert not own
    assert re.search(r"The queries of this observation took [\d.,]+ ms of that time", text)


def test_a_user_with_few_rights_learns_what_is_hidden_and_how_to_see_it(server: Endpoint) -> None:
    execute(
        server,
        "CREATE USER few@'127.0.0.1' IDENTIFIED BY 'secret'",
        f"GRANT SELECT ON {server.database}.* TO few@'127.0.0.1'",
    )
    try:
        observation = look_at(server.model_copy(update={"user": "few", "password": SecretStr("secret")}))
    finally:
        execute(server, "DROP USER few@'127.0.0.1'")
    hidden = cannot_see(observation)
    assert "few@127.0.0.1 has no PROCESS privilege" in hidden
    assert "GRANT PROCESS, REPLICATION CLIENT ON *.* TO 'few'@'127.0.0.1';" in hidden
    assert section_of(observation, "Queues").rows[0][1] == "2"


def test_an_unknown_version_is_read_as_far_as_it_goes(server: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "stallbench.observe.innodb.rights.KNOWN_VERSIONS", {"MariaDB": ((10, 0), (10, 1)), "MySQL": ((5, 6), (5, 7))}
    )
    observation = look_at(server)
    assert re.search(
        r"what is different in (MariaDB|MySQL) \d+\.\d+: this version of stallbench knows (10\.0|5\.6) to",
        cannot_see(observation),
    )
    assert section_of(observation, "Queues").rows


def test_an_unused_server_has_nothing_that_cannot_be_seen(server: Endpoint) -> None:
    assert cannot_see(look_at(server)) == ""


def test_its_session_cannot_write(server: Endpoint) -> None:
    session = InnoDBSession(server)
    with pytest.raises(pymysql.Error, match="READ ONLY"):
        session.fetch("DELETE FROM jobs")
    session.close()


def test_a_server_that_goes_away_is_reported_and_found_again(server: Endpoint) -> None:
    with innodb_observer_of(server) as observer:
        assert not observer.read().gone
        session = observer.sessions["primary"]
        assert isinstance(session, InnoDBSession)
        ((thread,),) = session.fetch("SELECT connection_id()")
        execute(server, f"KILL {thread}")
        assert observer.read(reads_everything=True).gone
        assert not observer.read(reads_everything=True).gone


def test_a_replica_shows_its_delay_and_why_it_does_not_follow(tmp_path: Path) -> None:
    with running_cluster(Database(engine="mariadb", replicas=1, settings=dict(FAST["mariadb"])), tmp_path) as started:
        endpoint = started.cluster.server("replica-1").direct
        with innodb_observer_of(endpoint) as observer:

            def read() -> Observation:
                return observer.read(reads_everything=True)

            followed = wait_for(
                lambda: one if not (one := read()).findings and "receiving Yes" in replication_of(one) else None,
                "a replica that follows",
            )
            assert ", read-only, " in followed.title
            assert "This replica: receiving Yes, applying Yes, behind by 0.0 s." in replication_of(followed)
            # What was written on the replica itself collides with what comes from the primary.
            primary = started.cluster.server("primary").direct
            execute(primary, "CREATE TABLE numbers (n int PRIMARY KEY)")
            wait_for(lambda: table_exists(endpoint, "numbers"), "the table on the replica")
            execute(endpoint, "SET SESSION sql_log_bin = 0", "INSERT INTO numbers VALUES (1)")
            execute(primary, "INSERT INTO numbers VALUES (1)")
            stopped = wait_for(lambda: one if "applying No" in replication_of(one := read()) else None, "the end of replication")
    finding = finding_about(stopped, "This replica: receiving Yes, applying No, behind by ?.")
    assert "Duplicate entry '1'" in finding.sentence


def replication_of(observation: Observation) -> str:
    return text_of(section_of(observation, "Replication"))


def table_exists(endpoint: Endpoint, name: str) -> bool:
    with connected(endpoint) as cursor:
        return bool(cursor.execute("SHOW TABLES LIKE %s", (name,)))
