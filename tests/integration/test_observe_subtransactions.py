"""A transaction with more subtransactions than a snapshot lists: `stallbench observe` names it, with the statement that ends the look-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest

from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.engines.postgres.ending import statement_to_terminate
from stallbench.observe.diagnostic import Finding
from stallbench.observe.observer import Observation, Observer
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import MissingComponentError
from stallbench.setup.postgres_packages import list_packaged_majors, require_version
from tests.integration.conftest import Connection, TestDatabase
from tests.integration.observed import observer_of
from tests.integration.observed_states import record_state
from tests.integration.running_cluster import running_cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.integration

OpenConnection = Callable[..., Connection]
IMPORT = """
DO $$ BEGIN
  FOR record IN 1 .. 200 LOOP
    BEGIN INSERT INTO imported VALUES (record); EXCEPTION WHEN unique_violation THEN NULL; END;
  END LOOP;
END $$
"""
"""As after RELEASE SAVEPOINT, nothing is left of a subtransaction but its transaction id."""


@contextmanager
def busy_readers(endpoint: Endpoint) -> Iterator[None]:
    """A table with rows of recent transactions, which a session reads again and again."""
    with connect(endpoint, "application") as application:
        application.execute("CREATE TABLE jobs (n int)")
        for number in range(200):
            application.execute("INSERT INTO jobs VALUES (%s)", (number,))
        ended = Event()

        def read() -> None:
            while not ended.is_set():
                application.execute("SELECT count(*) FROM jobs")

        reader = Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            ended.set()
            reader.join()


def begin_import(importer: Connection) -> None:
    importer.execute("CREATE TABLE imported (n int)")
    importer.execute("BEGIN")
    importer.execute(IMPORT)


def look_until_found(observer: Observer) -> tuple[Observation, Finding]:
    def find() -> tuple[Observation, Finding] | None:
        observation = observer.read(reads_everything=True)
        found = [one for one in observation.findings if one.subject == "subtransactions"]
        return (observation, found[0]) if found else None

    return wait_for(find, "a finding about subtransactions")


def ends(observer: Observer, endpoint: Endpoint, finding: Finding) -> None:
    """Execute the statement of the finding, after which nobody looks up subtransactions."""
    with connect(endpoint, "test") as admin:
        admin.execute(finding.statement.encode())
    wait_for(
        lambda: "subtransactions" not in [one.subject for one in observer.read(reads_everything=True).findings],
        "readers that reading up nothing",
    )


def test_before_version_16_the_transactions_that_may_cause_it_are_named(
    database: TestDatabase, open_connection: OpenConnection
) -> None:
    importer, other = open_connection(database.direct, "import"), open_connection(database.direct, "other")
    if importer.info.server_version >= 160_000:
        pytest.skip("this server counts subtransactions")
    with observer_of(database.direct) as observer:
        begin_import(importer)
        other.execute("BEGIN")
        other.execute("CREATE TABLE another (n int)")
        with busy_readers(database.direct):
            _, finding = look_until_found(observer)
            both = wait_for(
                lambda: one if "one of those" in (one := look_until_found(observer)[1]).sentence else None, "two candidates"
            )
            assert "does not say which transaction that is" in finding.sentence
            assert {both.statement, *(way.statement for way in both.other_ways)} == {
                statement_to_terminate(one.info.backend_pid) for one in (importer, other)
            }
            other.execute("ROLLBACK")
            only = wait_for(
                lambda: one if "the only one" in (one := look_until_found(observer)[1]).sentence else None, "one candidate"
            )
            record_state(
                "an import with 200 savepoints in one transaction, beside readers (PostgreSQL before 16)",
                "the session of the import; end it",
                look_until_found(observer)[0],
            )
            ends(observer, database.direct, only)


def test_before_version_16_open_savepoints_are_seen(database: TestDatabase, open_connection: OpenConnection) -> None:
    importer = open_connection(database.direct, "import")
    if importer.info.server_version >= 160_000:
        pytest.skip("this server counts subtransactions")
    importer.execute("CREATE TABLE imported (n int)")
    importer.execute("BEGIN")
    for number in range(100):
        importer.execute(f"SAVEPOINT s{number}".encode())
        importer.execute("INSERT INTO imported VALUES (1)")
    with observer_of(database.direct) as observer, busy_readers(database.direct):
        _, finding = look_until_found(observer)
        assert f"Session {importer.info.backend_pid} " in finding.sentence
        assert "has 101 subtransactions" in finding.sentence or "has 100 subtransactions" in finding.sentence
        ends(observer, database.direct, finding)


@pytest.mark.parametrize("major", [pytest.param(major, marks=[] if major == 16 else pytest.mark.long) for major in (16, 17, 18)])
def test_from_version_16_the_transaction_is_named(major: int, tmp_path: Path, open_connection: OpenConnection) -> None:
    if major not in list_packaged_majors():
        pytest.skip("there is no package for this machine")
    try:
        require_version(major, packaged=True)
    except MissingComponentError as error:
        pytest.skip(str(error))
    database = Database(version=str(major), packaged=True, settings={"fsync": False})
    with running_cluster(database, tmp_path) as started:
        endpoint = started.cluster.server("primary").direct
        importer, other = open_connection(endpoint, "import"), open_connection(endpoint, "other")
        begin_import(importer)
        other.execute("BEGIN")
        other.execute("CREATE TABLE another (n int)")
        with observer_of(endpoint) as observer, busy_readers(endpoint):
            observation, finding = look_until_found(observer)
            assert f"Session {importer.info.backend_pid} " in finding.sentence
            record_state(
                f"an import with 200 savepoints in one transaction, beside readers (PostgreSQL {major})",
                "the session of the import; end it",
                observation,
            )
            ends(observer, endpoint, finding)
        other.close()
        importer.close()
