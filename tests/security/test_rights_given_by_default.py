"""Default privileges give a stranger rights on the tables of a run: she could have the bench execute her trigger, and drop what she adds to its list."""

from __future__ import annotations

import psycopg
import pytest

from stallbench.engines.adapter import OBJECTS_TABLE
from stallbench.engines.postgres.driver import connect
from stallbench.errors import NotCarriedOutError
from stallbench.queues.queue_client import opened_queue
from stallbench.servers.join import open_adapter
from tests.security.test_other_users_of_a_database import ATTACKER, SharedServer, shared

__all__ = ["shared"]
pytestmark = pytest.mark.integration

_ENTRY = f"INSERT INTO public.{OBJECTS_TABLE} VALUES ('TABLE', 'public.customer_data')"
_TRIGGER = """
CREATE FUNCTION pg_temp.attack() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE LOG '{mark} %', current_user; RETURN NEW; END $$;
CREATE TRIGGER zz BEFORE INSERT OR UPDATE ON public.que_jobs FOR EACH ROW EXECUTE FUNCTION pg_temp.attack()
"""


def give_by_default(shared: SharedServer, *grants: str) -> None:
    """Let the bench's user give rights on what it will create."""
    for grant in grants:
        shared.admin.execute(f"ALTER DEFAULT PRIVILEGES {grant}".encode())


@pytest.mark.parametrize(
    ("grant", "remedy"),
    [
        ("GRANT ALL ON TABLES TO {attacker}", "ALTER DEFAULT PRIVILEGES FOR ROLE {user} REVOKE ALL ON TABLES FROM {attacker}"),
        (
            "IN SCHEMA public GRANT ALL ON TABLES TO anon",
            "ALTER DEFAULT PRIVILEGES FOR ROLE {user} IN SCHEMA public REVOKE ALL ON TABLES FROM anon",
        ),
        ("GRANT INSERT ON TABLES TO PUBLIC", "ALTER DEFAULT PRIVILEGES FOR ROLE {user} REVOKE ALL ON TABLES FROM PUBLIC"),
        (
            "GRANT USAGE ON SEQUENCES TO {attacker}",
            "ALTER DEFAULT PRIVILEGES FOR ROLE {user} REVOKE ALL ON SEQUENCES FROM {attacker}",
        ),
        (
            "GRANT CREATE ON SCHEMAS TO {attacker}",
            "ALTER DEFAULT PRIVILEGES FOR ROLE {user} REVOKE ALL ON SCHEMAS FROM {attacker}",
        ),
    ],
)
def test_a_run_is_refused_if_a_stranger_gets_rights_on_what_it_creates_until_the_statement_of_the_message(
    shared: SharedServer, grant: str, remedy: str
) -> None:
    shared.admin.execute(f"CREATE ROLE anon; GRANT anon TO {ATTACKER}")
    names = {"attacker": ATTACKER, "user": shared.endpoint.user}
    try:
        give_by_default(shared, grant.format(**names))
        with open_adapter("primary", shared.endpoint) as adapter:
            with pytest.raises(NotCarriedOutError) as refused:
                adapter.prepare_database()
            assert f"{ATTACKER} would get " in str(refused.value)
            statement = remedy.format(**names)
            assert f"{statement};" in str(refused.value)
            shared.admin.execute(statement.encode())
            adapter.prepare_database()
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                shared.attack(_ENTRY)
            assert adapter.empty_database() == []
    finally:
        shared.admin.execute("DROP OWNED BY anon; DROP ROLE anon")


def test_rights_by_which_nothing_is_changed_are_in_nobodys_way(shared: SharedServer) -> None:
    give_by_default(
        shared,
        f"GRANT SELECT ON TABLES TO {ATTACKER}",
        f"GRANT EXECUTE ON FUNCTIONS TO {ATTACKER}",
        f"GRANT USAGE ON SCHEMAS TO {ATTACKER}",
        f"GRANT USAGE ON TYPES TO {ATTACKER}",
        f"FOR ROLE {ATTACKER} GRANT ALL ON TABLES TO PUBLIC",
    )
    with open_adapter("primary", shared.endpoint) as adapter:
        adapter.prepare_database()
        with opened_queue("que", {}, shared.endpoint, "install") as queue:
            adapter.install(queue)
        assert adapter.empty_database() == []


def test_nobody_else_may_write_into_the_list_from_its_first_moment(shared: SharedServer) -> None:
    shared.admin.execute("CREATE TABLE public.customer_data (n int)")
    give_by_default(shared, f"GRANT ALL ON TABLES TO {ATTACKER}")
    with open_adapter("primary", shared.endpoint) as adapter:
        adapter.begin_list()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            shared.attack(_ENTRY)
        assert adapter.empty_database() == []
    assert shared.admin.execute("SELECT pg_catalog.to_regclass('public.customer_data') IS NOT NULL").fetchone() == (True,)


@pytest.mark.parametrize("granted", ["INSERT", "INSERT (kind, name)"])
def test_a_list_into_which_somebody_else_may_write_is_not_believed(shared: SharedServer, granted: str) -> None:
    shared.admin.execute("CREATE TABLE public.customer_data (n int)")
    with open_adapter("primary", shared.endpoint) as adapter:
        adapter.begin_list()
        shared.admin.execute(f"GRANT {granted} ON public.{OBJECTS_TABLE} TO {ATTACKER}".encode())
        shared.attack(_ENTRY)
        for use in (adapter.empty_database, adapter.prepare_database):
            with pytest.raises(NotCarriedOutError, match="others may write into it"):
                use()
    assert shared.admin.execute("SELECT pg_catalog.to_regclass('public.customer_data') IS NOT NULL").fetchone() == (True,)


def test_a_run_ends_before_its_first_job_if_a_stranger_may_add_a_trigger_to_the_tables_of_its_queue(shared: SharedServer) -> None:
    with open_adapter("primary", shared.endpoint) as adapter:
        adapter.prepare_database()
        give_by_default(shared, f"GRANT TRIGGER ON TABLES TO {ATTACKER}")
        with (
            opened_queue("que", {}, shared.endpoint, "install") as queue,
            pytest.raises(NotCarriedOutError, match=f"{ATTACKER} has TRIGGER on (public.)?que_jobs"),
        ):
            adapter.install(queue)
        with connect(shared.attacker, "test") as attacker:
            attacker.execute(_TRIGGER.format(mark=shared.mark))
        assert adapter.empty_database() == []
    assert not shared.was_called()
