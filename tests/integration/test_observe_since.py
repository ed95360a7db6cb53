"""`stallbench observe --since` on real servers: what they still know of a deadlock and of a slow statement when both are over."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stallbench.engines.postgres.driver import connect
from stallbench.observe.address import ObservedServers
from stallbench.observe.innodb.observer import make_innodb_observer_since
from stallbench.observe.observer import Observation, Observer
from stallbench.observe.postgres.observer import make_postgres_observer_since
from stallbench.records.endpoint import PASSWORD_VARIABLE, Endpoint
from tests.integration.conftest import TestDatabase
from tests.integration.observed import cannot_see, finding_about, section_of, text_of
from tests.integration.test_observe_deadlocks import deadlock, deadlock_on_innodb, innodb
from tests.integration.test_observe_history import OBSERVE
from tests.integration.test_observe_json import OpenConnection
from tests.waiting import wait_for

pytestmark = pytest.mark.integration
__all__ = ["innodb"]


@contextmanager
def observer_since(endpoint: Endpoint, since: datetime, log: Path | None = None) -> Iterator[Observer]:
    observer = make_postgres_observer_since(ObservedServers(primary=endpoint, replicas={}), since, log)
    try:
        yield observer
    finally:
        observer.close()


def test_what_postgres_counted_and_logged_of_a_time_that_is_over(
    database: TestDatabase, open_connection: OpenConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stallbench.observe.postgres.since.longest_executions._LONG_MS", 50.0)
    since = datetime.now(UTC) - timedelta(seconds=1)
    log = database.cluster.server("primary").log
    with connect(database.direct, "fixture") as admin:
        admin.execute("CREATE EXTENSION pg_stat_statements; SELECT pg_stat_reset()")
        admin.execute("CREATE TABLE jobs (id int PRIMARY KEY, attempts int)")
        admin.execute("INSERT INTO jobs VALUES (1, 0), (2, 0)")
        for duration in (0.1, *[0.0] * 30):
            admin.execute("SELECT pg_sleep(%s), 'a secret value'", (duration,))
    sessions = [open_connection(database.direct, f"worker-{number}") for number in (1, 2)]
    deadlock(sessions, psycopg.errors.DeadlockDetected)
    for session in sessions:
        session.close()  # a session reports what it counted at its end at the latest
    with observer_since(database.direct, since, log) as observer:

        def find() -> Observation | None:
            observation = observer.read(reads_everything=True)
            return observation if any(one.about == "deadlocks" for one in observation.findings) else None

        observation = wait_for(find, "the deadlock among the counters")
    assert finding_about(observation, "1 deadlock in database").severity.name == "WARNING"
    assert "a deadlock | " in text_of(section_of(observation, "What the server's log has"))
    slow = text_of(section_of(observation, "Statements that once took long"))
    assert "pg_sleep" in slow
    assert "a secret value" not in slow
    assert "jobs | " in text_of(section_of(observation, "Tables, those"))
    assert "ALTER SYSTEM SET log_min_duration_statement = '1s';" in cannot_see(observation)
    assert "--record history" in cannot_see(observation)
    with observer_since(database.direct, datetime.now(UTC) + timedelta(hours=1), log) as observer:
        later = observer.read(reads_everything=True)
    assert not [one for one in later.findings if one.about == "deadlocks"], "when it was is not known"
    assert "has none of the messages" in text_of(section_of(later, "What the server's log has"))


def test_without_rights_and_log_the_command_says_what_it_cannot_know(database: TestDatabase) -> None:
    with connect(database.direct, "fixture") as admin:
        admin.execute("DROP ROLE IF EXISTS only_reads; CREATE ROLE only_reads LOGIN PASSWORD 'only_reads'")
    endpoint = database.direct.model_copy(update={"user": "only_reads"})
    address = f"postgresql://only_reads@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    command = [*OBSERVE, "--dsn", address, "--since", "10m ago"]
    environment = {**os.environ, PASSWORD_VARIABLE: "only_reads"}
    try:
        ended = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, env=environment)
        refused = subprocess.run([*command, "--once"], capture_output=True, text=True, check=False, env=environment)
    finally:
        with connect(database.direct, "fixture") as admin:
            admin.execute("DROP ROLE only_reads")
    document: dict[str, Any] = json.loads(ended.stdout)
    assert {"resets", "database_counters", "server_log", "logged_settings"} <= {one["subject"] for one in document["figures"]}
    lacking = {one["remedy"]: one["is_of_next_time"] for one in document["cannot_see"]}
    assert {is_of_next_time for remedy, is_of_next_time in lacking.items() if remedy.startswith("GRANT pg_monitor")} == {False}
    assert lacking["stallbench observe --dsn ADDRESS --record history"] is True
    assert refused.returncode == 2
    assert "--since cannot be combined with --once" in refused.stderr


def test_what_innodb_counted_and_listed_of_a_time_that_is_over(innodb: Endpoint) -> None:
    since = datetime.now(UTC) - timedelta(seconds=5)
    deadlock_on_innodb(innodb)
    observer = make_innodb_observer_since(ObservedServers(primary=innodb, replicas={}), since)
    try:
        observation = observer.read(reads_everything=True)
    finally:
        observer.close()
    listed = section_of(observation, "The latest deadlock")
    assert ["rolled back" in row for row in listed.rows].count(True) == 1
    assert "of the server's clock" in text_of(listed)
    assert "waits for a row's lock | " in text_of(section_of(observation, "Counters of the server"))
    assert section_of(observation, "Statements that once took long")
    assert "SET GLOBAL innodb_print_all_deadlocks = ON;" in cannot_see(observation)
    assert "--record history" in cannot_see(observation)
