"""Who owns the schema of an extension puts a function of his own in its place between the look for it and the call: it is never executed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from stallbench.engines.postgres.driver import connect
from tests.integration.observed import cannot_see, look_at, observer_of, section_of
from tests.security.test_hostile_database import _OWNER, _READER, HostileDatabase, hostile

__all__ = ["hostile"]
pytestmark = pytest.mark.integration

_FAKES = {
    "pg_stat_statements": """CREATE FUNCTION fake.pg_stat_statements(showtext boolean) RETURNS SETOF public.pg_stat_statements
      LANGUAGE plpgsql AS $$ BEGIN RAISE LOG '{mark} %', current_user; RETURN; END $$""",
    "pgstattuple": """CREATE FUNCTION fake.pgstatginindex(regclass) RETURNS TABLE (version int, pending_pages int, pending_tuples bigint)
      LANGUAGE plpgsql AS $$ BEGIN RAISE LOG '{mark} %', current_user; RETURN QUERY SELECT 1, 1000, 1000::bigint; END $$""",
}
_SWAP = "ALTER SCHEMA public RENAME TO other; ALTER SCHEMA fake RENAME TO public; ALTER SCHEMA other RENAME TO fake"
_QUEUE = (
    "CREATE SCHEMA jobs; CREATE TABLE jobs.que_jobs (tags text[]); CREATE INDEX que_jobs_by_tag ON jobs.que_jobs USING gin (tags)"
)
_LOOKS = 30


@contextmanager
def swapped_all_the_time(hostile: HostileDatabase) -> Iterator[None]:
    """Let the owner of the database exchange the extension's schema and one of his own, again and again."""
    has_ended = Event()

    def swap() -> None:
        with connect(hostile.owner, "test") as owner:
            while not has_ended.is_set():
                owner.execute(f"BEGIN; {_SWAP}; COMMIT")

    swapping = Thread(target=swap)
    swapping.start()
    try:
        yield
    finally:
        has_ended.set()
        swapping.join()


@pytest.mark.parametrize("extension", _FAKES)
def test_a_superuser_calls_no_function_that_the_owner_of_the_database_has_renamed_to_that_of_an_extension(
    hostile: HostileDatabase, extension: str
) -> None:
    hostile.admin.execute(f"CREATE EXTENSION {extension}; {_QUEUE}")
    with connect(hostile.owner, "test") as owner:
        owner.execute("CREATE SCHEMA fake;" + _FAKES[extension].format(mark=hostile.mark))
    with swapped_all_the_time(hostile), observer_of(hostile.endpoint, tables=("jobs.que_jobs",)) as observer:
        for _ in range(_LOOKS):
            observer.read(reads_everything=True)
            assert not hostile.was_called(), "the observing superuser has executed the function of the database's owner"


def test_a_superuser_is_told_why_no_statements_are_read_and_reads_them_after_the_remedy(hostile: HostileDatabase) -> None:
    hostile.admin.execute("CREATE EXTENSION pg_stat_statements")
    (unseen,) = [one for one in look_at(hostile.endpoint).not_visible if one.what == "time and buffers of statements"]
    assert unseen.why == (
        f"the extension pg_stat_statements is not used: its schema public belongs to {_OWNER}, who could have {hostile.endpoint.user} execute "
        "another function"
    )
    remedy, _, reader = unseen.remedy.partition(" as a superuser, in database ")
    assert "; or observe as a user with fewer rights" in reader and "GRANT pg_monitor" in reader
    hostile.admin.execute(remedy.encode())
    observation = look_at(hostile.endpoint)
    assert "time and buffers of statements" not in cannot_see(observation)
    assert section_of(observation, "Statements").rows


def test_a_reader_with_pg_monitor_reads_statements_in_the_schema_of_the_owner_of_the_database(hostile: HostileDatabase) -> None:
    hostile.admin.execute("CREATE EXTENSION pg_stat_statements; CREATE EXTENSION pgstattuple")
    hostile.admin.execute(_QUEUE + f"; GRANT USAGE ON SCHEMA jobs TO {_READER}; GRANT SELECT ON jobs.que_jobs TO {_READER}")
    observation = look_at(hostile.reader, tables=("jobs.que_jobs",))
    assert section_of(observation, "Statements").rows
    assert "pg_stat_statements" not in cannot_see(observation)


@pytest.mark.parametrize(
    ("given", "whose"),
    [
        ("ALTER SCHEMA monitoring OWNER TO {attacker}", "its schema monitoring"),
        ("ALTER FUNCTION monitoring.pg_stat_statements(boolean) OWNER TO {attacker}", "its function pg_stat_statements"),
        ("ALTER VIEW monitoring.pg_stat_statements_info OWNER TO {attacker}", "its view pg_stat_statements_info"),
    ],
)
def test_an_extension_of_which_a_stranger_owns_a_part_is_not_used(hostile: HostileDatabase, given: str, whose: str) -> None:
    hostile.admin.execute(
        "CREATE SCHEMA monitoring; GRANT USAGE ON SCHEMA monitoring TO PUBLIC; CREATE EXTENSION pg_stat_statements SCHEMA monitoring"
    )
    hostile.admin.execute(given.format(attacker=hostile.attacker.user))
    try:
        for endpoint in (hostile.endpoint, hostile.reader):
            assert f"{whose} belongs to {hostile.attacker.user}" in cannot_see(look_at(endpoint))
    finally:
        hostile.admin.execute("DROP EXTENSION pg_stat_statements")
