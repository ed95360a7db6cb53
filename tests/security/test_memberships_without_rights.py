"""Since PostgreSQL 16 a membership in a role can be without its rights: who has such a one is a stranger all the same, and gains by the role's rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stallbench.engines.database import Database
from stallbench.engines.postgres.driver import connect
from stallbench.engines.postgres.trust import STRANGERS_WHO_MAY_CREATE, TRUSTED_ROLES
from stallbench.records.endpoint import Endpoint
from stallbench.setup.components import MissingComponentError
from stallbench.setup.postgres_packages import list_packaged_majors, require_version
from tests.integration.conftest import Connection
from tests.integration.running_cluster import running_cluster

pytestmark = pytest.mark.integration

_MAJOR = 17
_ROLES = """
CREATE ROLE app LOGIN PASSWORD 'secret'; CREATE ROLE tenant LOGIN; CREATE ROLE mallory LOGIN; CREATE ROLE power CREATEROLE;
GRANT power TO app; CREATE DATABASE shared OWNER tenant
"""
_IS_OWNER_TRUSTED = f"WITH RECURSIVE {TRUSTED_ROLES} SELECT EXISTS (SELECT FROM trusted WHERE oid = 'tenant'::regrole)"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Endpoint, Connection]]:
    """A user with more than a reader's rights in a database of another owner, and a superuser there."""
    if _MAJOR not in list_packaged_majors():
        pytest.skip("there is no package for this machine")
    try:
        require_version(_MAJOR, packaged=True)
    except MissingComponentError as error:
        pytest.skip(str(error))
    database = Database(version=str(_MAJOR), packaged=True, settings={"fsync": False, "autovacuum": False})
    with running_cluster(database, tmp_path_factory.mktemp("cluster")) as started:
        direct = started.cluster.server("primary").direct
        with connect(direct, "test") as admin:
            for statement in _ROLES.split(";"):
                admin.execute(statement.encode())
        shared = direct.model_copy(update={"database": "shared"})
        with connect(shared, "test") as admin:
            yield shared.model_copy(update={"user": "app", "password": type(direct.password)("secret")}), admin


def read(endpoint: Endpoint, query: str) -> list[tuple[object, ...]]:
    with connect(endpoint, "test") as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.mark.parametrize(
    ("options", "has_rights"),
    [
        ("INHERIT FALSE, SET FALSE", False),
        ("INHERIT TRUE, SET FALSE", True),
        ("INHERIT FALSE, SET TRUE", True),
        ("ADMIN TRUE, INHERIT FALSE, SET FALSE", True),
    ],
)
def test_a_membership_counts_if_it_gives_rights(app: tuple[Endpoint, Connection], options: str, has_rights: bool) -> None:
    user, admin = app
    admin.execute(
        f"GRANT power TO tenant WITH {options}; GRANT app TO mallory WITH {options}; GRANT CREATE ON SCHEMA public TO mallory"
    )
    try:
        ((is_trusted,),) = read(user, _IS_OWNER_TRUSTED)
        strangers = [row[2] for row in read(user, STRANGERS_WHO_MAY_CREATE)]
    finally:
        admin.execute("REVOKE power FROM tenant; REVOKE app FROM mallory; REVOKE CREATE ON SCHEMA public FROM mallory")
    assert (is_trusted, "mallory" in strangers) == (has_rights, not has_rights)
